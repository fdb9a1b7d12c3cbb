/*
 * Goal:   QEMU's own events give the findings that they carry enough for, and none where a healthy QEMU merely looks alike.
 * Method: events of provider qemu as text, each fault beside its healthy twin; io thread 12 on processor 1, main 11 on 0.
 * Breaks: a user of QEMU gets a false alarm, no verdict, or one about two objects that shared an address.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <glib.h>
#include <cmocka.h>

#include "feed/feed.h"

#define LOCK(time, thread, mutex)                                                                            \
    time " " thread "@1 qemu:qemu_mutex_lock mutex=" mutex " file=../util/async.c line=7\n"
#define LOCKED(time, thread, mutex)                                                                          \
    time " " thread "@1 qemu:qemu_mutex_locked mutex=" mutex " file=../util/async.c line=7\n"
#define UNLOCK(time, thread, mutex)                                                                          \
    time " " thread "@1 qemu:qemu_mutex_unlock mutex=" mutex " file=../util/async.c line=9\n"
#define ENTER(time, thread, from, to)                                                                        \
    time " " thread "@1 qemu:qemu_aio_coroutine_enter ctx=0xc0 from=" from " to=" to "\n"
#define YIELD(time, thread, from, to) time " " thread "@1 qemu:qemu_coroutine_yield from=" from " to=" to "\n"
#define TERMINATE(time, thread, co) time " " thread "@1 qemu:qemu_coroutine_terminate co=" co "\n"
#define ALIVE(time) time " 11@0 qemu:qemu_vfree\n"

static void expect(const char *lines, const char *verdict)
{
    struct feed *f = feed_create(FEED_QEMU);

    feed(f, lines);
    feed_end(f, 40);
    assert_string_equal(feed_verdict(f), verdict);
    feed_destroy(f);
}

static struct feed *run(const char *lines)
{
    struct feed *f = feed_create(FEED_QEMU);

    feed(f, lines);
    feed_end(f, 40);
    return f;
}

/* --- what is said about it ----------------------------------------------------------------------------- */

static void test_says_what_qemu_does_not_record(void **state)
{
    struct feed *f = run(ALIVE("1"));

    assert_string_equal(feed_skipped(f),
                        "deaf-queue drain-order late-wakeup lost-request missing-interrupt needless-event-writes "
                        "notify-me-unbalanced pool-imbalance pool-overflow pool-thrash queue-broken stale-fd unread-fd "
                        "vma-exhausted vma-pressure wrong-loop");
    assert_true(feed_says(f, "not recorded by QEMU"));
    assert_false(feed_says(f, "no event of a known dialect"));
    assert_true(feed_says(f, "\"dialect\": \"QEMU\""));
    assert_int_equal(feed_status(f), 0);
    feed_destroy(f);
}

static void test_says_which_events_are_missing(void **state)
{
    struct analysis_options options;
    struct analysis_trace trace = { .path = "t", .vpid = EVENT_UNKNOWN_ID };
    const struct analysis_stream stream = { .cpu_id = 0 };
    struct event event = { .time_ns = 1, .id = EVENT_qemu_other, .vpid = 1, .vtid = 2 };
    struct analysis *analysis;
    json_t *report;
    char *text;

    analysis_options_init(&options);
    analysis = analysis_create(&options);
    trace.declared[EVENT_qemu_qemu_mutex_lock] = trace.declared[EVENT_qemu_qemu_mutex_locked] = true;
    event.stream = analysis_add_stream(analysis, analysis_add_trace(analysis, &trace), &stream);
    analysis_event(analysis, &event);
    analysis_finish(analysis, false);
    report = analysis_report(analysis);
    text = json_dumps(report, 0);
    assert_non_null(strstr(text, "qemu:qemu_mutex_* not recorded"));
    assert_true(json_is_true(json_object_get(report, "all_skipped")));
    free(text);
    json_decref(report);
    analysis_destroy(analysis);
}

static void test_names_of_threads(void **state)
{
    struct feed *f = run("1 1@0 qemu:qemu_mutex_lock mutex=1 file=a.c procname=qemu-img\n"
                         "2 1@0 qemu:qemu_mutex_lock mutex=1 file=a.c procname=later\n");

    assert_true(feed_says(f, "\"name\": \"qemu-img\""));
    feed_destroy(f);
    f = run(ALIVE("1"));
    assert_true(feed_says(f, "\"name\": \"QEMU\"")); /* not recorded */
    feed_destroy(f);
}

static void test_without_threads_locks_are_not_judged(void **state)
{
    struct feed *f = run("1 -@0 qemu:qemu_mutex_lock mutex=1 file=a.c\n");

    assert_true(strstr(feed_skipped(f), "lock-across-yield lock-contention") != NULL);
    assert_true(feed_says(f, "context vtid not recorded"));
    feed_destroy(f);
}

static void test_two_dialects_in_one_recording(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS | FEED_QEMU);

    feed(f, feed_baseline);
    feed(f, "2 7:70@2 qemu:virtio_blk_handle_read vdev=0xd0 req=0xa0 sector=8 nsectors=8\n"
            "3 11@0 vblk_queue:broken device_id=5 queue_index=1 error=-22 reason=bad\n"
            "30 7:71@2 qemu:qemu_vfree\n");
    feed_end(f, 31);
    assert_string_equal(feed_findings(f), "queue-broken stuck-request");
    assert_string_equal(feed_skipped(f), ""); /* they ran for the other process */
    assert_int_equal(json_number_of(json_object_get(json_object_get(feed_finding(f, "stuck-request"), "subject"), "process"), "pid"), 7);
    feed_destroy(f);
}

/* Without process context the dialect is what tells the processes apart. */
static void test_two_dialects_without_context(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS | FEED_QEMU);

    feed(f, "2 -@2 qemu:qemu_coroutine_terminate co=4\n"
            "3 -@2 vblk_queue:broken device_id=5 queue_index=1 error=-22 reason=bad\n");
    feed_end(f, 4);
    assert_int_equal(analysis_exit_status(feed_analysis(f)), 1);
    assert_int_equal(json_array_size(json_object_get(json_object_get(feed_report(f), "trace"), "processes")), 2);
    feed_destroy(f);
}

/* --- locks --------------------------------------------------------------------------------------------- */

static void test_lock_across_yield(void **state)
{
    expect(ENTER("1", "12", "9", "0xa") LOCK("1.01", "12", "0x50") LOCKED("1.02", "12", "0x50")
                          YIELD("1.03", "12", "0xa", "9"),
           "lock-across-yield/");
    expect(ENTER("1", "12", "9", "0xa") LOCK("1.01", "12", "0x50") LOCKED("1.02", "12", "0x50")
                          UNLOCK("1.03", "12", "0x50") YIELD("1.04", "12", "0xa", "9"),
           "/");
}

static void test_deadlock(void **state)
{
    struct feed *f = run(ENTER("1", "12", "9", "0xa") LOCKED("1.01", "12", "0x50") YIELD("1.02", "12", "0xa", "9")
                             LOCK("1.03", "12", "0x50") ALIVE("30"));

    assert_string_equal(json_text_of(feed_finding(f, "lock-across-yield"), "cause"), "deadlock");
    assert_true(feed_says(f, "util/async.c:7"));
    feed_destroy(f);
}

/* The thread, not the coroutine, holds it; or it is a coroutine mutex; or it was unlocked by a wait in a queue. */
static void test_allowed_across_yield(void **state)
{
    expect(LOCKED("1", "12", "0x50") ENTER("1.01", "12", "9", "0xa") YIELD("1.02", "12", "0xa", "9")
                          UNLOCK("1.03", "12", "0x50"),
           "/");
    expect(ENTER("1", "12", "9", "0xa") "1.01 12@1 qemu:qemu_co_mutex_lock_uncontended mutex=0x60 self=0xa\n"
                          YIELD("1.02", "12", "0xa", "9"),
           "/");
    /* recursive: of the thread's own, and taken once more in a coroutine of it */
    expect(LOCKED("1", "12", "0x50") ENTER("1.01", "12", "9", "0xa") LOCK("1.02", "12", "0x50")
                          LOCKED("1.03", "12", "0x50") UNLOCK("1.04", "12", "0x50") YIELD("1.05", "12", "0xa", "9")
                              UNLOCK("1.06", "12", "0x50"),
           "/");
    expect(ENTER("1", "12", "9", "0xa") LOCKED("1.01", "12", "0x50") LOCKED("1.02", "12", "0x50")
                          UNLOCK("1.03", "12", "0x50") UNLOCK("1.04", "12", "0x50") YIELD("1.05", "12", "0xa", "9"),
           "/");
}

/* A coroutine that ended with a mutex in hand is not the one that lives at its address now. */
static void test_an_address_is_no_identity(void **state)
{
    expect(ENTER("1", "12", "9", "0xa") LOCKED("1.01", "12", "0x50") TERMINATE("1.02", "12", "0xa")
                          ENTER("1.03", "12", "9", "0xa") YIELD("1.04", "12", "0xa", "9"),
           "/");
}

static void test_what_was_not_seen_is_not_blamed(void **state)
{
    /* taken before the recording knew what ran in the thread */
    expect(LOCKED("1", "12", "0x50") YIELD("1.02", "12", "0xa", "9"), "/");
}

static void test_a_lost_release(void **state)
{
    struct feed *f = feed_create(FEED_QEMU);

    feed(f, ENTER("1", "12", "9", "0xa") LOCKED("1.01", "12", "0x50"));
    feed_loss(f, 1, 1.02, 1.03);
    feed(f, YIELD("1.04", "12", "0xa", "9"));
    feed_end(f, 9);
    assert_string_equal(feed_verdict(f), "/lock-across-yield");
    feed_destroy(f);
}

/* @wait_ms of every 20 ms thread 12 waits for 13, which holds it for @wait_ms and a little more. */
static void contend(struct feed *f, unsigned wait_ms)
{
    for (unsigned i = 0; i < 400; i++) {
        const unsigned at = 1000 + i * 20;

#define AT(ms) ((at) + (ms)) / 1000, ((at) + (ms)) % 1000
        feed_format(f, "%u.%03u000 13@2 qemu:qemu_mutex_locked mutex=0x50 file=a.c\n", AT(0));
        feed_format(f, "%u.%03u100 12@1 qemu:qemu_mutex_lock mutex=0x50 file=a.c\n", AT(0));
        feed_format(f, "%u.%03u000 13@2 qemu:qemu_mutex_unlock mutex=0x50 file=a.c\n", AT(wait_ms));
        feed_format(f, "%u.%03u100 12@1 qemu:qemu_mutex_locked mutex=0x50 file=a.c\n", AT(wait_ms));
        feed_format(f, "%u.%03u200 12@1 qemu:qemu_mutex_unlock mutex=0x50 file=a.c\n", AT(wait_ms));
#undef AT
    }
}

static void test_lock_contention(void **state)
{
    struct feed *f = feed_create(FEED_QEMU);

    contend(f, 10);
    feed_end(f, 12);
    assert_string_equal(feed_verdict(f), "lock-contention/");
    assert_false(feed_says(f, "--request-lock"));
    feed_destroy(f);
    f = feed_create(FEED_QEMU);
    contend(f, 1);
    feed_end(f, 12);
    assert_string_equal(feed_verdict(f), "/");
    feed_destroy(f);
}

/* A thread that comes back from a condition variable has the mutex without having waited for it. */
static void test_condition_variables_are_no_contention(void **state)
{
    struct feed *f = feed_create(FEED_QEMU);

    for (unsigned i = 1; i < 300; i++)
        feed_format(f, "%u.%03u 12@1 qemu:qemu_mutex_locked mutex=0x50 file=a.c\n"
                       "%u.%03u001 12@1 qemu:qemu_mutex_unlock mutex=0x50 file=a.c\n", i / 10, i % 10 * 100, i / 10, i % 10 * 100);
    feed_end(f, 40);
    assert_string_equal(feed_verdict(f), "/");
    feed_destroy(f);
}

/* --- requests ------------------------------------------------------------------------------------------ */

#define READ(time, req) time " 12@1 qemu:virtio_blk_handle_read vdev=0xd0 req=" req " sector=8 nsectors=8\n"
#define ANSWER(time, req, ret) time " 12@1 qemu:virtio_blk_rw_complete vdev=0xd0 req=" req " ret=" ret "\n"
#define COMPLETE(time, req) time " 12@1 qemu:virtio_blk_req_complete vdev=0xd0 req=" req " status=0\n"

static void test_stuck_request(void **state)
{
    struct feed *f = run(READ("1", "0xa0") ALIVE("30"));
    json_t *finding = feed_finding(f, "stuck-request");

    assert_string_equal(json_text_of(finding, "cause"), "backend");
    assert_true(feed_says(f, "virtio-blk 0xd0"));
    feed_destroy(f);
    expect(READ("1", "0xa0") ANSWER("1.1", "0xa0", "0") ALIVE("30"), "stuck-request/"); /* completing */
    expect(READ("1", "0xa0") ANSWER("1.1", "0xa0", "0") COMPLETE("1.2", "0xa0") ALIVE("30"), "/");
}

/* Address 0xa0 serves three requests; the last one is stuck, and it is not the first. */
static void test_lives_of_a_request(void **state)
{
    struct feed *f = run(READ("1", "0xa0") COMPLETE("1.2", "0xa0") READ("2", "0xa0") COMPLETE("2.2", "0xa0")
                             READ("3", "0xa0") ALIVE("30"));

    assert_int_equal(json_number_of(json_object_get(feed_finding(f, "stuck-request"), "subject"), "request_id"), 3);
    feed_destroy(f);
    /* flush: its end has no begin */
    expect(COMPLETE("1", "0xf0") ALIVE("30"), "/");
}

/* With werror=stop a failed request waits for the guest to be continued, however long that takes. */
static void test_paused_after_an_error(void **state)
{
    expect(READ("1", "0xa0") ANSWER("1.1", "0xa0", "-28") ALIVE("30"), "/");
    expect(READ("1", "0xa0") ANSWER("1.1", "0xa0", "-28") READ("9", "0xa0") ALIVE("30"), "stuck-request/");
}

static void test_lost_end_of_a_request(void **state)
{
    struct feed *f = feed_create(FEED_QEMU);

    feed(f, READ("1", "0xa0"));
    feed_loss(f, 1, 2, 3);
    feed(f, ALIVE("30"));
    feed_end(f, 31);
    assert_string_equal(feed_verdict(f), "/stuck-request");
    feed_destroy(f);
}

/* Versions name and number io_uring's and the thread pool's events differently. */
static void test_other_requests(void **state)
{
    struct feed *f = run("1 12@1 qemu:bdrv_open_common bs=0xb0 filename=/images/disk.raw\n"
                         "2 12@1 qemu:luring_co_submit bs=0xb0 luringcb=0xa0 nbytes=512 type=2\n" ALIVE("30"));

    assert_true(feed_says(f, "block node disk.raw"));
    assert_true(feed_says(f, "(write)"));
    feed_destroy(f);
    expect("2 12@1 qemu:luring_co_submit bs=0xb0 luringcb=0xa0 nbytes=512 type=1\n"
                      "3 12@1 qemu:luring_process_completion aiocb=0xa0 ret=512\n" ALIVE("30"), "/");
    expect("2 12@1 qemu:luring_co_submit bs=0xb0 req=0xa0 nbytes=512 type=1\n"
                      "3 12@1 qemu:luring_cqe_handler req=0xa0 ret=512\n" ALIVE("30"), "/");
    expect("2 12@1 qemu:thread_pool_submit pool=0xb0 req=0xa0\n" ALIVE("30"), "stuck-request/");
    expect("2 12@1 qemu:thread_pool_submit pool=0xb0 req=0xa0\n"
                      "3 12@1 qemu:thread_pool_complete pool=0xb0 req=0xa0\n" ALIVE("30"), "/");
    expect("2 12@1 qemu:thread_pool_submit_aio pool=0xb0 req=0xa0\n"
                      "3 12@1 qemu:thread_pool_complete_aio pool=0xb0 req=0xa0\n" ALIVE("30"), "/");
}

static void slow(unsigned duration_ms, const char *verdict)
{
    struct feed *f = feed_create(FEED_QEMU);

    for (unsigned i = 0; i < 1200; i++) {
        const unsigned begin = 1000 + i * 10, end = begin + (i % 100 ? 1 : duration_ms);

        feed_format(f, "%u.%03u 12@1 qemu:virtio_blk_handle_write vdev=0xd0 req=0xa0 nsectors=1\n", begin / 1000, begin % 1000);
        feed_format(f, "%u.%03u 12@1 qemu:virtio_blk_rw_complete vdev=0xd0 req=0xa0\n", end / 1000, end % 1000);
        feed_format(f, "%u.%03u 12@1 qemu:virtio_blk_req_complete vdev=0xd0 req=0xa0\n", end / 1000, end % 1000);
    }
    feed_end(f, 20);
    assert_string_equal(feed_verdict(f), verdict);
    feed_destroy(f);
}

static void test_slow_requests(void **state)
{
    slow(150, "slow-requests/");
    slow(9, "/");
}

/* --- loops --------------------------------------------------------------------------------------------- */

#define POLL(time, end_time, progress, timeout)                                                              \
    time " 12@1 qemu:run_poll_handlers_begin ctx=0xc0 max_ns=32768 timeout=-1\n" end_time                    \
         " 12@1 qemu:run_poll_handlers_end ctx=0xc0 progress=" progress " timeout=" timeout "\n"

static void poll_for_progress(const char *between, const char *verdict)
{
    struct feed *f = feed_create(FEED_QEMU);

    for (unsigned i = 0; i < 3000; i++)
        feed_format(f, "1.%04u000 12@1 qemu:run_poll_handlers_begin ctx=0xc0 max_ns=32768 timeout=-1\n"
                       "1.%04u100 12@1 qemu:run_poll_handlers_end ctx=0xc0 progress=1 timeout=0\n"
                       "1.%04u200 12@1 %s\n", i, i, i, between);
    feed_end(f, 2);
    assert_string_equal(feed_verdict(f), verdict);
    feed_destroy(f);
}

static void test_false_progress(void **state)
{
    poll_for_progress("qemu:object_dynamic_cast_assert", "false-progress/"); /* the handler looked, and took nothing */
    poll_for_progress("qemu:qemu_coroutine_terminate co=4", "/");
    poll_for_progress("qemu:virtqueue_pop", "/"); /* of any device */
}

static void poll_in_vain(unsigned period_us, unsigned poll_us, const char *verdict)
{
    struct feed *f = feed_create(FEED_QEMU);

    for (unsigned i = 0; i < 3000; i++) {
        const unsigned begin = i * period_us, end = begin + poll_us;

        feed_format(f, "%u.%06u 12@1 qemu:run_poll_handlers_begin ctx=0xc0 max_ns=32768 timeout=-1\n", 1 + begin / 1000000, begin % 1000000);
        feed_format(f, "%u.%06u 12@1 qemu:run_poll_handlers_end ctx=0xc0 progress=0 timeout=-1\n", 1 + end / 1000000, end % 1000000);
    }
    feed_end(f, 9);
    assert_string_equal(feed_verdict(f), verdict);
    feed_destroy(f);
}

static void test_poll_waste(void **state)
{
    poll_in_vain(1000, 700, "poll-waste/");
    poll_in_vain(1000, 30, "/");
}

static void test_loop_hog(void **state)
{
    struct feed *f = run(ENTER("1", "12", "9", "0xa") ENTER("1.1", "12", "0xa", "0xb") TERMINATE("1.5", "12", "0xb")
                             YIELD("1.51", "12", "0xa", "9"));

    assert_string_equal(feed_verdict(f), "loop-hog/");
    assert_int_equal(json_number_of(feed_finding(f, "loop-hog"), "count"), 1); /* 0xb, not 0xa around it */
    assert_true(feed_says(f, "a coroutine held"));
    feed_destroy(f);
    /* long, and most of it suspended */
    expect(ENTER("1", "12", "9", "0xa") YIELD("1.01", "12", "0xa", "9") ENTER("1.9", "12", "9", "0xa")
                          TERMINATE("1.91", "12", "0xa"),
           "/");
}

static void test_lost_wakeup(void **state)
{
    struct feed *f = run(POLL("1", "1.1", "0", "-1") "2 11@0 qemu:aio_co_schedule ctx=0xc0 co=0xa\n" ALIVE("30"));

    assert_string_equal(feed_verdict(f), "lost-wakeup/");
    assert_true(feed_says(f, "whether it was notified is not recorded"));
    assert_false(feed_says(f, "does not notify"));
    feed_destroy(f);
    /* it ran, late or not: how a loop is woken is not recorded, so that a slow one cannot be told from a late one */
    expect(POLL("1", "1.1", "0", "-1") "2 11@0 qemu:aio_co_schedule ctx=0xc0 co=0xa\n"
                      "3 12@1 qemu:aio_co_schedule_bh_cb ctx=0xc0 co=0xa\n" ALIVE("30"), "/");
    /* a timer will wake it; nobody knows whether it sleeps */
    expect(POLL("1", "1.1", "0", "60000000000") "2 11@0 qemu:aio_co_schedule ctx=0xc0 co=0xa\n" ALIVE("30"), "/");
    expect(POLL("1", "1.1", "1", "0") "2 11@0 qemu:aio_co_schedule ctx=0xc0 co=0xa\n" ALIVE("30"), "/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_what_qemu_does_not_record),
        cmocka_unit_test(test_says_which_events_are_missing),
        cmocka_unit_test(test_names_of_threads),
        cmocka_unit_test(test_without_threads_locks_are_not_judged),
        cmocka_unit_test(test_two_dialects_in_one_recording),
        cmocka_unit_test(test_two_dialects_without_context),
        cmocka_unit_test(test_lock_across_yield),
        cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_allowed_across_yield),
        cmocka_unit_test(test_an_address_is_no_identity),
        cmocka_unit_test(test_what_was_not_seen_is_not_blamed),
        cmocka_unit_test(test_a_lost_release),
        cmocka_unit_test(test_lock_contention),
        cmocka_unit_test(test_condition_variables_are_no_contention),
        cmocka_unit_test(test_stuck_request),
        cmocka_unit_test(test_lives_of_a_request),
        cmocka_unit_test(test_paused_after_an_error),
        cmocka_unit_test(test_lost_end_of_a_request),
        cmocka_unit_test(test_other_requests),
        cmocka_unit_test(test_slow_requests),
        cmocka_unit_test(test_false_progress),
        cmocka_unit_test(test_poll_waste),
        cmocka_unit_test(test_loop_hog),
        cmocka_unit_test(test_lost_wakeup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
