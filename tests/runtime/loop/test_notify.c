/*
 * Goal: a notifier writes the eventfd when the loop may be asleep and only then, and no notify is forgotten; in the old way
 * (RT_NOTIFY_ALWAYS) it writes, and the loop reads, also while the loop polls.
 * Method: one loop brought into each state of the protocol; statistics tell what notifiers did.
 * If it fails: loops sleep on published work, or every notify costs two system calls. stress_notify looks at the races.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "rt/iothread.h"
#include "rt/loop.h"
#include "loop_variant.h"
#include "own_loop.h"
#include "until.h"

static void count_up(void *opaque)
{
    atomic_fetch_add((_Atomic int *)opaque, 1);
}

static void sleeping_loop_costs_one_write(void **state)
{
    struct rt_iothread *io;
    _Atomic int runs = 0;
    assert_int_equal(rt_iothread_create("sleeper", 0, &io), 0);
    struct rt_loop *loop = rt_iothread_loop(io);
    for (int i = 1; i <= 20; i++) {
        (void)until_asleep(loop);
        struct rt_loop_stats before = stats_of(loop);
        assert_int_equal(rt_loop_post(loop, count_up, &runs), 0);
        UNTIL(atomic_load(&runs) == i);
        struct rt_loop_stats after = stats_of(loop);
        assert_int_equal(after.notifies - before.notifies, 1);
        assert_int_equal(after.event_writes - before.event_writes, 1);
        assert_int_equal(after.event_writes_while_polling, 0);
    }
    rt_iothread_destroy(io);
}

static void until_polling(struct rt_loop *loop)
{
    struct rt_loop_stats before = stats_of(loop), now;
    UNTIL((now = stats_of(loop), now.passes == before.passes && now.poll_ns > before.poll_ns) ||
          (before = now, false));
}

/* What notifying a polling loop costs, under both policies. */
static void costs_while_polling(enum rt_notify_policy notify, uint64_t system_calls)
{
    struct rt_iothread *io;
    _Atomic int runs = 0;
    assert_int_equal(rt_loop_configure(&(struct rt_loop_policies){ .monitor = variant_monitor(), .notify = notify }), 0);
    assert_int_equal(rt_iothread_create("poller", RT_FOREVER, &io), 0);
    struct rt_loop *loop = rt_iothread_loop(io);
    for (int i = 1; i <= 20; i++) {
        until_polling(loop);
        struct rt_loop_stats before = stats_of(loop);
        assert_int_equal(rt_loop_post(loop, count_up, &runs), 0);
        UNTIL(atomic_load(&runs) == i);
        /* In the old way the work may run before it is notified, and the read comes with the next pass. */
        UNTIL(stats_of(loop).event_reads - before.event_reads >= system_calls);
        until_polling(loop);
        struct rt_loop_stats after = stats_of(loop);
        assert_int_equal(after.notifies - before.notifies, 1);
        assert_int_equal(after.event_writes - before.event_writes, system_calls);
        assert_int_equal(after.event_writes_while_polling - before.event_writes_while_polling, system_calls);
        assert_int_equal(after.event_reads - before.event_reads, system_calls);
        assert_int_equal(after.wait_ns, 0);
    }
    rt_iothread_destroy(io);
    assert_int_equal(rt_loop_configure(&(struct rt_loop_policies){ .monitor = variant_monitor() }), 0);
}

static void polling_loop_costs_nothing(void **state)
{
    costs_while_polling(RT_NOTIFY_BLOCKING_ONLY, 0);
}

static void polling_loop_costs_a_write_and_a_read_in_the_old_way(void **state)
{
    costs_while_polling(RT_NOTIFY_ALWAYS, 1);
}

/* What has no work to look at must end a sleep, too: a quit that comes just before it, as often as it takes. */
static void quit_ends_a_loop_in_the_old_way(void **state)
{
    assert_int_equal(rt_loop_configure(&(struct rt_loop_policies){ .monitor = variant_monitor(), .notify = RT_NOTIFY_ALWAYS }), 0);
    for (int i = 0; i < 300; i++) {
        struct rt_iothread *io;
        assert_int_equal(rt_iothread_create("quitter", 0, &io), 0);
        if (i % 2 == 0)
            (void)until_asleep(rt_iothread_loop(io));
        rt_iothread_destroy(io);
    }
    assert_int_equal(rt_loop_configure(&(struct rt_loop_policies){ .monitor = variant_monitor() }), 0);
}

struct busy {
    _Atomic bool inside, go_on;
};

static void be_busy(void *opaque)
{
    struct busy *busy = opaque;
    atomic_store(&busy->inside, true);
    UNTIL(atomic_load(&busy->go_on));
}

/* Notified while it works: it looks before it sleeps, so nothing is written and nothing is lost. */
static void working_loop_costs_nothing(void **state)
{
    struct rt_iothread *io;
    struct busy busy = { 0 };
    _Atomic int runs = 0;
    assert_int_equal(rt_iothread_create("busy", 0, &io), 0);
    struct rt_loop *loop = rt_iothread_loop(io);
    assert_int_equal(rt_loop_post(loop, be_busy, &busy), 0);
    UNTIL(atomic_load(&busy.inside));
    struct rt_loop_stats before = stats_of(loop);
    for (int i = 0; i < 100; i++)
        assert_int_equal(rt_loop_post(loop, count_up, &runs), 0);
    struct rt_loop_stats after = stats_of(loop);
    assert_int_equal(after.notifies - before.notifies, 100);
    assert_int_equal(after.event_writes - before.event_writes, 0);
    atomic_store(&busy.go_on, true);
    UNTIL(atomic_load(&runs) == 100);
    rt_iothread_destroy(io);
}

/* Its own thread needs no flag: it cannot sleep on what it has just queued. */
static void own_thread_notifies_nobody(void **state)
{
    struct rt_loop *loop;
    _Atomic int runs = 0;
    assert_int_equal(rt_loop_create("own", &loop), 0);
    rt_loop_bind(loop);
    assert_int_equal(rt_loop_post(loop, count_up, &runs), 0);
    assert_true(rt_loop_pass(loop, true));
    assert_int_equal(runs, 1);
    assert_int_equal(stats_of(loop).notifies, 0);
    assert_int_equal(stats_of(loop).wait_ns, 0);
    rt_loop_destroy(loop);
}

static void *post_one(void *opaque)
{
    static _Atomic int runs;
    assert_int_equal(rt_loop_post(opaque, count_up, &runs), 0);
    return NULL;
}

/* The flag is accepted in passes that did not wait, too: a pass later it would look notified still, and never sleep. */
static void accepted_in_every_pass(void **state)
{
    struct rt_loop *loop;
    assert_int_equal(rt_loop_create("accept", &loop), 0);
    rt_loop_bind(loop);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, post_one, loop), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(rt_loop_pass(loop, false));
    struct rt_timer *timer = rt_timer_create(loop, count_up, &(_Atomic int){ 0 });
    uint64_t wait_ns = stats_of(loop).wait_ns;
    rt_timer_arm(timer, rt_clock_ns() + 20000000);
    rt_loop_pass(loop, true);
    assert_true(stats_of(loop).wait_ns > wait_ns);
    rt_timer_destroy(timer);
    rt_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sleeping_loop_costs_one_write),
        cmocka_unit_test(polling_loop_costs_nothing),
        cmocka_unit_test(polling_loop_costs_a_write_and_a_read_in_the_old_way),
        cmocka_unit_test(quit_ends_a_loop_in_the_old_way),
        cmocka_unit_test(working_loop_costs_nothing),
        cmocka_unit_test(own_thread_notifies_nobody),
        cmocka_unit_test(accepted_in_every_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
