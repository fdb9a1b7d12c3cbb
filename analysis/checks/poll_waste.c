/*
 * poll-waste: a loop spends most of its time polling, and polling hardly ever finds anything.
 *
 * Decided by the loop's running totals over the whole recording. The handler whose polling window grew most often, or that
 * at least ended most polls that paid, is the one that keeps the loop polling. Windows may be one for each handler, or one
 * for all: then the last change is that of all.
 */
#include <inttypes.h>

#include "core/check.h"
#include "core/dialect.h"

static const enum event_id events[] = { EVENT_rt_loop_poll_adjust, EVENT_rt_loop_poll_end, EVENT_COUNT };

/* Polling takes more than this share of the thread, and less than that share of the polls pay. */
#define TIME_SHARE 0.5
#define USEFUL_SHARE 0.05

#define KEEPERS_MAX 16

struct keeper {
    uint64_t handler_id;
    uint64_t grown, ended;
    int64_t adjusted_ns, ns; /* when its window changed last, and to what; 0: never */
};

struct window {
    struct keeper keepers[KEEPERS_MAX];
    unsigned count;
};

struct poll_waste {
    struct check_env *env;
    GHashTable *windows; /* by loop id */
};

static void *create(struct check_env *env)
{
    struct poll_waste *waste = g_new0(struct poll_waste, 1);

    waste->env = env;
    waste->windows = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return waste;
}

static void destroy(void *state)
{
    struct poll_waste *waste = state;

    g_hash_table_destroy(waste->windows);
    g_free(waste);
}

/* The handler's entry; when all are taken, that of the one that matters least. */
static struct keeper *need_keeper(struct window *window, uint64_t handler_id)
{
    struct keeper *least = &window->keepers[0];

    for (unsigned i = 0; i < window->count; i++) {
        struct keeper *keeper = &window->keepers[i];

        if (keeper->handler_id == handler_id)
            return keeper;
        if (keeper->grown < least->grown || (keeper->grown == least->grown && keeper->ended < least->ended))
            least = keeper;
    }
    if (window->count < KEEPERS_MAX)
        least = &window->keepers[window->count++];
    *least = (struct keeper){ .handler_id = handler_id };
    return least;
}

static void on_event(void *state, const struct occurrence *what)
{
    struct poll_waste *waste = state;
    const union event_fields *f = &what->event->fields;
    struct window *window;
    struct keeper *keeper;

    if (!what->loop || (what->event->id == EVENT_rt_loop_poll_end && !f->rt_loop_poll_end.progress))
        return;
    window = g_hash_table_lookup(waste->windows, (void *)(uintptr_t)what->loop->id);
    if (!window) {
        window = g_new0(struct window, 1);
        g_hash_table_insert(waste->windows, (void *)(uintptr_t)what->loop->id, window);
    }
    if (what->event->id == EVENT_rt_loop_poll_end) {
        need_keeper(window, f->rt_loop_poll_end.handler_id)->ended++;
        return;
    }
    keeper = need_keeper(window, f->rt_loop_poll_adjust.handler_id);
    keeper->adjusted_ns = what->event->time_ns;
    keeper->ns = f->rt_loop_poll_adjust.new_ns;
    keeper->grown += f->rt_loop_poll_adjust.new_ns > f->rt_loop_poll_adjust.old_ns;
}

static const struct keeper *main_keeper(const struct window *window)
{
    const struct keeper *best = NULL;

    for (unsigned i = 0; window && i < window->count; i++) {
        const struct keeper *keeper = &window->keepers[i];

        if (!best || keeper->grown > best->grown ||
            (keeper->grown == best->grown && keeper->ended > best->ended))
            best = keeper;
    }
    return best;
}

static void tell_keeper(struct finding *finding, const struct process *process, const struct loop *loop,
                        const struct window *window, char *name_out, size_t name_size)
{
    const struct keeper *keeper = main_keeper(window);
    const struct handler *handler;

    g_snprintf(name_out, name_size, "its configuration (the window was never adjusted)");
    if (!keeper)
        return;
    handler = process_handler(process, keeper->handler_id);
    if (process->dialect)
        g_snprintf(name_out, name_size, "a handler that %s does not name", process->dialect->name);
    else if (!keeper->handler_id)
        g_snprintf(name_out, name_size, "notifications");
    else if (handler && handler->role == ROLE_HOST_NOTIFIER)
        g_snprintf(name_out, name_size, "handler %" PRIu64 " (queue %" PRIu16 " of %s)", handler->id,
                   handler->queue_index, device_text(process, handler->device_id));
    else
        g_snprintf(name_out, name_size, "handler %" PRIu64 " (%s)", keeper->handler_id,
                   role_text(handler ? handler->role : ROLE_UNKNOWN));
    if (keeper->handler_id && !process->dialect) {
        finding_subject(finding, "handler_id", json_integer((json_int_t)keeper->handler_id));
        if (handler)
            finding_subject(finding, "fd", json_integer(handler->fd));
    }
    if (keeper->adjusted_ns)
        finding_evidence(finding, keeper->adjusted_ns, EVENT_rt_loop_poll_adjust,
                         "%s polls %s for up to %" PRId64 " ns; that window grew %" PRIu64 " times",
                         loop_text(process, loop->id), name_out, keeper->ns, keeper->grown);
}

static void judge(const struct poll_waste *waste, const struct loop *loop)
{
    const struct process *process = waste->env->process;
    const union event_fields *a = &loop->first.fields, *b = &loop->last.fields;
    const uint64_t polls = b->rt_loop_sample.polls - a->rt_loop_sample.polls;
    const uint64_t useful = b->rt_loop_sample.polls_useful - a->rt_loop_sample.polls_useful;
    const uint64_t poll_ns = b->rt_loop_sample.poll_ns - a->rt_loop_sample.poll_ns;
    const uint64_t all_ns = poll_ns + (b->rt_loop_sample.busy_ns - a->rt_loop_sample.busy_ns) +
                            (b->rt_loop_sample.wait_ns - a->rt_loop_sample.wait_ns);
    const char *name = loop_text(process, loop->id);
    struct finding *finding;
    char keeper[128];

    if (!loop->last.valid || !polls || (double)poll_ns <= TIME_SHARE * (double)all_ns ||
        (double)useful >= USEFUL_SHARE * (double)polls)
        return;
    finding = finding_get(waste->env, "poll-waste", "loop %" PRIu32, loop->id);
    finding_raise(finding, SEVERITY_INFO);
    finding_span(finding, loop->first.time_ns, loop->last.time_ns);
    finding_add_count(finding, polls - useful);
    finding_subject_loop(finding, process, loop->id);
    tell_keeper(finding, process, loop, g_hash_table_lookup(waste->windows, (void *)(uintptr_t)loop->id),
                keeper, sizeof(keeper));
    finding_evidence(finding, loop->last.time_ns, EVENT_rt_loop_sample,
                     "since its first sample %s polled %" PRIu64 " times and found something %" PRIu64
                     " times; polling took %.3f s of %.3f s",
                     name, polls, useful, (double)poll_ns / 1e9, (double)all_ns / 1e9);
    finding_summary(
        finding, "%s polls %.0f %% of its time, and %.1f %% of the polls pay; what keeps the window open: %s",
        name, 100.0 * (double)poll_ns / (double)all_ns, 100.0 * (double)useful / (double)polls, keeper);
    finding_advice(
        finding,
        "Lower %s, or turn polling off for this load: the processor time is spent for nothing. "
        "Keep it where latency matters more than the processor.",
        process->dialect ? "poll-max-ns of the iothread object" : "--poll-max-ns");
}

static gint by_loop(const void *a, const void *b)
{
    const struct loop *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static void finish(void *state)
{
    const struct poll_waste *waste = state;
    GList *loops = g_list_sort(g_hash_table_get_values(waste->env->process->loops), by_loop);

    for (GList *loop = loops; loop; loop = loop->next)
        judge(waste, loop->data);
    g_list_free(loops);
}

const struct check_class check_poll_waste = {
    .ids = { "poll-waste" },
    .events = events,
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
};
