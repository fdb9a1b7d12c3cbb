/*
 * Goal:   answers are tables that a person reads: aligned, with units, and without what a terminal would obey.
 * Method: small answers of known and unknown commands against their text, byte by byte.
 * If it fails: an operator misreads a number, or a disk's name writes into his terminal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <glib.h>

#include "ctl/render.h"

static const struct {
    const char *command, *answer, *expected;
} cases[] = {
    { "trace-baseline", "{}", "" },
    { "drain", "{\"device\": \"d\"}", "device                   d\n" },
    { "remove-disk", "{\"device\": \"a\\u001b[2Jb\"}", "device                   a\\x1b[2Jb\n" },
    { "set-poll", "{\"max_ns\": -1, \"loops\": [\"a\", \"b\"]}",
      "max_ns                   forever\nloops                    a, b\n" },
    { "requests",
      "{\"total\": 2, \"requests\": [{\"request_id\": 7, \"device\": \"d\", \"queue\": 0, \"type\": \"read\", "
      "\"offset_bytes\": 4096, \"size_bytes\": 4096, \"stage\": \"backend\", \"age_ns\": 1500000},"
      "{\"request_id\": 12, \"device\": \"disk\", \"queue\": 10, \"type\": \"write\", "
      "\"offset_bytes\": 0, \"size_bytes\": 1536, \"stage\": \"queued\", \"age_ns\": 0}]}",
      "total                    2\n\n"
      "REQUEST  DISK  QUEUE  TYPE   OFFSET   LENGTH  STAGE       AGE\n"
      "      7  d         0  read     4096    4 KiB  backend  1.5 ms\n"
      "     12  disk     10  write       0  1.5 KiB  queued        0\n" },
    { "requests", "{\"total\": 0, \"requests\": []}", "total                    0\n" },
    /* What this version does not know is shown whole. */
    { "news", "{\"things\": [{\"a\": 1, \"b\": true, \"c\": null, \"d_ns\": 2000}], \"policies\": {\"x\": \"y\"}}",
      "policies x               y\n\n"
      "a  b    c  d_ns\n"
      "1  yes  -  2 us\n" },
    { "stats",
      "{\"disks\": [{\"device\": \"d\", \"queues\": [{\"queue\": 3, \"kicks\": 5}]}]}",
      "DISK  READS  READ  WRITES  WRITTEN  FLUSHES  READ-ERRORS  WRITE-ERRORS  KICKS  INTERRUPTS  IN-FLIGHT\n"
      "d     -      -     -       -        -        -            -             -      -           -\n"
      "\nd: queues\n"
      "  QUEUE  READS  READ  WRITES  WRITTEN  FLUSHES  KICKS  EMPTY  INTERRUPTS  SUPPRESSED\n"
      "      3  -      -     -       -        -            5  -      -           -\n" },
    { "commands",
      "{\"commands\": [{\"name\": \"drain\", \"text\": \"Wait\", \"arguments\": [{\"name\": \"device\", \"type\": "
      "\"string\", \"required\": true, \"text\": \"Which\"}]}]}",
      "drain            Wait\n    device=string          Which (required)\n" },
    /* Answers that are none. */
    { "status", "{\"disks\": [5, null], \"limits\": []}", "disks                    5, -\n" },
    { "commands", "{\"commands\": [5]}", "-                -\n" },
    { "queues", "{\"queues\": [{\"queue\": {}}, 7]}",
      "DISK  QUEUE  SIZE  PACKED  LOOP  AVAIL  POPPED  USED  IN-FLIGHT  NOTIFY  ENABLED  ATTACHED  BROKEN\n"
      "-     -      -     -       -     -      -       -     -          -       -        -         -\n"
      "-     -      -     -       -     -      -       -     -          -       -        -         -\n" },
};

static void test_texts(void **state)
{
    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        json_t *answer = json_loads(cases[i].answer, 0, NULL);
        char *text;

        assert_non_null(answer);
        text = render_answer(cases[i].command, answer);
        assert_string_equal(text, cases[i].expected);
        g_free(text);
        json_decref(answer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_texts) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
