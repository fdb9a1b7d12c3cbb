/* A queue at work, in its IOThread: take what the driver made available, start a coroutine for each request, give
 * back what is done, and interrupt once for a batch. */
#include <errno.h>
#include <glib.h>
#include <linux/virtio_config.h>
#include <string.h>
#include <unistd.h>

#include "device/internal.h"
#include "tracepoints/queue.h"
#include "tracepoints/request.h"

/* Requests begun in one go before other handlers of the loop get their turn. */
#define BATCH_MAX 256
/* When no coroutine can be had: try again at the latest then (any request that ends tries, too). */
#define RETRY_NS (10 * INT64_C(1000000))
/* How often a ring without kick descriptor is looked at when the loop does not poll anyway. */
#define POLLED_RING_NS (50 * INT64_C(1000))
/* Request ids are dealt to queues in blocks, so that queues share no hot counter. */
#define ID_BLOCK 4096

static _Atomic uint64_t next_id_block = 1;

static uint64_t take_request_id(struct vblk_queue *queue)
{
    if (queue->next_request_id == queue->last_request_id) {
        queue->next_request_id = atomic_fetch_add_explicit(&next_id_block, ID_BLOCK, memory_order_relaxed);
        queue->last_request_id = queue->next_request_id + ID_BLOCK;
    }
    return queue->next_request_id++;
}

static void add_in_flight(struct vblk_queue *queue, int delta)
{
    /* One writer. */
    atomic_store_explicit(&queue->in_flight,
                          atomic_load_explicit(&queue->in_flight, memory_order_relaxed) + delta,
                          memory_order_relaxed);
}

/* Whether requests may be taken: attached, enabled, not broken. ORDER queue.accept: attach stores handler-side
 * state, then accepting (release); the loop loads it (acquire) before it touches the ring. */
static bool accepting(struct vblk_queue *queue)
{
    return atomic_load_explicit(&queue->accepting, memory_order_acquire) &&
           atomic_load_explicit(&queue->enabled, memory_order_relaxed) &&
           !atomic_load_explicit(&queue->broken, memory_order_relaxed);
}

void vblk_queue_set_notifications(struct vblk_queue *queue, bool enable, enum vblk_notifications_reason reason)
{
    if (enable && queue->stays_off)
        return;
    if (enable)
        queue->pending = vblk_virtqueue_enable_notifications(queue->vq);
    else
        vblk_virtqueue_disable_notifications(queue->vq);
    lttng_ust_tracepoint(vblk_queue, notifications, queue->device->device_id, queue->index, enable, reason);
}

bool vblk_queue_write_event(struct vblk_queue *queue, int fd)
{
    bool in_main = rt_loop_current() == queue->device->main_loop;

    return vblk_event_write(in_main ? &queue->main_guard : &queue->loop_guard, fd) == 0;
}

void vblk_queue_break(struct vblk_queue *queue, int error, const char *reason)
{
    if (atomic_load_explicit(&queue->broken, memory_order_relaxed))
        return;
    atomic_store_explicit(&queue->broken_reason, reason, memory_order_relaxed);
    atomic_store_explicit(&queue->broken, true, memory_order_relaxed);
    lttng_ust_tracepoint(vblk_queue, broken, queue->device->device_id, queue->index, error, reason);
    vblk_log(&queue->device->log, VBLK_LOG_ERROR,
             "queue %u: %s%s; the queue stops (%s)", queue->index,
             error == -EPROTO ? "the driver broke the protocol: " : "", reason,
             error == -EFAULT ? "restart the guest" : "reload the guest's driver");
    if (queue->error_fd >= 0)
        (void)vblk_queue_write_event(queue, queue->error_fd); /* broken already: never written again */
}

static void give_back_request(struct vblk_queue *queue, struct vblk_request *request)
{
    atomic_store_explicit(&request->id, 0, memory_order_relaxed);
    request->next_free = queue->free_requests;
    queue->free_requests = request;
}

static bool start_request(struct vblk_queue *queue, struct vblk_request *request)
{
    struct rt_coroutine *co;

    if (vblk_request_is_instant(request)) {
        vblk_request_run(request);
        return true;
    }
    co = rt_coroutine_create(vblk_request_run, request);
    if (!co)
        return false;
    rt_coroutine_enter(co);
    return true;
}

/* Out of stacks: the request is taken and stays taken; it runs as soon as a coroutine can be had. */
static void defer_request(struct vblk_queue *queue, struct vblk_request *request)
{
    request->next_free = NULL;
    *queue->deferred_last = request;
    queue->deferred_last = &request->next_free;
    rt_timer_arm(queue->retry_timer, rt_clock_ns() + RETRY_NS);
}

static bool start_deferred(struct vblk_queue *queue)
{
    while (queue->deferred) {
        struct vblk_request *request = queue->deferred;
        struct rt_coroutine *co = rt_coroutine_create(vblk_request_run, request);

        if (!co) {
            rt_timer_arm(queue->retry_timer, rt_clock_ns() + RETRY_NS);
            return false;
        }
        queue->deferred = request->next_free;
        if (!queue->deferred)
            queue->deferred_last = &queue->deferred;
        rt_coroutine_enter(co);
    }
    return true;
}

/* One request off the ring and on its way. False: nothing there, or the queue broke, or all requests are out. */
static bool begin_one(struct vblk_queue *queue)
{
    struct vblk_request *request = queue->free_requests;
    const char *reason = NULL;
    uint64_t id;
    int error;

    if (!request)
        return false; /* more chains than the ring is long: the next completion looks again */
    request->element = vblk_virtqueue_pop(queue->vq, &error, &reason);
    if (!request->element) {
        if (error == -EPROTO || error == -EFAULT)
            vblk_queue_break(queue, error, reason);
        queue->starved = error == -ENOMEM; /* the next completion looks again, or the timer */
        if (queue->starved)
            rt_timer_arm(queue->retry_timer, rt_clock_ns() + RETRY_NS);
        return false;
    }
    vblk_count(&queue->counters.pops);
    if (vblk_request_parse(request, &reason) < 0) {
        vblk_virtqueue_discard(queue->vq, request->element);
        vblk_queue_break(queue, -EPROTO, reason);
        return false;
    }
    queue->free_requests = request->next_free;
    id = take_request_id(queue);
    atomic_store_explicit(&request->begin_ns, queue->batch_ns, memory_order_relaxed);
    /* Release: whoever sees these sees that the life before has ended (ORDER request.slot). */
    atomic_store_explicit(&request->told_offset_bytes, request->offset_bytes, memory_order_release);
    atomic_store_explicit(&request->told_size_bytes, request->size_bytes, memory_order_release);
    atomic_store_explicit(&request->stage, VBLK_QUEUED, memory_order_relaxed);
    atomic_store_explicit(&request->slow, false, memory_order_relaxed);
    atomic_store_explicit(&request->id, id, memory_order_release); /* ORDER request.slot: last, names the life */
    add_in_flight(queue, 1);
    if (request->element->recovered)
        lttng_ust_tracepoint(vblk_request, recovered, id, queue->device->device_id, queue->index,
                             request->element->head);
    lttng_ust_tracepoint(vblk_request, begin, id, queue->device->device_id, queue->index, request->element->head,
                         atomic_load_explicit(&request->type, memory_order_relaxed), request->offset_bytes,
                         request->size_bytes, rt_loop_id(rt_loop_current()));
    if (queue->deferred || !start_request(queue, request))
        defer_request(queue, request);
    return true;
}

/* Of requests that end at once the driver sees half of what waited, then half of the rest, and so on: each time a cache line
 * goes there and back, but while nothing is shown a driver that polls has nothing to do. */
static void show_half(struct vblk_queue *queue)
{
    if (queue->unshown == 0 || queue->unshown < vblk_virtqueue_waiting(queue->vq))
        return;
    vblk_virtqueue_publish(queue->vq);
    queue->unshown = 0;
}

static bool process(struct vblk_queue *queue)
{
    unsigned count = 0;

    if (queue->busy || !accepting(queue))
        return false;
    queue->busy = true;
    queue->unfinished = false;
    queue->batch_ns = vblk_status_coarse_now_ns();
    do {
        if (!queue->polling)
            vblk_queue_set_notifications(queue, false, VBLK_PROCESSING);
        while (count < BATCH_MAX && begin_one(queue)) {
            count++;
            show_half(queue);
        }
        if (count == BATCH_MAX) {
            /* Notifications stay off: the bottom half goes on here, also if nothing more has come by then. */
            queue->unfinished = true;
            rt_bh_schedule(queue->bh);
            break;
        }
        queue->pending = false;
        if (!queue->polling)
            vblk_queue_set_notifications(queue, true, VBLK_PROCESSING);
    } while (queue->pending && queue->free_requests && !queue->starved && accepting(queue));
    queue->busy = false;
    vblk_queue_interrupt(queue);
    return count > 0;
}

void vblk_queue_process(void *opaque)
{
    process(opaque);
}

/* Bottom half: interrupts of requests that ended outside process(), and whatever waits to be taken. */
static void bottom_half(void *opaque)
{
    struct vblk_queue *queue = opaque;

    vblk_queue_interrupt(queue);
    if (!start_deferred(queue) || !accepting(queue))
        return;
    if (!queue->polling && (queue->unfinished || vblk_virtqueue_pending(queue->vq)))
        process(queue);
}

static void retry(void *opaque)
{
    struct vblk_queue *queue = opaque;

    queue->starved = false;
    bottom_half(queue);
    if (queue->timer_polls)
        rt_timer_arm(queue->retry_timer, rt_clock_ns() + POLLED_RING_NS);
}

bool vblk_queue_kicked(void *opaque)
{
    struct vblk_queue *queue = opaque;
    int error = vblk_event_read(queue->kick_fd);

    if (error < 0) {
        vblk_count(&queue->counters.empty_kicks);
        if (error != -EAGAIN) {
            /* No eventfd, or a pipe without a writer: it would be ready, and unread, for ever. */
            vblk_queue_break(queue, error, "its kick descriptor cannot be read");
            vblk_notifier_detach(queue);
        }
        return false;
    }
    vblk_count(&queue->counters.kicks);
    lttng_ust_tracepoint(vblk_queue, kick, queue->device->device_id, queue->index);
    process(queue);
    return true;
}

bool vblk_queue_poll(void *opaque)
{
    struct vblk_queue *queue = opaque;

    if (!accepting(queue))
        return false;
    if (queue->free_requests && !queue->starved && vblk_virtqueue_pending(queue->vq))
        return true;
    return vblk_has_fault(queue->device, VBLK_FAULT_ALWAYS_PROGRESS) && vblk_fault_claim_progress();
}

bool vblk_queue_poll_ready(void *opaque)
{
    return process(opaque);
}

void vblk_queue_poll_begin(void *opaque)
{
    struct vblk_queue *queue = opaque;

    if (!accepting(queue))
        return;
    queue->polling = queue->was_polled = true;
    vblk_queue_set_notifications(queue, false, VBLK_POLLING);
}

bool vblk_queue_poll_end(void *opaque)
{
    struct vblk_queue *queue = opaque;

    /* Detached meanwhile, perhaps by another thread while a bottom half is at the ring: attach asks for kicks. */
    if (!atomic_load_explicit(&queue->accepting, memory_order_relaxed) || !queue->polling)
        return false;
    queue->polling = false;
    queue->pending = false;
    vblk_queue_set_notifications(queue, true, VBLK_POLLING);
    return queue->pending && accepting(queue);
}

void vblk_queue_interrupt(struct vblk_queue *queue)
{
    bool wanted;
    int call_fd;

    if (!queue->interrupt_pending)
        return;
    queue->interrupt_pending = false;
    queue->unshown = 0;
    if (queue->dirty_log)
        vblk_dirty_announce(queue);
    if (queue->restarted && vblk_has_fault(queue->device, VBLK_FAULT_SKIP_INTERRUPT)) {
        vblk_virtqueue_publish(queue->vq); /* done all the same: only the word of it is missing */
        return;
    }
    call_fd = atomic_load_explicit(&queue->call_fd, memory_order_relaxed);
    wanted = vblk_virtqueue_should_interrupt(queue->vq) && call_fd >= 0;
    if (wanted) {
        if (!vblk_queue_write_event(queue, call_fd)) {
            atomic_store_explicit(&queue->call_fd, -1, memory_order_relaxed);
            close(call_fd);
            vblk_queue_break(queue, -ETIMEDOUT, "its call descriptor was full and blocked this thread");
        }
        vblk_count(&queue->counters.interrupts);
    } else {
        vblk_count(&queue->counters.suppressed_interrupts);
    }
    lttng_ust_tracepoint(vblk_queue, interrupt, queue->device->device_id, queue->index, !wanted);
}

static void one_less_in_flight(struct vblk_queue *queue)
{
    struct rt_coroutine *waiter = queue->drain_waiter;

    add_in_flight(queue, -1);
    if (waiter && atomic_load_explicit(&queue->in_flight, memory_order_relaxed) == 0) {
        queue->drain_waiter = NULL;
        rt_coroutine_wake(waiter);
    }
}

void vblk_queue_leave_open(struct vblk_request *request)
{
    struct vblk_queue *queue = request->queue;

    request->left_open = false;
    vblk_virtqueue_discard(queue->vq, request->element);
    give_back_request(queue, request);
    one_less_in_flight(queue);
}

void vblk_queue_complete(struct vblk_request *request, uint8_t status, uint32_t data_bytes)
{
    struct vblk_queue *queue = request->queue;
    uint64_t id = atomic_load_explicit(&request->id, memory_order_relaxed);

    *request->status = status;
    if (__builtin_expect(queue->dirty_log != NULL, 0))
        vblk_dirty_mark(request, data_bytes);
    vblk_virtqueue_push_unseen(queue->vq, request->element, data_bytes + 1); /* shown with the interrupt at the latest */
    queue->unshown++;
    vblk_count(&queue->counters.completions);
    vblk_count_request(request, status != 0);
    lttng_ust_tracepoint(vblk_request, end, id, status);
    if (atomic_load_explicit(&request->slow, memory_order_relaxed))
        vblk_sampler_request_ended(request);
    if (!queue->free_requests)
        queue->starved = true;
    give_back_request(queue, request);
    queue->interrupt_pending = true;
    if (!queue->busy || queue->deferred || queue->starved) {
        queue->starved = false;
        rt_bh_schedule(queue->bh);
    }
    one_less_in_flight(queue);
}

void vblk_queue_drain_co(struct vblk_queue *queue)
{
    if (atomic_load_explicit(&queue->in_flight, memory_order_relaxed) > 0) {
        struct rt_coroutine *earlier = queue->drain_waiter; /* another drain: we wake it in turn */

        queue->drain_waiter = rt_coroutine_self();
        vblk_disk_errors_drain_begin(queue);
        rt_coroutine_yield();
        vblk_disk_errors_drain_end(queue);
        if (earlier)
            rt_coroutine_wake(earlier);
    }
    vblk_queue_interrupt(queue);
}

void vblk_queue_take_over(struct vblk_queue *queue)
{
    unsigned recovered;

    /* What an earlier process gave back may have come without its interrupt. */
    queue->interrupt_pending = vblk_virtqueue_resumed(queue->vq, &recovered);
    if (recovered)
        vblk_log(&queue->device->log, VBLK_LOG_INFO,
                 "queue %u: %u requests were in flight when the last process ended; they are done again", queue->index,
                 recovered);
}

int vblk_queue_create_work(struct vblk_queue *queue, struct rt_loop *loop, struct rt_bh **bh_out,
                           struct rt_timer **timer_out)
{
    struct rt_bh *bh = rt_bh_create(loop, bottom_half, queue);
    struct rt_timer *timer = rt_timer_create(loop, retry, queue);

    if (!bh || !timer) {
        rt_bh_destroy(bh);
        rt_timer_destroy(timer);
        return -ENOMEM;
    }
    *bh_out = bh;
    *timer_out = timer;
    return 0;
}

void vblk_queue_begin_work(struct vblk_queue *queue)
{
    queue->starved = queue->unfinished = false; /* the kick that comes looks at the ring */
    queue->timer_polls = queue->polled;
    if (queue->timer_polls)
        rt_timer_arm(queue->retry_timer, rt_clock_ns() + POLLED_RING_NS);
}

void vblk_queue_end_work(struct vblk_queue *queue)
{
    rt_bh_destroy(queue->bh);
    rt_timer_destroy(queue->retry_timer);
    queue->bh = NULL;
    queue->retry_timer = NULL;
}

uint32_t vblk_queue_base(const struct vblk_queue *queue)
{
    if (queue->has_base)
        return queue->base;
    return queue->device->features >> VIRTIO_F_RING_PACKED & 1 ? VBLK_VIRTQUEUE_BASE_PACKED : 0;
}

int vblk_queue_create_ring(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;
    struct vblk_virtqueue_config config = {
        .size = queue->size,
        .base = vblk_queue_base(queue),
        .features = device->features,
        .desc_user = queue->address.desc_user,
        .avail_user = queue->address.avail_user,
        .used_user = queue->address.used_user,
        .inflight = &device->inflight,
        .index = queue->index,
        .forget_slot_zero = device->faults & VBLK_FAULT_INFLIGHT_SLOT_ZERO,
    };
    struct vblk_virtqueue *vq;
    int error = vblk_virtqueue_create(&config, device->map, &vq);

    if (error < 0)
        return error;
    queue->base_is_past = false;
    pthread_mutex_lock(&device->ring_lock);
    queue->vq = vq;
    queue->features = device->features;
    vblk_dirty_apply(queue);
    queue->requests = g_new0(struct vblk_request, queue->size);
    queue->request_count = queue->size;
    queue->free_requests = NULL;
    for (unsigned i = queue->size; i-- > 0;) {
        queue->requests[i].queue = queue;
        give_back_request(queue, &queue->requests[i]);
    }
    queue->deferred = NULL;
    queue->deferred_last = &queue->deferred;
    /* interrupt_pending is clear since the drain, and another drain may be looking at it in the loop. */
    queue->polling = queue->starved = queue->unfinished = false;
    pthread_mutex_unlock(&device->ring_lock);
    return 0;
}

void vblk_queue_destroy_ring(struct vblk_queue *queue)
{
    struct vblk_device *device = queue->device;

    if (!queue->vq)
        return;
    pthread_mutex_lock(&device->ring_lock);
    queue->base = vblk_virtqueue_base(queue->vq);
    queue->has_base = true;
    vblk_virtqueue_destroy(queue->vq);
    queue->vq = NULL;
    g_free(queue->requests);
    queue->requests = queue->free_requests = NULL;
    queue->request_count = 0;
    pthread_mutex_unlock(&device->ring_lock);
}
