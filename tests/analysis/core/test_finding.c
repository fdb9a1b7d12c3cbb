/*
 * Goal:   one finding per id and subject, with the highest severity, bounded evidence, in an order that only the events decide.
 * Method: findings made by hand.
 * Breaks: reports grow with the trace, or change from run to run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"
#include "feed/feed.h"

static struct check_env env_of(struct feed *f)
{
    return (struct check_env){ .analysis = feed_analysis(f),
                               .process = analysis_process(feed_analysis(f), 0) };
}

static struct feed *begin(void)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    return f;
}

static void test_one_per_subject(void **state)
{
    struct feed *f = begin();
    const struct check_env env = env_of(f);
    struct finding *a = finding_get(&env, "stale-fd", "handler %d", 1);

    assert_false(finding_exists(&env, "stale-fd", "handler %d", 2));
    assert_ptr_equal(finding_get(&env, "stale-fd", "handler %d", 1), a);
    assert_ptr_not_equal(finding_get(&env, "stale-fd", "handler %d", 2), a);
    assert_ptr_not_equal(finding_get(&env, "unread-fd", "handler %d", 1), a);
    assert_ptr_not_equal(finding_get_global(env.analysis, "stale-fd", "handler %d", 1), a);
    assert_true(finding_exists(&env, "stale-fd", "handler %d", 2));
    feed_destroy(f);
}

static void test_severity_span_and_count_add_up(void **state)
{
    struct feed *f = begin();
    const struct check_env env = env_of(f);
    struct finding *finding = finding_get(&env, "stale-fd", "x");
    json_t *json;

    finding_raise(finding, SEVERITY_ERROR);
    finding_raise(finding, SEVERITY_WARNING);
    finding_span(finding, 20, 30);
    finding_span(finding, 10, 25);
    finding_add_count(finding, 2);
    finding_add_count(finding, 3);
    assert_false(finding_is_told(finding));
    finding_summary(finding, "%s", "first");
    finding_summary(finding, "%s", "second");
    assert_true(finding_is_told(finding));
    feed_end(f, 9);
    json = feed_finding(f, "stale-fd");
    assert_string_equal(json_text_of(json, "severity"), "error");
    assert_int_equal(json_number_of(json, "begin_ns"), 10);
    assert_int_equal(json_number_of(json, "end_ns"), 30);
    assert_int_equal(json_number_of(json, "count"), 5);
    assert_string_equal(json_text_of(json, "summary"), "second");
    feed_destroy(f);
}

static void test_evidence_is_bounded_and_in_order(void **state)
{
    struct feed *f = begin();
    const struct check_env env = env_of(f);
    struct finding *finding = finding_get(&env, "stale-fd", "x");
    json_t *json, *evidence;

    for (int i = 0; i < 1000; i++)
        finding_evidence(finding, i, EVENT_rt_loop_fd_dispatch, "number %d", i);
    feed_end(f, 9);
    json = feed_finding(f, "stale-fd");
    evidence = json_object_get(json, "evidence");
    assert_int_equal(json_number_of(json, "evidence_count"), 1000);
    assert_int_equal(json_array_size(evidence), 12);
    assert_string_equal(json_text_of(json_array_get(evidence, 0), "text"), "number 0");
    assert_string_equal(json_text_of(json_array_get(evidence, 7), "text"), "number 7");
    assert_string_equal(json_text_of(json_array_get(evidence, 11), "text"), "number 999");
    assert_string_equal(json_text_of(json_array_get(evidence, 0), "event"), "rt_loop:fd_dispatch");
    for (unsigned i = 1; i < json_array_size(evidence); i++)
        assert_true(json_number_of(json_array_get(evidence, i - 1), "time_ns") <=
                    json_number_of(json_array_get(evidence, i), "time_ns"));
    feed_destroy(f);
}

static void test_subject_names_what_is_known(void **state)
{
    struct feed *f = begin();
    const struct check_env env = env_of(f);
    struct finding *finding = finding_get(&env, "stale-fd", "x");
    json_t *subject;

    finding_subject_handler(finding, env.process, process_handler(env.process, 7));
    finding_subject_lock(finding, env.process, 77);
    feed_end(f, 9);
    subject = json_object_get(feed_finding(f, "stale-fd"), "subject");
    assert_string_equal(json_text_of(subject, "loop"), "iothread0");
    assert_int_equal(json_number_of(subject, "thread_id"), 12);
    assert_int_equal(json_number_of(subject, "fd"), 30);
    assert_int_equal(json_number_of(subject, "queue_index"), 0);
    assert_true(json_is_null(json_object_get(subject, "class_name"))); /* unknown name: null, and the id */
    assert_int_equal(json_number_of(subject, "lock_id"), 77);
    assert_int_equal(json_number_of(json_object_get(subject, "process"), "pid"), 1);
    feed_destroy(f);
}

static void test_order_of_the_report(void **state)
{
    static const char *const expected[] = { "drain-order", "stale-fd", "queue-broken", "events-lost" };
    struct feed *f = begin();
    const struct check_env env = env_of(f);
    struct finding *finding;

    finding = finding_get(&env, "events-lost", "x"); /* info, early */
    finding_span(finding, 1, 1);
    finding = finding_get(&env, "queue-broken", "x"); /* same time as stale-fd, later in the registry */
    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, 5, 5);
    finding = finding_get(&env, "stale-fd", "x");
    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, 5, 5);
    finding = finding_get(&env, "drain-order", "x");
    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, 4, 9);
    feed_end(f, 9);
    for (unsigned i = 0; i < 4; i++)
        assert_string_equal(
            json_text_of(json_array_get(json_object_get(feed_report(f), "findings"), i), "id"), expected[i]);
    feed_destroy(f);
}

static void test_doubts_are_told_once(void **state)
{
    struct feed *f = begin();
    const struct check_env env = env_of(f);

    inconclusive(&env, "stale-fd", 1, 2, "because %d", 1);
    inconclusive(&env, "stale-fd", 1, 2, "because %d", 1);
    inconclusive(&env, "stale-fd", 1, 2, "because %d", 2);
    feed_end(f, 9);
    assert_string_equal(feed_inconclusive(f), "stale-fd stale-fd");
    assert_int_equal(feed_status(f), 3);
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_per_subject),
        cmocka_unit_test(test_severity_span_and_count_add_up),
        cmocka_unit_test(test_evidence_is_bounded_and_in_order),
        cmocka_unit_test(test_subject_names_what_is_known),
        cmocka_unit_test(test_order_of_the_report),
        cmocka_unit_test(test_doubts_are_told_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
