/*
 * Mutexes. QEMU tells that one is wanted (lock), taken (locked) and about to be given back (unlock). It does not say that it
 * was held meanwhile: a wait is one whose holder is known. Recursive mutexes emit the same events once more; taken without
 * being wanted is a try, or a return from a condition variable, which gave it back before.
 */
#include <inttypes.h>
#include <string.h>

#include "dialects/qemu.h"

#define MUTEXES_MAX 65536
#define THREAD_MUTEX 0
#define COROUTINE_MUTEX 1

struct mutex {
    uint64_t address, id;
    int kind;
    bool has_place;           /* where it was taken says something */
    bool is_held, is_sampled;
    unsigned depth;
    int64_t holder_tid;
    uint64_t holder_coroutine_id;
    int64_t taken_ns, released_ns, releaser_tid;
    uint64_t acquisitions, contentions, wait_ns, hold_ns;
};

void qemu_locks_init(struct qemu *qemu)
{
    qemu->mutexes = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    qemu->sampled = g_ptr_array_new();
}

void qemu_locks_deinit(struct qemu *qemu)
{
    g_ptr_array_free(qemu->sampled, TRUE);
    g_hash_table_destroy(qemu->mutexes);
}

void qemu_locks_sample(struct qemu *qemu)
{
    for (unsigned i = 0; i < qemu->sampled->len; i++) {
        struct mutex *mutex = g_ptr_array_index(qemu->sampled, i);

        mutex->is_sampled = false;
        QEMU_DERIVE(qemu, rt_lock_sample, .lock_id = mutex->id, .acquisitions = mutex->acquisitions,
                    .contentions = mutex->contentions, .wait_ns = mutex->wait_ns, .hold_ns = mutex->hold_ns);
    }
    g_ptr_array_set_size(qemu->sampled, 0);
}

static gboolean forget(void *key, void *value, void *data)
{
    const struct mutex *mutex = value;
    struct qemu *qemu = data;

    if (mutex->is_held)
        return FALSE;
    QEMU_DERIVE(qemu, rt_lock_destroy, .lock_id = mutex->id);
    return TRUE;
}

/* "util/rcu.c:376" of "../src/util/rcu.c"; false: in a wrapper that all take their mutexes through. */
static bool describe_place(const char *file, int64_t line, char *text_out, size_t size)
{
    const char *slash = strrchr(file, '/');

    while (slash && slash > file && slash[-1] != '/')
        slash--;
    g_snprintf(text_out, size, "%s:%" PRId64, slash && *slash != '/' ? slash : file, line);
    return !g_str_has_suffix(file, "lockable.h");
}

static void name_mutex(struct qemu *qemu, struct mutex *mutex, const char *file, int64_t line)
{
    char place[96] = "", name[160];

    if (file)
        mutex->has_place = describe_place(file, line, place, sizeof(place));
    g_snprintf(name, sizeof(name), "%s 0x%" PRIx64 "%s%s", mutex->kind == THREAD_MUTEX ? "mutex" : "CoMutex",
               mutex->address, file ? " of " : "", place);
    QEMU_DERIVE(qemu, rt_lock_create, .lock_id = mutex->id, .class_name = name, .kind = (uint64_t)mutex->kind);
}

static struct mutex *need_mutex(struct qemu *qemu, uint64_t address, int kind, const char *file, int64_t line)
{
    struct mutex *mutex = g_hash_table_lookup(qemu->mutexes, qemu_key(address));

    if (mutex && mutex->kind != kind) { /* another object has its memory now */
        forget(NULL, mutex, qemu);
        g_ptr_array_remove(qemu->sampled, mutex);
        g_hash_table_remove(qemu->mutexes, qemu_key(address));
        mutex = NULL;
    }
    if (!mutex && g_hash_table_size(qemu->mutexes) >= MUTEXES_MAX) {
        qemu_locks_sample(qemu);
        g_hash_table_foreach_remove(qemu->mutexes, forget, qemu);
    }
    if (!mutex) {
        mutex = g_new0(struct mutex, 1);
        mutex->address = address;
        mutex->id = ++qemu->last_lock_id;
        mutex->kind = kind;
        g_hash_table_insert(qemu->mutexes, qemu_key(address), mutex);
        name_mutex(qemu, mutex, file, line);
    } else if (file && !mutex->has_place && !g_str_has_suffix(file, "lockable.h")) {
        name_mutex(qemu, mutex, file, line);
    }
    return mutex;
}

static void wait(struct qemu *qemu, const struct mutex *mutex, int64_t tid, uint64_t coroutine_id)
{
    QEMU_DERIVE(qemu, rt_lock_wait, .lock_id = mutex->id, .thread_id = tid, .coroutine_id = coroutine_id,
                .owner_thread_id = mutex->is_held ? mutex->holder_tid : 0,
                .owner_coroutine_id = mutex->is_held ? mutex->holder_coroutine_id : 0);
}

static void release(struct qemu *qemu, struct mutex *mutex)
{
    mutex->is_held = false;
    mutex->hold_ns += (uint64_t)(qemu->event->time_ns - mutex->taken_ns);
    mutex->released_ns = qemu->event->time_ns;
    mutex->releaser_tid = mutex->holder_tid;
    QEMU_DERIVE(qemu, rt_lock_released, .lock_id = mutex->id, .thread_id = mutex->holder_tid,
                .coroutine_id = mutex->holder_coroutine_id);
}

static void acquired(struct qemu *qemu, const struct mutex *mutex, int64_t tid, uint64_t coroutine_id, bool told)
{
    QEMU_DERIVE(qemu, rt_lock_acquired, .lock_id = mutex->id, .thread_id = tid, .coroutine_id = coroutine_id,
                .waited = told);
}

/* @since_ns: waited since then; 0: not at all. @told: a wait came before. */
static void take(struct qemu *qemu, struct mutex *mutex, int64_t tid, uint64_t coroutine_id, int64_t since_ns,
                 bool told)
{
    if (mutex->is_held)
        release(qemu, mutex); /* another got it: the release was lost */
    mutex->is_held = true;
    mutex->depth = 1;
    mutex->holder_tid = tid;
    mutex->holder_coroutine_id = coroutine_id;
    mutex->taken_ns = qemu->event->time_ns;
    mutex->acquisitions++;
    if (since_ns) {
        mutex->contentions++;
        mutex->wait_ns += (uint64_t)(qemu->event->time_ns - since_ns);
    }
    if (!mutex->is_sampled)
        g_ptr_array_add(qemu->sampled, mutex);
    mutex->is_sampled = true;
    acquired(qemu, mutex, tid, coroutine_id, told);
}

/* --- thread mutexes ------------------------------------------------------------------------------------ */

/* Of its own thread's: a recursive one is had at once; what another coroutine of the thread holds may never be. */
static void wanted(struct qemu *qemu, struct qemu_thread *thread, struct mutex *mutex)
{
    const uint64_t coroutine_id = qemu_current_coroutine(qemu, thread);

    thread->waits_for = mutex->address;
    thread->waits_since_ns = qemu->event->time_ns;
    thread->wait_told =
        mutex->is_held && (mutex->holder_tid != thread->tid || mutex->holder_coroutine_id != coroutine_id);
    if (thread->wait_told)
        wait(qemu, mutex, thread->tid, coroutine_id);
}

static void taken(struct qemu *qemu, struct qemu_thread *thread, struct mutex *mutex)
{
    const bool wanted_it = thread->waits_for == mutex->address;
    /* held when it was wanted, though its holder gave it back before that could be seen */
    const bool waited = wanted_it && (thread->wait_told || (mutex->released_ns > thread->waits_since_ns &&
                                                            mutex->releaser_tid != thread->tid));

    thread->waits_for = 0;
    if (mutex->is_held && mutex->holder_tid == thread->tid &&
        qemu->process->latest_loss_end_ns < mutex->taken_ns) {
        mutex->depth++; /* a recursive one; unless its release was lost */
        if (wanted_it && thread->wait_told) { /* the wait is over, the outer acquisition holds it still */
            acquired(qemu, mutex, thread->tid, qemu_current_coroutine(qemu, thread), true);
            acquired(qemu, mutex, mutex->holder_tid, mutex->holder_coroutine_id, false);
        }
        return;
    }
    take(qemu, mutex, thread->tid, qemu_current_coroutine(qemu, thread), waited ? thread->waits_since_ns : 0,
         wanted_it && thread->wait_told);
}

static void given_back(struct qemu *qemu, struct mutex *mutex)
{
    if (!mutex->is_held)
        return; /* taken before the recording */
    if (--mutex->depth == 0)
        release(qemu, mutex);
}

static void thread_mutex(struct qemu *qemu)
{
    const union event_fields *f = &qemu->event->fields; /* all three have the same fields */
    struct qemu_thread *thread = qemu_thread(qemu);
    struct mutex *mutex;

    if (!thread)
        return; /* who holds it is not recorded */
    mutex = need_mutex(qemu, f->qemu_qemu_mutex_lock.mutex, THREAD_MUTEX, f->qemu_qemu_mutex_lock.file,
                       f->qemu_qemu_mutex_lock.line);
    if ((unsigned)qemu->event->id == EVENT_qemu_qemu_mutex_lock)
        wanted(qemu, thread, mutex);
    else if ((unsigned)qemu->event->id == EVENT_qemu_qemu_mutex_locked)
        taken(qemu, thread, mutex);
    else
        given_back(qemu, mutex);
}

/* --- coroutine mutexes --------------------------------------------------------------------------------- */

static void coroutine_mutex(struct qemu *qemu)
{
    const union event_fields *f = &qemu->event->fields; /* all have the same fields */
    const struct qemu_thread *thread = qemu_thread(qemu);
    struct qemu_coroutine *self = qemu_coroutine(qemu, f->qemu_qemu_co_mutex_lock_entry.self);
    struct mutex *mutex =
        need_mutex(qemu, f->qemu_qemu_co_mutex_lock_entry.mutex, COROUTINE_MUTEX, NULL, 0);
    const int64_t tid = thread ? thread->tid : 0;
    const bool waited = self->waits_for == mutex->address;

    switch ((unsigned)qemu->event->id) {
    case EVENT_qemu_qemu_co_mutex_lock_entry:
        self->waits_for = mutex->address;
        self->waits_since_ns = qemu->event->time_ns;
        wait(qemu, mutex, tid, self->id);
        return;
    case EVENT_qemu_qemu_co_mutex_lock_uncontended:
    case EVENT_qemu_qemu_co_mutex_lock_return:
        self->waits_for = 0;
        take(qemu, mutex, tid, self->id, waited ? self->waits_since_ns : 0, waited);
        return;
    default:
        if (mutex->is_held)
            release(qemu, mutex);
    }
}

void qemu_locks_event(struct qemu *qemu)
{
    switch ((unsigned)qemu->event->id) {
    case EVENT_qemu_qemu_mutex_lock:
    case EVENT_qemu_qemu_mutex_locked:
    case EVENT_qemu_qemu_mutex_unlock:
        thread_mutex(qemu);
        break;
    default:
        coroutine_mutex(qemu);
    }
}
