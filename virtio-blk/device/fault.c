/*
 * The mistakes that --fault brings back. README.md, "Faults", has a table of them; here is what they need. Each asks
 * vblk_has_fault() at the place where it strikes; those of the wake-up protocol are the loops' (runtime/loop/fault.c).
 *
 * started-before-attach: start sets the started flag before the disk moves, stop clears it after the disk moved back.
 * The drain that moves the disk then attaches the notifiers to whatever loop the queues have at that moment, the
 * main loop, and nobody removes them. After a start two loops race for one eventfd; after a stop the descriptor is
 * closed while the main loop still watches it: epoll reports it for ever and every read fails.
 *
 * Two things are added so that the fault harms nobody but the loop: the stale handler hands a kick that it wins to
 * the queue's own loop, and reads only a descriptor that is still the queue's. And one so that it strikes reliably: a
 * front end may read and close its end of the eventfd when a ring stops, which would end the spinning, so a duplicate
 * is kept and written once, a moment after the stop.
 *
 * inflight-slot-zero: after a restart the in-flight region is read from slot 1 on. Done in virtqueue/tracking.c.
 *
 * no-reenable-on-attach: a queue that is attached in the middle of polling keeps notifications off for as long as it is attached.
 * The middle of polling is wide here: from the first time that it was polled on.
 *
 * mutex-across-yield: each request takes a coroutine mutex while it holds a thread mutex, lets the latter go when it has
 * the former, and holds that until it ends. It yields once while it does, as a request of a real disk would, so that others come by also
 * on a disk that takes no time. The second one yields holding the thread mutex, and the third blocks their thread.
 *
 * wrong-loop: a move announces the new loop and lets it watch the notifier, and forgets the rest: bottom half, timer and disk
 * context stay, and the queue's home with them. Kicks that the new loop finds are handed to the old one, which alone touches the
 * ring, so that the fault does not race; what it costs is what a move should end, the load of the old loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "device/internal.h"
#include "tracepoints/dataplane.h"

#define KICK_AFTER_STOP_NS (200 * INT64_C(1000000))

struct stale_notifier {
    struct vblk_queue *queue;
    struct rt_handler *handler;
    struct rt_timer *timer;
    int fd;      /* as it was when attached */
    int dup_fd;  /* the same eventfd, ours */
    bool closed; /* fd was released: the number may be another's by now */
    struct stale_notifier *next;
};

struct vblk_stale_notifiers {
    struct stale_notifier *first;
};

static const struct {
    const char *name;
    unsigned fault;
} faults_by_name[] = {
    { "started-before-attach", VBLK_FAULT_STARTED_BEFORE_ATTACH },
    { "inflight-slot-zero", VBLK_FAULT_INFLIGHT_SLOT_ZERO },
    { "no-reenable-on-attach", VBLK_FAULT_NO_REENABLE_ON_ATTACH },
    { "suppress-before-publish", VBLK_FAULT_SUPPRESS_BEFORE_PUBLISH },
    { "no-recheck", VBLK_FAULT_NO_RECHECK },
    { "mutex-across-yield", VBLK_FAULT_MUTEX_ACROSS_YIELD },
    { "skip-interrupt", VBLK_FAULT_SKIP_INTERRUPT },
    { "always-progress", VBLK_FAULT_ALWAYS_PROGRESS },
    { "wrong-loop", VBLK_FAULT_WRONG_LOOP },
};

unsigned vblk_fault_by_name(const char *name)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(faults_by_name); i++)
        if (strcmp(name, faults_by_name[i].name) == 0)
            return faults_by_name[i].fault;
    return 0;
}

char *vblk_fault_names(unsigned faults)
{
    GString *names = g_string_new(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(faults_by_name); i++)
        if (faults & faults_by_name[i].fault)
            g_string_append_printf(names, "%s%s", names->len ? "," : "", faults_by_name[i].name);
    return g_string_free(names, FALSE);
}

unsigned vblk_fault_of_loops(unsigned faults)
{
    return (faults & VBLK_FAULT_SUPPRESS_BEFORE_PUBLISH ? RT_LOOP_FAULT_SUPPRESS_BEFORE_PUBLISH : 0) |
           (faults & VBLK_FAULT_NO_RECHECK ? RT_LOOP_FAULT_NO_RECHECK : 0);
}

/* ---- mutex-across-yield ---- */

struct vblk_fault_locks {
    struct rt_mutex mutex;
    struct rt_co_mutex co_mutex;
};

void vblk_fault_init(struct vblk_device *device)
{
    if (!vblk_has_fault(device, VBLK_FAULT_MUTEX_ACROSS_YIELD))
        return;
    device->fault_locks = g_new0(struct vblk_fault_locks, 1);
    rt_mutex_init(&device->fault_locks->mutex, "fault-mutex-across-yield");
    rt_co_mutex_init(&device->fault_locks->co_mutex, "fault-request-order");
}

static void deinit_locks(struct vblk_device *device)
{
    if (!device->fault_locks)
        return;
    rt_mutex_deinit(&device->fault_locks->mutex);
    rt_co_mutex_deinit(&device->fault_locks->co_mutex);
    g_free(device->fault_locks);
    device->fault_locks = NULL;
}

void vblk_fault_lock_co(struct vblk_device *device)
{
    rt_mutex_lock(&device->fault_locks->mutex);
    rt_co_mutex_lock_co(&device->fault_locks->co_mutex); /* the mistake: it may yield */
    rt_mutex_unlock(&device->fault_locks->mutex);
    rt_coroutine_wake(rt_coroutine_self());
    rt_coroutine_yield();
}

void vblk_fault_unlock(struct vblk_device *device)
{
    rt_co_mutex_unlock(&device->fault_locks->co_mutex);
}

/* ---- always-progress ---- */

/* Claims are this far apart, as if the callback took so long: the loop spins all the same, and a recording of it can be kept. */
#define CLAIM_NS (20 * INT64_C(1000))

bool vblk_fault_claim_progress(void)
{
    int64_t end_ns = rt_clock_ns() + CLAIM_NS;

    while (rt_clock_ns() < end_ns)
        ;
    return true;
}

/* ---- wrong-loop ---- */

static bool kicked_elsewhere(void *opaque)
{
    struct vblk_queue *queue = opaque;

    if (vblk_event_read(queue->kick_fd) < 0)
        return false;
    vblk_count(&queue->counters.kicks);
    rt_bh_schedule(queue->bh);
    return true;
}

const struct rt_fd_callbacks *vblk_fault_callbacks(const struct vblk_queue *queue)
{
    static const struct rt_fd_callbacks callbacks = { .ready = kicked_elsewhere };

    return vblk_has_fault(queue->device, VBLK_FAULT_WRONG_LOOP) && queue->loop != queue->home ? &callbacks : NULL;
}

/* ---- started-before-attach ---- */

static bool stale_ready(void *opaque)
{
    struct stale_notifier *stale = opaque;
    struct vblk_queue *queue = stale->queue;
    eventfd_t value;

    if (stale->closed || eventfd_read(stale->fd, &value) != 0)
        return false;
    return rt_loop_post(queue->home, vblk_queue_process, queue) == 0;
}

static void kick_once(void *opaque)
{
    struct stale_notifier *stale = opaque;

    (void)eventfd_write(stale->dup_fd, 1);
}

static struct stale_notifier *find_open(const struct vblk_queue *queue)
{
    struct stale_notifier *stale = queue->device->stale ? queue->device->stale->first : NULL;

    while (stale && (stale->queue != queue || stale->closed))
        stale = stale->next;
    return stale;
}

/* A registration that nobody will remove. */
static int add_stale(struct vblk_queue *queue)
{
    static const struct rt_fd_callbacks callbacks = { .ready = stale_ready };
    struct vblk_device *device = queue->device;
    struct stale_notifier *stale = g_new0(struct stale_notifier, 1);
    int error;

    stale->queue = queue;
    stale->fd = queue->kick_fd;
    stale->dup_fd = fcntl(stale->fd, F_DUPFD_CLOEXEC, 0);
    stale->timer = rt_timer_create(device->main_loop, kick_once, stale);
    error = stale->dup_fd < 0 ? -errno : 0;
    if (error == 0)
        error = rt_loop_attach_fd(queue->loop, stale->fd, RT_FD_HOST_NOTIFIER, device->device_id, queue->index,
                                  &callbacks, stale, &stale->handler);
    if (error < 0) {
        if (stale->dup_fd >= 0)
            close(stale->dup_fd);
        rt_timer_destroy(stale->timer);
        g_free(stale);
        return error;
    }
    if (!device->stale)
        device->stale = g_new0(struct vblk_stale_notifiers, 1);
    stale->next = device->stale->first;
    device->stale->first = stale;
    return 0;
}

void vblk_fault_attach_again(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;
    int error = find_open(queue) ? 0 : add_stale(queue); /* it may be there still, since the start */

    if (error < 0) {
        vblk_log(&device->log, VBLK_LOG_WARNING, "queue %u: the fault could not attach the notifier again: %s",
                 queue->index, g_strerror(-error));
        return;
    }
    lttng_ust_tracepoint(vblk_dataplane, notifier_attach, device->device_id, queue->index, queue->kick_fd,
                         rt_loop_id(queue->loop));
    /* As the historical attach did, so that a request that came while detached is not missed. */
    vblk_notifier_kick(queue);
}

void vblk_fault_notifier_released(struct vblk_queue *queue)
{
    struct stale_notifier *stale = find_open(queue);

    if (!stale)
        return;
    stale->closed = true;
    rt_timer_arm(stale->timer, rt_clock_ns() + KICK_AFTER_STOP_NS);
}

/* Take a closed descriptor out of epoll: it goes by number *and* file, so the file gets its number back for it. */
static void remove_stale(struct stale_notifier *stale)
{
    int other = fcntl(stale->fd, F_DUPFD_CLOEXEC, 0); /* whoever has the number now, or -1 */

    (void)dup3(stale->dup_fd, stale->fd, O_CLOEXEC);
    rt_loop_detach_fd(stale->handler);
    if (other >= 0) {
        (void)dup3(other, stale->fd, O_CLOEXEC);
        close(other);
    } else {
        close(stale->fd);
    }
}

void vblk_fault_cleanup(struct vblk_device *device)
{
    struct stale_notifier *next;

    deinit_locks(device);
    if (!device->stale)
        return;
    for (struct stale_notifier *stale = device->stale->first; stale; stale = next) {
        next = stale->next;
        remove_stale(stale);
        rt_timer_destroy(stale->timer);
        close(stale->dup_fd);
        g_free(stale);
    }
    g_free(device->stale);
    device->stale = NULL;
}

char *vblk_fault_known(void)
{
    return vblk_fault_names(~0u);
}
