/*
 * A device in this process: main loop in a thread of its own, IOThreads, and front ends that connect to its socket.
 *
 *     struct served served;
 *     served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .queue_count = 2 }, 1, 0);
 *     struct front_end *fe = served_front_end(&served, NULL);
 *     assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, 8, buffer, 512), VIRTIO_BLK_S_OK);
 *     fe_destroy(fe);
 *     served_stop(&served);
 *
 * Whatever does not come about within the deadline fails the test.
 */
#ifndef TEST_SERVED_H
#define TEST_SERVED_H

#include <pthread.h>

#include "device/internal.h"
#include "front_end.h"

#define SERVED_IOTHREADS_MAX 2
#define SERVED_DEADLINE_MS 60000

struct served {
    struct vblk_device *device;
    struct rt_loop *main_loop;
    pthread_t thread;
    struct rt_iothread *iothreads[SERVED_IOTHREADS_MAX];
    struct rt_loop *loops[SERVED_IOTHREADS_MAX];
    unsigned iothread_count;
    char directory[64], path[80];
};

/* Loops only, for tests that create devices themselves. */
void served_start_loops(struct served *served, unsigned iothread_count, int64_t poll_max_ns);
void served_stop_loops(struct served *served);

/* Fills in loops, socket path and what is left 0 (512 byte blocks, one queue). Returns vblk_device_create()'s result. */
int served_create(struct served *served, const struct vblk_device_options *options, char **message_out);
void served_destroy(struct served *served);

/* Both at once; must succeed. */
void served_start(struct served *served, const struct vblk_device_options *options, unsigned iothread_count,
                  int64_t poll_max_ns);
void served_stop(struct served *served);

/* Run fn(opaque) in a coroutine of the main loop, and wait until it has ended. */
void served_run_co(struct served *served, void (*fn)(void *opaque), void *opaque);

/* The default options' path is filled in. connect: not yet negotiated; front_end: started. */
struct front_end *served_connect(struct served *served, const struct fe_options *options);
struct front_end *served_front_end(struct served *served, const struct fe_options *options);

/* Wait until the condition holds, asked in the main loop's thread. */
void served_wait(struct served *served, bool (*condition)(struct vblk_device *device), const char *what);
bool served_is_stopped(struct vblk_device *device);
bool served_is_started(struct vblk_device *device);
bool served_is_failed(struct vblk_device *device);

/* Issue without waiting; returns the slot. Data goes to and comes from the slot's buffer. */
uint16_t served_submit(struct front_end *fe, unsigned queue_index, uint32_t type, uint64_t sector, const void *data,
                       uint32_t bytes);
/* Wait for one completion: its slot, still taken. */
uint16_t served_reap(struct front_end *fe, unsigned queue_index);
/* One request and its status. */
uint8_t served_request(struct front_end *fe, unsigned queue_index, uint32_t type, uint64_t sector, void *data,
                       uint32_t bytes);

/* Descriptors of this process: what a leak makes grow. */
unsigned served_count_fds(void);

#endif
