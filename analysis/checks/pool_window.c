#include "checks/pool_window.h"

void pool_window_init(struct pool_window *window)
{
    *window = (struct pool_window){ .threads = g_hash_table_new_full(NULL, NULL, NULL, g_free) };
}

void pool_window_deinit(struct pool_window *window)
{
    g_hash_table_destroy(window->threads);
}

static void add(struct pool_counts *sum, const struct pool_counts *counts)
{
    sum->takes += counts->takes;
    sum->gives += counts->gives;
    sum->misses += counts->misses;
    sum->overflows += counts->overflows;
}

static void close_round(struct pool_window *window, pool_window_close *close, void *state)
{
    GHashTableIter iter;
    void *value;

    window->end_ns = window->round.end_ns;
    window->grown = (struct pool_counts){ 0 };
    g_hash_table_iter_init(&iter, window->threads);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        add(&window->grown, &((const struct pool_thread *)value)->grown);
    if (window->begin_ns < window->end_ns && window->begin_ns)
        close(state, window);
    g_hash_table_iter_init(&iter, window->threads);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct pool_thread *thread = value;

        thread->grown = (struct pool_counts){ 0 };
        thread->sampled = false;
    }
    window->begin_ns = window->end_ns;
}

void pool_window_sample(struct pool_window *window, const struct event *event, pool_window_close *close,
                        void *state)
{
    const union event_fields *f = &event->fields;
    void *key = (void *)(uintptr_t)f->rt_pool_local_sample.thread_id;
    const struct pool_counts now = { f->rt_pool_local_sample.takes, f->rt_pool_local_sample.gives,
                                     f->rt_pool_local_sample.misses, f->rt_pool_local_sample.overflows };
    struct pool_thread *thread = g_hash_table_lookup(window->threads, key);

    if (window->round.any && round_begins(&window->round, event->time_ns))
        close_round(window, close, state);
    round_add(&window->round, event->time_ns);
    if (!thread) {
        thread = g_new0(struct pool_thread, 1);
        thread->tid = f->rt_pool_local_sample.thread_id;
        thread->totals = now; /* what it did before we saw it first is not of this window */
        g_hash_table_insert(window->threads, key, thread);
    }
    /* Smaller totals: another thread that got the id of a dead one. */
    if (now.takes >= thread->totals.takes && now.gives >= thread->totals.gives &&
        now.misses >= thread->totals.misses && now.overflows >= thread->totals.overflows)
        add(&thread->grown,
            &(struct pool_counts){ now.takes - thread->totals.takes, now.gives - thread->totals.gives,
                                   now.misses - thread->totals.misses,
                                   now.overflows - thread->totals.overflows });
    thread->totals = now;
    thread->sampled = true;
}

void pool_window_finish(struct pool_window *window, pool_window_close *close, void *state)
{
    if (window->round.any)
        close_round(window, close, state);
}

static gint by_tid(const void *a, const void *b)
{
    const struct pool_thread *x = a, *y = b;

    return x->tid < y->tid ? -1 : x->tid > y->tid;
}

GList *pool_window_threads(const struct pool_window *window)
{
    return g_list_sort(g_hash_table_get_values(window->threads), by_tid);
}
