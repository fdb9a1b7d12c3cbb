/*
 * Goal:   words become JSON of the types that the device asks for; what cannot is refused by name before anything is sent.
 * Method: a description as the command `commands` returns it, with one argument of each type; good and bad words.
 * If it fails: a command does something else than its user typed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <glib.h>
#include <string.h>

#include "ctl/arguments.h"

static const char description[] =
    "{\"commands\": [{\"name\": \"plain\", \"text\": \"\", \"arguments\": []},"
    " {\"name\": \"must\", \"text\": \"\", \"arguments\": ["
    "  {\"name\": \"max_ns\", \"type\": \"integer\", \"required\": true, \"text\": \"\"}]},"
    " {\"name\": \"do\", \"text\": \"\", \"arguments\": ["
    "  {\"name\": \"name\", \"type\": \"string\", \"required\": false, \"text\": \"\"},"
    "  {\"name\": \"count\", \"type\": \"integer\", \"required\": false, \"text\": \"\"},"
    "  {\"name\": \"size_bytes\", \"type\": \"integer\", \"required\": false, \"text\": \"\"},"
    "  {\"name\": \"force\", \"type\": \"boolean\", \"required\": false, \"text\": \"\"}]}]}";

/* Words separated by blanks; the arguments as compact JSON, or why not. */
static char *parse(const char *command, const char *line)
{
    json_t *commands = json_loads(description, 0, NULL), *arguments = NULL;
    char **words = g_strsplit(line, " ", -1), *why = NULL, *dumped, *text;
    const json_t *described;

    assert_non_null(commands);
    described = arguments_find_command(commands, command, &why);
    if (described)
        why = arguments_parse(described, *line ? words : NULL, &arguments);
    g_strfreev(words);
    json_decref(commands);
    if (why)
        return why;
    dumped = json_dumps(arguments, JSON_COMPACT);
    text = g_strdup(dumped);
    free(dumped);
    json_decref(arguments);
    return text;
}

static void test_words(void **state)
{
    static const struct {
        const char *command, *line, *expected;
    } cases[] = {
        { "do", "", "{}" },
        { "do", "name=a", "{\"name\":\"a\"}" },
        { "do", "name=a=b", "{\"name\":\"a=b\"}" },
        { "do", "name=", "{\"name\":\"\"}" },
        { "do", "name=7", "{\"name\":\"7\"}" },
        { "do", "count=-7 force=on", "{\"count\":-7,\"force\":true}" },
        { "do", "force=false", "{\"force\":false}" },
        { "do", "size_bytes=2G", "{\"size_bytes\":2147483648}" },
        { "do", "size_bytes=3k", "{\"size_bytes\":3072}" },
        { "do", "size_bytes=512", "{\"size_bytes\":512}" },
        { "do", "size_bytes=9223372036854775807", "{\"size_bytes\":9223372036854775807}" },
        { "do", "size_bytes=9000000000G", "size_bytes=9000000000G: must be an integer" },
        { "do", "size_bytes=G", "size_bytes=G: must be an integer" },
        { "do", "count=2G", "count=2G: must be an integer" },
        { "do", "count=", "count=: must be an integer" },
        { "do", "count=1.5", "count=1.5: must be an integer" },
        { "do", "count=99999999999999999999", "count=99999999999999999999: must be an integer" },
        { "do", "force=maybe", "force=maybe: must be on or off" },
        { "do", "name", "name: must be NAME=VALUE" },
        { "do", "name=a name=b", "name: given twice" },
        { "do", "naem=a", "do has no argument 'naem'; there are: name, count, size_bytes, force" },
        { "do", "name=\xff", "name=\xff: must be UTF-8" },
        { "must", "max_ns=7", "{\"max_ns\":7}" },
        { "must", "", "must needs max_ns=integer" },
        { "plain", "name=a", "plain takes no arguments" },
        { "undo", "", "there is no command 'undo'; there are: plain, must, do" },
    };

    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *got = parse(cases[i].command, cases[i].line);

        assert_string_equal(got, cases[i].expected);
        g_free(got);
    }
}

/* Whoever answers may be no vblkd at all. */
static void test_descriptions_that_are_none(void **state)
{
    static const char *const texts[] = { "{}", "[]", "{\"commands\": 5}", "{\"commands\": [5, {}, {\"name\": 7}]}" };

    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
        json_t *commands = json_loads(texts[i], 0, NULL);
        char *why = NULL;

        assert_null(arguments_find_command(commands, "do", &why));
        assert_non_null(why);
        g_free(why);
        json_decref(commands);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_descriptions_that_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
