/*
 * Goal:   traces are prepared so that babeltrace2 can read them: damaged streams cut back in a copy, the rest linked,
 *         what cannot be read refused, the user's files untouched and the copies gone at the end.
 * Method: built traces with a cut, an undecodable, an empty and a whole stream, with and without an index.
 * Breaks: one damaged file would cost the whole recording, or the program would change what it was asked to read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "input/folder.h"
#include "input/inputs.h"

#define PACKET_BYTES 4096

static const char events[] =
    "!packet cpu0 2\n!packet cpu1 2\n!packet cpu1 4\n!cpus 3\n"
    "1 cpu0 rt_loop:wait_begin loop_id=1\n3 cpu0 rt_loop:wait_end loop_id=1\n"
    "1 cpu1 rt_loop:wait_begin loop_id=2\n3 cpu1 rt_loop:wait_end loop_id=2\n!end 6\n";

static struct inputs *prepare(const char *folder)
{
    struct inputs *inputs = inputs_create();

    inputs_add(inputs, folder);
    inputs_prepare(inputs);
    return inputs;
}

static gsize file_size(const char *folder, const char *name)
{
    gsize size_bytes;

    g_free(folder_read(folder, name, &size_bytes));
    return size_bytes;
}

static bool exists(const char *folder, const char *name)
{
    char *path = g_build_filename(folder, name, NULL);
    bool there = g_file_test(path, G_FILE_TEST_EXISTS);

    g_free(path);
    return there;
}

static bool is_link(const char *folder, const char *name)
{
    char *path = g_build_filename(folder, name, NULL);
    bool link = g_file_test(path, G_FILE_TEST_IS_SYMLINK);

    g_free(path);
    return link;
}

static void test_whole_trace_is_read_in_place(void **state)
{
    char *folder = folder_make();
    struct inputs *inputs;
    struct input_trace *trace;

    folder_build_trace(folder, "t", events);
    inputs = prepare(folder);
    assert_int_equal(inputs->traces->len, 1);
    assert_int_equal(inputs->refusals->len, 0);
    trace = g_ptr_array_index(inputs->traces, 0);
    assert_string_equal(trace->read_folder, trace->folder);
    assert_int_equal(trace->streams->len, 3);
    assert_null(inputs->scratch);
    inputs_destroy(inputs);
    folder_remove(folder);
}

static void test_cut_stream_is_copied_and_the_rest_linked(void **state)
{
    char *folder = folder_make(), *scratch, *damaged;
    struct inputs *inputs;
    struct input_trace *trace;
    guint8 *bytes;
    gsize size_bytes;

    folder_build_trace(folder, "t", events);
    bytes = folder_read(folder, "t/channel0_1", &size_bytes);
    folder_write(folder, "t/channel0_1", bytes, PACKET_BYTES + 20);
    folder_write(folder, "t/index/channel0_0.idx", "x", 1);
    folder_write(folder, "t/index/channel0_1.idx", "x", 1);
    inputs = prepare(folder);
    trace = g_ptr_array_index(inputs->traces, 0);
    assert_string_not_equal(trace->read_folder, trace->folder);
    assert_int_equal(file_size(trace->read_folder, "channel0_1"), PACKET_BYTES);
    assert_false(is_link(trace->read_folder, "channel0_1"));
    assert_true(is_link(trace->read_folder, "channel0_0"));
    assert_true(is_link(trace->read_folder, "metadata"));
    assert_true(exists(trace->read_folder, "index/channel0_0.idx"));
    assert_false(exists(trace->read_folder, "index/channel0_1.idx"));
    /* the user's file stays as it was */
    assert_int_equal(file_size(folder, "t/channel0_1"), PACKET_BYTES + 20);
    damaged = input_stream_path(trace, g_ptr_array_index(trace->streams, 1));
    assert_true(g_str_has_suffix(damaged, "/t/channel0_1"));
    scratch = g_strdup(inputs->scratch);
    inputs_destroy(inputs);
    assert_false(g_file_test(scratch, G_FILE_TEST_EXISTS));
    g_free(scratch);
    g_free(damaged);
    g_free(bytes);
    folder_remove(folder);
}

static void test_lost_padding_is_put_back(void **state)
{
    char *folder = folder_make();
    struct inputs *inputs;
    struct input_trace *trace;
    guint8 *bytes;
    gsize size_bytes;

    folder_build_trace(folder, "t", events);
    bytes = folder_read(folder, "t/channel0_1", &size_bytes);
    folder_write(folder, "t/channel0_1", bytes, size_bytes - 1000);
    inputs = prepare(folder);
    trace = g_ptr_array_index(inputs->traces, 0);
    assert_int_equal(file_size(trace->read_folder, "channel0_1"), size_bytes);
    inputs_destroy(inputs);
    g_free(bytes);
    folder_remove(folder);
}

static void test_empty_stream_is_named_and_needs_no_copy(void **state)
{
    char *folder = folder_make();
    struct inputs *inputs;
    struct input_trace *trace;
    struct input_stream *stream;

    folder_build_trace(folder, "t", events);
    folder_write(folder, "t/channel0_2", "", 0);
    inputs = prepare(folder);
    trace = g_ptr_array_index(inputs->traces, 0);
    stream = g_ptr_array_index(trace->streams, 2);
    assert_non_null(stream->summary.damage);
    assert_null(inputs->scratch);
    inputs_destroy(inputs);
    folder_remove(folder);
}

static void test_undecodable_packets_are_cut_on_demand(void **state)
{
    char *folder = folder_make();
    struct inputs *inputs;
    struct input_trace *trace;
    struct input_stream *stream;

    folder_build_trace(folder, "t", events);
    inputs = prepare(folder);
    trace = g_ptr_array_index(inputs->traces, 0);
    stream = g_ptr_array_index(trace->streams, 1);
    stream->packets_max = 2;
    assert_null(inputs_salvage(inputs, trace));
    assert_int_equal(file_size(trace->read_folder, "channel0_1"), 2 * PACKET_BYTES);
    assert_int_equal(stream->summary.packet_count, 2);
    stream->packets_max = 0;
    assert_null(inputs_salvage(inputs, trace));
    assert_false(exists(trace->read_folder, "channel0_1"));
    inputs_destroy(inputs);
    folder_remove(folder);
}

static void test_isolates_one_stream(void **state)
{
    char *folder = folder_make(), *why = NULL, *alone;
    struct inputs *inputs;
    struct input_trace *trace;

    folder_build_trace(folder, "t", events);
    inputs = prepare(folder);
    trace = g_ptr_array_index(inputs->traces, 0);
    alone = inputs_isolate(inputs, trace, g_ptr_array_index(trace->streams, 0), &why);
    assert_non_null(alone);
    assert_true(exists(alone, "metadata"));
    assert_true(exists(alone, "channel0_0"));
    assert_false(exists(alone, "channel0_1"));
    g_free(alone);
    inputs_destroy(inputs);
    folder_remove(folder);
}

static void test_unreadable_inputs_are_refused_with_their_reason(void **state)
{
    char *folder = folder_make();
    struct inputs *inputs;
    const struct input_refusal *refusal;

    folder_build_trace(folder, "good", events);
    folder_write(folder, "bad/metadata", "", 0);
    inputs = prepare(folder);
    inputs_add(inputs, "/nonexistent-folder");
    assert_int_equal(inputs->traces->len, 1);
    assert_int_equal(inputs->refusals->len, 2);
    refusal = g_ptr_array_index(inputs->refusals, 0);
    assert_true(g_str_has_suffix(refusal->path, "/bad"));
    assert_non_null(strstr(refusal->reason, "metadata is empty"));
    inputs_refuse(inputs, g_ptr_array_index(inputs->traces, 0), "because");
    assert_int_equal(inputs->traces->len, 0);
    refusal = g_ptr_array_index(inputs->refusals, 2);
    assert_true(g_str_has_suffix(refusal->path, "/good"));
    assert_string_equal(refusal->reason, "because");
    inputs_destroy(inputs);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_trace_is_read_in_place),
        cmocka_unit_test(test_cut_stream_is_copied_and_the_rest_linked),
        cmocka_unit_test(test_lost_padding_is_put_back),
        cmocka_unit_test(test_empty_stream_is_named_and_needs_no_copy),
        cmocka_unit_test(test_undecodable_packets_are_cut_on_demand),
        cmocka_unit_test(test_isolates_one_stream),
        cmocka_unit_test(test_unreadable_inputs_are_refused_with_their_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
