/*
 * Goal:   a queue moves between IOThreads at any moment, loses nothing, disturbs no other queue, and leaves nothing behind
 *         where it was.
 * Method: a device with two IOThreads in this process; coroutines of the main loop move its queues while a front end loads
 *         them, while others drain, and while rings start, stop and lose their front end. Disk reads can be held back and loops
 *         refuse the disk. Where a queue is, is asked of the loops' counters and of the requests' threads.
 * If it fails: whoever balances a running device over its threads hangs a guest.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drainer.h"
#include "fe_control.h"
#include "gate.h"
#include "served.h"

#define QUEUES 3

static struct served served;
static const struct vblk_device_options null_disk = { .blk_file = "null:1M", .queue_count = QUEUES };

static int set_up(void **state)
{
    (void)state;
    served_start(&served, &null_disk, 2, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gate_open();
    gate_refuse_attach_after(-1);
    served_stop(&served);
    return 0;
}

static struct front_end *started_front_end(void)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;

    options.queue_count = served.device->queue_count;
    return served_front_end(&served, &options);
}

static void read_once(struct front_end *fe, unsigned queue)
{
    assert_int_equal(served_request(fe, queue, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
}

static void assert_nothing_left(void)
{
    struct vblk_device *device = served.device;

    served_wait(&served, served_is_stopped, "the device stopped");
    for (unsigned i = 0; i < device->queue_count; i++) {
        const struct vblk_queue *queue = &device->queues[i];

        assert_null(queue->handler);
        assert_null(queue->bh);
        assert_false(queue->at_home);
        assert_false(queue->moving);
        assert_ptr_equal(queue->loop, served.main_loop);
    }
    for (unsigned i = 0; i < device->loop_count; i++)
        assert_null(device->disk_loops[i]);
}

/* ---- moving ---- */

struct move {
    uint16_t queue_index;
    unsigned loop_index;
    int result;
    _Atomic bool ended;
};

static void move_co(void *opaque)
{
    struct move *move = opaque;

    move->result = vblk_device_move_queue_co(served.device, move->queue_index, move->loop_index);
    atomic_store(&move->ended, true);
}

static int move_queue(uint16_t queue_index, unsigned loop_index)
{
    struct move move = { .queue_index = queue_index, .loop_index = loop_index };

    served_run_co(&served, move_co, &move);
    return move.result;
}

static void enter_move(void *opaque)
{
    rt_coroutine_enter(rt_coroutine_create(move_co, opaque));
}

/* Without waiting for its end. */
static void begin_move(struct move *move)
{
    assert_int_equal(rt_loop_post(served.main_loop, enter_move, move), 0);
}

static void await_move(const struct move *move)
{
    int64_t deadline_ns = rt_clock_ns() + SERVED_DEADLINE_MS * INT64_C(1000000);

    while (!atomic_load(&move->ended)) {
        assert_true(rt_clock_ns() < deadline_ns);
        usleep(500);
    }
}

/* Moves a queue to and fro until it is told to leave. */
struct mover {
    uint16_t queue_index;
    _Atomic bool leave, ended;
    _Atomic unsigned moves, failures;
};

static void move_repeatedly(void *opaque)
{
    struct mover *mover = opaque;
    unsigned loop_index = 0;

    while (!atomic_load(&mover->leave)) {
        if (vblk_device_move_queue_co(served.device, mover->queue_index, loop_index) != 0)
            atomic_fetch_add(&mover->failures, 1);
        loop_index = !loop_index;
        atomic_fetch_add(&mover->moves, 1);
        drainer_pass_co();
    }
    atomic_store(&mover->ended, true);
}

static void enter_mover(void *opaque)
{
    rt_coroutine_enter(rt_coroutine_create(move_repeatedly, opaque));
}

static void mover_start(struct mover *mover)
{
    assert_int_equal(rt_loop_post(served.main_loop, enter_mover, mover), 0);
}

static void mover_end(struct mover *mover, unsigned moves_min)
{
    int64_t deadline_ns = rt_clock_ns() + SERVED_DEADLINE_MS * INT64_C(1000000);

    while (atomic_load(&mover->moves) < moves_min || !atomic_load(&mover->ended)) {
        if (atomic_load(&mover->moves) >= moves_min)
            atomic_store(&mover->leave, true);
        assert_true(rt_clock_ns() < deadline_ns);
        usleep(500);
    }
    assert_int_equal(atomic_load(&mover->failures), 0);
}

static uint64_t dispatches(unsigned loop_index)
{
    struct rt_loop_stats stats;

    rt_loop_stats(served.loops[loop_index], &stats);
    return stats.dispatches;
}

/* Requests of this queue, one by one, are found by the loop at @loop_index, and not by the other one. */
static void assert_processed_in(struct front_end *fe, uint16_t queue_index, unsigned loop_index)
{
    uint64_t here = dispatches(loop_index), elsewhere = dispatches(!loop_index);

    for (unsigned i = 0; i < 100; i++)
        read_once(fe, queue_index);
    /* Not each needs a kick that is found; elsewhere there may be wake-ups of the coroutine that moved. */
    assert_true(dispatches(loop_index) - here >= 50);
    assert_true(dispatches(!loop_index) - elsewhere < 10);
}

static void test_a_running_queue_moves(void **state)
{
    struct front_end *fe = started_front_end();

    (void)state;
    for (unsigned round = 0; round < 4; round++) {
        assert_int_equal(move_queue(1, round % 2), 0);
        assert_ptr_equal(served.device->queues[1].loop, served.loops[round % 2]);
        assert_processed_in(fe, 1, round % 2);
        read_once(fe, 0);
        read_once(fe, 2);
    }
    assert_int_equal(fe_stop(fe), 0);
    assert_nothing_left();
    fe_destroy(fe);
}

static void test_a_stopped_queue_starts_where_it_was_moved_to(void **state)
{
    struct front_end *fe;
    uint16_t base;

    (void)state;
    for (unsigned i = 0; i < QUEUES; i++)
        assert_int_equal(move_queue(i, 1), 0);
    fe = started_front_end();
    for (unsigned i = 0; i < QUEUES; i++)
        assert_processed_in(fe, i, 1);
    assert_int_equal(fe_queue_stop(fe, 2, &base), 0);
    assert_int_equal(move_queue(2, 0), 0);
    assert_ptr_equal(served.device->queues[2].loop, served.main_loop);
    assert_int_equal(fe_queue_start(fe, 2), 0);
    assert_int_equal(fe_queue_enable(fe, 2, true), 0);
    assert_processed_in(fe, 2, 0);
    fe_destroy(fe);
    assert_nothing_left();
}

static void test_what_does_not_exist_is_refused(void **state)
{
    (void)state;
    assert_int_equal(move_queue(QUEUES, 0), -EINVAL);
    assert_int_equal(move_queue(0, 2), -EINVAL);
    assert_int_equal(move_queue(0, 0), 0); /* it is there */
}

static void test_a_loop_that_refuses_the_disk_changes_nothing(void **state)
{
    struct front_end *fe;

    (void)state;
    for (unsigned i = 0; i < QUEUES; i++)
        assert_int_equal(move_queue(i, 0), 0);
    fe = started_front_end();
    gate_refuse_attach_after(0);
    assert_int_equal(move_queue(1, 1), -EMFILE);
    gate_refuse_attach_after(-1);
    assert_null(served.device->disk_loops[1]);
    assert_processed_in(fe, 1, 0);
    assert_int_equal(move_queue(1, 1), 0);
    assert_processed_in(fe, 1, 1);
    fe_destroy(fe);
    assert_nothing_left();
}

/* ---- under load ---- */

static void test_other_queues_go_on_while_one_is_drained(void **state)
{
    struct front_end *fe = started_front_end();
    struct move move = { .queue_index = 0, .loop_index = 1 };

    (void)state;
    gate_close();
    for (unsigned i = 0; i < 4; i++)
        served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    gate_await(4);
    begin_move(&move);
    /* Comes while it moves: not taken before it has arrived, and not forgotten. Writes are not held back. */
    while (vblk_notifier_is_attached(&served.device->queues[0]))
        usleep(500);
    served_submit(fe, 0, VIRTIO_BLK_T_OUT, 8, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(served_request(fe, 1, VIRTIO_BLK_T_OUT, 0, NULL, 512), VIRTIO_BLK_S_OK);
        assert_int_equal(served_request(fe, 2, VIRTIO_BLK_T_OUT, 0, NULL, 512), VIRTIO_BLK_S_OK);
    }
    assert_false(atomic_load(&move.ended));
    assert_int_equal(atomic_load(&served.device->queues[0].counters.pops), 4);
    gate_open();
    await_move(&move);
    assert_int_equal(move.result, 0);
    for (unsigned i = 0; i < 5; i++)
        fe_queue_give(fe_queue(fe, 0), served_reap(fe, 0));
    assert_processed_in(fe, 0, 1);
    fe_destroy(fe);
    assert_nothing_left();
}

struct load {
    struct front_end *fe;
    unsigned queue_index;
    _Atomic bool stop;
    _Atomic uint64_t count;
    pthread_t thread;
};

static void *drive(void *opaque)
{
    struct load *load = opaque;

    while (!atomic_load(&load->stop)) {
        for (unsigned i = 0; i < 8; i++)
            served_submit(load->fe, load->queue_index, VIRTIO_BLK_T_IN, i, NULL, 512);
        for (unsigned i = 0; i < 8; i++, load->count++)
            fe_queue_give(fe_queue(load->fe, load->queue_index), served_reap(load->fe, load->queue_index));
    }
    return NULL;
}

/* All queues are loaded, and @mover_count coroutines move them. */
static void move_under_load(unsigned mover_count, unsigned drainer_count)
{
    struct front_end *fe = started_front_end();
    struct load loads[QUEUES] = { 0 };
    struct mover movers[4] = { 0 };
    struct drainer drainers[2] = { 0 };

    for (unsigned i = 0; i < QUEUES; i++) {
        loads[i].fe = fe;
        loads[i].queue_index = i;
        pthread_create(&loads[i].thread, NULL, drive, &loads[i]);
    }
    for (unsigned i = 0; i < drainer_count; i++)
        drainer_start(&drainers[i], &served);
    for (unsigned i = 0; i < mover_count; i++) {
        movers[i].queue_index = i % 2; /* the last stays */
        mover_start(&movers[i]);
    }
    for (unsigned i = 0; i < mover_count; i++)
        mover_end(&movers[i], 15);
    for (unsigned i = 0; i < drainer_count; i++) {
        atomic_store(&drainers[i].leave, true);
        drainer_await(&drainers[i]);
    }
    for (unsigned i = 0; i < QUEUES; i++) {
        uint64_t before = atomic_load(&loads[i].count);
        int64_t deadline_ns = rt_clock_ns() + SERVED_DEADLINE_MS * INT64_C(1000000);

        while (atomic_load(&loads[i].count) == before) { /* each goes on */
            assert_true(rt_clock_ns() < deadline_ns);
            usleep(500);
        }
        atomic_store(&loads[i].stop, true);
        pthread_join(loads[i].thread, NULL);
    }
    assert_int_equal(fe_stop(fe), 0);
    fe_destroy(fe);
    assert_nothing_left();
}

static void test_moves_under_load(void **state)
{
    (void)state;
    move_under_load(1, 0);
}

static void test_moves_of_one_queue_at_the_same_time(void **state)
{
    (void)state;
    move_under_load(4, 0);
}

static void test_moves_and_drains(void **state)
{
    (void)state;
    move_under_load(2, 2);
}

static void test_the_same_with_loops_that_poll(void **state)
{
    (void)state;
    for (unsigned i = 0; i < served.iothread_count; i++)
        rt_loop_set_poll(served.loops[i], 100000);
    move_under_load(2, 0);
    move_under_load(2, 2);
}

/* ---- starts and stops ---- */

static void test_moves_in_the_middle_of_starts_and_stops(void **state)
{
    struct mover movers[QUEUES] = { { .queue_index = 0 }, { .queue_index = 1 }, { .queue_index = 2 } };
    struct drainer drainer = { 0 };
    uint16_t base;

    (void)state;
    for (unsigned i = 0; i < QUEUES; i++)
        mover_start(&movers[i]);
    drainer_start(&drainer, &served);
    for (unsigned round = 0; round < 15; round++) {
        struct front_end *fe = started_front_end();

        for (unsigned i = 0; i < QUEUES; i++)
            read_once(fe, i);
        assert_int_equal(fe_queue_stop(fe, 1, &base), 0);
        assert_int_equal(fe_queue_start(fe, 1), 0);
        assert_int_equal(fe_queue_enable(fe, 1, true), 0);
        read_once(fe, 1);
        if (round % 2)
            assert_int_equal(fe_stop(fe), 0);
        fe_destroy(fe); /* or without a word */
        served_wait(&served, served_is_stopped, "the device stopped");
    }
    for (unsigned i = 0; i < QUEUES; i++)
        mover_end(&movers[i], 15);
    atomic_store(&drainer.leave, true);
    drainer_await(&drainer);
    assert_nothing_left();
}

static void hold_back(struct front_end *fe, uint16_t queue_index, unsigned count)
{
    gate_close();
    for (unsigned i = 0; i < count; i++)
        served_submit(fe, queue_index, VIRTIO_BLK_T_IN, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, queue_index));
    gate_await(count);
}

static void test_the_front_end_leaves_during_a_move(void **state)
{
    struct front_end *fe = started_front_end();
    struct move moves[2] = { { .queue_index = 0, .loop_index = 1 }, { .queue_index = 0, .loop_index = 0 } };

    (void)state;
    hold_back(fe, 0, 4);
    for (unsigned i = 0; i < 2; i++)
        begin_move(&moves[i]);
    while (vblk_notifier_is_attached(&served.device->queues[0]))
        usleep(500);
    fe_destroy(fe);
    gate_open();
    for (unsigned i = 0; i < 2; i++) {
        await_move(&moves[i]);
        assert_int_equal(moves[i].result, 0);
    }
    assert_nothing_left();
    fe = started_front_end();
    assert_processed_in(fe, 0, 0);
    fe_destroy(fe);
    assert_nothing_left();
}

static void *open_gate_once_gone(void *opaque)
{
    while (!fe_gone(opaque))
        usleep(500);
    gate_open();
    return NULL;
}

static void test_the_device_is_destroyed_during_moves(void **state)
{
    struct front_end *fe = started_front_end();
    struct move moves[2] = { { .queue_index = 0, .loop_index = 1 }, { .queue_index = 1, .loop_index = 0 } };
    pthread_t thread;

    (void)state;
    hold_back(fe, 0, 2);
    for (unsigned i = 0; i < 2; i++)
        begin_move(&moves[i]);
    while (vblk_notifier_is_attached(&served.device->queues[0]))
        usleep(500);
    pthread_create(&thread, NULL, open_gate_once_gone, fe);
    served_destroy(&served);
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(atomic_load(&moves[i].ended));
        fe_queue_give(fe_queue(fe, 0), served_reap(fe, 0)); /* what was taken has been answered */
    }
    fe_destroy(fe);
    assert_int_equal(served_create(&served, &null_disk, NULL), 0);
}

/* ---- what a front end says meanwhile ---- */

#define LOG_BYTES (256 * 1024) /* 8 GiB of guest memory; that of the front end begins at 4 GiB */

static void set_log(struct front_end *fe, int fd)
{
    const uint64_t wire[2] = { LOG_BYTES, 0 };
    struct fe_message answer;

    assert_int_equal(fe_send(fe, WIRE_SET_LOG_BASE, 0, wire, sizeof(wire), &fd, 1), 0);
    assert_int_equal(fe_recv(fe, &answer), 0);
    assert_int_equal(answer.header.request, WIRE_SET_LOG_BASE);
}

static void log_everything(struct front_end *fe, bool on)
{
    uint64_t features = fe_info(fe)->features | (on ? UINT64_C(1) << 26 : 0);

    assert_int_equal(fe_set(fe, WIRE_SET_FEATURES, &features, sizeof(features), NULL, 0), 0);
    for (unsigned i = 0; i < QUEUES; i++) {
        struct fe_queue *queue = fe_queue(fe, i);
        const struct wire_vring_addr wire = { .index = i,
                                              .flags = on,
                                              .desc_user_addr = (uintptr_t)queue->desc,
                                              .avail_user_addr = (uintptr_t)queue->avail,
                                              .used_user_addr = (uintptr_t)queue->used,
                                              .log_guest_addr = fe_queue_guest_addr(queue, queue->used) };

        assert_int_equal(fe_set(fe, WIRE_SET_VRING_ADDR, &wire, sizeof(wire), NULL, 0), 0);
    }
}

static void change_everything(bool packed)
{
    const struct wire_memory_region more = { .guest_addr = UINT64_C(1) << 40,
                                             .size_bytes = 1 << 20,
                                             .user_addr = UINT64_C(1) << 46 };
    struct fe_options options = FE_OPTIONS_DEFAULT;
    struct load loads[QUEUES] = { 0 };
    struct mover mover = { .queue_index = 0 };
    struct drainer drainers[2] = { 0 };
    struct front_end *fe;
    int logs[2], more_fd = memfd_create("more", MFD_CLOEXEC);

    assert_int_equal(ftruncate(more_fd, 1 << 20), 0);
    for (unsigned i = 0; i < 2; i++) {
        logs[i] = memfd_create("log", MFD_CLOEXEC);
        assert_int_equal(ftruncate(logs[i], LOG_BYTES), 0);
    }
    options.queue_count = QUEUES;
    options.layout.packed = packed;
    options.protocol_wanted = 1 << WIRE_P_LOG_SHMFD | 1 << WIRE_P_CONFIGURE_MEM_SLOTS;
    fe = served_front_end(&served, &options);
    for (unsigned i = 0; i < QUEUES; i++) {
        loads[i].fe = fe;
        loads[i].queue_index = i;
        pthread_create(&loads[i].thread, NULL, drive, &loads[i]);
    }
    for (unsigned i = 0; i < 2; i++)
        drainer_start(&drainers[i], &served);
    mover_start(&mover);
    for (unsigned round = 0; round < 30; round++) {
        set_log(fe, logs[round % 2]);
        log_everything(fe, true);
        assert_int_equal(fe_add_memory(fe, &more, more_fd), 0);
        set_log(fe, logs[(round + 1) % 2]);
        assert_int_equal(fe_remove_memory(fe, &more, -1), 0);
        log_everything(fe, false);
    }
    mover_end(&mover, 15);
    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&drainers[i].leave, true);
        drainer_await(&drainers[i]);
    }
    for (unsigned i = 0; i < QUEUES; i++) {
        atomic_store(&loads[i].stop, true);
        pthread_join(loads[i].thread, NULL);
        assert_false(atomic_load(&served.device->queues[i].broken));
    }
    assert_int_equal(fe_stop(fe), 0);
    fe_destroy(fe);
    assert_nothing_left();
    close(logs[0]);
    close(logs[1]);
    close(more_fd);
}

static void test_memory_and_logs_change_while_queues_move_and_drain(void **state)
{
    (void)state;
    change_everything(false);
    change_everything(true);
}

/* ---- as many and as long as it gets ---- */

static void stop_move_and_start(struct front_end *fe, uint16_t queue_index)
{
    uint16_t base;

    read_once(fe, queue_index);
    assert_int_equal(fe_queue_stop(fe, queue_index, &base), 0);
    assert_int_equal(base, 1);
    assert_int_equal(fe_queue_start(fe, queue_index), 0);
    assert_int_equal(fe_queue_enable(fe, queue_index, true), 0);
    read_once(fe, queue_index);
    assert_int_equal(move_queue(queue_index, queue_index % 2 == 0), 0);
    read_once(fe, queue_index);
}

static void test_64_queues_of_every_size_stop_start_and_move_one_by_one(void **state)
{
    const struct vblk_device_options many = { .blk_file = "null:1M", .queue_count = VBLK_QUEUES_MAX };

    (void)state;
    served_destroy(&served);
    assert_int_equal(served_create(&served, &many, NULL), 0);
    for (uint16_t size = 1; size <= 1024; size *= 2) {
        struct fe_options options = FE_OPTIONS_DEFAULT;
        struct front_end *fe;

        options.queue_count = VBLK_QUEUES_MAX;
        options.layout.size = size < 4 ? 4 : size;
        options.layout.slot_count = 1;
        options.layout.slot_bytes = 512;
        options.layout.event_idx = false; /* whose place depends on the size */
        fe = served_connect(&served, &options);
        assert_int_equal(fe_negotiate(fe), 0);
        assert_int_equal(fe_map(fe), 0);
        /* A front end that goes by the rules refuses a size below the length of its chains, though indirect ones fit. */
        for (unsigned i = 0; i < VBLK_QUEUES_MAX; i++)
            fe_queue(fe, i)->layout.size = size;
        assert_int_equal(fe_start(fe), 0);
        for (unsigned i = 0; i < VBLK_QUEUES_MAX; i++)
            stop_move_and_start(fe, i);
        for (unsigned i = 0; i < VBLK_QUEUES_MAX; i++)
            read_once(fe, i); /* no other one was touched */
        assert_int_equal(fe_stop(fe), 0);
        fe_destroy(fe);
        assert_nothing_left();
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_running_queue_moves),
        TEST(test_a_stopped_queue_starts_where_it_was_moved_to),
        TEST(test_what_does_not_exist_is_refused),
        TEST(test_a_loop_that_refuses_the_disk_changes_nothing),
        TEST(test_other_queues_go_on_while_one_is_drained),
        TEST(test_moves_under_load),
        TEST(test_moves_of_one_queue_at_the_same_time),
        TEST(test_moves_and_drains),
        TEST(test_the_same_with_loops_that_poll),
        TEST(test_moves_in_the_middle_of_starts_and_stops),
        TEST(test_the_front_end_leaves_during_a_move),
        TEST(test_the_device_is_destroyed_during_moves),
        TEST(test_memory_and_logs_change_while_queues_move_and_drain),
        TEST(test_64_queues_of_every_size_stop_start_and_move_one_by_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
