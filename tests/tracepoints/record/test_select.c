/* Goal: the sets that a user names record exactly the events that the catalogue promises, each once.
 * Method: every combination of sets against the table that the headers give; names as users write them.
 * If it fails: a recording lacks events, or holds some twice, and analyses count wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "error.h"
#include "event_sets.h"
#include "select.h"

static unsigned sets_of(const char *text)
{
    unsigned sets = 0;

    assert_true(record_parse_sets(text, &sets, NULL));
    return sets;
}

static void names(void **state)
{
    assert_int_equal(sets_of("core"), RECORD_SET_CORE);
    assert_int_equal(sets_of("loop"), RECORD_SET_CORE | RECORD_SET_LOOP);
    assert_int_equal(sets_of("lock, request"), RECORD_SET_CORE | RECORD_SET_LOCK | RECORD_SET_REQUEST);
    assert_int_equal(sets_of("coroutine,coroutine"), RECORD_SET_CORE | RECORD_SET_COROUTINE);
    assert_int_equal(sets_of("all"), RECORD_SET_ALL);
}

static void bad_names(void **state)
{
    static const char *const bad[] = { "", ",", "core,", "Core", "cor", "core loop", "al", "everything" };

    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        GError *error = NULL;
        unsigned sets = 12345;

        assert_false(record_parse_sets(bad[i], &sets, &error));
        assert_int_equal(sets, 12345);
        assert_int_equal(error->code, RECORD_ERROR_USAGE);
        g_error_free(error);
    }
}

static void names_back(void **state)
{
    for (unsigned sets = RECORD_SET_CORE; sets <= RECORD_SET_ALL; sets += 2) {
        g_autofree char *text = record_set_names(sets);

        assert_int_equal(sets_of(text), sets);
    }
}

static const struct record_choice *find(const struct record_choice *choices, size_t count, const char *event)
{
    const struct record_choice *found = NULL;

    for (size_t i = 0; i < count; i++) {
        if (strcmp(choices[i].event, event) == 0) {
            assert_null(found); /* once only */
            found = &choices[i];
        }
    }
    return found;
}

static void every_combination(void **state)
{
    struct record_choice choices[RECORD_CHOICES_MAX];

    for (unsigned sets = RECORD_SET_CORE; sets <= RECORD_SET_ALL; sets += 2) {
        size_t count = record_select(sets, choices);
        size_t wanted_count = 0;

        for (size_t i = 0; i < tracepoints_event_set_count; i++) {
            const struct tracepoints_event_set *row = &tracepoints_event_sets[i];
            const struct record_choice *choice = find(choices, count, row->name);
            bool wanted = (sets_of(row->set) & ~RECORD_SET_CORE & sets) || strcmp(row->set, "core") == 0;

            if (!wanted)
                continue;
            assert_non_null(choice);
            if (!row->filter) { /* without a filter wins */
                assert_null(choice->filter);
                assert_int_equal(choice->channel,
                                 strcmp(row->set, "core") == 0 ? RECORD_CHANNEL_CORE : RECORD_CHANNEL_DETAIL);
            }
            wanted_count +=
                i == 0 || strcmp(row->name, row[-1].name) != 0 || !find(choices, count, row[-1].name);
        }
        assert_int_equal(count, wanted_count);
    }
}

static struct record_choice choice_of_acquired(unsigned sets)
{
    struct record_choice choices[RECORD_CHOICES_MAX];
    const struct record_choice *choice = find(choices, record_select(sets, choices), "rt_lock:acquired");

    return choice ? *choice
                  : (struct record_choice){ .filter = "not chosen", .channel = RECORD_CHANNEL_COUNT };
}

static void acquired(void **state)
{
    assert_string_equal(choice_of_acquired(RECORD_SET_CORE).filter, "waited == 1");
    assert_int_equal(choice_of_acquired(RECORD_SET_CORE).channel, RECORD_CHANNEL_CORE);
    assert_null(choice_of_acquired(RECORD_SET_ALL).filter);
    assert_int_equal(choice_of_acquired(RECORD_SET_ALL).channel, RECORD_CHANNEL_DETAIL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),      cmocka_unit_test(bad_names),
        cmocka_unit_test(names_back), cmocka_unit_test(every_combination),
        cmocka_unit_test(acquired),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
