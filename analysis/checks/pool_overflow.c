/*
 * pool-overflow: batches of coroutines are freed and made anew, second after second: the pool is too small for the load.
 *
 * The samples carry running totals, so windows lie between rounds of samples: a window counts when batches overflowed in it
 * and coroutines were made anew. Windows that follow each other add up to the "sustained" time; a burst does not.
 */
#include <inttypes.h>

#include "checks/stretch.h"
#include "core/check.h"

static const enum event_id events[] = { EVENT_rt_pool_local_sample, EVENT_rt_pool_overflow,
                                        EVENT_rt_process_vma_sample, EVENT_COUNT };

#define SECOND INT64_C(1000000000)

struct totals {
    uint64_t misses, overflows;
};

/* Between two rounds of samples; the second round tells what happened in it. */
struct window {
    int64_t begin_ns, end_ns;
    uint64_t misses, overflows; /* by the samples' totals */
    uint64_t events, dropped;   /* by the events */
};

struct overflow {
    struct check_env *env;
    GHashTable *threads;  /* tid -> struct totals */
    struct window window; /* ends with the round that is being read */
    struct window next;   /* since then: events only */
    /* the current stretch of windows that count */
    int64_t stretch_begin_ns, stretch_end_ns;
    uint64_t stretch_seconds, stretch_batches, stretch_misses;
    uint64_t live_max;    /* coroutines alive at once, as far as samples show */
    uint64_t dropped_max; /* coroutines freed in one second of such a stretch */
    struct finding *finding;
};

static void *create(struct check_env *env)
{
    struct overflow *overflow = g_new0(struct overflow, 1);

    overflow->env = env;
    overflow->threads = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return overflow;
}

static void destroy(void *state)
{
    struct overflow *overflow = state;

    g_hash_table_destroy(overflow->threads);
    g_free(overflow);
}

static uint64_t batch_of(const struct process *process)
{
    return process->info.valid ? process->info.fields.rt_process_info.batch_size : 0;
}

/* A stretch that was long enough has ended. */
static void tell_stretch(struct overflow *overflow)
{
    const struct process *process = overflow->env->process;
    struct finding *finding = overflow->finding;

    if (overflow->stretch_seconds < overflow->env->options->sustained_seconds)
        return;
    if (!finding) {
        finding = overflow->finding = finding_get(overflow->env, "pool-overflow", "process");
        finding_raise(finding, SEVERITY_WARNING);
    }
    finding_span(finding, overflow->stretch_begin_ns, overflow->stretch_end_ns);
    finding_add_count(finding, overflow->stretch_batches);
    finding_evidence(finding, overflow->stretch_begin_ns, EVENT_rt_pool_local_sample,
                     "from here on batches are freed and coroutines are made anew in every second");
    finding_evidence(finding, overflow->stretch_end_ns, EVENT_rt_pool_local_sample,
                     "%" PRIu64 " seconds in a row: %" PRIu64 " batches freed, %" PRIu64
                     " coroutines made anew; the global "
                     "pool holds %" PRIu64 " of at most %" PRIu64,
                     overflow->stretch_seconds, overflow->stretch_batches, overflow->stretch_misses,
                     process->global_pool.fields.rt_pool_global_sample.global_size,
                     process->global_pool.fields.rt_pool_global_sample.global_max);
}

static void close_window(struct overflow *overflow)
{
    const struct window *window = &overflow->window;
    const uint64_t seconds = (uint64_t)MAX((window->end_ns - window->begin_ns + SECOND / 2) / SECOND, 1);
    const uint64_t batches = MAX(window->overflows, window->events);
    /* What one overflow frees is a batch, or a single coroutine: the events tell, if not all of them were lost. */
    const uint64_t each = window->events ? window->dropped / window->events : batch_of(overflow->env->process);
    const uint64_t dropped = MAX(window->dropped, window->overflows * each);

    /* Made anew: as many again as were freed, by and large; a trickle of misses is no sign of that. */
    if (batches < seconds || !window->misses || window->misses * 2 < dropped ||
        !window_is_short(window->begin_ns, window->end_ns)) {
        tell_stretch(overflow);
        overflow->stretch_seconds = 0;
        return;
    }
    if (!overflow->stretch_seconds) {
        overflow->stretch_begin_ns = window->begin_ns;
        overflow->stretch_batches = overflow->stretch_misses = 0;
    }
    overflow->stretch_seconds += seconds;
    overflow->stretch_batches += batches;
    overflow->stretch_misses += window->misses;
    overflow->stretch_end_ns = window->end_ns;
    overflow->dropped_max = MAX(overflow->dropped_max, dropped / seconds);
}

static void sampled(struct overflow *overflow, const struct event *event)
{
    const int64_t tid = event->fields.rt_pool_local_sample.thread_id;
    const struct totals now = { event->fields.rt_pool_local_sample.misses,
                                event->fields.rt_pool_local_sample.overflows };
    struct totals *before = g_hash_table_lookup(overflow->threads, (void *)(uintptr_t)tid);

    /* A round of samples, one for each thread, comes at once; a baseline just before or after belongs to it. */
    if (!overflow->window.end_ns) {
        overflow->window.begin_ns = overflow->window.end_ns = event->time_ns;
    } else if (event->time_ns - overflow->window.end_ns > SECOND / 2) {
        close_window(overflow);
        overflow->next.begin_ns = overflow->window.end_ns;
        overflow->next.end_ns = event->time_ns;
        overflow->window = overflow->next;
        overflow->next = (struct window){ 0 };
    }
    if (!before) {
        before = g_new0(struct totals, 1);
        *before = now; /* what it did before we saw it first is not of this window */
        g_hash_table_insert(overflow->threads, (void *)(uintptr_t)tid, before);
    }
    if (now.misses >= before->misses && now.overflows >= before->overflows) {
        overflow->window.misses += now.misses - before->misses;
        overflow->window.overflows += now.overflows - before->overflows;
    }
    *before = now;
}

static void on_event(void *state, const struct occurrence *what)
{
    struct overflow *overflow = state;
    const struct event *event = what->event;

    switch (event->id) {
    case EVENT_rt_pool_overflow:
        overflow->next.events++;
        overflow->next.dropped += event->fields.rt_pool_overflow.dropped;
        break;
    case EVENT_rt_process_vma_sample:
        overflow->live_max = MAX(overflow->live_max, event->fields.rt_process_vma_sample.live_count);
        break;
    default:
        sampled(overflow, event);
        break;
    }
}

/* Room for all that was seen at work at once; if samples missed the peaks, for what is freed in a second. */
static uint64_t size_to_suggest(const struct overflow *overflow, uint64_t global_max)
{
    const uint64_t batch = MAX(batch_of(overflow->env->process), 1);
    const uint64_t size =
        overflow->live_max > global_max ? overflow->live_max : global_max + overflow->dropped_max;

    return (size + batch - 1) / batch * batch;
}

static void finish(void *state)
{
    struct overflow *overflow = state;
    const struct process *process = overflow->env->process;
    const union event_fields *f = &process->global_pool.fields;
    struct finding *finding;
    uint64_t global_max, suggestion;

    close_window(overflow);
    tell_stretch(overflow);
    finding = overflow->finding;
    if (!finding)
        return;
    global_max = process->global_pool.valid ? f->rt_pool_global_sample.global_max : 0;
    suggestion = size_to_suggest(overflow, global_max);
    finding_subject(finding, "suggested_pool_size", json_integer((json_int_t)suggestion));
    finding_summary(finding,
                    "the coroutine pool of %s (at most %" PRIu64
                    ") is too small: batches are freed and made anew all the "
                    "time; %" PRIu64 " would do",
                    process_text(process), global_max, suggestion);
    finding_advice(finding,
                   "Let the pool hold %" PRIu64 " coroutines (%s%" PRIu64
                   "%s): more devices or queues raise its maximum, and its "
                   "hard maximum (%s) follows from vm.max_map_count and the memory.",
                   suggestion, overflow->live_max > global_max ? "" : "samples saw only ", overflow->live_max,
                   " alive at once",
                   pool_hard_max_text(process));
}

const struct check_class check_pool_overflow = {
    .ids = { "pool-overflow" },
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
