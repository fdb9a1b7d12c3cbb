/* Which findings QEMU's events carry enough for; README.md says why. */
#include <string.h>

#include "dialects/qemu.h"

#define NEEDS_MAX 4
#define NO_EVENT EVENT_COUNT

/* What events of ours are made of: all of one row. */
struct origin {
    enum event_id id;
    enum event_id needs[NEEDS_MAX];
};

#define THREAD_MUTEXES { EVENT_qemu_qemu_mutex_locked, EVENT_qemu_qemu_mutex_unlock, NO_EVENT }
#define COROUTINE_MUTEXES { EVENT_qemu_qemu_co_mutex_lock_return, EVENT_qemu_qemu_co_mutex_unlock_entry, NO_EVENT }
#define POLLING { EVENT_qemu_run_poll_handlers_begin, EVENT_qemu_run_poll_handlers_end, NO_EVENT }
#define VIRTIO { EVENT_qemu_virtio_blk_handle_read, EVENT_qemu_virtio_blk_req_complete, NO_EVENT }
#define IO_URING { EVENT_qemu_luring_co_submit, EVENT_qemu_luring_process_completion, NO_EVENT }
#define IO_URING_CQE { EVENT_qemu_luring_co_submit, EVENT_qemu_luring_cqe_handler, NO_EVENT }
#define POOL { EVENT_qemu_thread_pool_submit, EVENT_qemu_thread_pool_complete, NO_EVENT }
#define POOL_AIO { EVENT_qemu_thread_pool_submit_aio, EVENT_qemu_thread_pool_complete, NO_EVENT }
#define POOL_AIO_AIO { EVENT_qemu_thread_pool_submit_aio, EVENT_qemu_thread_pool_complete_aio, NO_EVENT }
#define REQUEST(id) \
    { id, VIRTIO }, { id, IO_URING }, { id, IO_URING_CQE }, { id, POOL }, { id, POOL_AIO }, { id, POOL_AIO_AIO }
#define MUTEX(id) { id, THREAD_MUTEXES }, { id, COROUTINE_MUTEXES }

static const struct origin origins[] = {
    { EVENT_rt_coroutine_enter, { EVENT_qemu_qemu_aio_coroutine_enter, NO_EVENT } },
    { EVENT_rt_coroutine_yield, { EVENT_qemu_qemu_coroutine_yield, NO_EVENT } },
    { EVENT_rt_coroutine_terminate, { EVENT_qemu_qemu_coroutine_terminate, NO_EVENT } },
    MUTEX(EVENT_rt_lock_create),
    MUTEX(EVENT_rt_lock_acquired),
    MUTEX(EVENT_rt_lock_released),
    MUTEX(EVENT_rt_lock_sample),
    { EVENT_rt_lock_wait, { EVENT_qemu_qemu_mutex_lock, EVENT_qemu_qemu_mutex_locked, NO_EVENT } },
    { EVENT_rt_lock_wait, { EVENT_qemu_qemu_co_mutex_lock_entry, NO_EVENT } },
    { EVENT_rt_loop_create, POLLING },
    { EVENT_rt_loop_create, { EVENT_qemu_qemu_aio_coroutine_enter, NO_EVENT } },
    { EVENT_rt_loop_poll_begin, POLLING },
    { EVENT_rt_loop_poll_end, POLLING },
    { EVENT_rt_loop_sample, POLLING },
    { EVENT_rt_loop_wait_begin, POLLING },
    { EVENT_rt_loop_wait_end, POLLING },
    { EVENT_rt_loop_work_run, POLLING },
    { EVENT_rt_loop_work_run, { EVENT_qemu_aio_co_schedule_bh_cb, NO_EVENT } },
    { EVENT_rt_loop_publish, { EVENT_qemu_aio_co_schedule, NO_EVENT } },
    { EVENT_rt_loop_hog, { EVENT_qemu_qemu_aio_coroutine_enter, EVENT_qemu_qemu_coroutine_yield, NO_EVENT } },
    REQUEST(EVENT_vblk_request_begin),
    REQUEST(EVENT_vblk_request_submit),
    REQUEST(EVENT_vblk_request_complete),
    REQUEST(EVENT_vblk_request_end),
};

static bool all_declared(const bool *declared, const enum event_id *needs)
{
    for (unsigned i = 0; i < NEEDS_MAX && needs[i] != NO_EVENT; i++)
        if (!declared[needs[i]])
            return false;
    return true;
}

bool qemu_declares(const bool *declared, enum event_id id)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(origins); i++)
        if (origins[i].id == id && all_declared(declared, origins[i].needs))
            return true;
    return false;
}

/* What a finding is decided from: events of ours that must be derived. */
struct ruling {
    const char *id;
    bool needs_threads;
    enum event_id needs[NEEDS_MAX];
    const char *source; /* the same as QEMU's events, for people */
};

static const struct ruling rulings[] = {
    { "false-progress",
      false,
      { EVENT_rt_loop_poll_end, EVENT_rt_coroutine_enter, NO_EVENT },
      "qemu:run_poll_handlers_* and qemu:qemu_aio_coroutine_enter" },
    { "lost-wakeup",
      true,
      { EVENT_rt_loop_publish, EVENT_rt_loop_poll_end, EVENT_rt_loop_work_run, NO_EVENT },
      "qemu:aio_co_schedule* and qemu:run_poll_handlers_*" },
    { "lock-contention",
      true,
      { EVENT_rt_lock_wait, EVENT_rt_lock_released, NO_EVENT },
      "qemu:qemu_mutex_*" },
    { "lock-across-yield",
      true,
      { EVENT_rt_lock_acquired, EVENT_rt_lock_released, EVENT_rt_coroutine_enter, EVENT_rt_coroutine_yield },
      "qemu:qemu_mutex_*, qemu:qemu_aio_coroutine_enter and qemu:qemu_coroutine_*" },
    { "stuck-request",
      false,
      { EVENT_vblk_request_begin, NO_EVENT },
      "qemu:virtio_blk_*, qemu:luring_* or qemu:thread_pool_*" },
    { "loop-hog",
      false,
      { EVENT_rt_loop_hog, EVENT_rt_coroutine_terminate, NO_EVENT },
      "qemu:qemu_aio_coroutine_enter and qemu:qemu_coroutine_*" },
    { "slow-requests",
      false,
      { EVENT_vblk_request_begin, NO_EVENT },
      "qemu:virtio_blk_*, qemu:luring_* or qemu:thread_pool_*" },
    { "poll-waste",
      false,
      { EVENT_rt_loop_sample, NO_EVENT },
      "qemu:run_poll_handlers_*" },
    { "events-lost", false, { NO_EVENT }, "the tracer" },
};

static const struct ruling *find_ruling(const char *finding_id)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(rulings); i++)
        if (!strcmp(rulings[i].id, finding_id))
            return &rulings[i];
    return NULL;
}

static const char *missing(const char *source)
{
    char *text = g_strdup_printf("%s not recorded", source);
    const char *kept = g_intern_string(text);

    g_free(text);
    return kept;
}

const char *qemu_source(const char *finding_id)
{
    const struct ruling *ruling = find_ruling(finding_id);

    return ruling ? ruling->source : NULL;
}

const char *qemu_skip(const struct process *process, const bool *declared, const char *finding_id)
{
    const struct ruling *ruling = find_ruling(finding_id);

    if (!ruling)
        return "not recorded by QEMU";
    for (unsigned i = 0; i < NEEDS_MAX && ruling->needs[i] != NO_EVENT; i++)
        if (!qemu_declares(declared, ruling->needs[i]))
            return missing(ruling->source);
    if (ruling->needs_threads && !process->has_threads)
        return "context vtid not recorded";
    return NULL;
}
