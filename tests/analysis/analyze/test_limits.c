/*
 * Goal:   each limit of the checks can be set, in its unit, and nonsense is refused with what would be right.
 * Method: every limit by its name; durations, shares and counts, right and wrong.
 * Breaks: a limit would be silently off by a unit, or not be there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/limits.h"

static void set(struct analysis_options *options, const char *name, const char *text)
{
    char *why = limits_set(options, name, text);

    if (why)
        fail_msg("%s", why);
}

static void refuse(const char *name, const char *text, const char *reason)
{
    struct analysis_options options;
    char *why;

    analysis_options_init(&options);
    why = limits_set(&options, name, text);
    assert_non_null(why);
    assert_non_null(strstr(why, reason));
    g_free(why);
}

static void test_units(void **state)
{
    struct analysis_options options;

    analysis_options_init(&options);
    set(&options, "stuck-request", "3s");
    assert_int_equal(options.stuck_request_ns, 3000000000);
    set(&options, "stuck-request", "2min");
    assert_int_equal(options.stuck_request_ns, 120000000000);
    set(&options, "loop-hog", "1.5ms");
    assert_int_equal(options.loop_hog_ns, 1500000);
    set(&options, "handover-overlap", "20us");
    assert_int_equal(options.handover_overlap_ns, 20000);
    set(&options, "late-wakeup", "7ns");
    assert_int_equal(options.late_wakeup_ns, 7);
    set(&options, "mapping-warning", "12.5%");
    assert_true(options.mapping_warning == 0.125);
    set(&options, "sustained", "3");
    assert_int_equal(options.sustained_seconds, 3);
}

static void test_every_limit_changes_something_of_its_own(void **state)
{
    unsigned count = 0;

    for (const char *name; (name = limits_name(count)); count++) {
        struct analysis_options before, after;
        unsigned differing = 0;
        char *why;

        analysis_options_init(&before);
        analysis_options_init(&after);
        why = limits_set(&after, name, "77");
        for (int i = 0; why && i < 2; i++) {
            g_free(why);
            why = limits_set(&after, name, i == 0 ? "77ms" : "77%");
        }
        assert_null(why);
        for (unsigned i = 0; i < sizeof(before) / 8; i++)
            differing += memcmp((char *)&before + i * 8, (char *)&after + i * 8, 8) != 0;
        assert_int_equal(differing, 1);
    }
    /* every member of struct analysis_options is a limit, but for the list of checks, the observer and the wish for series */
    assert_int_equal(count, sizeof(struct analysis_options) / 8 - 3);
}

static void test_nonsense_is_refused(void **state)
{
    refuse("stuck-request", "3", "write 10s");
    refuse("stuck-request", "s", "write 10s");
    refuse("stuck-request", "-1s", "write 10s");
    refuse("stuck-request", "1e300s", "write 10s");
    refuse("stuck-request", "nans", "write 10s");
    refuse("mapping-error", "101%", "write 5%");
    refuse("mapping-error", "0.5", "write 5%");
    refuse("sustained", "5s", "write 1000");
    refuse("sustained", "-5", "write 1000");
    /* checks divide by it */
    refuse("unread-dispatches", "0", "not a count of at least 1");
    refuse("speed", "5", "no limit 'speed'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_every_limit_changes_something_of_its_own),
        cmocka_unit_test(test_nonsense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
