/*
 * Goal:   a preview is the report as it would be now, and making it changes nothing for the analysis.
 * Method: previews before, between and after the events that break a rule; then the end, against an analysis without
 *         previews. A process that may start no other one is told so.
 * Breaks: findings of a live session would come late, or looking at them would change the verdict.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib.h>

#include "feed/feed.h"

static size_t finding_count(struct feed *f)
{
    char *why = NULL;
    json_t *report = analysis_preview(feed_analysis(f), &why);
    size_t count;

    if (!report)
        fail_msg("%s", why);
    assert_string_equal(json_text_of(report, "schema"), "vblkscope-report-1");
    count = json_array_size(json_object_get(report, "findings"));
    json_decref(report);
    return count;
}

#define BROKEN "2.0 12@0 vblk_queue:broken device_id=5 queue_index=1 error=-22 reason=bad\n"

static void test_a_preview_is_the_report_as_of_now(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS), *other = feed_create(FEED_ALL_SETS);

    assert_int_equal(finding_count(f), 0);
    feed(f, feed_baseline);
    assert_int_equal(finding_count(f), 0);
    feed(f, BROKEN);
    assert_int_equal(finding_count(f), 1);
    assert_int_equal(finding_count(f), 1);
    feed_end(f, 9);
    feed(other, feed_baseline);
    feed(other, BROKEN);
    feed_end(other, 9);
    assert_true(json_equal(feed_report(f), feed_report(other)));
    feed_destroy(f);
    feed_destroy(other);
}

static void test_errors_are_told(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);
    const struct rlimit none = { 0, 0 };
    struct rlimit before;
    char *why = NULL;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ none.rlim_cur, before.rlim_max }), 0);
    assert_null(analysis_preview(feed_analysis(f), &why));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_non_null(why);
    assert_true(g_str_has_prefix(why, "no preview: cannot start a process for it: "));
    g_free(why);
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_preview_is_the_report_as_of_now),
        cmocka_unit_test(test_errors_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
