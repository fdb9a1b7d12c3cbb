#include "feed/feed.h"

#include <glib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char feed_baseline[] =
    "1.00 19@3 rt_process:baseline_begin serial=1\n"
    "1.01 19@3 rt_process:info version=1 max_map_count=10000 batch_size=128 mappings_per_1000_stacks=2000\n"
    "1.02 19@3 rt_loop:create loop_id=2 name=main thread_id=11\n"
    "1.02 19@3 rt_loop:create loop_id=3 name=iothread0 thread_id=12\n"
    "1.02 19@3 rt_loop:create loop_id=4 name=iothread1 thread_id=13\n"
    "1.03 19@3 rt_loop:fd_attach loop_id=2 handler_id=1 fd=10 role=1\n"
    "1.03 19@3 rt_loop:fd_attach loop_id=3 handler_id=2 fd=11 role=1\n"
    "1.03 19@3 rt_loop:fd_attach loop_id=3 handler_id=7 fd=30 role=2 device_id=5 queue_index=0\n"
    "1.03 19@3 rt_loop:fd_attach loop_id=3 handler_id=8 fd=31 role=2 device_id=5 queue_index=1\n"
    "1.04 19@3 vblk_dataplane:device_create device_id=5 name=disk queue_count=2 backend=null\n"
    "1.04 19@3 vhost_user:connect device_id=5 fd=9\n"
    "1.05 19@3 vblk_dataplane:state device_id=5 old_state=2 new_state=2\n"
    "1.06 19@3 vblk_dataplane:notifier_assign device_id=5 queue_index=0 fd=30\n"
    "1.06 19@3 vblk_dataplane:notifier_assign device_id=5 queue_index=1 fd=31\n"
    "1.07 19@3 vblk_dataplane:loop_change device_id=5 queue_index=0 old_loop_id=3 new_loop_id=3\n"
    "1.07 19@3 vblk_dataplane:loop_change device_id=5 queue_index=1 old_loop_id=3 new_loop_id=3\n"
    "1.08 19@3 vblk_dataplane:notifier_attach device_id=5 queue_index=0 fd=30 loop_id=3\n"
    "1.08 19@3 vblk_dataplane:notifier_attach device_id=5 queue_index=1 fd=31 loop_id=3\n"
    "1.09 19@3 rt_pool:local_sample thread_id=11 name=vblkd\n"
    "1.10 19@3 rt_process:baseline_end serial=1\n"
    /* every thread is seen on a processor of its own */
    "1.20 11@0 vhost_user:message device_id=5 request=1\n"
    "1.20 12@1 vblk_queue:sample device_id=5 queue_index=0\n"
    "1.20 13@2 vblk_queue:sample device_id=6 queue_index=0\n";

struct feed {
    struct analysis *analysis;
    unsigned streams[FEED_CPUS];
    json_t *report;
    GPtrArray *texts; /* answers that live as long as the feed */
    char **without;   /* ids of findings that are left out, so that tests can be tested: they have to notice */
};

struct feed *feed_create_with(unsigned sets, const struct analysis_options *options)
{
    struct feed *f = g_new0(struct feed, 1);
    struct analysis_trace trace = { .path = "session/ust", .hostname = "host", .vpid = EVENT_UNKNOWN_ID };
    unsigned index;

    for (unsigned id = 0; id < EVENT_COUNT; id++)
        trace.declared[id] = (sets >> event_classes[id].set) & 1;
    for (unsigned id = EVENT_COUNT + 1; id < EVENT_CLASS_COUNT; id++)
        trace.declared[id] = (sets & FEED_QEMU) != 0;
    f->texts = g_ptr_array_new_with_free_func(g_free);
    f->without = g_strsplit(g_getenv("FEED_WITHOUT") ? g_getenv("FEED_WITHOUT") : "", " ", -1);
    f->analysis = analysis_create(options);
    index = analysis_add_trace(f->analysis, &trace);
    for (unsigned cpu = 0; cpu < FEED_CPUS; cpu++) {
        const struct analysis_stream stream = { .stream_class_id = 0, .cpu_id = cpu };

        f->streams[cpu] = analysis_add_stream(f->analysis, index, &stream);
    }
    return f;
}

struct feed *feed_create(unsigned sets)
{
    struct analysis_options options;

    analysis_options_init(&options);
    return feed_create_with(sets, &options);
}

void feed_destroy(struct feed *f)
{
    json_decref(f->report);
    analysis_destroy(f->analysis);
    g_ptr_array_free(f->texts, TRUE);
    g_strfreev(f->without);
    g_free(f);
}

static int64_t parse_time(const char *text)
{
    char *end;
    int64_t ns = (int64_t)g_ascii_strtoull(text, &end, 10) * 1000000000;
    int64_t digit = 100000000;

    if (*end == '.')
        for (end++; g_ascii_isdigit(*end); end++, digit /= 10)
            ns += (*end - '0') * digit;
    if (*end)
        fail_msg("no time: '%s'", text);
    return ns;
}

static void parse_origin(struct feed *f, struct event *event, char *text)
{
    char *cpu = strchr(text, '@'), *colon = strchr(text, ':');

    if (!cpu || (unsigned)atoi(cpu + 1) >= FEED_CPUS)
        fail_msg("no thread@cpu: '%s'", text);
    event->stream = f->streams[atoi(cpu + 1)];
    event->vpid = 1;
    if (colon) {
        event->vpid = atoll(text);
        text = colon + 1;
    }
    if (*text == '-')
        event->vpid = event->vtid = EVENT_UNKNOWN_ID;
    else
        event->vtid = atoll(text);
}

static void parse_field(struct event *event, char *text)
{
    const struct event_class *class = &event_classes[event->id];
    char *value = strchr(text, '=');

    if (!value)
        fail_msg("no field=value: '%s'", text);
    *value++ = 0;
    for (unsigned i = 0; i < class->field_count; i++) {
        if (strcmp(class->fields[i].name, text))
            continue;
        if (class->fields[i].kind == FIELD_STRING)
            event->fields.slots[i].s = g_strdelimit(value, "~", ' ');
        else if (class->fields[i].kind == FIELD_SIGNED)
            event->fields.slots[i].i = g_ascii_strtoll(value, NULL, 10);
        else
            event->fields.slots[i].u = g_ascii_strtoull(value, NULL, 0);
        return;
    }
    fail_msg("%s has no field %s", class->name, text);
}

static void feed_line(struct feed *f, char *line)
{
    char **words = g_strsplit_set(g_strstrip(line), " \t", -1);
    struct event event = { 0 };
    unsigned count = 0;
    int id;

    for (unsigned i = 0; words[i]; i++) {
        if (*words[i])
            words[count++] = words[i];
        else
            g_free(words[i]);
    }
    words[count] = NULL;
    if (count && *words[0] != '#') {
        if (count < 3)
            fail_msg("no event: '%s'", line);
        id = event_id_by_name(words[2]);
        if (id < 0)
            fail_msg("no such event: %s", words[2]);
        event.id = (enum event_id)id;
        event.time_ns = parse_time(words[0]);
        parse_origin(f, &event, words[1]);
        for (unsigned i = 0; i < event_classes[id].field_count; i++)
            if (event_classes[id].fields[i].kind == FIELD_STRING)
                event.fields.slots[i].s = "";
        for (unsigned i = 3; i < count; i++)
            parse_field(&event, words[i]);
        analysis_event(f->analysis, &event);
    }
    g_strfreev(words);
}

void feed(struct feed *f, const char *lines)
{
    char **each = g_strsplit(lines, "\n", -1);

    for (unsigned i = 0; each[i]; i++)
        feed_line(f, each[i]);
    g_strfreev(each);
}

void feed_format(struct feed *f, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    feed(f, text);
    g_free(text);
}

static int64_t ns(double seconds)
{
    return (int64_t)(seconds * 1e9 + 0.5);
}

void feed_loss(struct feed *f, unsigned cpu, double begin_s, double end_s)
{
    analysis_loss(f->analysis, f->streams[cpu], LOSS_DISCARDED_EVENTS, ns(begin_s), ns(end_s));
}

void feed_cut(struct feed *f, unsigned cpu, double begin_s)
{
    analysis_loss(f->analysis, f->streams[cpu], LOSS_CUT, ns(begin_s), 0);
}

static void leave_out(struct feed *f, const char *key)
{
    json_t *list = json_object_get(f->report, key);

    for (size_t i = json_array_size(list); i-- > 0;)
        if (g_strv_contains((const char *const *)f->without, json_text_of(json_array_get(list, i), "id")))
            json_array_remove(list, i);
}

void feed_end(struct feed *f, double end_s)
{
    analysis_unknown_event(f->analysis, f->streams[0], ns(end_s));
    analysis_finish(f->analysis, false);
    f->report = analysis_report(f->analysis);
    leave_out(f, "findings");
    leave_out(f, "inconclusive");
}

static gint by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *ids(struct feed *f, const char *key)
{
    GPtrArray *names = g_ptr_array_new();
    json_t *entry;
    size_t i;

    json_array_foreach (json_object_get(f->report, key), i, entry) {
        g_ptr_array_add(names, (void *)json_text_of(entry, "id"));
    }
    g_ptr_array_sort(names, by_text);
    g_ptr_array_add(names, NULL);
    g_ptr_array_add(f->texts, g_strjoinv(" ", (char **)names->pdata));
    g_ptr_array_free(names, TRUE);
    return g_ptr_array_index(f->texts, f->texts->len - 1);
}

const char *feed_findings(struct feed *f)
{
    return ids(f, "findings");
}

const char *feed_inconclusive(struct feed *f)
{
    return ids(f, "inconclusive");
}

const char *feed_skipped(struct feed *f)
{
    return ids(f, "skipped");
}

json_t *feed_finding(struct feed *f, const char *id)
{
    json_t *entry, *found = NULL;
    size_t i;

    json_array_foreach (json_object_get(f->report, "findings"), i, entry) {
        if (strcmp(json_text_of(entry, "id"), id))
            continue;
        if (found)
            fail_msg("several findings %s", id);
        found = entry;
    }
    if (!found)
        fail_msg("no finding %s, but: %s", id, feed_findings(f));
    return found;
}

json_t *feed_report(struct feed *f)
{
    return f->report;
}

struct analysis *feed_analysis(struct feed *f)
{
    return f->analysis;
}

int feed_status(const struct feed *f)
{
    return analysis_exit_status(f->analysis);
}

bool feed_says(struct feed *f, const char *text)
{
    char *report = json_dumps(f->report, 0);
    const bool says = strstr(report, text) != NULL;

    free(report);
    return says;
}

const char *feed_verdict(struct feed *f)
{
    char *verdict = g_strdup_printf("%s/%s", feed_findings(f), feed_inconclusive(f));
    char **words = g_strsplit(verdict, "events-lost", 2);

    if (words[1])
        g_strchug(words[1]);
    if (words[1] && words[1][0] == '/')
        g_strchomp(words[0]);
    g_free(verdict);
    verdict = g_strjoinv("", words);
    g_strfreev(words);
    g_ptr_array_add(f->texts, verdict);
    return verdict;
}

const char *json_text_of(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    if (!json_is_string(value))
        fail_msg("no text %s", key);
    return json_string_value(value);
}

int64_t json_number_of(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    if (!json_is_integer(value))
        fail_msg("no number %s", key);
    return json_integer_value(value);
}
