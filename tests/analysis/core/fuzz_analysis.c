/*
 * Goal:   no order of events, however absurd, crashes the checks, hangs them, or makes two runs differ.
 * Method: random events over few ids, threads, processes and streams, with losses in between; each run is repeated and its
 *         report compared to the byte. Prints its seed; fuzz_analysis SEED repeats one.
 * Breaks: a damaged or foreign trace takes the tool down; meant for the AddressSanitizer build.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/analysis.h"

#define RUNS 300
#define EVENTS 2000
#define STREAMS 3

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state ^= random_state << 13; /* xorshift64 */
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static void fill(struct event *event)
{
    const struct event_class *class = &event_classes[event->id];
    static const char *const texts[] = { "", "main", "iothread0", "disk", "\xff" };

    memset(&event->fields, 0, sizeof(event->fields));
    for (unsigned i = 0; i < class->field_count; i++) {
        if (class->fields[i].kind == FIELD_STRING)
            event->fields.slots[i].s = texts[draw(5)];
        else if (draw(50) == 0)
            event->fields.slots[i].u = draw(UINT64_MAX);
        else
            event->fields.slots[i].u = draw(5);
    }
}

static char *run(uint64_t seed)
{
    struct analysis_options options;
    struct analysis_trace trace = { .path = "ust", .hostname = "h", .vpid = EVENT_UNKNOWN_ID };
    struct analysis *analysis;
    struct event event = { .time_ns = 1000000000 };
    json_t *report;
    char *text;
    int status;

    random_state = seed * 2 + 1;
    memset(trace.declared, 1, sizeof(trace.declared));
    analysis_options_init(&options);
    options.unread_dispatches = 3;
    options.sustained_seconds = 2;
    options.series = true;
    analysis = analysis_create(&options);
    analysis_add_trace(analysis, &trace);
    for (unsigned i = 0; i < STREAMS; i++) {
        const struct analysis_stream stream = { .stream_class_id = draw(2), .cpu_id = (int64_t)draw(3) - 1 };

        analysis_add_stream(analysis, 0, &stream);
    }
    for (unsigned i = 0; i < EVENTS; i++) {
        event.time_ns += (int64_t)draw(3) * (int64_t)draw(draw(20) ? 1000 : 2000000000);
        event.id = (enum event_id)draw(EVENT_COUNT);
        event.stream = (uint32_t)draw(STREAMS);
        event.vpid = draw(10) ? 1 : (int64_t)draw(3) - 1;
        event.vtid = (int64_t)draw(5) - 1;
        fill(&event);
        analysis_event(analysis, &event);
        if (draw(200) == 0)
            analysis_loss(analysis, (unsigned)draw(STREAMS), (enum analysis_loss)draw(3),
                          event.time_ns - (int64_t)draw(1000000), event.time_ns + (int64_t)draw(1000000));
    }
    analysis_finish(analysis, false);
    status = analysis_exit_status(analysis);
    if (status < 0 || status > 3) {
        fprintf(stderr, "seed %llu: status %d\n", (unsigned long long)seed, status);
        exit(1);
    }
    report = analysis_report(analysis);
    text = json_dumps(report, 0);
    json_decref(report);
    analysis_destroy(analysis);
    return text;
}

int main(int argc, char **argv)
{
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
    const uint64_t runs = argc > 1 ? 1 : RUNS;

    for (uint64_t seed = first; seed < first + runs; seed++) {
        char *a, *b;

        printf("seed %llu\n", (unsigned long long)seed);
        fflush(stdout);
        a = run(seed);
        b = run(seed);
        if (!a || !b || strcmp(a, b)) {
            fprintf(stderr, "seed %llu: two runs differ\n", (unsigned long long)seed);
            return 1;
        }
        free(a);
        free(b);
    }
    return 0;
}
