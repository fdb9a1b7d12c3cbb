#include "dialects/qemu.h"

#include <inttypes.h>

#define SAMPLE_NS INT64_C(1000000000)

void qemu_derive(struct qemu *qemu, struct event event)
{
    event.time_ns = qemu->event->time_ns;
    event.stream = qemu->event->stream;
    event.vpid = qemu->event->vpid;
    event.vtid = qemu->event->vtid;
    analysis_derive(qemu->process, &event);
}

static void *create(struct process *process)
{
    struct qemu *qemu = g_new0(struct qemu, 1);

    qemu->process = process;
    qemu->contexts = g_hash_table_new(NULL, NULL);
    qemu->context_list = g_ptr_array_new_with_free_func(g_free);
    qemu->coroutines = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    qemu->threads = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    qemu_locks_init(qemu);
    qemu_requests_init(qemu);
    return qemu;
}

static void destroy(void *state)
{
    struct qemu *qemu = state;

    qemu_requests_deinit(qemu);
    qemu_locks_deinit(qemu);
    g_hash_table_destroy(qemu->threads);
    g_hash_table_destroy(qemu->coroutines);
    g_hash_table_destroy(qemu->contexts);
    g_ptr_array_free(qemu->context_list, TRUE);
    g_free(qemu);
}

/* --- threads and contexts ------------------------------------------------------------------------------ */

struct qemu_thread *qemu_thread(struct qemu *qemu)
{
    const int64_t tid = qemu->event->vtid;
    struct qemu_thread *thread;

    if (tid == EVENT_UNKNOWN_ID)
        return NULL;
    thread = g_hash_table_lookup(qemu->threads, qemu_key((uint64_t)tid));
    if (!thread) {
        thread = g_new0(struct qemu_thread, 1);
        thread->tid = tid;
        g_hash_table_insert(qemu->threads, qemu_key((uint64_t)tid), thread);
    }
    return thread;
}

/* The tracer's name of a thread: the main thread's is the program's. */
static void name_thread(struct qemu *qemu, const char *name)
{
    struct thread *thread = process_find_thread(qemu->process, qemu->event->vtid);

    if (thread && !thread->name && *name)
        thread->name = g_strdup(name);
}

static void name_context(struct qemu *qemu, const struct qemu_context *context)
{
    char name[64];

    g_snprintf(name, sizeof(name), "AioContext 0x%" PRIx64, context->address);
    QEMU_DERIVE(qemu, rt_loop_create, .loop_id = context->id, .name = name, .thread_id = context->tid);
}

static struct qemu_context *need_context(struct qemu *qemu, uint64_t address)
{
    struct qemu_context *context = g_hash_table_lookup(qemu->contexts, qemu_key(address));

    if (!context) {
        context = g_new0(struct qemu_context, 1);
        context->address = address;
        context->first_ns = qemu->event->time_ns;
        g_ptr_array_add(qemu->context_list, context);
        context->id = qemu->context_list->len;
        g_hash_table_insert(qemu->contexts, qemu_key(address), context);
        name_context(qemu, context);
    }
    return context;
}

/* Polling and bottom halves run in the context's own thread. */
static struct qemu_context *own_context(struct qemu *qemu, uint64_t address, struct qemu_thread *thread)
{
    struct qemu_context *context = need_context(qemu, address);

    if (thread && context->tid != thread->tid) {
        context->tid = thread->tid;
        name_context(qemu, context);
    }
    if (thread)
        thread->context = context;
    return context;
}

/* Whatever a thread emits, it is not asleep. */
static void awake(struct qemu *qemu, const struct qemu_thread *thread)
{
    if (!thread || !thread->context || !thread->context->is_asleep)
        return;
    thread->context->is_asleep = false;
    QEMU_DERIVE(qemu, rt_loop_wait_end, .loop_id = thread->context->id, .ready_count = 1);
}

/* The thread did something: what ended its polling was real. Without thread context it may have been any loop's. */
static void worked(struct qemu *qemu, const struct qemu_thread *thread)
{
    for (unsigned i = 0; i < qemu->context_list->len; i++) {
        const struct qemu_context *context = g_ptr_array_index(qemu->context_list, i);

        if (context->polls && (thread ? thread->context == context : true))
            QEMU_DERIVE(qemu, rt_loop_work_run, .loop_id = context->id, .count = 1);
    }
}

/* --- polling ------------------------------------------------------------------------------------------- */

static void poll_began(struct qemu *qemu, struct qemu_thread *thread)
{
    const union event_fields *f = &qemu->event->fields;
    struct qemu_context *context = own_context(qemu, f->qemu_run_poll_handlers_begin.ctx, thread);

    name_thread(qemu, f->qemu_run_poll_handlers_begin.procname);

    context->is_polling = true;
    context->poll_begin_ns = qemu->event->time_ns;
    QEMU_DERIVE(qemu, rt_loop_poll_begin, .loop_id = context->id,
                .poll_max_ns = f->qemu_run_poll_handlers_begin.max_ns,
                .timeout_ns = f->qemu_run_poll_handlers_begin.timeout);
}

static void poll_ended(struct qemu *qemu, struct qemu_thread *thread)
{
    const union event_fields *f = &qemu->event->fields;
    struct qemu_context *context = own_context(qemu, f->qemu_run_poll_handlers_end.ctx, thread);
    const bool progress = f->qemu_run_poll_handlers_end.progress != 0;
    const int64_t timeout_ns = f->qemu_run_poll_handlers_end.timeout;

    if (context->is_polling) {
        context->polls++;
        context->poll_ns += (uint64_t)(qemu->event->time_ns - context->poll_begin_ns);
        /* a timeout of 0 tells of a notification or a timer, which is no handler's progress but pays */
        context->polls_useful += progress || timeout_ns == 0;
    }
    context->is_polling = false;
    /* the handler is not told; it is never the notification, whose progress QEMU does not count */
    QEMU_DERIVE(qemu, rt_loop_poll_end, .loop_id = context->id, .progress = progress,
                .handler_id = progress ? context->id : 0);
    if (thread && !progress && timeout_ns) {
        context->is_asleep = true;
        QEMU_DERIVE(qemu, rt_loop_wait_begin, .loop_id = context->id, .timeout_ns = timeout_ns);
    }
}

static void window_changed(struct qemu *qemu, struct qemu_thread *thread)
{
    const union event_fields *f = &qemu->event->fields; /* grow and shrink have the same fields */
    struct qemu_context *context = own_context(qemu, f->qemu_poll_grow.ctx, thread);

    if (f->qemu_poll_grow.old != f->qemu_poll_grow.new)
        QEMU_DERIVE(qemu, rt_loop_poll_adjust, .loop_id = context->id, .old_ns = f->qemu_poll_grow.old,
                    .new_ns = f->qemu_poll_grow.new);
}

/* --- coroutines ---------------------------------------------------------------------------------------- */

struct qemu_coroutine *qemu_coroutine(struct qemu *qemu, uint64_t address)
{
    struct qemu_coroutine *coroutine = g_hash_table_lookup(qemu->coroutines, qemu_key(address));

    if (!coroutine) {
        coroutine = g_new0(struct qemu_coroutine, 1);
        coroutine->address = address;
        coroutine->id = ++qemu->last_coroutine_id;
        g_hash_table_insert(qemu->coroutines, qemu_key(address), coroutine);
    }
    return coroutine;
}

static struct qemu_coroutine *find_coroutine(const struct qemu *qemu, uint64_t address)
{
    return g_hash_table_lookup(qemu->coroutines, qemu_key(address));
}

uint64_t qemu_current_coroutine(const struct qemu *qemu, const struct qemu_thread *thread)
{
    const struct qemu_coroutine *coroutine =
        thread->is_known ? find_coroutine(qemu, thread->current) : NULL;

    return coroutine ? coroutine->id : 0; /* the thread itself is no coroutine that was ever entered */
}

static void runs(struct qemu_thread *thread, uint64_t address)
{
    if (!thread)
        return;
    thread->is_known = true;
    thread->current = address;
}

static int64_t thread_id(const struct qemu_thread *thread)
{
    return thread ? thread->tid : 0;
}

static void entered(struct qemu *qemu, struct qemu_thread *thread)
{
    const union event_fields *f = &qemu->event->fields;
    struct qemu_coroutine *coroutine = qemu_coroutine(qemu, f->qemu_qemu_aio_coroutine_enter.to);
    const struct qemu_coroutine *from = find_coroutine(qemu, f->qemu_qemu_aio_coroutine_enter.from);

    name_thread(qemu, f->qemu_qemu_aio_coroutine_enter.procname);
    coroutine->caller = f->qemu_qemu_aio_coroutine_enter.from;
    coroutine->loop_id = need_context(qemu, f->qemu_qemu_aio_coroutine_enter.ctx)->id;
    coroutine->entered_ns = qemu->event->time_ns;
    coroutine->has_long_callee = false;
    runs(thread, coroutine->address);
    QEMU_DERIVE(qemu, rt_coroutine_enter, .coroutine_id = coroutine->id, .from_id = from ? from->id : 0,
                .loop_id = coroutine->loop_id, .thread_id = thread_id(thread));
}

/* It ran from its entry to here without giving the thread back. */
static void left(struct qemu *qemu, struct qemu_coroutine *coroutine)
{
    const int64_t limit_ns = analysis_options_of(qemu->process->analysis)->loop_hog_ns;
    const int64_t ran_ns = qemu->event->time_ns - coroutine->entered_ns;
    struct qemu_coroutine *caller = find_coroutine(qemu, coroutine->caller);

    if (coroutine->entered_ns && ran_ns > limit_ns) {
        if (!coroutine->has_long_callee && coroutine->loop_id)
            QEMU_DERIVE(qemu, rt_loop_hog, .loop_id = coroutine->loop_id, .duration_ns = (uint64_t)ran_ns);
        if (caller)
            caller->has_long_callee = true; /* the innermost is told, and once */
    }
    coroutine->entered_ns = 0;
}

static void yielded(struct qemu *qemu, struct qemu_thread *thread)
{
    const union event_fields *f = &qemu->event->fields;
    struct qemu_coroutine *coroutine = qemu_coroutine(qemu, f->qemu_qemu_coroutine_yield.from);
    const struct qemu_coroutine *to = find_coroutine(qemu, f->qemu_qemu_coroutine_yield.to);

    left(qemu, coroutine);
    QEMU_DERIVE(qemu, rt_coroutine_yield, .coroutine_id = coroutine->id, .to_id = to ? to->id : 0,
                .thread_id = thread_id(thread));
    runs(thread, f->qemu_qemu_coroutine_yield.to);
}

static void terminated(struct qemu *qemu, struct qemu_thread *thread)
{
    const uint64_t address = qemu->event->fields.qemu_qemu_coroutine_terminate.co;
    struct qemu_coroutine *coroutine = find_coroutine(qemu, address);

    if (!coroutine)
        return; /* began before the recording and never yielded in it */
    left(qemu, coroutine);
    QEMU_DERIVE(qemu, rt_coroutine_terminate, .coroutine_id = coroutine->id, .thread_id = thread_id(thread));
    if (coroutine->caller)
        runs(thread, coroutine->caller);
    g_hash_table_remove(qemu->coroutines, qemu_key(address)); /* what is entered there next is another one */
}

static void scheduled(struct qemu *qemu, const struct qemu_thread *thread)
{
    struct qemu_context *context = need_context(qemu, qemu->event->fields.qemu_aio_co_schedule.ctx);

    QEMU_DERIVE(qemu, rt_loop_publish, .loop_id = context->id, .thread_id = thread_id(thread), .kind = 1);
}

static void scheduled_runs(struct qemu *qemu, struct qemu_thread *thread)
{
    struct qemu_context *context = own_context(qemu, qemu->event->fields.qemu_aio_co_schedule_bh_cb.ctx, thread);

    QEMU_DERIVE(qemu, rt_loop_work_run, .loop_id = context->id, .count = 1);
}

/* --- all events ---------------------------------------------------------------------------------------- */

/* QEMU tells no totals: they are counted here and told once a second, as our own programs do. */
static void sample(struct qemu *qemu)
{
    for (unsigned i = 0; i < qemu->context_list->len; i++) {
        const struct qemu_context *context = g_ptr_array_index(qemu->context_list, i);
        const uint64_t lived_ns = (uint64_t)(qemu->event->time_ns - context->first_ns);

        /* how long it blocks is not recorded; for the checks that is the cautious way round: it was busy */
        if (context->polls)
            QEMU_DERIVE(qemu, rt_loop_sample, .loop_id = context->id, .polls = context->polls,
                        .polls_useful = context->polls_useful, .poll_ns = context->poll_ns,
                        .busy_ns = lived_ns - MIN(lived_ns, context->poll_ns));
    }
    qemu_locks_sample(qemu);
}

static void take(struct qemu *qemu, struct qemu_thread *thread)
{
    switch ((unsigned)qemu->event->id) {
    case EVENT_qemu_qemu_mutex_lock:
        name_thread(qemu, qemu->event->fields.qemu_qemu_mutex_lock.procname);
        qemu_locks_event(qemu);
        return;
    case EVENT_qemu_qemu_mutex_locked:
    case EVENT_qemu_qemu_mutex_unlock:
    case EVENT_qemu_qemu_co_mutex_lock_uncontended:
    case EVENT_qemu_qemu_co_mutex_lock_entry:
    case EVENT_qemu_qemu_co_mutex_lock_return:
    case EVENT_qemu_qemu_co_mutex_unlock_entry:
        qemu_locks_event(qemu);
        return;
    case EVENT_qemu_qemu_aio_coroutine_enter:
        entered(qemu, thread);
        break;
    case EVENT_qemu_qemu_coroutine_yield:
        yielded(qemu, thread);
        break;
    case EVENT_qemu_qemu_coroutine_terminate:
        terminated(qemu, thread);
        break;
    case EVENT_qemu_aio_co_schedule:
        scheduled(qemu, thread);
        return;
    case EVENT_qemu_aio_co_schedule_bh_cb:
        scheduled_runs(qemu, thread);
        return;
    case EVENT_qemu_run_poll_handlers_begin:
        poll_began(qemu, thread);
        return;
    case EVENT_qemu_run_poll_handlers_end:
        poll_ended(qemu, thread);
        return;
    case EVENT_qemu_poll_grow:
    case EVENT_qemu_poll_shrink:
        window_changed(qemu, thread);
        return;
    case EVENT_qemu_housekeeping:
        return;
    case EVENT_qemu_other:
        break;
    default:
        qemu_requests_event(qemu);
        break;
    }
    worked(qemu, thread);
}

static void on_event(void *state, const struct event *event)
{
    struct qemu *qemu = state;
    struct qemu_thread *thread;

    qemu->event = event;
    thread = qemu_thread(qemu);
    awake(qemu, thread);
    if (event->time_ns >= qemu->sample_ns) {
        sample(qemu);
        qemu->sample_ns = event->time_ns + SAMPLE_NS;
    }
    take(qemu, thread);
}

static void finish(void *state)
{
    struct qemu *qemu = state;
    const struct event end = { .id = EVENT_qemu_other,
                               .time_ns = qemu->process->last_ns,
                               .stream = qemu->process->last_stream,
                               .vpid = qemu->process->vpid,
                               .vtid = EVENT_UNKNOWN_ID };

    qemu->event = &end;
    qemu_requests_finish(qemu);
    sample(qemu);
}

const struct dialect dialect_qemu = {
    .name = "QEMU",
    .create = create,
    .event = on_event,
    .finish = finish,
    .destroy = destroy,
    .declares = qemu_declares,
    .source = qemu_source,
    .skip = qemu_skip,
};
