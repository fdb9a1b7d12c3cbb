/*
 * Goal:   every finding that a report can hold is explained, and the figures in its explanation are those that the checks use.
 * Method: the ids of the registry against the texts; limits against the options' defaults; the set of placeholders against the
 *         names of limits.
 * Breaks: a finding would stand in a ticket and nobody could look up what it means; a text would name a limit that is none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "analyze/limits.h"
#include "explain/explain.h"
#include "explain/texts.h"

#define WIDTH 100

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("the text does not say '%s':\n%s", part, text);
}

static void test_every_finding_is_explained(void **state)
{
    for (const char *const *id = analysis_check_ids(); *id; id++) {
        const struct explanation *explanation = explanation_find(*id);
        const char *texts[8];

        if (!explanation)
            fail_msg("%s is not explained", *id);
        memcpy(texts,
               (const char *[]){ explanation->severity, explanation->means, explanation->effect, explanation->decided,
                                 explanation->silent, explanation->unsure, explanation->advice, *id },
               sizeof(texts));
        for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++)
            if (!texts[i] || !*texts[i])
                fail_msg("%s: text %u is missing", *id, i);
        assert_true(g_str_has_prefix(explanation->severity, "info") || g_str_has_prefix(explanation->severity, "warning") ||
                    g_str_has_prefix(explanation->severity, "error"));
    }
    assert_null(explanation_find("no-such"));
    assert_null(explain_text("no-such", WIDTH, false));
}

/* A brace that is left was no limit. */
static void test_limits_are_the_defaults(void **state)
{
    struct analysis_options defaults;
    const char *name;

    analysis_options_init(&defaults);
    for (const char *const *id = analysis_check_ids(); *id; id++) {
        char *text = explain_text(*id, WIDTH, false);

        if (strpbrk(text, "{}"))
            fail_msg("%s names a limit that does not exist:\n%s", *id, text);
        g_free(text);
    }
    for (unsigned i = 0; (name = limits_name(i)); i++) {
        char *value = limits_text(&defaults, name), *option = g_strdup_printf("--%s=%s ", name, value);
        unsigned users = 0;

        for (const char *const *id = analysis_check_ids(); *id; id++) {
            char *text = explain_text(*id, WIDTH, false);

            users += strstr(text, option) != NULL;
            g_free(text);
        }
        if (!users)
            fail_msg("no explanation names --%s", name);
        g_free(option);
        g_free(value);
    }
    {
        char *text = explain_limits("after {stuck-request}, {not-a-limit} and {");

        assert_string_equal(text, "after 10s, {not-a-limit} and {");
        g_free(text);
    }
}

static void test_a_page_has_all_sections(void **state)
{
    char *text = explain_text("vma-pressure", WIDTH, false), *loop = explain_text("deaf-queue", WIDTH, false);
    char *lost = explain_text("events-lost", WIDTH, false), *coloured = explain_text("events-lost", WIDTH, true);

    assert_true(g_str_has_prefix(text, "vma-pressure (warning; error from 90% on): The process's"));
    assert_says(text, "\nHow it is decided\n  Samples show at least 80% of the limit in use.");
    assert_says(text, "\nCauses that are told apart\n  pooled-idle");
    assert_says(text, "  --mapping-warning=80%      Warn when");
    assert_says(text, "\nWhat to do\n");
    assert_says(loop, "\nSets of events that must be recorded\n  core, loop.\n");
    assert_says(lost, "\nSets of events that must be recorded\n  none.\n");
    assert_null(strstr(lost, "Limits"));
    assert_null(strchr(text, '\033'));
    assert_non_null(strchr(coloured, '\033'));
    g_free(coloured);
    g_free(lost);
    g_free(loop);
    g_free(text);
}

static void test_lines_keep_to_the_width(void **state)
{
    for (const char *const *id = analysis_check_ids(); *id; id++) {
        char *text = explain_text(*id, 60, false);
        char **lines = g_strsplit(text, "\n", -1);

        for (char **line = lines; *line; line++)
            if (g_utf8_strlen(*line, -1) > 60)
                fail_msg("%s: '%s' is too long", *id, *line);
        g_strfreev(lines);
        g_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_finding_is_explained),
        cmocka_unit_test(test_limits_are_the_defaults),
        cmocka_unit_test(test_a_page_has_all_sections),
        cmocka_unit_test(test_lines_keep_to_the_width),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
