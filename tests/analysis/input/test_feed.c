/*
 * Goal:   what a trace says reaches an analysis unchanged: times, fields of every width, contexts, processes, streams,
 *         losses, declared events.
 * Method: built traces are read by the real graph into a stand-in for the analysis that writes down its calls.
 * Breaks: every verdict would rest on wrong facts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/analysis.h"
#include "input/feed.h"
#include "input/folder.h"
#include "input/graph.h"
#include "input/inputs.h"
#include "input/intake.h"

#define EPOCH_NS INT64_C(1700000000000000000) /* the builder's default offset */

/* The stand-in */

static GString *notes;
static unsigned trace_count, stream_count;
static bool declared[8][EVENT_COUNT];

unsigned analysis_add_trace(struct analysis *analysis, const struct analysis_trace *trace)
{
    char *name = g_path_get_basename(trace->path);

    g_string_append_printf(notes, "trace %u %s host %s process %s %d clock %s\n", trace_count, name,
                           trace->hostname, trace->procname ? trace->procname : "-", (int)trace->vpid,
                           trace->clock_uuid ? trace->clock_uuid : "-");
    memcpy(declared[trace_count], trace->declared, sizeof(declared[0]));
    g_free(name);
    return trace_count++;
}

unsigned analysis_add_stream(struct analysis *analysis, unsigned trace_index,
                             const struct analysis_stream *stream)
{
    char *name = g_path_get_basename(stream->path);

    g_string_append_printf(notes, "stream %u of %u class %u cpu %d %s\n", stream_count, trace_index,
                           (unsigned)stream->stream_class_id, (int)stream->cpu_id, name);
    g_free(name);
    return stream_count++;
}

void analysis_event(struct analysis *analysis, const struct event *event)
{
    const struct event_class *known = &event_classes[event->id];

    g_string_append_printf(notes, "%.9f s%u p%d t%d %s", (event->time_ns - EPOCH_NS) / 1e9, event->stream,
                           (int)event->vpid, (int)event->vtid, known->name);
    for (unsigned i = 0; i < known->field_count; i++) {
        if (known->fields[i].kind == FIELD_STRING)
            g_string_append_printf(notes, " '%s'", event->fields.slots[i].s);
        else if (known->fields[i].kind == FIELD_SIGNED)
            g_string_append_printf(notes, " %lld", (long long)event->fields.slots[i].i);
        else
            g_string_append_printf(notes, " %llu", (unsigned long long)event->fields.slots[i].u);
    }
    g_string_append_c(notes, '\n');
}

void analysis_unknown_event(struct analysis *analysis, unsigned stream_index, int64_t time_ns)
{
    g_string_append_printf(notes, "%.9f s%u unknown\n", (time_ns - EPOCH_NS) / 1e9, stream_index);
}

void analysis_loss(struct analysis *analysis, unsigned stream_index, enum analysis_loss kind,
                   int64_t begin_ns, int64_t end_ns)
{
    static const char *const kinds[] = { "events", "packets", "cut", "overwritten" };

    g_string_append_printf(notes, "lost %s s%u %.9f", kinds[kind], stream_index, (begin_ns - EPOCH_NS) / 1e9);
    if (kind != LOSS_CUT)
        g_string_append_printf(notes, " %.9f", (end_ns - EPOCH_NS) / 1e9);
    g_string_append_c(notes, '\n');
}

/* Reading */

static void on_batch(void *data)
{
}

static GPtrArray *one_list(const struct inputs *inputs)
{
    GPtrArray *lists = g_ptr_array_new_with_free_func(g_free);
    char **list = g_new0(char *, inputs->traces->len + 1);

    for (unsigned i = 0; i < inputs->traces->len; i++)
        list[i] = ((struct input_trace *)g_ptr_array_index(inputs->traces, i))->read_folder;
    g_ptr_array_add(lists, list);
    return lists;
}

static struct feed_progress read_folder(const char *folder)
{
    struct inputs *inputs = inputs_create();
    struct intake *intake = intake_create(NULL);
    struct feed *feed = feed_create(&intake_target, intake);
    struct feed_progress progress;
    GPtrArray *lists;
    bool interrupted;
    char *why;

    inputs_add(inputs, folder);
    inputs_prepare(inputs);
    assert_int_equal(inputs->refusals->len, 0);
    lists = one_list(inputs);
    for (unsigned i = 0; i < inputs->traces->len; i++) {
        feed_expect(feed, g_ptr_array_index(inputs->traces, i));
        intake_expect(intake, g_ptr_array_index(inputs->traces, i));
    }
    why = graph_run(lists, &(struct graph_job){ .feed = feed, .share = { 0, 1 }, .batch = on_batch }, &interrupted);
    if (why)
        fail_msg("%s", why);
    assert_false(interrupted);
    intake_finish(intake);
    progress = intake_progress(intake);
    feed_destroy(feed);
    intake_destroy(intake);
    g_ptr_array_unref(lists);
    inputs_destroy(inputs);
    return progress;
}

static struct feed_progress read_events(const char *events)
{
    char *folder = folder_make();
    struct feed_progress progress;

    folder_build_trace(folder, "t", events);
    progress = read_folder(folder);
    folder_remove(folder);
    return progress;
}

static int set_up(void **state)
{
    notes = g_string_new(NULL);
    trace_count = stream_count = 0;
    memset(declared, 0, sizeof(declared));
    return 0;
}

static int tear_down(void **state)
{
    g_string_free(notes, TRUE);
    return 0;
}

static void assert_notes(const char *expected)
{
    assert_string_equal(notes->str, expected);
}

#define CLOCK "5f0f3a6e-6d59-4e4c-8f0e-0d6a53b1c001"

static void test_decodes_every_kind_of_field(void **state)
{
    read_events(
        "1.000000001 cpu0 vtid=7 rt_loop:fd_attach loop_id=4294967295 handler_id=18446744073709551615 fd=-1 "
        "role=completion device_id=2 queue_index=65535\n"
        "2 cpu0 vtid=8 vpid=9 rt_process:info version=\"1 x\" max_map_count=65530 faults=a,b\n"
        "3 cpu1 rt_loop:wait_begin loop_id=1 timeout_ns=-9223372036854775808\n");
    assert_notes("trace 0 t host testhost process - -1 clock " CLOCK "\n"
                 "stream 0 of 0 class 0 cpu 0 channel0_0\n"
                 "1.000000001 s0 p1000 t7 rt_loop:fd_attach 4294967295 18446744073709551615 -1 5 2 65535\n"
                 "stream 1 of 0 class 0 cpu 1 channel0_1\n"
                 "2.000000000 s0 p9 t8 rt_process:info '1 x' 65530 0 0 '' '' '' '' '' 'a,b' 0 0\n"
                 "3.000000000 s1 p1000 t1000 rt_loop:wait_begin 1 -9223372036854775808\n");
}

static void test_merges_streams_in_time(void **state)
{
    struct feed_progress progress =
        read_events("4 cpu0 rt_loop:work_run loop_id=4\n1 cpu1 rt_loop:work_run loop_id=1\n"
                    "3 cpu1 rt_loop:work_run loop_id=3\n2 cpu0 rt_loop:work_run loop_id=2\n"
                    "!begin 0.5\n!end 8\n");
    const char *at = strstr(notes->str, "1.0");

    assert_string_equal(at, "1.000000000 s1 p1000 t1000 rt_loop:work_run 1 0\n"
                            "2.000000000 s0 p1000 t1000 rt_loop:work_run 2 0\n"
                            "3.000000000 s1 p1000 t1000 rt_loop:work_run 3 0\n"
                            "4.000000000 s0 p1000 t1000 rt_loop:work_run 4 0\n");
    assert_int_equal(progress.event_count, 4);
    assert_true(progress.has_range);
    assert_int_equal(progress.begin_ns, EPOCH_NS + 500000000);
    assert_int_equal(progress.end_ns, EPOCH_NS + 8 * INT64_C(1000000000));
}

static void test_contexts_may_be_missing(void **state)
{
    read_events("!contexts vtid\n1 cpu0 vtid=7 rt_loop:destroy loop_id=1\n");
    assert_non_null(strstr(notes->str, "1.000000000 s0 p-1 t7 rt_loop:destroy 1\n"));
    g_string_truncate(notes, 0);
    read_events("!contexts none\n1 cpu0 rt_loop:destroy loop_id=1\n");
    assert_non_null(strstr(notes->str, "1.000000000 s1 p-1 t-1 rt_loop:destroy 1\n"));
}

static void test_per_process_buffers_name_their_process(void **state)
{
    read_events("!trace scheme=pid vpid=77 procname=vblkd hostname=h2\n1 cpu0 rt_loop:destroy loop_id=1\n");
    assert_non_null(strstr(notes->str, "trace 0 t host h2 process vblkd 77 clock"));
}

static void test_fields_of_older_and_newer_programs(void **state)
{
    /* a field less, a field more, fields in another order, another width, a string where a number belongs */
    read_events("!declare none\n"
                "!event rt_loop:wait_begin timeout_ns=i32 extra=string loop_id=u64\n"
                "!event rt_loop:destroy loop_id=string\n"
                "!event rt_loop:create name=string\n"
                "1 cpu0 rt_loop:wait_begin loop_id=5 timeout_ns=-7 extra=x\n"
                "2 cpu0 rt_loop:destroy loop_id=x\n3 cpu0 rt_loop:create name=main\n");
    assert_non_null(strstr(notes->str, "rt_loop:wait_begin 5 -7\n"));
    assert_non_null(strstr(notes->str, "rt_loop:destroy 0\n"));
    assert_non_null(strstr(notes->str, "rt_loop:create 0 'main' 0\n"));
}

static void test_other_events_only_count(void **state)
{
    read_events("!event my_server:accept fd=i32 peer=string\n1 cpu0 my_server:accept fd=3 peer=me\n");
    assert_non_null(strstr(notes->str, "1.000000000 s0 unknown\n"));
}

static void test_declared_events_are_told(void **state)
{
    read_events("!declare core rt_loop:wait_begin\n1 cpu0 rt_loop:wait_begin loop_id=1\n");
    assert_true(declared[0][EVENT_rt_loop_wait_begin]);
    assert_true(declared[0][EVENT_rt_loop_create]);
    assert_false(declared[0][EVENT_rt_loop_wait_end]);
    assert_false(declared[0][EVENT_vblk_request_begin]);
}

static void test_trace_without_streams_is_told(void **state)
{
    read_events("!declare loop\n");
    assert_notes("trace 0 t host (null) process - -1 clock -\n");
    assert_true(declared[0][EVENT_rt_loop_wait_begin]);
    assert_false(declared[0][EVENT_rt_loop_create]);
}

static void test_discarded_events_have_their_interval(void **state)
{
    read_events("1 cpu0 rt_loop:destroy loop_id=1\n!discard cpu0 2 3 5\n4 cpu0 rt_loop:destroy loop_id=2\n"
                "!discard cpu1 0.5 1.5\n4 cpu1 rt_loop:destroy loop_id=3\n!begin 0\n!end 9\n");
    assert_non_null(strstr(notes->str, "lost events s0 2.000000000 3.000000000\n"));
    assert_non_null(strstr(notes->str, "lost events s1 0.500000000 1.500000000\n"));
    assert_null(strstr(notes->str, "lost packets"));
}

/* Packets count from 0: those that are missing before the first one were overwritten. */
static void test_overwritten_packets_are_told(void **state)
{
    read_events("1 cpu0 rt_loop:destroy loop_id=1\n!overwritten cpu1 7\n4 cpu1 rt_loop:destroy loop_id=3\n!begin 0.5\n!end 9\n");
    assert_non_null(strstr(notes->str, "lost overwritten s1 0.500000000 0.500000000\n"));
    assert_null(strstr(notes->str, "lost overwritten s0"));
    /* before the first event: a run may be interrupted */
    assert_true(strstr(notes->str, "lost overwritten s1") < strstr(notes->str, "rt_loop:destroy 1\n"));
}

static void test_cut_stream_is_lost_from_its_last_whole_packet(void **state)
{
    read_events(
        "!packet cpu1 2\n!packet cpu1 4\n1 cpu1 rt_loop:destroy loop_id=1\n3 cpu1 rt_loop:destroy loop_id=2\n"
        "5 cpu1 rt_loop:destroy loop_id=3\n8 cpu0 rt_loop:destroy loop_id=4\n!cut cpu1 -4090\n");
    assert_non_null(strstr(notes->str, "rt_loop:destroy 2\n"));
    assert_null(strstr(notes->str, "rt_loop:destroy 3\n"));
    assert_non_null(strstr(notes->str, "lost cut s1 4.000000000\n"));
}

static void test_stream_without_a_whole_packet_is_lost_from_the_begin(void **state)
{
    read_events("1 cpu0 rt_loop:destroy loop_id=1\n5 cpu1 rt_loop:destroy loop_id=3\n!cut cpu1 100\n"
                "!cpus 3\n!cut cpu2 0\n");
    assert_non_null(strstr(notes->str, "cpu 1 channel0_1\nlost cut s1 1.000000000\n"));
    assert_non_null(strstr(notes->str, "cpu -1 channel0_2\nlost cut s2 1.000000000\n"));
}

static void test_chunks_of_one_recording_are_one_trace(void **state)
{
    char *folder = folder_make();

    folder_build_trace(folder, "rec/b",
                       "!trace uuid=00112233-4455-6677-8899-aabbccddeeff\n"
                       "1 cpu0 rt_loop:destroy loop_id=1\n!begin 0\n!end 2\n");
    folder_build_trace(folder, "rec/a",
                       "!trace uuid=00112233-4455-6677-8899-aabbccddeeff\n"
                       "3 cpu0 rt_loop:destroy loop_id=2\n!begin 2\n!end 4\n");
    read_folder(folder);
    assert_int_equal(trace_count, 1);
    assert_true(g_str_has_prefix(notes->str, "trace 0 b host")); /* the first chunk in time */
    assert_int_equal(stream_count, 1);
    assert_true(strstr(notes->str, "rt_loop:destroy 1\n") < strstr(notes->str, "rt_loop:destroy 2\n"));
    assert_null(strstr(notes->str, "lost"));
    folder_remove(folder);
}

static void test_trace_without_uuid_is_told_once(void **state)
{
    char *folder = folder_make(), *line;
    gsize size_bytes;
    guint8 *metadata;

    folder_build_trace(folder, "t",
                       "1 cpu0 rt_loop:destroy loop_id=1\n5 cpu1 rt_loop:destroy loop_id=3\n!cut cpu1 100\n");
    metadata = folder_read(folder, "t/metadata", &size_bytes);
    line = g_strstr_len((const char *)metadata, (gssize)size_bytes, "\tuuid = \"");
    assert_non_null(line);
    for (; *line != '\n'; line++)
        *line = ' ';
    folder_write(folder, "t/metadata", metadata, size_bytes);
    g_free(metadata);
    read_folder(folder);
    assert_int_equal(trace_count, 1);
    assert_non_null(strstr(notes->str, "stream 1 of 0 class 0 cpu 1 channel0_1\nlost cut s1 1.000000000\n"));
    folder_remove(folder);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_decodes_every_kind_of_field),
        CASE(test_merges_streams_in_time),
        CASE(test_contexts_may_be_missing),
        CASE(test_per_process_buffers_name_their_process),
        CASE(test_fields_of_older_and_newer_programs),
        CASE(test_other_events_only_count),
        CASE(test_declared_events_are_told),
        CASE(test_trace_without_streams_is_told),
        CASE(test_discarded_events_have_their_interval),
        CASE(test_overwritten_packets_are_told),
        CASE(test_cut_stream_is_lost_from_its_last_whole_packet),
        CASE(test_stream_without_a_whole_packet_is_lost_from_the_begin),
        CASE(test_chunks_of_one_recording_are_one_trace),
        CASE(test_trace_without_uuid_is_told_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
