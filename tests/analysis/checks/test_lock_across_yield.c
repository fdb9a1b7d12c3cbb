/*
 * Goal:   a coroutine that yields with a thread mutex in hand is reported, and as a deadlock when a cycle of waits formed.
 * Method: locks 4 (thread mutex) and 6 (coroutine mutex), coroutines 71 and 72 in threads 12 and 13, as events.
 * Breaks: a hung IOThread is not explained, or a coroutine mutex, which may be held, raises an alarm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <glib.h>
#include <cmocka.h>

#include "feed/feed.h"

#define LOCKS                                                                                                \
    "1.2 19@3 rt_lock:create lock_id=4 class_name=timers kind=0\n"                                           \
    "1.2 19@3 rt_lock:create lock_id=6 class_name=requests kind=1\n"
#define ACQUIRE(time, lock, thread, coroutine)                                                               \
    time " " thread "@1 rt_lock:acquired lock_id=" lock " thread_id=" thread " coroutine_id=" coroutine "\n"
#define RELEASE(time, lock, thread, coroutine)                                                               \
    time " " thread "@1 rt_lock:released lock_id=" lock " thread_id=" thread " coroutine_id=" coroutine "\n"
#define WAIT(time, lock, thread, coroutine, owner_thread, owner_coroutine)                                   \
    time " " thread "@1 rt_lock:wait lock_id=" lock " thread_id=" thread " coroutine_id=" coroutine          \
         " owner_thread_id=" owner_thread " owner_coroutine_id=" owner_coroutine "\n"
#define TOLD(time, lock, thread, coroutine)                                                                  \
    time " " thread "@1 rt_lock:held_at_yield lock_id=" lock " thread_id=" thread " coroutine_id=" coroutine \
         "\n"
#define YIELD(time, thread, coroutine)                                                                       \
    time " " thread "@1 rt_coroutine:yield coroutine_id=" coroutine " thread_id=" thread "\n"

static struct feed *run(unsigned sets, const char *lines)
{
    struct feed *f = feed_create(sets);

    feed(f, feed_baseline);
    feed(f, LOCKS);
    feed(f, lines);
    return f;
}

static void expect(struct feed *f, const char *verdict, const char *cause)
{
    feed_end(f, 9);
    assert_string_equal(feed_verdict(f), verdict);
    if (*cause)
        assert_string_equal(json_text_of(feed_finding(f, "lock-across-yield"), "cause"), cause);
    feed_destroy(f);
}

static void test_told(void **state)
{
    struct feed *f = run(FEED_CORE_ONLY, TOLD("2", "4", "12", "71") TOLD("3", "4", "12", "72"));
    json_t *finding, *subject;

    feed_end(f, 9);
    finding = feed_finding(f, "lock-across-yield");
    subject = json_object_get(finding, "subject");
    assert_string_equal(json_text_of(finding, "severity"), "error");
    assert_string_equal(json_text_of(finding, "cause"), "near-miss");
    assert_int_equal(json_number_of(finding, "count"), 2);
    assert_int_equal(json_number_of(subject, "lock_id"), 4);
    assert_string_equal(json_text_of(subject, "class_name"), "timers");
    assert_int_equal(json_number_of(subject, "coroutine_id"), 71);
    assert_int_equal(json_number_of(subject, "thread_id"), 12);
    feed_destroy(f);
}

static void test_seen_without_being_told(void **state)
{
    const char *lines = ACQUIRE("2", "4", "12", "71") YIELD("3", "12", "71") RELEASE("4", "4", "12", "71");

    expect(run(FEED_ALL_SETS, lines), "lock-across-yield/", "near-miss");
    /* held since before the recording */
    expect(run(FEED_ALL_SETS,
               "1.5 19@3 rt_lock:owner lock_id=4 owner_thread_id=12 owner_coroutine_id=71\n" YIELD("3", "12",
                                                                                                   "71")),
           "lock-across-yield/", "near-miss");
}

static void test_told_and_seen_count_once(void **state)
{
    struct feed *f = run(FEED_ALL_SETS, ACQUIRE("2", "4", "12", "71") TOLD("3", "4", "12", "71")
                                            YIELD("3", "12", "71") RELEASE("4", "4", "12", "71"));

    feed_end(f, 9);
    assert_int_equal(json_number_of(feed_finding(f, "lock-across-yield"), "count"), 1);
    feed_destroy(f);
}

static void test_silent(void **state)
{
    static const char *const stories[] = {
        /* released before; a coroutine mutex; by another coroutine; by the thread outside of coroutines */
        ACQUIRE("2", "4", "12", "71") RELEASE("2", "4", "12", "71") YIELD("3", "12", "71"),
        ACQUIRE("2", "6", "12", "71") YIELD("3", "12", "71") RELEASE("4", "6", "12", "71"),
        ACQUIRE("2", "4", "12", "71") YIELD("3", "12", "72") RELEASE("4", "4", "12", "71"),
        ACQUIRE("2", "4", "12", "0") YIELD("3", "12", "72") RELEASE("4", "4", "12", "0"),
        /* a lock of which nothing is known */
        ACQUIRE("2", "5", "12", "71") YIELD("3", "12", "71") RELEASE("4", "5", "12", "71"),
        /* held at the start, a coroutine mutex */
        "1.5 19@3 rt_lock:owner lock_id=6 owner_thread_id=12 owner_coroutine_id=71\n" YIELD("3", "12", "71"),
        /* an announcement that a release overtook */
        "2 19@3 rt_process:baseline_begin serial=2\n" RELEASE(
            "2.1", "4", "12",
            "71") "2.2 19@3 rt_lock:owner lock_id=4 owner_thread_id=12 owner_coroutine_id=71\n2.3 19@3 "
                  "rt_process:baseline_end serial=2\n" YIELD("3", "12", "71"),
        TOLD("2", "6", "12", "71"),
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(stories); i++)
        expect(run(FEED_ALL_SETS, stories[i]), "/", "");
}

static void test_a_lost_release(void **state)
{
    const char *lines = ACQUIRE("2", "4", "12", "71") YIELD("3", "12", "71");
    struct feed *f = run(FEED_ALL_SETS, lines);

    feed_loss(f, 1, 2.2, 2.4);
    expect(f, "/lock-across-yield", "");
    f = run(FEED_ALL_SETS, lines);
    feed_loss(f, 1, 1.5, 1.6);
    expect(f, "lock-across-yield/", "near-miss");
    f = run(FEED_ALL_SETS, lines);
    feed_loss(f, 0, 2.2, 2.4);
    expect(f, "lock-across-yield/", "near-miss");
    /* told by the program: no matter what was lost */
    f = run(FEED_ALL_SETS, ACQUIRE("2", "4", "12", "71") TOLD("3", "4", "12", "71") YIELD("3", "12", "71"));
    feed_loss(f, 1, 2.2, 2.4);
    expect(f, "lock-across-yield/", "near-miss");
}

/* --- deadlocks ----------------------------------------------------------------------------------------- */

/* The thread that has to resume the holder blocks in the mutex. */
static const char with_itself[] = ACQUIRE("2", "4", "12", "71") TOLD("3", "4", "12", "71")
    YIELD("3", "12", "71") WAIT("4", "4", "12", "0", "12", "71");

/* Holder waits for a coroutine mutex, whose holder blocks in the mutex. */
static const char with_another[] =
    ACQUIRE("2", "6", "13", "72") ACQUIRE("2.1", "4", "12", "71") WAIT("2.2", "6", "12", "71", "13", "72")
        TOLD("2.3", "4", "12", "71") YIELD("2.3", "12", "71") WAIT("3", "4", "13", "72", "12", "71");

/* The main thread drains with the mutex in hand, and a loop with a request blocks in it. */
static const char with_a_drain[] =
    "1.9 12@1 vblk_request:begin request_id=1 device_id=5 queue_index=0 head=1 loop_id=3\n" ACQUIRE(
        "2", "4", "11",
        "71") "2.1 11@1 vblk_dataplane:drain_begin device_id=5 depth=1 in_flight=1 state=2\n" TOLD("2.2", "4",
                                                                                                   "11", "71")
        YIELD("2.2", "11", "71") WAIT("3", "4", "12", "0", "11", "71");

static void test_deadlocks(void **state)
{
    static const struct {
        const char *lines;
        unsigned sets;
        const char *says[4];
    } stories[] = {
        { with_itself,
          FEED_ALL_SETS,
          { "1. timers (lock 4) is held by coroutine 71 of iothread0 (12)",
            "2. coroutine 71 of iothread0 (12) can go on only",
            "3. iothread0 (12) is blocked in timers (lock 4)" } },
        { with_itself, FEED_CORE_ONLY, { "3. iothread0 (12) is blocked in timers (lock 4)" } },
        { with_another,
          FEED_ALL_SETS,
          { "2. coroutine 71 of iothread0 (12) waits for requests (lock 6)",
            "3. requests (lock 6) is held by coroutine 72",
            "4. coroutine 72 of iothread1 (13) waits for timers (lock 4)" } },
        { with_another, FEED_CORE_ONLY, { "4. coroutine 72 of iothread1 (13) waits for timers (lock 4)" } },
        { with_a_drain,
          FEED_ALL_SETS,
          { "2. vblkd (11) drains disk", "3. the drain of disk waits for requests of iothread0",
            "4. iothread0 (12) is blocked in timers" } },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(stories); i++) {
        struct feed *f = run(stories[i].sets, stories[i].lines);

        feed_end(f, 9);
        assert_string_equal(json_text_of(feed_finding(f, "lock-across-yield"), "cause"), "deadlock");
        for (unsigned j = 0; j < 4 && stories[i].says[j]; j++)
            if (!feed_says(f, stories[i].says[j]))
                fail_msg("story %u does not say: %s", i, stories[i].says[j]);
        feed_destroy(f);
    }
}

static void test_no_deadlock(void **state)
{
    struct feed *f;

    /* the one who waits got it */
    f = run(FEED_ALL_SETS, with_another);
    feed(f, "4 12@1 rt_lock:acquired lock_id=6 thread_id=12 coroutine_id=71 waited=1\n" RELEASE(
                "4.1", "4", "12",
                "71") "4.2 13@1 rt_lock:acquired lock_id=4 thread_id=13 coroutine_id=72 waited=1\n");
    expect(f, "lock-across-yield/", "near-miss");
    /* the thread that seems blocked goes on */
    f = run(FEED_ALL_SETS, with_itself);
    feed(f, "5 12@1 rt_loop:work_run loop_id=3 count=1\n");
    expect(f, "lock-across-yield/", "near-miss");
    /* that it goes on may be lost */
    f = run(FEED_ALL_SETS, with_itself);
    feed_loss(f, 1, 5, 6);
    expect(f, "lock-across-yield/", "near-miss");
    /* another thread is blocked, and the holder's loop is free to resume it */
    expect(run(FEED_CORE_ONLY, TOLD("3", "4", "12", "71") WAIT("4", "4", "13", "0", "12", "71")),
           "lock-across-yield/", "near-miss");
}

/* In a pid namespace: fields name the kernel's threads 912 and 913, contexts the namespace's 12 and 13. */
static void test_thread_ids_of_a_namespace(void **state)
{
    const char *hung = "2 12@1 rt_lock:acquired lock_id=4 thread_id=912 coroutine_id=71\n"
                       "3 12@1 rt_lock:held_at_yield lock_id=4 thread_id=912 coroutine_id=71\n"
                       "4 12@1 rt_lock:wait lock_id=4 thread_id=912 coroutine_id=72 owner_thread_id=912 "
                       "owner_coroutine_id=71\n";
    struct feed *f;

    expect(run(FEED_ALL_SETS, hung), "lock-across-yield/", "deadlock");
    f = run(FEED_ALL_SETS, hung);
    feed(f, "5 12@1 rt_loop:work_run loop_id=3 count=1\n"); /* it goes on */
    expect(f, "lock-across-yield/", "near-miss");
    f = run(FEED_ALL_SETS, "2 12@1 rt_lock:acquired lock_id=4 thread_id=912 coroutine_id=71\n"
                           "3 12@1 rt_coroutine:yield coroutine_id=71 thread_id=912\n");
    feed_loss(f, 2, 2.5, 2.6); /* where it never was */
    expect(f, "lock-across-yield/", "near-miss");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_seen_without_being_told),
        cmocka_unit_test(test_told_and_seen_count_once),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_a_lost_release),
        cmocka_unit_test(test_deadlocks),
        cmocka_unit_test(test_no_deadlock),
        cmocka_unit_test(test_thread_ids_of_a_namespace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
