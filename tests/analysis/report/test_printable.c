/*
 * Goal:   whatever a name holds, what is shown of it moves no cursor and turns no text, and no two bytes of it get lost.
 * Method: control characters of both sets, direction marks, broken and whole UTF-8, alone and in JSON.
 * Breaks: a trace from elsewhere could hide its verdict, or type into the terminal that shows it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glib.h>

#include "report/printable.h"

static void assert_printed(const char *text, const char *expected)
{
    char *printed = printable_text(text);

    assert_string_equal(printed, expected);
    g_free(printed);
}

static void test_text(void **state)
{
    assert_printed("", "");
    assert_printed("disk 0, \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "disk 0, \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_printed("a\033[31mb\r\n\tc\177", "a\\x1b[31mb\\x0d\\x0a\\x09c\\x7f");
    assert_printed("\xc2\x9b" "2J", "\\x9b2J"); /* CSI as one character */
    assert_printed("\xe2\x80\xae|\xe2\x81\xa6|", "\\u{202e}|\\u{2066}|");
    /* a lone continuation, an overlong NUL, half a surrogate pair, a cut sequence */
    assert_printed("\x80|\xc0\x80|\xed\xa0\x80|\xe2\x82", "\\x80|\\xc0\\x80|\\xed\\xa0\\x80|\\xe2\\x82");
}

static void test_json(void **state)
{
    json_t *value = json_pack("{s:[s, i, n, b], s:{s:s}, s:f}", "list", "\033c", 5, 1, "inner", "name", "b\a", "real", 2.5);
    json_t *expected =
        json_pack("{s:[s, i, n, b], s:{s:s}, s:f}", "list", "\\x1bc", 5, 1, "inner", "name", "b\\x07", "real", 2.5);
    json_t *printed = printable_json(value);

    assert_true(json_equal(printed, expected));
    json_decref(printed);
    json_decref(expected);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
