/*
 * pool-imbalance: one thread (nearly) only takes coroutines and has to make them, while another (nearly) only gives them back
 * and has to free them: the global pool does not even it out.
 *
 * Both for the same seconds in a row. That coroutines are taken here and given there is normal; that the one makes what the
 * other frees is not.
 */
#include <inttypes.h>

#include "checks/pool_window.h"
#include "core/check.h"

static const enum event_id events[] = { EVENT_rt_pool_local_sample, EVENT_COUNT };

/* "Nearly only": the other direction is at most a tenth. */
#define NEARLY 10

struct imbalance {
    struct check_env *env;
    struct pool_window window;
};

static void *create(struct check_env *env)
{
    struct imbalance *imbalance = g_new0(struct imbalance, 1);

    imbalance->env = env;
    pool_window_init(&imbalance->window);
    return imbalance;
}

static void destroy(void *state)
{
    struct imbalance *imbalance = state;

    pool_window_deinit(&imbalance->window);
    g_free(imbalance);
}

static void add(struct pool_counts *sum, const struct pool_counts *counts)
{
    sum->takes += counts->takes;
    sum->gives += counts->gives;
    sum->misses += counts->misses;
    sum->overflows += counts->overflows;
}

static void follow(struct stretch *stretch, struct pool_counts *sum, bool holds,
                   const struct pool_window *window, const struct pool_counts *grown)
{
    if (!holds) {
        stretch_break(stretch);
        return;
    }
    if (stretch_extend(stretch, window->begin_ns, window->end_ns))
        *sum = (struct pool_counts){ 0 };
    add(sum, grown);
}

static void update(const struct imbalance *imbalance, const struct pool_window *window,
                   struct pool_thread *thread)
{
    const struct pool_counts *grown = &thread->grown;
    const bool takes = grown->takes && grown->gives * NEARLY <= grown->takes &&
                       (double)grown->misses > imbalance->env->options->thrash_share * (double)grown->takes;
    const bool gives = grown->gives && grown->takes * NEARLY <= grown->gives;

    follow(&thread->taking, &thread->taken, takes, window, grown);
    follow(&thread->giving, &thread->given, gives, window, grown);
}

static bool gives_in_vain(const struct imbalance *imbalance, const struct pool_thread *thread)
{
    return stretch_seconds(&thread->giving) >= imbalance->env->options->sustained_seconds &&
           thread->given.overflows;
}

/* One finding per taker, whoever it is that could have fed it. */
static void report(const struct imbalance *imbalance, const struct pool_thread *taker, GList *threads)
{
    const struct check_env *env = imbalance->env;
    const struct process *process = env->process;
    struct finding *finding = finding_get(env, "pool-imbalance", "taker %" PRId64, taker->tid);
    const int64_t end_ns = taker->taking.end_ns;
    const struct pool_thread *first = NULL;

    finding_raise(finding, SEVERITY_WARNING);
    if (finding_is_told(finding)) {
        finding_span(finding, end_ns, end_ns);
        finding_add_count(finding, taker->grown.misses);
        return;
    }
    finding_add_count(finding, taker->taken.misses);
    finding_subject_thread(finding, process, taker->tid);
    finding_evidence(finding, end_ns, EVENT_rt_pool_local_sample,
                     "%s: %" PRIu64 " taken, of which %" PRIu64 " made anew, %" PRIu64 " given in %" PRIu64
                     " s",
                     thread_text(process, taker->tid), taker->taken.takes, taker->taken.misses,
                     taker->taken.gives, stretch_seconds(&taker->taking));
    for (GList *link = threads; link; link = link->next) {
        const struct pool_thread *giver = link->data;

        if (!gives_in_vain(imbalance, giver))
            continue;
        if (!first)
            first = giver;
        finding_span(finding, MAX(taker->taking.begin_ns, giver->giving.begin_ns), end_ns);
        finding_evidence(finding, end_ns, EVENT_rt_pool_local_sample,
                         "%s: %" PRIu64 " given, overflowed %" PRIu64 " times, %" PRIu64 " taken in %" PRIu64
                         " s",
                         thread_text(process, giver->tid), giver->given.gives, giver->given.overflows,
                         giver->given.takes, stretch_seconds(&giver->giving));
    }
    finding_subject(finding, "giving_thread_id", json_integer(first->tid));
    finding_summary(
        finding, "%s makes coroutines anew while %s frees as many: the pool of %s does not even it out",
        thread_text(process, taker->tid), thread_text(process, first->tid), process_text(process));
    finding_advice(
        finding,
        "Use the batched pool (--coroutine-pool=batched), whose global pool takes what one thread has too "
        "much of and gives it to the other; if it is in use, its maximum is too small: more devices "
        "or queues raise it.");
}

static void close_window(void *state, struct pool_window *window)
{
    const struct imbalance *imbalance = state;
    GList *threads = pool_window_threads(window);
    bool any = false;

    for (GList *link = threads; link; link = link->next) {
        update(imbalance, window, link->data);
        any |= gives_in_vain(imbalance, link->data);
    }
    for (GList *link = any ? threads : NULL; link; link = link->next) {
        const struct pool_thread *taker = link->data;

        if (stretch_seconds(&taker->taking) >= imbalance->env->options->sustained_seconds)
            report(imbalance, taker, threads);
    }
    g_list_free(threads);
}

static void on_event(void *state, const struct occurrence *what)
{
    struct imbalance *imbalance = state;

    pool_window_sample(&imbalance->window, what->event, close_window, imbalance);
}

static void finish(void *state)
{
    struct imbalance *imbalance = state;

    pool_window_finish(&imbalance->window, close_window, imbalance);
}

const struct check_class check_pool_imbalance = {
    .ids = { "pool-imbalance" },
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
