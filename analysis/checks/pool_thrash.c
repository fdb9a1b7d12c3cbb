/*
 * pool-thrash: second after second, a share of the coroutines that are needed has to be made anew.
 *
 * Of a process, from the running totals in the samples of its threads. A burst (at boot, say) misses as well, but not for
 * long.
 */
#include <inttypes.h>

#include "checks/pool_window.h"
#include "core/check.h"

static const enum event_id events[] = { EVENT_rt_pool_local_sample, EVENT_COUNT };

struct thrash {
    struct check_env *env;
    struct pool_window window;
    struct stretch stretch;
    uint64_t takes, misses, overflows; /* in the stretch */
};

static void *create(struct check_env *env)
{
    struct thrash *thrash = g_new0(struct thrash, 1);

    thrash->env = env;
    pool_window_init(&thrash->window);
    return thrash;
}

static void destroy(void *state)
{
    struct thrash *thrash = state;

    pool_window_deinit(&thrash->window);
    g_free(thrash);
}

static void end_stretch(struct thrash *thrash)
{
    const struct check_env *env = thrash->env;
    struct finding *finding;

    if (stretch_seconds(&thrash->stretch) < env->options->sustained_seconds ||
        thrash->takes < env->options->thrash_takes_min)
        return;
    finding = finding_get(env, "pool-thrash", "process");
    finding_raise(finding, SEVERITY_WARNING);
    finding_span(finding, thrash->stretch.begin_ns, thrash->stretch.end_ns);
    finding_add_count(finding, thrash->misses);
    finding_evidence(finding, thrash->stretch.end_ns, EVENT_rt_pool_local_sample,
                     "%" PRIu64 " seconds in a row: %" PRIu64 " of %" PRIu64
                     " coroutines (%.1f %%) were made anew, %" PRIu64 " times a batch was freed",
                     stretch_seconds(&thrash->stretch), thrash->misses, thrash->takes,
                     100 * (double)thrash->misses / (double)thrash->takes, thrash->overflows);
}

static void close_window(void *state, struct pool_window *window)
{
    struct thrash *thrash = state;
    const struct pool_counts *grown = &window->grown;

    if ((double)grown->misses <= thrash->env->options->thrash_share * (double)grown->takes ||
        !window_is_short(window->begin_ns, window->end_ns)) {
        end_stretch(thrash);
        stretch_break(&thrash->stretch);
        return;
    }
    if (stretch_extend(&thrash->stretch, window->begin_ns, window->end_ns))
        thrash->takes = thrash->misses = thrash->overflows = 0;
    thrash->takes += grown->takes;
    thrash->misses += grown->misses;
    thrash->overflows += grown->overflows;
}

static void on_event(void *state, const struct occurrence *what)
{
    struct thrash *thrash = state;

    pool_window_sample(&thrash->window, what->event, close_window, thrash);
}

static void finish(void *state)
{
    struct thrash *thrash = state;
    const struct process *process = thrash->env->process;
    const union event_fields *f = &process->global_pool.fields;
    struct finding *finding;
    GList *threads;

    pool_window_finish(&thrash->window, close_window, thrash);
    end_stretch(thrash);
    if (!finding_exists(thrash->env, "pool-thrash", "process"))
        return;
    finding = finding_get(thrash->env, "pool-thrash", "process");
    threads = pool_window_threads(&thrash->window);
    for (GList *link = threads; link; link = link->next) {
        const struct pool_thread *thread = link->data;

        if (thread->totals.misses)
            finding_note(finding, process->last_ns, "pool of a thread",
                         "%s: %" PRIu64 " of %" PRIu64 " coroutines made anew since it runs",
                         thread_text(process, thread->tid), thread->totals.misses, thread->totals.takes);
    }
    g_list_free(threads);
    if (process->global_pool.valid && f->rt_pool_global_sample.global_max == 0) {
        finding_summary(finding, "%s has no coroutine pool: it makes a stack for every coroutine and frees it again",
                        process_text(process));
        finding_advice(finding, "Let it have one: --coroutine-pool=batched, the default.");
        return;
    }
    finding_summary(finding,
                    "%s makes coroutines anew all the time: its pool (at most %" PRIu64
                    " beyond the threads' own) is smaller than its load needs",
                    process_text(process),
                    process->global_pool.valid ? f->rt_pool_global_sample.global_max : 0);
    finding_advice(
        finding,
        "Each miss maps a stack and frees it again. Let the pool be larger: more devices or queues raise "
        "its maximum; its hard maximum (%s) follows from vm.max_map_count and the memory.",
        pool_hard_max_text(process));
}

const struct check_class check_pool_thrash = {
    .ids = { "pool-thrash" },
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
