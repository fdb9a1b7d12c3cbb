/*
 * Goal:   the event table is what the catalogue says, and each event is found by its name.
 * Method: every entry by its own name, some looked at closely, names that do not exist.
 * Breaks: a reader would put fields into wrong slots, or not know an event.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "events/event.h"

static void test_finds_every_event_by_name(void **state)
{
    for (int id = 0; id < EVENT_COUNT; id++) {
        assert_non_null(event_classes[id].name);
        assert_int_equal(event_id_by_name(event_classes[id].name), id);
        assert_true(event_classes[id].field_count >= 1 && event_classes[id].field_count <= EVENT_SLOTS_MAX);
    }
}

static void test_knows_no_other_name(void **state)
{
    assert_int_equal(event_id_by_name("rt_loop:fd_attached"), -1);
    assert_int_equal(event_id_by_name("fd_attach"), -1);
    assert_int_equal(event_id_by_name(""), -1);
}

static void test_fields_stand_in_the_order_of_the_struct(void **state)
{
    const struct event_class *attach = &event_classes[EVENT_rt_loop_fd_attach];
    union event_fields fields = {
        .slots = { { .u = 1 }, { .u = 2 }, { .i = -3 }, { .u = 4 }, { .u = 5 }, { .u = 6 } }
    };

    assert_int_equal(attach->field_count, 6);
    assert_int_equal(attach->set, SET_CORE);
    assert_string_equal(attach->fields[2].name, "fd");
    assert_int_equal(attach->fields[2].kind, FIELD_SIGNED);
    assert_int_equal(fields.rt_loop_fd_attach.loop_id, 1);
    assert_int_equal(fields.rt_loop_fd_attach.handler_id, 2);
    assert_int_equal(fields.rt_loop_fd_attach.fd, -3);
    assert_int_equal(fields.rt_loop_fd_attach.queue_index, 6);
}

static void test_knows_sets_and_strings(void **state)
{
    assert_string_equal(event_set_names[event_classes[EVENT_rt_loop_wait_begin].set], "loop");
    assert_string_equal(event_set_names[event_classes[EVENT_rt_lock_released].set], "lock");
    assert_string_equal(event_set_names[event_classes[EVENT_vblk_request_begin].set], "request");
    assert_string_equal(event_set_names[event_classes[EVENT_rt_coroutine_enter].set], "coroutine");
    assert_int_equal(event_classes[EVENT_rt_loop_create].fields[1].kind, FIELD_STRING);
    assert_int_equal(event_classes[EVENT_vblk_queue_sample].field_count, 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_every_event_by_name),
        cmocka_unit_test(test_knows_no_other_name),
        cmocka_unit_test(test_fields_stand_in_the_order_of_the_struct),
        cmocka_unit_test(test_knows_sets_and_strings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
