/*
 * Goal:   rings start, join, stop, move their memory and lose their front end in any order, and nothing stays behind: no
 *         request, no descriptor, no handler, no flag.
 * Method: a device in this process and a front end that sends the messages one by one, with load from another thread where
 *         that matters. Disk reads can be held back by the test (the linker puts its functions in front), and the
 *         loop's attach can fail.
 * If it fails: guests hang or lose requests when they reboot, add memory or detach, or the device leaks with each guest.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drainer.h"
#include "gate.h"
#include "fe_control.h"
#include "served.h"

/* ---- helpers ---- */

#define QUEUES 3

static struct served served;
static const struct vblk_device_options null_disk = { .blk_file = "null:1M", .queue_count = QUEUES };

static struct fe_options front_end_options(void)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;

    options.queue_count = QUEUES;
    return options;
}

/* Up to memory: no ring yet. */
static struct front_end *mapped_front_end(void)
{
    struct fe_options options = front_end_options();
    struct front_end *fe = served_connect(&served, &options);

    assert_int_equal(fe_negotiate(fe), 0);
    assert_int_equal(fe_map(fe), 0);
    return fe;
}

static struct front_end *started_front_end(void)
{
    struct fe_options options = front_end_options();

    return served_front_end(&served, &options);
}

static int set_up(void **state)
{
    (void)state;
    served_start(&served, &null_disk, 2, 0);
    return 0;
}

static void assert_nothing_left(void)
{
    struct vblk_device *device = served.device;

    served_wait(&served, served_is_stopped, "the device stopped");
    assert_false(atomic_load(&device->started));
    assert_int_equal(atomic_load(&device->drain_depth), 0);
    assert_int_equal(device->pool_share, 0);
    for (unsigned i = 0; i < QUEUES; i++) {
        const struct vblk_queue *queue = &device->queues[i];

        assert_null(queue->handler);
        assert_null(queue->vq);
        assert_null(queue->bh);
        assert_false(queue->running);
        assert_int_equal(queue->kick_fd, -1);
        assert_int_equal(atomic_load(&queue->in_flight), 0);
        assert_ptr_equal(queue->loop, served.main_loop);
    }
    for (unsigned i = 0; i < device->loop_count; i++)
        assert_null(device->disk_loops[i]);
}

static int tear_down(void **state)
{
    (void)state;
    gate_open();
    gate_refuse_attach_after(-1);
    served_stop(&served);
    return 0;
}

static void read_once(struct front_end *fe, unsigned queue)
{
    assert_int_equal(served_request(fe, queue, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
}

static unsigned running_count(struct vblk_device *device)
{
    unsigned count = 0;

    for (unsigned i = 0; i < device->queue_count; i++)
        count += device->queues[i].running;
    return count;
}

static bool is_starting(struct vblk_device *device)
{
    return atomic_load(&device->state) == VBLK_STARTING;
}

static bool all_run(struct vblk_device *device)
{
    return served_is_started(device) && running_count(device) == QUEUES;
}

static bool two_run(struct vblk_device *device)
{
    return served_is_started(device) && running_count(device) == 2;
}

static int set_memory(struct front_end *fe, uint64_t guest_address, uint64_t offset, size_t bytes)
{
    struct wire_memory_table table = { .region_count = 1 };
    int fd = fe_memory_fd(fe);

    table.regions[0] = (struct wire_memory_region){ .guest_addr = guest_address,
                                                    .size_bytes = bytes,
                                                    .user_addr = (uintptr_t)fe_memory(fe, NULL) + offset,
                                                    .mmap_offset = offset };
    return fe_set(fe, WIRE_SET_MEM_TABLE, &table, 8 + sizeof(table.regions[0]), &fd, 1);
}

static int set_same_memory(struct front_end *fe)
{
    size_t bytes;

    (void)fe_memory(fe, &bytes);
    return set_memory(fe, fe_memory_guest_addr(fe), 0, bytes);
}

/* ---- start ---- */

static void test_the_first_enable_starts_all_that_is_ready(void **state)
{
    struct front_end *fe = mapped_front_end();

    (void)state;
    for (unsigned i = 0; i < QUEUES; i++)
        assert_int_equal(fe_queue_start(fe, i), 0);
    served_wait(&served, is_starting, "the first kick descriptor opened the start");
    assert_int_equal(fe_queue_enable(fe, 1, true), 0);
    served_wait(&served, all_run, "every ring that was ready runs");
    read_once(fe, 1);
    /* Not enabled yet: what it offers waits, and is found when it is enabled. */
    served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    assert_int_equal(fe_queue_enable(fe, 0, true), 0);
    fe_queue_give(fe_queue(fe, 0), served_reap(fe, 0));
    fe_destroy(fe);
    assert_nothing_left();
}

static void test_a_late_ring_joins(void **state)
{
    struct front_end *fe = mapped_front_end();

    (void)state;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fe_queue_start(fe, i), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fe_queue_enable(fe, i, true), 0);
    served_wait(&served, two_run, "two rings run");
    read_once(fe, 0);
    assert_int_equal(fe_queue_start(fe, 2), 0);
    assert_int_equal(fe_queue_enable(fe, 2, true), 0);
    served_wait(&served, all_run, "the third one joined");
    for (unsigned i = 0; i < QUEUES; i++)
        read_once(fe, i);
    fe_destroy(fe);
    assert_nothing_left();
}

static void test_without_protocol_features_the_kick_starts(void **state)
{
    struct fe_options options = front_end_options();
    struct front_end *fe;

    (void)state;
    options.protocol_features = false;
    options.queue_count = 1;
    fe = served_front_end(&served, &options);
    read_once(fe, 0);
    served_wait(&served, served_is_started, "it runs");
    assert_int_equal(fe_stop(fe), 0);
    assert_nothing_left();
    fe_destroy(fe);
}

static void test_requests_from_before_the_start_are_seen(void **state)
{
    struct front_end *fe = mapped_front_end();

    (void)state;
    served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
    assert_int_equal(fe_queue_start(fe, 0), 0);
    __atomic_store_n(&fe_queue(fe, 0)->avail->idx, 1, __ATOMIC_SEQ_CST); /* offered, not kicked */
    assert_int_equal(fe_queue_enable(fe, 0, true), 0);
    fe_queue(fe, 0)->avail_published = 1;
    fe_queue_give(fe_queue(fe, 0), served_reap(fe, 0));
    fe_destroy(fe);
    assert_nothing_left();
}

static void assert_failed_and_clear(void)
{
    served_wait(&served, served_is_failed, "the start failed");
    assert_false(atomic_load(&served.device->started));
    assert_int_equal(running_count(served.device), 0);
    for (unsigned i = 0; i < QUEUES; i++) {
        assert_null(served.device->queues[i].handler);
        assert_int_equal(served.device->queues[i].kick_fd, -1);
    }
}

static void test_a_ring_outside_memory_fails_the_start(void **state)
{
    struct front_end *fe = mapped_front_end();
    struct wire_vring_addr address = { .index = 1, .desc_user_addr = 4096, .used_user_addr = 8192,
                                       .avail_user_addr = 12288 };
    uint16_t base;

    (void)state;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fe_queue_start(fe, i), 0);
    assert_int_equal(fe_set(fe, WIRE_SET_VRING_ADDR, &address, sizeof(address), NULL, 0), 0);
    assert_int_not_equal(fe_queue_enable(fe, 0, true), 0);
    if (!fe_gone(fe)) {
        assert_failed_and_clear();
        assert_int_equal(fe_queue_stop(fe, 0, &base), 0);
    }
    assert_nothing_left();
    fe_destroy(fe);
    /* The next one is none the worse. */
    fe = started_front_end();
    read_once(fe, 2);
    fe_destroy(fe);
    assert_nothing_left();
}

static void test_a_loop_that_refuses_the_disk_fails_the_start(void **state)
{
    (void)state;
    for (int succeed = 0; succeed < 2; succeed++) {
        struct front_end *fe = mapped_front_end();

        gate_refuse_attach_after(succeed);
        for (unsigned i = 0; i < QUEUES; i++)
            assert_int_equal(fe_queue_start(fe, i), 0);
        assert_int_not_equal(fe_queue_enable(fe, 0, true), 0);
        assert_false(atomic_load(&served.device->started));
        gate_refuse_attach_after(-1);
        fe_destroy(fe);
        assert_nothing_left();
    }
}

static void test_a_kick_that_cannot_be_watched_fails_the_start(void **state)
{
    struct front_end *fe = mapped_front_end();
    const uint64_t ring = 0;
    int fd = memfd_create("kick", MFD_CLOEXEC);

    (void)state;
    assert_int_equal(fe_queue_start(fe, 0), 0);
    assert_int_equal(fe_set(fe, WIRE_SET_VRING_KICK, &ring, sizeof(ring), &fd, 1), 0);
    close(fd);
    assert_int_not_equal(fe_queue_enable(fe, 0, true), 0);
    fe_destroy(fe);
    assert_nothing_left();
}

/* ---- stop ---- */

static void test_rings_stop_one_by_one(void **state)
{
    struct front_end *fe = started_front_end();
    uint16_t base;

    (void)state;
    read_once(fe, 0);
    read_once(fe, 0);
    read_once(fe, 1);
    assert_int_equal(fe_queue_stop(fe, 0, &base), 0);
    assert_int_equal(base, 2);
    served_wait(&served, two_run, "the others go on");
    read_once(fe, 1);
    read_once(fe, 2);
    /* And it may come back, where it stopped. */
    assert_int_equal(fe_queue_start(fe, 0), 0);
    assert_int_equal(fe_queue_enable(fe, 0, true), 0);
    read_once(fe, 0);
    for (unsigned i = 0; i < QUEUES; i++) {
        assert_int_equal(fe_queue_stop(fe, i, &base), 0);
        assert_int_equal(base, i == 0 ? 3 : i == 1 ? 2 : 1);
    }
    assert_nothing_left();
    fe_destroy(fe);
}

static void *open_gate_later(void *opaque)
{
    gate_await(*(unsigned *)opaque);
    gate_open();
    return NULL;
}

static void test_stop_waits_for_what_was_taken(void **state)
{
    struct front_end *fe = started_front_end();
    unsigned count = 8;
    pthread_t thread;

    (void)state;
    gate_close();
    for (unsigned i = 0; i < count; i++)
        served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    pthread_create(&thread, NULL, open_gate_later, &count);
    gate_await(1);
    assert_int_equal(fe_stop(fe), 0); /* tells if the ring and the base disagree */
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < count; i++)
        fe_queue_give(fe_queue(fe, 0), served_reap(fe, 0));
    assert_nothing_left();
    fe_destroy(fe);
}

static void test_starts_and_stops_leak_nothing(void **state)
{
    struct front_end *fe = started_front_end();
    unsigned before = 0;

    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < QUEUES; i++)
            read_once(fe, i);
        assert_int_equal(fe_stop(fe), 0);
        assert_nothing_left();
        /* The front end keeps its old eventfds: two a ring and round. */
        if (round == 0)
            before = served_count_fds();
        assert_int_equal(served_count_fds(), before + round * 2 * QUEUES);
        assert_int_equal(fe_start(fe), 0);
    }
    fe_destroy(fe);
    assert_nothing_left();
}

/* ---- while running ---- */

struct load {
    struct front_end *fe;
    _Atomic bool stop;
    _Atomic uint64_t count;
};

static void *drive(void *opaque)
{
    struct load *load = opaque;

    while (!atomic_load(&load->stop)) {
        for (unsigned i = 0; i < 8; i++)
            served_submit(load->fe, 0, VIRTIO_BLK_T_IN, i, NULL, 512);
        for (unsigned i = 0; i < 8; i++, load->count++)
            fe_queue_give(fe_queue(load->fe, 0), served_reap(load->fe, 0));
    }
    return NULL;
}

static void while_loaded(void (*change)(struct front_end *fe))
{
    struct load load = { .fe = started_front_end() };
    pthread_t thread;

    pthread_create(&thread, NULL, drive, &load);
    for (unsigned i = 0; i < 40 || atomic_load(&load.count) == 0; i++)
        change(load.fe);
    atomic_store(&load.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(fe_stop(load.fe), 0);
    fe_destroy(load.fe);
    assert_nothing_left();
}

static void change_memory(struct front_end *fe)
{
    assert_int_equal(set_same_memory(fe), 0);
}

static void disable_and_enable(struct front_end *fe)
{
    assert_int_equal(fe_queue_enable(fe, 0, false), 0);
    assert_int_equal(fe_queue_enable(fe, 0, true), 0);
}

/* The same eventfd again, as a descriptor of its own. */
static void change_call(struct front_end *fe)
{
    const uint64_t ring = 0;
    int fd = fcntl(fe_queue(fe, 0)->call_fd, F_DUPFD_CLOEXEC, 0);

    assert_int_equal(fe_set(fe, WIRE_SET_VRING_CALL, &ring, sizeof(ring), &fd, 1), 0);
    close(fd);
}

static void change_kick(struct front_end *fe)
{
    const uint64_t ring = 0;
    int fd = fcntl(fe_queue(fe, 0)->kick_fd, F_DUPFD_CLOEXEC, 0);

    assert_int_equal(fe_set(fe, WIRE_SET_VRING_KICK, &ring, sizeof(ring), &fd, 1), 0);
    close(fd);
}

static void stop_and_start_another(struct front_end *fe)
{
    uint16_t base;

    assert_int_equal(fe_queue_stop(fe, 2, &base), 0);
    assert_int_equal(fe_queue_start(fe, 2), 0);
    assert_int_equal(fe_queue_enable(fe, 2, true), 0);
}

static void test_memory_changes_under_load(void **state)
{
    (void)state;
    while_loaded(change_memory);
}

static void test_ring_is_disabled_and_enabled_under_load(void **state)
{
    (void)state;
    while_loaded(disable_and_enable);
}

/* The queue's loop, busy with what it may have taken before. */
struct busy_pass {
    atomic_bool begun, over;
};

static void be_busy_until_disabled(void *opaque)
{
    struct busy_pass *pass = opaque;

    atomic_store(&pass->begun, true);
    while (atomic_load(&served.device->queues[0].enabled))
        sched_yield();
    usleep(20000); /* an answer that does not wait comes within */
    atomic_store(&pass->over, true);
}

static void test_a_ring_that_was_disabled_takes_nothing_more(void **state)
{
    struct front_end *fe = started_front_end();
    struct busy_pass pass = { false, false };

    (void)state;
    assert_int_equal(rt_loop_post(served.loops[0], be_busy_until_disabled, &pass), 0);
    while (!atomic_load(&pass.begun))
        sched_yield();
    assert_int_equal(fe_queue_enable(fe, 0, false), 0);
    assert_true(atomic_load(&pass.over)); /* the answer waited for the loop's pass */
    fe_destroy(fe);
}

static void test_call_descriptor_changes_under_load(void **state)
{
    (void)state;
    while_loaded(change_call);
}

static void test_kick_descriptor_changes_under_load(void **state)
{
    (void)state;
    while_loaded(change_kick);
}

static void test_another_ring_stops_and_starts_under_load(void **state)
{
    (void)state;
    while_loaded(stop_and_start_another);
}

static void test_the_same_with_a_loop_that_polls(void **state)
{
    void (*const changes[])(struct front_end *fe) = { change_memory, disable_and_enable, change_call, change_kick };

    (void)state;
    for (unsigned i = 0; i < served.iothread_count; i++)
        rt_loop_set_poll(served.loops[i], 100000);
    for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        while_loaded(changes[i]);
}

static void test_a_disabled_ring_takes_nothing(void **state)
{
    struct front_end *fe = started_front_end();
    const struct vblk_queue_counters *counters = &served.device->queues[0].counters;
    uint64_t kicks;

    (void)state;
    read_once(fe, 0);
    assert_int_equal(fe_queue_enable(fe, 0, false), 0);
    kicks = atomic_load(&counters->kicks);
    served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    fe_queue_kick(fe_queue(fe, 0));
    while (atomic_load(&counters->kicks) == kicks)
        usleep(200);
    assert_int_equal(atomic_load(&counters->pops), 1);
    assert_int_equal(fe_queue_enable(fe, 0, true), 0);
    fe_queue_give(fe_queue(fe, 0), served_reap(fe, 0));
    fe_destroy(fe);
    assert_nothing_left();
}

static void test_memory_that_loses_a_ring(void **state)
{
    struct front_end *fe = started_front_end();
    uint8_t *memory = fe_memory(fe, NULL);
    /* Up to the third queue. */
    size_t bytes = fe_queue(fe, 2)->memory - memory;
    uint16_t base;

    (void)state;
    /* The ring rests, the others go on; it can be stopped, and goes on by itself when its memory comes back. */
    assert_int_equal(set_memory(fe, fe_memory_guest_addr(fe), 0, bytes), 0);
    read_once(fe, 0);
    read_once(fe, 1);
    assert_int_equal(fe_queue_stop(fe, 2, &base), 0);
    assert_int_equal(set_same_memory(fe), 0);
    assert_int_equal(fe_queue_start(fe, 2), 0);
    assert_int_equal(fe_queue_enable(fe, 2, true), 0);
    read_once(fe, 2);
    assert_int_equal(set_memory(fe, fe_memory_guest_addr(fe), 0, bytes), 0);
    assert_int_equal(set_same_memory(fe), 0);
    read_once(fe, 2);
    fe_destroy(fe);
    assert_nothing_left();
}

/* More memory stalls nobody, however long the disk takes: the front end that adds it holds up its guest meanwhile. */
static void test_adding_memory_waits_for_no_request(void **state)
{
    struct fe_options options = front_end_options();
    struct wire_memory_region more;
    struct front_end *fe;
    uint16_t slot;

    (void)state;
    options.protocol_wanted = 1ull << WIRE_P_CONFIGURE_MEM_SLOTS;
    fe = served_front_end(&served, &options);
    more = (struct wire_memory_region){ .guest_addr = 1ull << 40, .size_bytes = 4096, .user_addr = 1ull << 40 };
    gate_close();
    served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    gate_await(1);
    assert_int_equal(fe_add_memory(fe, &more, fe_memory_fd(fe)), 0);
    served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    gate_await(2); /* taken from the ring with the new memory, while the first is held */
    gate_open();
    for (unsigned i = 0; i < 2; i++) {
        slot = served_reap(fe, 0);
        assert_int_equal(*fe_queue(fe, 0)->slots[slot].status, VIRTIO_BLK_S_OK);
        fe_queue_give(fe_queue(fe, 0), slot);
    }
    read_once(fe, 1);
    fe_destroy(fe);
    assert_nothing_left();
}

static void test_reset_stops_everything(void **state)
{
    struct front_end *fe = started_front_end();

    (void)state;
    read_once(fe, 0);
    assert_int_equal(fe_set(fe, WIRE_RESET_OWNER, NULL, 0, NULL, 0), 0);
    assert_nothing_left();
    fe_destroy(fe);
    fe = started_front_end();
    read_once(fe, 1);
    fe_destroy(fe);
    assert_nothing_left();
}

/* ---- front ends that leave ---- */

static void leave_at(unsigned step)
{
    struct fe_options options = front_end_options();
    struct front_end *fe = served_connect(&served, &options);
    uint16_t base;

    if (step >= 1)
        assert_int_equal(fe_negotiate(fe), 0);
    if (step >= 2)
        assert_int_equal(fe_map(fe), 0);
    for (unsigned i = 0; step >= 3 && i < QUEUES; i++)
        assert_int_equal(fe_queue_start(fe, i), 0);
    for (unsigned i = 0; step >= 4 && i < QUEUES; i++)
        assert_int_equal(fe_queue_enable(fe, i, true), 0);
    if (step == 5)
        assert_int_equal(fe_queue_stop(fe, 1, &base), 0);
    if (step == 6) {
        gate_close();
        for (unsigned i = 0; i < 4; i++)
            served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
        fe_queue_publish(fe_queue(fe, 0));
        gate_await(4);
    }
    if (step == 7) /* in the middle of a message */
        assert_int_equal(fe_send_bytes(fe, "\x01\0\0", 3, NULL, 0), 0);
    fe_destroy(fe);
    if (step == 6)
        gate_open();
}

static void test_front_ends_leave_at_any_time(void **state)
{
    unsigned before = 0;

    (void)state;
    for (unsigned round = 0; round < 2; round++)
        for (unsigned step = 0; step < 8; step++) {
            struct front_end *fe;
            unsigned count;

            leave_at(step);
            fe = started_front_end(); /* waits in the backlog for the drain */
            read_once(fe, 0);
            /* It was accepted after its predecessor's descriptors had been closed, the connection last. */
            count = served_count_fds();
            if (round == 0 && step == 0)
                before = count;
            assert_int_equal(count, before);
            fe_destroy(fe);
            assert_nothing_left();
        }
}

static bool is_stopping_a_ring(struct vblk_device *device)
{
    return !atomic_load(&device->queues[0].accepting); /* the first that a stop takes away */
}

/* The device hangs up as the first step of its destruction. */
static void *open_gate_once_gone(void *opaque)
{
    int64_t deadline_ns = rt_clock_ns() + SERVED_DEADLINE_MS * INT64_C(1000000);

    while (!fe_gone(opaque)) {
        assert_true(rt_clock_ns() < deadline_ns);
        usleep(500);
    }
    gate_open();
    return NULL;
}

/* The device is destroyed while the session's coroutine waits in an operation for requests to end. */
static void destroy_during(uint32_t request, const void *payload, uint32_t bytes)
{
    struct front_end *fe = started_front_end();
    unsigned count = 2;
    pthread_t thread;

    gate_close();
    for (unsigned i = 0; i < count; i++)
        served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    gate_await(count);
    if (request != 0) {
        assert_int_equal(fe_send(fe, request, WIRE_VERSION, payload, bytes, NULL, 0), 0);
        served_wait(&served, is_stopping_a_ring, "the operation has begun");
    }
    pthread_create(&thread, NULL, open_gate_once_gone, fe);
    served_destroy(&served);
    pthread_join(thread, NULL);
    /* What was taken has been answered. */
    for (unsigned i = 0; i < count; i++)
        fe_queue_give(fe_queue(fe, 0), served_reap(fe, 0));
    fe_destroy(fe);
    assert_int_equal(served_create(&served, &null_disk, NULL), 0);
}

static void test_destroyed_at_any_time(void **state)
{
    const struct wire_vring_state ring = { .index = 0 };

    (void)state;
    destroy_during(0, NULL, 0);
    destroy_during(WIRE_GET_VRING_BASE, &ring, sizeof(ring));
    destroy_during(WIRE_RESET_OWNER, NULL, 0);
}

/* ---- drains by others ---- */

static bool two_drain(struct vblk_device *device)
{
    return atomic_load(&device->drain_depth) == 2;
}

static void test_two_drains_wait_for_one_request(void **state)
{
    struct front_end *fe = started_front_end();
    struct drainer drainers[2] = { { .leave = true }, { .leave = true } };

    (void)state;
    gate_close();
    served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    gate_await(1);
    for (unsigned i = 0; i < 2; i++)
        drainer_start(&drainers[i], &served);
    served_wait(&served, two_drain, "both wait");
    gate_open();
    for (unsigned i = 0; i < 2; i++)
        drainer_await(&drainers[i]);
    fe_queue_give(fe_queue(fe, 0), served_reap(fe, 0));
    read_once(fe, 0);
    assert_int_equal(fe_stop(fe), 0);
    assert_nothing_left();
    fe_destroy(fe);
}

static void test_drains_in_the_middle_of_starts_and_stops(void **state)
{
    struct drainer drainers[2] = { { .leave = false }, { .leave = false } };
    struct front_end *fe;
    uint16_t base;

    (void)state;
    for (unsigned i = 0; i < 2; i++)
        drainer_start(&drainers[i], &served);
    for (unsigned round = 0; round < 20; round++) {
        fe = started_front_end();
        for (unsigned i = 0; i < QUEUES; i++)
            read_once(fe, i);
        /* One ring alone. */
        assert_int_equal(fe_queue_stop(fe, 1, &base), 0);
        assert_int_equal(fe_queue_start(fe, 1), 0);
        assert_int_equal(fe_queue_enable(fe, 1, true), 0);
        read_once(fe, 1);
        assert_int_equal(fe_stop(fe), 0);
        served_wait(&served, served_is_stopped, "the device stopped");
        for (unsigned i = 0; i < QUEUES; i++)
            assert_false(vblk_notifier_is_attached(&served.device->queues[i]));
        fe_destroy(fe);
    }
    for (unsigned i = 0; i < 2; i++)
        atomic_store(&drainers[i].leave, true);
    for (unsigned i = 0; i < 2; i++) {
        drainer_await(&drainers[i]);
        assert_true(atomic_load(&drainers[i].drains) >= 20);
    }
    assert_nothing_left();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_enable_starts_all_that_is_ready),
        TEST(test_a_late_ring_joins),
        TEST(test_without_protocol_features_the_kick_starts),
        TEST(test_requests_from_before_the_start_are_seen),
        TEST(test_a_ring_outside_memory_fails_the_start),
        TEST(test_a_loop_that_refuses_the_disk_fails_the_start),
        TEST(test_a_kick_that_cannot_be_watched_fails_the_start),
        TEST(test_rings_stop_one_by_one),
        TEST(test_stop_waits_for_what_was_taken),
        TEST(test_starts_and_stops_leak_nothing),
        TEST(test_memory_changes_under_load),
        TEST(test_ring_is_disabled_and_enabled_under_load),
        TEST(test_a_ring_that_was_disabled_takes_nothing_more),
        TEST(test_call_descriptor_changes_under_load),
        TEST(test_kick_descriptor_changes_under_load),
        TEST(test_another_ring_stops_and_starts_under_load),
        TEST(test_the_same_with_a_loop_that_polls),
        TEST(test_a_disabled_ring_takes_nothing),
        TEST(test_memory_that_loses_a_ring),
        TEST(test_adding_memory_waits_for_no_request),
        TEST(test_reset_stops_everything),
        TEST(test_front_ends_leave_at_any_time),
        TEST(test_destroyed_at_any_time),
        TEST(test_two_drains_wait_for_one_request),
        TEST(test_drains_in_the_middle_of_starts_and_stops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
