/*
 * Goal:   a fault is known by its name, strikes, harms nothing but the loop, and leaves nothing when the device goes.
 * Method: a device in this process with --fault=started-before-attach: requests are answered over many starts and stops;
 *         after a stop the main loop finds a closed descriptor ready again and again (its counter of dispatches without progress
 *         grows), and not after the device is destroyed. The healthy twin does none of this.
 * If it fails: the fault's trace, and so the test of its detection, is worth nothing, or a demonstration eats data.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <glib.h>
#include <string.h>
#include <unistd.h>

#include "gate.h"
#include "served.h"

static void test_names(void **state)
{
    char *known = vblk_fault_known(), *names = vblk_fault_names(0);
    char **each = g_strsplit(known, ",", -1);

    (void)state;
    assert_int_equal(vblk_fault_by_name("started-before-attach"), VBLK_FAULT_STARTED_BEFORE_ATTACH);
    assert_int_equal(vblk_fault_by_name("started"), 0);
    assert_int_equal(vblk_fault_by_name(""), 0);
    for (unsigned i = 0; each[i]; i++)
        assert_int_equal(vblk_fault_by_name(each[i]), 1 << i); /* each has a bit of its own */
    assert_true(g_strv_length(each) >= 2);
    g_strfreev(each);
    assert_string_equal(names, "");
    g_free(known);
    g_free(names);
    names = vblk_fault_names(VBLK_FAULT_STARTED_BEFORE_ATTACH | VBLK_FAULT_WRONG_LOOP);
    assert_string_equal(names, "started-before-attach,wrong-loop");
    assert_int_equal(vblk_fault_of_loops(VBLK_FAULT_WRONG_LOOP), 0);
    assert_int_equal(vblk_fault_of_loops(VBLK_FAULT_NO_RECHECK), RT_LOOP_FAULT_NO_RECHECK);
    g_free(names);
}

static uint64_t idle_dispatches(const struct served *served)
{
    struct rt_loop_stats stats;

    rt_loop_stats(served->main_loop, &stats);
    return stats.idle_dispatches;
}

/* Whether the count reaches @more within the time. */
static bool spins(const struct served *served, uint64_t more, unsigned timeout_ms)
{
    uint64_t before = idle_dispatches(served);
    int64_t deadline_ns = rt_clock_ns() + timeout_ms * INT64_C(1000000);

    while (rt_clock_ns() < deadline_ns) {
        if (idle_dispatches(served) - before >= more)
            return true;
        usleep(1000);
    }
    return false;
}

static void run(unsigned faults)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    unsigned before;
    struct served served;
    struct front_end *fe;

    served_start_loops(&served, 2, 0);
    before = served_count_fds();
    assert_int_equal(served_create(&served,
                                   &(struct vblk_device_options){ .blk_file = "null:1M", .queue_count = 2, .faults = faults },
                                   NULL),
                     0);
    options.queue_count = 2;
    fe = served_front_end(&served, &options);
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned i = 0; i < 50; i++)
            for (unsigned queue = 0; queue < 2; queue++)
                assert_int_equal(served_request(fe, queue, VIRTIO_BLK_T_IN, i, NULL, 512), VIRTIO_BLK_S_OK);
        assert_int_equal(fe_stop(fe), 0);
        assert_int_equal(fe_start(fe), 0);
    }
    assert_int_equal(fe_stop(fe), 0);
    if (faults)
        assert_true(spins(&served, 1000, SERVED_DEADLINE_MS));
    else
        assert_false(spins(&served, 100, 500));
    fe_destroy(fe);
    served_destroy(&served);
    assert_false(spins(&served, 100, 300));
    assert_int_equal(served_count_fds(), before);
    served_stop_loops(&served);
}

static void test_the_loop_spins_after_a_stop(void **state)
{
    (void)state;
    run(VBLK_FAULT_STARTED_BEFORE_ATTACH);
}

static void test_the_healthy_twin_does_not(void **state)
{
    (void)state;
    run(0);
}

/* A driver that polls finds what is done, also if it ended after the queue had looked at the ring for the last time. */
static void test_a_request_without_interrupt_is_shown(void **state)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    int64_t deadline_ns = rt_clock_ns() + SERVED_DEADLINE_MS * INT64_C(1000000);
    struct served served;
    struct front_end *fe;
    uint16_t slot;

    (void)state;
    for (unsigned packed = 0; packed < 2; packed++) {
        served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .faults = VBLK_FAULT_SKIP_INTERRUPT }, 1,
                     0);
        options.layout.packed = packed;
        fe = served_front_end(&served, &options);
        assert_int_equal(fe_stop(fe), 0);
        assert_int_equal(fe_start(fe), 0); /* from now on it strikes */
        gate_close();
        served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
        fe_queue_publish(fe_queue(fe, 0));
        gate_await(1);
        gate_open();
        while (fe_queue_reap(fe_queue(fe, 0), &slot, 1) == 0) {
            assert_true(rt_clock_ns() < deadline_ns);
            usleep(500);
        }
        assert_int_equal(*fe_queue(fe, 0)->slots[slot].status, VIRTIO_BLK_S_OK);
        assert_int_equal(atomic_load(&served.device->queues[0].counters.interrupts), 0);
        fe_queue_give(fe_queue(fe, 0), slot);
        assert_int_equal(fe_stop(fe), 0);
        fe_destroy(fe);
        served_stop(&served);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_the_loop_spins_after_a_stop),
        cmocka_unit_test(test_the_healthy_twin_does_not),
        cmocka_unit_test(test_a_request_without_interrupt_is_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
