#include "served.h"

#include <dirent.h>
#include <glib.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rt/iothread.h"

static void *run_main_loop(void *opaque)
{
    struct served *served = opaque;

    rt_loop_bind(served->main_loop);
    rt_loop_run(served->main_loop);
    return NULL;
}

void served_start_loops(struct served *served, unsigned iothread_count, int64_t poll_max_ns)
{
    *served = (struct served){ .iothread_count = iothread_count };
    g_strlcpy(served->directory, "/tmp/vblk-served-XXXXXX", sizeof(served->directory));
    assert_non_null(mkdtemp(served->directory));
    snprintf(served->path, sizeof(served->path), "%s/socket", served->directory);
    assert_int_equal(rt_loop_create("main", &served->main_loop), 0);
    assert_int_equal(pthread_create(&served->thread, NULL, run_main_loop, served), 0);
    assert_true(iothread_count <= SERVED_IOTHREADS_MAX);
    for (unsigned i = 0; i < iothread_count; i++) {
        assert_int_equal(rt_iothread_create("io", poll_max_ns, &served->iothreads[i]), 0);
        served->loops[i] = rt_iothread_loop(served->iothreads[i]);
    }
}

void served_stop_loops(struct served *served)
{
    for (unsigned i = 0; i < served->iothread_count; i++)
        rt_iothread_destroy(served->iothreads[i]);
    rt_loop_quit(served->main_loop);
    pthread_join(served->thread, NULL);
    rt_loop_destroy(served->main_loop);
    rmdir(served->directory);
}

struct creation {
    struct served *served;
    struct vblk_device_options options;
    char **message_out;
    int result;
};

static void create(void *opaque)
{
    struct creation *creation = opaque;

    struct vblk_disk *disk;

    creation->result = vblk_device_open_disk(&creation->options, &disk, creation->message_out);
    if (creation->result == 0)
        creation->result = vblk_device_create(&creation->options, disk, &creation->served->device, creation->message_out);
}

int served_create(struct served *served, const struct vblk_device_options *options, char **message_out)
{
    struct creation creation = { .served = served, .options = *options, .message_out = message_out };

    creation.options.loops = served->loops;
    creation.options.loop_count = served->iothread_count;
    creation.options.main_loop = served->main_loop;
    creation.options.socket_mode = -1;
    if (!options->socket_path && options->fd <= 0) {
        creation.options.socket_path = served->path;
        creation.options.fd = -1;
    }
    if (options->queue_count == 0)
        creation.options.queue_count = 1;
    if (options->block_size_bytes == 0)
        creation.options.block_size_bytes = 512;
    rt_loop_call(served->main_loop, create, &creation);
    return creation.result;
}

struct co_call {
    void (*fn)(void *opaque);
    void *opaque;
    pthread_mutex_t lock;
    pthread_cond_t ended_cond;
    bool ended;
};

static void co_call_run(void *opaque)
{
    struct co_call *call = opaque;

    call->fn(call->opaque);
    pthread_mutex_lock(&call->lock);
    call->ended = true;
    pthread_cond_signal(&call->ended_cond);
    pthread_mutex_unlock(&call->lock);
}

static void co_call_enter(void *opaque)
{
    rt_coroutine_enter(rt_coroutine_create(co_call_run, opaque));
}

void served_run_co(struct served *served, void (*fn)(void *opaque), void *opaque)
{
    struct co_call call = { .fn = fn,
                            .opaque = opaque,
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .ended_cond = PTHREAD_COND_INITIALIZER };

    assert_int_equal(rt_loop_post(served->main_loop, co_call_enter, &call), 0);
    pthread_mutex_lock(&call.lock);
    while (!call.ended)
        pthread_cond_wait(&call.ended_cond, &call.lock);
    pthread_mutex_unlock(&call.lock);
}

static void destroy_co(void *opaque)
{
    vblk_device_destroy_co(opaque);
}

void served_destroy(struct served *served)
{
    served_run_co(served, destroy_co, served->device);
    served->device = NULL;
}

void served_start(struct served *served, const struct vblk_device_options *options, unsigned iothread_count,
                  int64_t poll_max_ns)
{
    char *message = NULL;

    served_start_loops(served, iothread_count, poll_max_ns);
    if (served_create(served, options, &message) != 0)
        fail_msg("%s", message);
}

void served_stop(struct served *served)
{
    served_destroy(served);
    served_stop_loops(served);
}

struct front_end *served_connect(struct served *served, const struct fe_options *options)
{
    struct fe_options defaults = FE_OPTIONS_DEFAULT;
    struct front_end *fe;

    if (options)
        defaults = *options;
    if (defaults.fd < 0)
        defaults.socket_path = served->path;
    defaults.timeout_ms = SERVED_DEADLINE_MS;
    fe = fe_create(&defaults);
    if (fe_connect(fe) != 0)
        fail_msg("%s", fe_error(fe));
    return fe;
}

struct front_end *served_front_end(struct served *served, const struct fe_options *options)
{
    struct front_end *fe = served_connect(served, options);

    if (fe_negotiate(fe) != 0 || fe_map(fe) != 0 || fe_start(fe) != 0)
        fail_msg("%s", fe_error(fe));
    return fe;
}

struct question {
    bool (*condition)(struct vblk_device *device);
    struct vblk_device *device;
    bool answer;
};

static void ask(void *opaque)
{
    struct question *question = opaque;

    question->answer = question->condition(question->device);
}

void served_wait(struct served *served, bool (*condition)(struct vblk_device *device), const char *what)
{
    struct question question = { condition, served->device, false };
    int64_t deadline_ns = rt_clock_ns() + SERVED_DEADLINE_MS * INT64_C(1000000);

    for (;;) {
        rt_loop_call(served->main_loop, ask, &question);
        if (question.answer)
            return;
        if (rt_clock_ns() > deadline_ns)
            fail_msg("this did not come about: %s", what);
        g_usleep(1000);
    }
}

static enum vblk_state state_of(const struct vblk_device *device)
{
    return atomic_load(&device->state);
}

bool served_is_stopped(struct vblk_device *device)
{
    return state_of(device) == VBLK_STOPPED;
}

bool served_is_started(struct vblk_device *device)
{
    return state_of(device) == VBLK_STARTED;
}

bool served_is_failed(struct vblk_device *device)
{
    return state_of(device) == VBLK_FAILED;
}

static bool carries_data_out(uint32_t type)
{
    return type == VIRTIO_BLK_T_OUT || type == VIRTIO_BLK_T_DISCARD || type == VIRTIO_BLK_T_WRITE_ZEROES;
}

uint16_t served_submit(struct front_end *fe, unsigned queue_index, uint32_t type, uint64_t sector, const void *data,
                       uint32_t bytes)
{
    struct fe_queue *queue = fe_queue(fe, queue_index);
    uint16_t slot = fe_queue_take(queue);

    bool to_device = carries_data_out(type);

    assert_int_not_equal(slot, FE_NO_SLOT);
    if (to_device && data)
        memcpy(queue->slots[slot].data, data, bytes);
    fe_queue_prepare(queue, slot, type, sector, bytes, to_device ? FE_TO_DEVICE : FE_FROM_DEVICE);
    fe_queue_submit(queue, slot);
    return slot;
}

uint16_t served_reap(struct front_end *fe, unsigned queue_index)
{
    struct fe_queue *queue = fe_queue(fe, queue_index);
    uint16_t slot;
    int count;

    fe_queue_publish(queue);
    while ((count = fe_queue_reap(queue, &slot, 1)) == 0) {
        struct pollfd interrupt = { .fd = queue->call_fd, .events = POLLIN };

        if (fe_queue_arm(queue))
            continue;
        if (poll(&interrupt, 1, SERVED_DEADLINE_MS) != 1)
            fail_msg("queue %u: no interrupt, %u requests in flight", queue_index, queue->in_flight);
        assert_int_equal(fe_queue_wait(queue), 0);
    }
    if (count < 0)
        fail_msg("queue %u: %s", queue_index, queue->broken);
    return slot;
}

uint8_t served_request(struct front_end *fe, unsigned queue_index, uint32_t type, uint64_t sector, void *data,
                       uint32_t bytes)
{
    struct fe_queue *queue = fe_queue(fe, queue_index);
    uint16_t slot;
    uint8_t status;

    served_submit(fe, queue_index, type, sector, data, bytes);
    slot = served_reap(fe, queue_index);
    status = *queue->slots[slot].status;
    if (!carries_data_out(type) && data)
        memcpy(data, queue->slots[slot].data, bytes);
    fe_queue_give(queue, slot);
    return status;
}

unsigned served_count_fds(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}
