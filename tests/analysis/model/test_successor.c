/*
 * Goal:   a later process with a device of the same name takes over within one recording on one host, and only there.
 * Method: traces with paths as recorders lay them out.
 * Breaks: a restart is not seen across processes, or two recordings are taken for one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/check.h"
#include "model/successor.h"

static void device(struct analysis *analysis, unsigned stream, int64_t time_ns, const char *name)
{
    struct event event = {
        .time_ns = time_ns, .stream = stream, .vpid = EVENT_UNKNOWN_ID, .vtid = EVENT_UNKNOWN_ID
    };

    event.id = EVENT_vblk_dataplane_device_create;
    event.fields.vblk_dataplane_device_create.device_id = 5;
    event.fields.vblk_dataplane_device_create.name = name;
    event.fields.vblk_dataplane_device_create.backend = "";
    analysis_event(analysis, &event);
    event.id = EVENT_vhost_user_connect;
    event.fields = (union event_fields){ .vhost_user_connect = { .device_id = 5 } };
    analysis_event(analysis, &event);
}

static bool takes_over(const char *first_path, const char *second_path, const char *second_host,
                       const char *name, int64_t second_ns)
{
    struct analysis_options options;
    struct analysis *analysis;
    struct analysis_trace traces[] = {
        { .path = first_path, .hostname = "host", .procname = "vblkd", .vpid = 1 },
        { .path = second_path, .hostname = second_host, .procname = "vblkd", .vpid = 2 }
    };
    struct device *found = NULL;
    const struct process *process, *successor;
    bool takes;

    analysis_options_init(&options);
    analysis = analysis_create(&options);
    for (unsigned i = 0; i < 2; i++)
        analysis_add_stream(analysis, analysis_add_trace(analysis, &traces[i]),
                            &(struct analysis_stream){ 0 });
    device(analysis, 0, 10, "disk");
    device(analysis, 1, second_ns, name);
    process = analysis_process(analysis, 0);
    successor = device_successor(process, process_device(process, 5), &found);
    takes = successor && successor == analysis_process(analysis, 1) && found;
    analysis_destroy(analysis);
    return takes;
}

static void test_same_recording(void **state)
{
    assert_true(takes_over("/t/s/ust/pid/vblkd-1-x", "/t/s/ust/pid/vblkd-2-y", "host", "disk", 20));
    assert_true(takes_over("/t/s/archives/20250601T080000+0000-20250601T080100+0000-1/ust/pid/vblkd-1-x",
                           "/t/s/archives/20250601T080100+0000-20250601T080200+0000-2/ust/pid/vblkd-2-y",
                           "host", "disk", 20));
    assert_true(takes_over("/t/one", "/t/two", "host", "disk", 20));
}

static void test_others(void **state)
{
    assert_false(takes_over("/t/s/ust/pid/vblkd-1-x", "/t/r/ust/pid/vblkd-2-y", "host", "disk", 20));
    assert_false(takes_over("/t/s/ust/pid/vblkd-1-x", "/t/s/ust/pid/vblkd-2-y", "elsewhere", "disk", 20));
    assert_false(takes_over("/t/s/ust/pid/vblkd-1-x", "/t/s/ust/pid/vblkd-2-y", "host", "tape", 20));
    /* it was there while the first still lived */
    assert_false(takes_over("/t/s/ust/pid/vblkd-1-x", "/t/s/ust/pid/vblkd-2-y", "host", "disk", 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_recording),
        cmocka_unit_test(test_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
