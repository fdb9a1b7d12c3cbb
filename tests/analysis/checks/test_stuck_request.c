/*
 * Goal:   a request that nobody finishes is reported, with the stage or the chain of requests it waits for; nothing else is.
 * Method: lives of requests as events; the process's samples show that it goes on.
 * Breaks: a hung guest is not explained, or a slow disk, a restart or a front end that left raises an alarm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "feed/feed.h"

#define BEGIN(time, id, head)                                                                                \
    time " 12@1 vblk_request:begin request_id=" id " device_id=5 queue_index=1 head=" head                   \
         " type=1 loop_id=3\n"
#define ALIVE(time) time " 19@3 rt_process:vma_sample vma_count=1\n"

static json_t *subject(struct feed *f)
{
    return json_object_get(feed_finding(f, "stuck-request"), "subject");
}

static const char *verdict(const char *lines)
{
    static char text[100];
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    feed(f, lines);
    feed_end(f, 40);
    g_strlcpy(text, feed_verdict(f), sizeof(text));
    feed_destroy(f);
    return text;
}

static void test_backend_never_answers(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    feed(f, BEGIN("2", "7", "4") "2.1 12@1 vblk_request:submit request_id=7\n" ALIVE("31"));
    feed_end(f, 40);
    assert_string_equal(feed_findings(f), "stuck-request");
    assert_string_equal(json_text_of(feed_finding(f, "stuck-request"), "cause"), "backend");
    assert_string_equal(json_text_of(feed_finding(f, "stuck-request"), "severity"), "error");
    assert_int_equal(json_number_of(subject(f), "request_id"), 7);
    assert_int_equal(json_number_of(subject(f), "device_id"), 5);
    assert_int_equal(json_number_of(subject(f), "queue_index"), 1);
    assert_int_equal(json_number_of(feed_finding(f, "stuck-request"), "begin_ns"), 2000000000);
    assert_int_equal(json_number_of(feed_finding(f, "stuck-request"), "end_ns"), 31000000000);
    feed_destroy(f);
}

static void test_stages(void **state)
{
    static const char *const stages[][2] = {
        { "", "queued" },
        { "3 12@1 vblk_request:submit request_id=7\n4 12@1 vblk_request:complete request_id=7\n",
          "completing" },
        { "3 12@1 vblk_request:serialise_wait request_id=7 blocking_request_id=3\n", "serialising" },
    };

    for (unsigned i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        struct feed *f = feed_create(FEED_ALL_SETS);

        feed(f, feed_baseline);
        feed(f, BEGIN("2", "7", "4"));
        feed(f, stages[i][0]);
        feed(f, ALIVE("31"));
        feed_end(f, 40);
        assert_string_equal(json_text_of(feed_finding(f, "stuck-request"), "cause"), stages[i][1]);
        feed_destroy(f);
    }
}

static void test_chain_names_who_is_waited_for(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    /* the blocking one is itself younger than the limit when looked at alone */
    feed(f, feed_baseline);
    feed(f, BEGIN("2", "7", "4") BEGIN(
                "2.2", "8",
                "5") "2.3 12@1 vblk_request:submit request_id=7\n"
                     "2.4 12@1 vblk_request:serialise_wait request_id=8 blocking_request_id=7\n" ALIVE("31"));
    feed_end(f, 40);
    assert_string_equal(feed_findings(f), "stuck-request stuck-request");
    assert_true(feed_says(
        f,
        "request 8 (write, queue 1) waits for request 7, request 7 (write, queue 1) sits in stage backend"));
    feed_destroy(f);
}

static void test_cycle_of_waits(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    feed(f, BEGIN("2", "7", "4") BEGIN(
                "2.2", "8",
                "5") "2.3 12@1 vblk_request:serialise_wait request_id=7 blocking_request_id=8\n"
                     "2.4 12@1 vblk_request:serialise_wait request_id=8 blocking_request_id=7\n" ALIVE("31"));
    feed_end(f, 40);
    assert_string_equal(feed_findings(f), "stuck-request stuck-request");
    assert_true(feed_says(f, "closes a cycle"));
    feed_destroy(f);
}

static void test_core_only_goes_by_slow(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, feed_baseline);
    feed(f,
         "5 19@3 vblk_request:slow request_id=7 device_id=5 queue_index=1 type=1 stage=2 age_ns=700000000\n"
         "6 19@3 vblk_request:slow request_id=8 device_id=5 queue_index=1 type=1 stage=2 age_ns=700000000\n"
         "7 19@3 vblk_request:slow request_id=8 device_id=5 queue_index=1 type=1 stage=3 age_ns=1700000000 "
         "finished=1\n" ALIVE("31"));
    feed_end(f, 40);
    assert_string_equal(feed_findings(f), "stuck-request");
    assert_int_equal(json_number_of(subject(f), "request_id"), 7);
    assert_string_equal(json_text_of(feed_finding(f, "stuck-request"), "cause"), "backend");
    feed_destroy(f);
}

static void test_older_than_the_recording(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "100 19@3 rt_process:baseline_begin serial=1\n"
            "100 19@3 vblk_request:slow request_id=7 device_id=5 queue_index=1 type=1 stage=2 "
            "age_ns=60000000000\n"
            "100 19@3 rt_process:baseline_end serial=1\n"
            "101 19@3 rt_process:vma_sample vma_count=1\n");
    feed_end(f, 102);
    assert_string_equal(feed_findings(f), "stuck-request");
    feed_destroy(f);
}

static void test_silent(void **state)
{
    /* slow, but it ends; younger than the limit; abandoned */
    assert_string_equal(
        verdict(BEGIN("2", "7", "4") "30 12@1 vblk_request:end request_id=7\n"
                                     "30 12@1 vblk_queue:interrupt device_id=5 queue_index=1\n" ALIVE("31")),
        "/");
    assert_string_equal(verdict(BEGIN("22", "7", "4") ALIVE("31")), "/");
    assert_string_equal(
        verdict(BEGIN("2", "7", "4") "9 12@1 vblk_request:abandoned request_id=7\n" ALIVE("31")), "/");
    /* recovered under a new id, which ends */
    assert_string_equal(
        verdict(BEGIN(
            "2", "7",
            "4") "3 11@0 vhost_user:disconnect device_id=5\n"
                 "4 11@0 vhost_user:connect device_id=5\n"
                 "4 12@1 vblk_request:recovered request_id=9 device_id=5 queue_index=1 head=4\n" BEGIN(
                     "4", "9", "4") "5 12@1 vblk_request:end request_id=9\n"
                                    "5 12@1 vblk_queue:interrupt device_id=5 queue_index=1\n" ALIVE("31")),
        "/");
    /* the front end left and did not come back */
    assert_string_equal(
        verdict(BEGIN("2", "7", "4") "3 11@0 vhost_user:disconnect device_id=5\n" ALIVE("31")), "/");
    /* the process was killed; the trace goes on */
    assert_string_equal(verdict(BEGIN("2", "7", "4") "35 8:1@2 rt_process:vma_sample vma_count=1\n"), "/");
    /* the driver posts its head again: it has it back */
    assert_string_equal(
        verdict(BEGIN("2", "7", "4") BEGIN(
            "5", "8", "4") "6 12@1 vblk_request:end request_id=8\n"
                           "6 12@1 vblk_queue:interrupt device_id=5 queue_index=1\n" ALIVE("31")),
        "/");
}

static void test_lost_is_not_stuck_as_well(void **state)
{
    const char *lines =
        BEGIN("2", "7", "4") "3 11@0 vhost_user:disconnect device_id=5\n"
                             "4 11@0 vhost_user:connect device_id=5\n" BEGIN(
                                 "4", "8",
                                 "5") "5 12@1 vblk_request:end request_id=8\n"
                                      "5 12@1 vblk_queue:interrupt device_id=5 queue_index=1\n" ALIVE("31");
    const char *only_stuck[] = { "stuck-request", NULL };
    struct analysis_options options;
    struct feed *f;

    assert_string_equal(verdict(lines), "lost-request/");
    analysis_options_init(&options);
    options.checks = only_stuck;
    f = feed_create_with(FEED_ALL_SETS, &options);
    feed(f, feed_baseline);
    feed(f, lines);
    feed_end(f, 40);
    assert_string_equal(feed_findings(f), "stuck-request");
    feed_destroy(f);
}

static void test_losses(void **state)
{
    static const struct {
        unsigned cpu;
        double begin, end;
        const char *in_flight, *expected;
    } cases[] = {
        { 1, 5, 6, "1", "/stuck-request" },     /* the end may be in it */
        { 1, 1.2, 1.3, "1", "stuck-request/" }, /* before it began */
        { 2, 5, 6, "1", "stuck-request/" },     /* not where its thread was */
        { 1, 5, 6, "0", "/" },                  /* a sample shows that nothing is in flight */
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct feed *f = feed_create(FEED_ALL_SETS);

        feed(f, feed_baseline);
        feed(f, BEGIN("2", "7", "4") "2.1 12@1 vblk_request:submit request_id=7\n");
        feed_format(f, "30 19@3 vblk_queue:sample device_id=5 queue_index=1 in_flight=%s\n",
                    cases[i].in_flight);
        feed(f, ALIVE("31"));
        feed_loss(f, cases[i].cpu, cases[i].begin, cases[i].end);
        feed_end(f, 40);
        assert_string_equal(feed_verdict(f), cases[i].expected);
        feed_destroy(f);
    }
}

static void test_many_are_summed_up(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);
    json_t *entry;
    int64_t total = 0;
    size_t i;

    feed(f, feed_baseline);
    for (int id = 1; id <= 500; id++)
        feed_format(
            f, "2 12@1 vblk_request:begin request_id=%d device_id=5 queue_index=1 head=%d type=1 loop_id=3\n",
            id, id);
    feed(f, ALIVE("31"));
    feed_end(f, 40);
    assert_int_equal(json_array_size(json_object_get(feed_report(f), "findings")), 64);
    json_array_foreach (json_object_get(feed_report(f), "findings"), i, entry) {
        total += json_number_of(entry, "count");
    }
    assert_int_equal(total, 500);
    feed_destroy(f);
}

/* Resubmissions are told in any recording, what became of them is not. */
static void test_resubmitted_without_its_set(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(f, feed_baseline);
    feed(f, "2 11@0 vhost_user:disconnect device_id=5\n3 11@0 vhost_user:connect device_id=5\n"
            "3.1 12@1 vblk_request:recovered request_id=70 device_id=5 queue_index=0 head=4\n"
            "30 11@0 vhost_user:message device_id=5\n");
    feed_end(f, 30);
    assert_string_equal(feed_verdict(f), "/");
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backend_never_answers),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_chain_names_who_is_waited_for),
        cmocka_unit_test(test_cycle_of_waits),
        cmocka_unit_test(test_core_only_goes_by_slow),
        cmocka_unit_test(test_older_than_the_recording),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_lost_is_not_stuck_as_well),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_resubmitted_without_its_set),
        cmocka_unit_test(test_many_are_summed_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
