/*
 * vma-pressure, vma-exhausted: the process's mappings approach vm.max_map_count, or a stack could not be mapped.
 *
 * Who holds the mappings decides the remedy. Every sample above the warning limit is split into stacks that idle in pools,
 * stacks of live coroutines, and all other mappings; the largest of the three over all those samples is the cause. What
 * appeared between the last sample and a failure was made because it was needed, so it counts as live.
 */
#include <inttypes.h>
#include <string.h>

#include "core/check.h"

static const enum event_id events[] = { EVENT_rt_process_vma_sample, EVENT_rt_process_vma_exhausted,
                                        EVENT_rt_pool_local_sample, EVENT_rt_pool_global_sample,
                                        EVENT_COUNT };

/* Short, so that growth that has ended is not taken for growth. */
#define TREND_SAMPLES 6

/* Mappings by holder. */
struct split {
    double idle, live, other;
};

/* Idle stacks that a thread's pool held while there was pressure. */
struct hoard {
    int64_t tid; /* 0: the global pool */
    char *name;
    uint64_t stacks_max;
    int64_t time_ns;
};

struct vma {
    struct check_env *env;
    bool pressed; /* the last sample was above the warning limit */
    struct split sum;
    uint64_t samples;
    int64_t first_ns, last_ns;
    double worst; /* share of the limit */
    struct sample worst_sample;
    struct split worst_split;
    GHashTable *hoards;     /* tid -> struct hoard: as of the last samples */
    GHashTable *hoards_hit; /* tid -> struct hoard: the largest under pressure */
    struct {
        int64_t time_ns;
        double vma_count;
    } trend[TREND_SAMPLES];
    unsigned trend_count; /* all samples; the ring holds the last ones */

    uint64_t failures;
    int64_t failed_ns, failed_last_ns;
    char *operation;
    int64_t error;
    uint64_t failed_count, failed_max;
    struct split failed_split;
    bool failed_known; /* there was a sample before */
};

static void hoard_free(void *data)
{
    struct hoard *hoard = data;

    g_free(hoard->name);
    g_free(hoard);
}

static void *create(struct check_env *env)
{
    struct vma *vma = g_new0(struct vma, 1);

    vma->env = env;
    vma->hoards = g_hash_table_new_full(NULL, NULL, NULL, hoard_free);
    vma->hoards_hit = g_hash_table_new_full(NULL, NULL, NULL, hoard_free);
    return vma;
}

static void destroy(void *state)
{
    struct vma *vma = state;

    g_hash_table_destroy(vma->hoards);
    g_hash_table_destroy(vma->hoards_hit);
    g_free(vma->operation);
    g_free(vma);
}

static double mappings_per_stack(const struct process *process)
{
    const union event_fields *f = &process->vma.fields;

    if (process->vma.valid && f->rt_process_vma_sample.stack_count &&
        f->rt_process_vma_sample.stack_vma_count)
        return (double)f->rt_process_vma_sample.stack_vma_count /
               (double)f->rt_process_vma_sample.stack_count;
    if (process->info.valid)
        return (double)process->info.fields.rt_process_info.mappings_per_1000_stacks / 1000;
    return 0;
}

static uint64_t limit_of(const struct process *process, uint64_t told)
{
    return told ? told : process->info.valid ? process->info.fields.rt_process_info.max_map_count : 0;
}

static struct split split_sample(const struct process *process, const union event_fields *f)
{
    const double stacks = (double)f->rt_process_vma_sample.stack_count;
    const double live = MIN((double)f->rt_process_vma_sample.live_count, stacks);
    double all = (double)f->rt_process_vma_sample.stack_vma_count;
    struct split split = { 0 };

    if (!all)
        all = stacks * mappings_per_stack(process);
    if (stacks) {
        split.live = all * live / stacks;
        split.idle = all - split.live;
    }
    split.other =
        MAX((double)f->rt_process_vma_sample.vma_count - all, 0); /* counted less often than stacks are */
    return split;
}

static const char *cause_of(const struct split *split)
{
    if (split->idle >= split->live && split->idle >= split->other)
        return "pooled-idle";
    return split->live >= split->other ? "concurrency" : "other-mappings";
}

/* --- samples ------------------------------------------------------------------------------------------- */

static void copy_hoards(struct vma *vma)
{
    GHashTableIter iter;
    void *key, *value;

    g_hash_table_iter_init(&iter, vma->hoards);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        const struct hoard *now = value;
        struct hoard *hit = g_hash_table_lookup(vma->hoards_hit, key);

        if (!hit) {
            hit = g_new0(struct hoard, 1);
            g_hash_table_insert(vma->hoards_hit, key, hit);
        }
        if (now->stacks_max < hit->stacks_max)
            continue;
        g_free(hit->name);
        *hit = *now;
        hit->name = g_strdup(now->name);
    }
}

static void hoard(struct vma *vma, int64_t tid, const char *name, uint64_t stacks, int64_t time_ns)
{
    struct hoard *now = g_hash_table_lookup(vma->hoards, (void *)(uintptr_t)tid);

    if (!now) {
        now = g_new0(struct hoard, 1);
        now->tid = tid;
        g_hash_table_insert(vma->hoards, (void *)(uintptr_t)tid, now);
    }
    if (g_strcmp0(now->name, name)) {
        g_free(now->name);
        now->name = g_strdup(name);
    }
    now->stacks_max = stacks;
    now->time_ns = time_ns;
    if (vma->pressed)
        copy_hoards(vma);
}

static void sampled(struct vma *vma, const struct occurrence *what)
{
    const union event_fields *f = &what->event->fields;
    const uint64_t limit = limit_of(what->process, f->rt_process_vma_sample.max_map_count);
    struct split split;
    double share;

    vma->trend[vma->trend_count % TREND_SAMPLES].time_ns = what->event->time_ns;
    vma->trend[vma->trend_count++ % TREND_SAMPLES].vma_count = (double)f->rt_process_vma_sample.vma_count;
    if (!limit)
        return;
    share = (double)f->rt_process_vma_sample.vma_count / (double)limit;
    vma->pressed = share >= vma->env->options->mapping_warning;
    if (!vma->pressed)
        return;
    split = split_sample(what->process, f);
    vma->sum.idle += split.idle;
    vma->sum.live += split.live;
    vma->sum.other += split.other;
    if (!vma->samples++)
        vma->first_ns = what->event->time_ns;
    vma->last_ns = what->event->time_ns;
    if (share > vma->worst) {
        vma->worst = share;
        vma->worst_sample = what->process->vma;
        vma->worst_split = split;
    }
}

static void exhausted(struct vma *vma, const struct occurrence *what)
{
    const struct process *process = what->process;
    const union event_fields *f = &what->event->fields;
    const uint64_t count = f->rt_process_vma_exhausted.vma_count;

    vma->failed_last_ns = what->event->time_ns;
    if (vma->failures++)
        return;
    vma->failed_ns = what->event->time_ns;
    vma->operation = g_strdup(f->rt_process_vma_exhausted.operation);
    vma->error = f->rt_process_vma_exhausted.error;
    vma->failed_count = count;
    vma->failed_max = limit_of(process, f->rt_process_vma_exhausted.max_map_count);
    vma->failed_known = process->vma.valid;
    if (process->vma.valid) {
        vma->failed_split = split_sample(process, &process->vma.fields);
        vma->failed_split.live +=
            MAX((double)count - (double)process->vma.fields.rt_process_vma_sample.vma_count, 0);
    }
    copy_hoards(vma);
}

static void on_event(void *state, const struct occurrence *what)
{
    struct vma *vma = state;
    const union event_fields *f = &what->event->fields;

    switch (what->event->id) {
    case EVENT_rt_process_vma_sample:
        sampled(vma, what);
        break;
    case EVENT_rt_process_vma_exhausted:
        exhausted(vma, what);
        break;
    case EVENT_rt_pool_local_sample:
        hoard(vma, f->rt_pool_local_sample.thread_id, f->rt_pool_local_sample.name,
              f->rt_pool_local_sample.local_size, what->event->time_ns);
        break;
    default:
        hoard(vma, 0, "the global pool", f->rt_pool_global_sample.global_size, what->event->time_ns);
        break;
    }
}

/* --- report -------------------------------------------------------------------------------------------- */

static gint by_size(const void *a, const void *b)
{
    const struct hoard *x = a, *y = b;

    if (x->stacks_max != y->stacks_max)
        return x->stacks_max > y->stacks_max ? -1 : 1;
    return x->tid < y->tid ? -1 : x->tid > y->tid;
}

#define HOARDS_TOLD 4

static void tell_hoards(const struct vma *vma, struct finding *finding, json_t *threads)
{
    const double cost = mappings_per_stack(vma->env->process);
    GList *hoards = g_list_sort(g_hash_table_get_values(vma->hoards_hit), by_size);
    unsigned told = 0;

    for (GList *item = hoards; item; item = item->next) {
        const struct hoard *hoard = item->data;
        const json_int_t mappings = (json_int_t)((double)hoard->stacks_max * cost + 0.5);
        const char *name = hoard->name && *hoard->name ? hoard->name : NULL;

        if (!hoard->stacks_max)
            continue;
        json_array_append_new(threads, json_pack("{s:s?, s:I, s:I, s:I}", "name", name, "thread_id",
                                                 (json_int_t)hoard->tid, "idle_stacks",
                                                 (json_int_t)hoard->stacks_max, "mappings", mappings));
        if (told++ < HOARDS_TOLD)
            finding_evidence(finding, hoard->time_ns,
                             hoard->tid ? EVENT_rt_pool_local_sample : EVENT_rt_pool_global_sample,
                             "%s holds %" PRIu64 " idle stacks, about %" PRId64 " mappings",
                             hoard->tid ? thread_text(vma->env->process, hoard->tid) : hoard->name,
                             hoard->stacks_max, (int64_t)mappings);
    }
    g_list_free(hoards);
}

/* The thread that hoards most, for the sentence. */
static const char *worst_hoarder(const struct vma *vma)
{
    GList *hoards = g_list_sort(g_hash_table_get_values(vma->hoards_hit), by_size);
    const struct hoard *worst = hoards ? hoards->data : NULL;
    const char *text = NULL;

    if (worst && worst->stacks_max)
        text = worst->tid ? thread_text(vma->env->process, worst->tid) : worst->name;
    g_list_free(hoards);
    return text;
}

/* Mappings per second by least squares over the last samples; 0 when there are too few. */
static double slope(const struct vma *vma)
{
    const unsigned count = MIN(vma->trend_count, TREND_SAMPLES);
    double t_mean = 0, v_mean = 0, covariance = 0, variance = 0;
    const int64_t origin = vma->trend[0].time_ns;

    for (unsigned i = 0; i < count; i++) {
        t_mean += (double)(vma->trend[i].time_ns - origin) / 1e9 / count;
        v_mean += vma->trend[i].vma_count / count;
    }
    for (unsigned i = 0; i < count; i++) {
        const double t = (double)(vma->trend[i].time_ns - origin) / 1e9 - t_mean;

        covariance += t * (vma->trend[i].vma_count - v_mean);
        variance += t * t;
    }
    return count >= 3 && variance > 0 ? covariance / variance : 0;
}

static void tell_forecast(const struct vma *vma, struct finding *finding, uint64_t limit)
{
    const struct sample *last = &vma->env->process->vma;
    const double growth = slope(vma);
    double left;

    if (!last->valid || !limit)
        return;
    left = (double)limit - (double)last->fields.rt_process_vma_sample.vma_count;
    if (growth >= 1 && left > 0) {
        finding_evidence(
            finding, last->time_ns, EVENT_rt_process_vma_sample,
            "growing by %.0f mappings a second over the last samples: the limit is reached in about %.0f s",
            growth, left / growth);
        finding_subject(finding, "forecast_s", json_real(left / growth));
    } else {
        finding_evidence(finding, last->time_ns, EVENT_rt_process_vma_sample,
                         "not growing at the end of the recording: %.0f mappings are left", MAX(left, 0));
    }
}

static void tell_split(const struct process *process, struct finding *finding, const struct sample *sample,
                       const struct split *split, uint64_t limit)
{
    const union event_fields *f = &sample->fields;

    finding_evidence(finding, sample->time_ns, EVENT_rt_process_vma_sample,
                     "%" PRIu64 " of %" PRIu64
                     " mappings: about %.0f of idle stacks, %.0f of stacks in use, %.0f of other "
                     "things; %" PRIu64 " stacks at %.3g mappings each, %" PRIu64 " coroutines live",
                     f->rt_process_vma_sample.vma_count, limit, split->idle, split->live, split->other,
                     f->rt_process_vma_sample.stack_count, mappings_per_stack(process),
                     f->rt_process_vma_sample.live_count);
}

static void advise(struct finding *finding, const char *cause, uint64_t limit)
{
    if (!strcmp(cause, "pooled-idle"))
        finding_advice(
            finding,
            "Idle stacks are hoarded: bound the pool (--coroutine-pool=batched caps what all threads hold "
            "together), or make a stack cost no mapping of its own (lightweight guards, --stack-guard). "
            "Raising the limit (sysctl vm.max_map_count=%" PRIu64 ") only buys time.",
            limit * 2);
    else if (!strcmp(cause, "concurrency"))
        finding_advice(
            finding,
            "That many requests really are in flight, so the pool is not to blame: raise the limit (sysctl "
            "vm.max_map_count=%" PRIu64 "), make a stack cost no mapping of its own (lightweight guards, "
            "--stack-guard), or offer fewer or shorter queues (--num-queues).",
            limit * 2);
    else
        finding_advice(
            finding,
            "Most mappings are not stacks: look into /proc/PID/maps for what repeats (a library, a leak, "
            "guest memory in many regions), and raise the limit (sysctl vm.max_map_count=%" PRIu64
            ") if they are needed.",
            limit * 2);
}

static void report_pressure(const struct vma *vma)
{
    const struct process *process = vma->env->process;
    const uint64_t limit = limit_of(process, vma->worst_sample.fields.rt_process_vma_sample.max_map_count);
    const char *cause = cause_of(&vma->sum), *hoarder;
    struct finding *finding = finding_get(vma->env, "vma-pressure", "process");
    json_t *threads = json_array();

    finding_raise(finding,
                  vma->worst >= vma->env->options->mapping_error ? SEVERITY_ERROR : SEVERITY_WARNING);
    finding_span(finding, vma->first_ns, vma->last_ns);
    finding_add_count(finding, vma->samples);
    finding_cause(finding, "%s", cause);
    tell_split(process, finding, &vma->worst_sample, &vma->worst_split, limit);
    tell_hoards(vma, finding, threads);
    finding_subject(finding, "threads", threads);
    tell_forecast(vma, finding, limit);
    hoarder = strcmp(cause, "pooled-idle") ? NULL : worst_hoarder(vma);
    finding_summary(finding, "%s uses up to %.0f %% of its mappings (%" PRIu64 " of %" PRIu64 "): %s%s%s",
                    process_text(process), 100 * vma->worst,
                    vma->worst_sample.fields.rt_process_vma_sample.vma_count, limit,
                    !strcmp(cause, "pooled-idle")   ? "most belong to stacks that idle in pools"
                    : !strcmp(cause, "concurrency") ? "most belong to stacks of requests in flight"
                                                    : "most belong to nothing of ours",
                    hoarder ? ", above all those of " : "", hoarder ? hoarder : "");
    advise(finding, cause, limit);
}

static void report_exhausted(const struct vma *vma)
{
    const struct process *process = vma->env->process;
    const struct split *split = vma->samples ? &vma->sum : &vma->failed_split;
    const bool known = vma->samples || vma->failed_known;
    const char *cause = cause_of(split);
    struct finding *finding = finding_get(vma->env, "vma-exhausted", "process");
    json_t *threads = json_array();

    finding_raise(finding, SEVERITY_ERROR);
    finding_span(finding, vma->failed_ns, vma->failed_last_ns);
    finding_add_count(finding, vma->failures);
    finding_evidence(finding, vma->failed_ns, EVENT_rt_process_vma_exhausted,
                     "%s failed (%s) with %" PRIu64 " of %" PRIu64 " mappings in use", vma->operation,
                     strerror((int)-vma->error), vma->failed_count, vma->failed_max);
    if (vma->samples)
        tell_split(process, finding, &vma->worst_sample, &vma->worst_split, vma->failed_max);
    tell_hoards(vma, finding, threads);
    finding_subject(finding, "threads", threads);
    if (known)
        finding_cause(finding, "%s", cause);
    finding_summary(finding,
                    "%s could not map a stack (%s): %" PRIu64 " of %" PRIu64 " mappings are in use%s%s",
                    process_text(process), vma->operation, vma->failed_count, vma->failed_max,
                    known ? ", cause " : "", known ? cause : "");
    advise(finding, cause, vma->failed_max);
}

static void finish(void *state)
{
    const struct vma *vma = state;

    if (vma->failures)
        report_exhausted(vma); /* says all that the other would */
    else if (vma->samples)
        report_pressure(vma);
}

const struct check_class check_vma = {
    .ids = { "vma-pressure", "vma-exhausted" },
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
