/*
 * Goal:   what a restart forgets or does twice is reported, by head; what is resubmitted, completed or given up is not.
 * Method: restarts in one process and across two, with known lives of each head.
 * Breaks: a guest that hangs after a restart is not explained, or every restart raises an alarm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <glib.h>
#include <cmocka.h>

#include "feed/feed.h"

#define BEGIN(time, id, head)                                                                                \
    time " 12@1 vblk_request:begin request_id=" id " device_id=5 queue_index=1 head=" head                   \
         " loop_id=3 offset_bytes=" head "\n"
#define END(time, id)                                                                                        \
    time " 12@1 vblk_request:end request_id=" id "\n" time                                                   \
         " 12@1 vblk_queue:interrupt device_id=5 queue_index=1\n"
#define RESUBMIT(time, id, head)                                                                             \
    time " 12@1 vblk_request:recovered request_id=" id " device_id=5 queue_index=1 head=" head               \
         "\n" BEGIN(time, id, head)
#define LEAVE(time) time " 11@0 vhost_user:disconnect device_id=5\n"
#define RETURN(time) time " 11@0 vhost_user:connect device_id=5\n"
#define ALIVE(time) time " 19@3 rt_process:vma_sample vma_count=1\n"

static struct feed *run(const char *lines)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    feed(f, lines);
    return f;
}

static void expect(struct feed *f, const char *verdict)
{
    feed_end(f, 40);
    assert_string_equal(feed_verdict(f), verdict);
    feed_destroy(f);
}

static void test_forgotten_slot(void **state)
{
    struct feed *f = run(BEGIN("2", "1", "0") BEGIN("2", "2", "1") LEAVE("3") RETURN("4")
                             RESUBMIT("5", "3", "1") END("5.1", "3") BEGIN("6", "4", "1") END("6.1", "4"));
    json_t *finding, *subject;

    feed_end(f, 40);
    finding = feed_finding(f, "lost-request");
    subject = json_object_get(finding, "subject");
    assert_string_equal(json_text_of(finding, "severity"), "error");
    assert_int_equal(json_number_of(finding, "count"), 1);
    assert_int_equal(json_number_of(subject, "device_id"), 5);
    assert_int_equal(json_number_of(subject, "queue_index"), 1);
    assert_int_equal(json_number_of(subject, "request_id"), 1);
    assert_int_equal(json_number_of(subject, "head"), 0);
    assert_string_equal(feed_findings(f), "lost-request");
    feed_destroy(f);
}

static void test_nothing_was_resubmitted(void **state)
{
    /* the queue runs again for a while, idle */
    expect(run(BEGIN("2", "1", "0") LEAVE("3")
                   RETURN("4") "4.1 12@1 vblk_dataplane:notifier_attach device_id=5 "
                               "queue_index=1 fd=40 loop_id=3\n" ALIVE("6")),
           "lost-request/");
    /* it never ran again */
    expect(run(BEGIN("2", "1", "0") LEAVE("3") RETURN("4") ALIVE("20")), "lost-request/");
}

static void test_too_early_to_say(void **state)
{
    expect(run(BEGIN("2", "1", "0") LEAVE("3")
                   RETURN("4") "4.1 12@1 vblk_dataplane:notifier_attach device_id=5 "
                               "queue_index=1 fd=40 loop_id=3\n" ALIVE("4.5")),
           "/");
    expect(run(BEGIN("2", "1", "0") LEAVE("3") RETURN("4") ALIVE("9")), "/");
}

static void test_silent(void **state)
{
    /* resubmitted; completed by its old life; given up */
    expect(run(BEGIN("2", "1", "0") LEAVE("3") RETURN("4") RESUBMIT("5", "3", "0") END("5.1", "3")
                   BEGIN("6", "4", "1") END("6.1", "4")),
           "/");
    expect(
        run(BEGIN("2", "1", "0") LEAVE("3") RETURN("4") BEGIN("6", "4", "1") END("6.1", "4") END("7", "1")),
        "/");
    expect(
        run(BEGIN("2", "1", "0") LEAVE("3") END("3.5", "1") RETURN("4") BEGIN("6", "4", "1") END("6.1", "4")),
        "/");
    expect(run(BEGIN("2", "1", "0") LEAVE("3") "3 12@1 vblk_request:abandoned request_id=1\n" RETURN("4")
                   BEGIN("6", "4", "1") END("6.1", "4")),
           "/");
    /* the front end never came back; another device's did */
    expect(run(BEGIN("2", "1", "0") LEAVE("3") "4 11@0 vhost_user:connect device_id=6\n" ALIVE("30")), "/");
    /* a front end that asks for a new in-flight region has another driver */
    expect(run(BEGIN("2", "1", "0") LEAVE("3")
                   RETURN("4") "4 11@0 vhost_user:message device_id=5 request=31\n" BEGIN("6", "4", "1")
                       END("6.1", "4")),
           "/");
    /* a baseline announces the connection, which is no restart */
    expect(run(BEGIN("2", "1",
                     "0") "4 19@3 rt_process:baseline_begin serial=2\n4 19@3 vhost_user:connect device_id=5\n"
                          "4 19@3 rt_process:baseline_end serial=2\n" BEGIN("6", "4", "1") END("6.1", "4")
                              ALIVE("9")),
           "/");
    /* in flight since before the recording: resubmitted, and that is all that is known */
    expect(run(LEAVE("3") RETURN("4") RESUBMIT("5", "3", "0") END("5.1", "3")), "/");
}

static void test_two_restarts(void **state)
{
    expect(run(BEGIN("2", "1", "0") LEAVE("3") RETURN("4") RESUBMIT("5", "3", "0") LEAVE("6") RETURN("7")
                   RESUBMIT("8", "4", "0") END("9", "4")),
           "/");
    expect(run(BEGIN("2", "1", "0") LEAVE("3") RETURN("4") RESUBMIT("5", "3", "0") LEAVE("6") RETURN("7")
                   BEGIN("8", "5", "1") END("8", "5")),
           "lost-request/");
}

static void test_completed_twice(void **state)
{
    static const char *const stories[] = {
        /* both lives end, in either order */
        BEGIN("2", "1", "0") LEAVE("3") RETURN("4") RESUBMIT("5", "3", "0") END("5.1", "3") END("6", "1"),
        BEGIN("2", "1", "0") LEAVE("3") RETURN("4") RESUBMIT("5", "3", "0") END("5.1", "1") END("6", "3"),
        /* resubmitted although it had been completed */
        BEGIN("2", "1", "0") END("2.5", "1") LEAVE("3") RETURN("4") RESUBMIT("5", "3", "0") END("6", "3"),
        /* resubmitted twice */
        BEGIN("2", "1", "0") LEAVE("3") RETURN("4") RESUBMIT("5", "3", "0") RESUBMIT("5.5", "4", "0")
            END("6", "3") END("7", "4"),
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(stories); i++) {
        struct feed *f = run(stories[i]);

        feed_end(f, 40);
        assert_string_equal(feed_verdict(f), "lost-request/");
        assert_string_equal(json_text_of(feed_finding(f, "lost-request"), "cause"), "completed twice");
        feed_destroy(f);
    }
}

static void test_losses(void **state)
{
    const char *lost =
        BEGIN("2", "1", "0") LEAVE("3") RETURN("4") BEGIN("6", "4", "1") END("6.1", "4") ALIVE("30");
    const char *again =
        BEGIN("2", "1", "0") END("2.5", "1") LEAVE("3") RETURN("4") RESUBMIT("5", "3", "0") END("6", "3");
    static const struct {
        unsigned cpu;
        double begin, end;
        const char *lost, *again;
    } cases[] = {
        { 1, 5.2, 5.5, "/lost-request", "lost-request/" }, /* where it would have been resubmitted */
        { 1, 2.6, 2.8, "/lost-request", "/lost-request" }, /* where it would have ended, or been posted again */
        { 1, 1.2, 1.4, "lost-request/", "lost-request/" }, { 1, 20, 21, "lost-request/", "lost-request/" },
        { 2, 5, 5.5, "lost-request/", "lost-request/" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct feed *f = run(lost);

        feed_loss(f, cases[i].cpu, cases[i].begin, cases[i].end);
        expect(f, cases[i].lost);
        f = run(again);
        feed_loss(f, cases[i].cpu, cases[i].begin, cases[i].end);
        expect(f, cases[i].again);
    }
}

/* --- the process is restarted: ids and device numbers start anew --------------------------------------- */

#define OTHER_BEGIN(time, id, head)                                                                          \
    time " 8:82@2 vblk_request:begin request_id=" id " device_id=1 queue_index=1 head=" head                 \
         " loop_id=1 offset_bytes=" head "\n"
#define OTHER_END(time, id)                                                                                  \
    time " 8:82@2 vblk_request:end request_id=" id "\n" time                                                 \
         " 8:82@2 vblk_queue:interrupt device_id=1 queue_index=1\n"
#define OTHER_RESUBMIT(time, id, head)                                                                       \
    time " 8:82@2 vblk_request:recovered request_id=" id " device_id=1 queue_index=1 head=" head             \
         "\n" OTHER_BEGIN(time, id, head)
#define OTHER(name)                                                                                          \
    "10 8:8@2 vblk_dataplane:device_create device_id=1 name=" name " queue_count=2\n"                        \
    "10 8:8@2 vhost_user:connect device_id=1\n"

static void test_next_process_forgets(void **state)
{
    struct feed *f = run(BEGIN("2", "1", "0") BEGIN("2", "2", "1") OTHER("disk") OTHER_RESUBMIT(
        "11", "1", "1") OTHER_END("12", "1") OTHER_BEGIN("13", "2", "1") OTHER_END("13", "2"));
    json_t *subject;

    feed_end(f, 40);
    assert_string_equal(feed_verdict(f), "lost-request/");
    subject = json_object_get(feed_finding(f, "lost-request"), "subject");
    assert_int_equal(json_number_of(subject, "request_id"), 1);
    assert_int_equal(json_number_of(subject, "head"), 0);
    assert_int_equal(json_number_of(json_object_get(subject, "process"), "pid"), 1);
    feed_destroy(f);
}

static void test_next_process_shows_nothing_of_the_queue(void **state)
{
    expect(run(BEGIN("2", "1", "0") OTHER("disk") "21 8:8@2 rt_process:vma_sample vma_count=1\n"),
           "lost-request/");
    expect(run(BEGIN("2", "1", "0") OTHER(
               "disk") "11 8:82@2 vblk_dataplane:notifier_attach device_id=1 queue_index=1 fd=9 loop_id=1\n"
                       "13 8:8@2 rt_process:vma_sample vma_count=1\n"),
           "lost-request/");
    expect(run(BEGIN("2", "1", "0") OTHER("disk") "15 8:8@2 rt_process:vma_sample vma_count=1\n"), "/");
}

static void test_next_process_silent(void **state)
{
    /* all resubmitted */
    expect(run(BEGIN("2", "1", "0") OTHER("disk") OTHER_RESUBMIT("11", "1", "0") OTHER_END("12", "1")), "/");
    /* another disk; the old process lives on */
    expect(run(BEGIN("2", "1", "0") OTHER("tape") OTHER_BEGIN("13", "2", "1") OTHER_END("13", "2")), "/");
    expect(run(BEGIN("2", "1", "0") OTHER("disk") ALIVE("10.5") OTHER_BEGIN("13", "2", "1")
                   OTHER_END("13", "2") END("14", "1")),
           "/");
    /* killed, and nothing came after it */
    expect(run(BEGIN("2", "1", "0") "30 8:8@2 rt_process:vma_sample vma_count=1\n"), "/");
    /* killed when the status may have been pushed already */
    expect(run(BEGIN("2", "1", "0") "2 12@1 vblk_request:complete request_id=1\n" OTHER("disk")
                   OTHER_BEGIN("13", "2", "1") OTHER_END("13", "2")),
           "/");
}

static void test_next_process_completes_again(void **state)
{
    expect(run(BEGIN("2", "1", "0") END("3", "1") OTHER("disk") OTHER_RESUBMIT("11", "1", "0")
                   OTHER_END("12", "1")),
           "lost-request/");
    /* the driver had posted the head for something else */
    expect(run("2 12@1 vblk_request:begin request_id=1 device_id=5 queue_index=1 head=0 loop_id=3 "
               "offset_bytes=512\n" END("3", "1") OTHER("disk") OTHER_RESUBMIT("11", "1", "0")
                   OTHER_END("12", "1")),
           "/");
}

static void test_next_process_losses(void **state)
{
    const char *lines = BEGIN("2", "1", "0") OTHER("disk") OTHER_BEGIN("13", "2", "1") OTHER_END("13", "2");
    struct feed *f = run(lines);

    feed_loss(f, 2, 11, 12);
    expect(f, "/lost-request");
    f = run(lines);
    feed_loss(f, 2, 20, 21);
    expect(f, "lost-request/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forgotten_slot),
        cmocka_unit_test(test_nothing_was_resubmitted),
        cmocka_unit_test(test_too_early_to_say),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_two_restarts),
        cmocka_unit_test(test_completed_twice),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_next_process_forgets),
        cmocka_unit_test(test_next_process_shows_nothing_of_the_queue),
        cmocka_unit_test(test_next_process_silent),
        cmocka_unit_test(test_next_process_completes_again),
        cmocka_unit_test(test_next_process_losses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
