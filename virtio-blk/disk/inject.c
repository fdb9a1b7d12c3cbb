/*
 * A disk in front of a disk that delays, reorders and fails requests by rules (inject_rule.h): what a slow or failing store
 * looks like to everything above. Delays come before the disk sees the request (a process that is killed meanwhile has not
 * written), reordering after it has done it (written, and not yet acknowledged).
 *
 * Chance is drawn in the order in which a loop's requests arrive, from the seed and the number of the loop: the same requests
 * in the same order meet the same fate.
 */
#include <errno.h>
#include <glib.h>

#include "disk/backend.h"
#include "disk/inject_rule.h"
#include "rt/coroutine.h"
#include "rt/loop.h"

/* A completion that is held lets so many others pass at most, or, when none come, waits so long. */
#define HELD_PASSES_MAX 8
#define HELD_NS (2 * INT64_C(1000000))

struct inject_disk {
    struct vblk_disk disk;
    struct vblk_disk *inner;
    struct vblk_inject_rules rules;
    _Atomic uint32_t last_loop_number;
};

struct inject_loop {
    struct vblk_disk_loop context;
    struct vblk_disk_loop *inner;
    uint64_t chance;   /* state of the generator */
    struct rt_timer *timer;
    GQueue delayed;    /* by deadline */
    GQueue held;       /* in the order of arrival, which is that of their deadlines */
};

/* On the stack of the coroutine that waits. */
struct waiter {
    GList link;
    struct rt_coroutine *co;
    int64_t deadline_ns;
    unsigned passes; /* held: others that still complete before it */
};

/* What the rules say together about one request. */
struct verdict {
    uint64_t delay_us;
    bool reorder;
    int error;
};

/* ---- chance ---- */

/* SplitMix64 (Steele, Lea, Flood 2014): one word of state, any seed. */
static uint64_t next_random(struct inject_loop *loop)
{
    uint64_t z = loop->chance += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static double percent(struct inject_loop *loop)
{
    return (double)(next_random(loop) >> 11) * (100.0 / (double)(UINT64_C(1) << 53));
}

static struct verdict judge(struct inject_loop *loop, enum vblk_inject_op op, uint64_t offset_bytes, uint64_t size_bytes)
{
    struct inject_disk *inject = (struct inject_disk *)loop->context.disk;
    struct verdict verdict = { 0 };

    for (unsigned i = 0; i < inject->rules.count; i++) {
        struct vblk_inject_rule *rule = &inject->rules.rules[i];
        /* Always three draws, so that one rule does not change what happens to others. */
        double taken = percent(loop), reordered = percent(loop), failed = percent(loop);

        if (!vblk_inject_rule_takes(rule, op, offset_bytes, size_bytes, taken))
            continue;
        verdict.delay_us += rule->delay_us;
        verdict.reorder |= reordered < rule->reorder_percent;
        if (failed < rule->error_percent && verdict.error == 0)
            verdict.error = rule->error;
    }
    return verdict;
}

/* ---- waiting ---- */

static struct waiter *first_waiter(const GQueue *queue)
{
    return queue->head ? queue->head->data : NULL;
}

static void arm(struct inject_loop *loop)
{
    const struct waiter *delayed = first_waiter(&loop->delayed), *held = first_waiter(&loop->held);

    if (delayed && (!held || delayed->deadline_ns < held->deadline_ns))
        rt_timer_arm(loop->timer, delayed->deadline_ns);
    else if (held)
        rt_timer_arm(loop->timer, held->deadline_ns);
}

static bool release_due(GQueue *queue, int64_t now_ns)
{
    struct waiter *waiter = first_waiter(queue);

    if (!waiter || waiter->deadline_ns > now_ns)
        return false;
    g_queue_unlink(queue, &waiter->link);
    rt_coroutine_wake(waiter->co); /* at once: it may come back here, and to both queues */
    return true;
}

static void timer_expired(void *opaque)
{
    struct inject_loop *loop = opaque;
    int64_t now_ns = rt_clock_ns();

    while (release_due(&loop->delayed, now_ns) || release_due(&loop->held, now_ns))
        continue;
    arm(loop);
}

static void delay_co(struct inject_loop *loop, uint64_t delay_us)
{
    struct waiter waiter = { .co = rt_coroutine_self(), .deadline_ns = rt_clock_ns() + (int64_t)delay_us * 1000 };
    GList *before = loop->delayed.tail;

    waiter.link.data = &waiter;
    while (before && ((struct waiter *)before->data)->deadline_ns > waiter.deadline_ns)
        before = before->prev;
    if (before)
        g_queue_insert_after_link(&loop->delayed, before, &waiter.link);
    else
        g_queue_push_head_link(&loop->delayed, &waiter.link);
    arm(loop);
    rt_coroutine_yield();
}

static void hold_co(struct inject_loop *loop)
{
    struct waiter waiter = { .co = rt_coroutine_self(), .deadline_ns = rt_clock_ns() + HELD_NS,
                             .passes = 1 + next_random(loop) % HELD_PASSES_MAX };

    waiter.link.data = &waiter;
    g_queue_push_tail_link(&loop->held, &waiter.link);
    arm(loop);
    rt_coroutine_yield();
}

/* Another request completes. What it releases runs when this coroutine has ended or waits: after it. */
static void pass_held(struct inject_loop *loop)
{
    GList *next;

    for (GList *link = loop->held.head; link; link = next) {
        struct waiter *waiter = link->data;

        next = link->next;
        if (--waiter->passes == 0) {
            g_queue_unlink(&loop->held, link);
            rt_coroutine_wake(waiter->co);
        }
    }
}

/* ---- requests ---- */

static struct verdict begin_co(struct inject_loop *loop, enum vblk_inject_op op, uint64_t offset_bytes,
                               uint64_t size_bytes)
{
    struct verdict verdict = judge(loop, op, offset_bytes, size_bytes);

    if (verdict.delay_us > 0)
        delay_co(loop, verdict.delay_us);
    return verdict;
}

static int end_co(struct inject_loop *loop, const struct verdict *verdict, int result)
{
    if (verdict->reorder)
        hold_co(loop);
    else
        pass_held(loop);
    return result;
}

static uint64_t iov_bytes(const struct iovec *iov, int iov_count)
{
    uint64_t bytes = 0;

    for (int i = 0; i < iov_count; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

static int inject_read_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count)
{
    struct inject_loop *loop = (struct inject_loop *)context;
    struct verdict verdict = begin_co(loop, VBLK_INJECT_READ, offset_bytes, iov_bytes(iov, iov_count));
    int result = verdict.error;

    if (result == 0)
        result = loop->inner->disk->ops->read_co(loop->inner, offset_bytes, iov, iov_count);
    return end_co(loop, &verdict, result);
}

static int inject_write_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov, int iov_count)
{
    struct inject_loop *loop = (struct inject_loop *)context;
    struct verdict verdict = begin_co(loop, VBLK_INJECT_WRITE, offset_bytes, iov_bytes(iov, iov_count));
    int result = verdict.error;

    if (result == 0)
        result = loop->inner->disk->ops->write_co(loop->inner, offset_bytes, iov, iov_count);
    return end_co(loop, &verdict, result);
}

static int inject_flush_co(struct vblk_disk_loop *context)
{
    struct inject_loop *loop = (struct inject_loop *)context;
    struct verdict verdict = begin_co(loop, VBLK_INJECT_FLUSH, 0, 0);
    int result = verdict.error;

    if (result == 0)
        result = loop->inner->disk->ops->flush_co(loop->inner);
    return end_co(loop, &verdict, result);
}

static int inject_discard_co(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes)
{
    struct inject_loop *loop = (struct inject_loop *)context;
    struct verdict verdict = begin_co(loop, VBLK_INJECT_DISCARD, offset_bytes, size_bytes);
    int result = verdict.error;

    if (result == 0)
        result = vblk_disk_discard_co(loop->inner, offset_bytes, size_bytes);
    return end_co(loop, &verdict, result);
}

static int inject_write_zeroes_co(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes,
                                  bool may_unmap)
{
    struct inject_loop *loop = (struct inject_loop *)context;
    struct verdict verdict = begin_co(loop, VBLK_INJECT_WRITE_ZEROES, offset_bytes, size_bytes);
    int result = verdict.error;

    if (result == 0)
        result = vblk_disk_write_zeroes_co(loop->inner, offset_bytes, size_bytes, may_unmap);
    return end_co(loop, &verdict, result);
}

/* ---- life ---- */

static int inject_attach_loop(struct vblk_disk *disk, struct rt_loop *rt_loop, struct vblk_disk_loop **context_out)
{
    struct inject_disk *inject = (struct inject_disk *)disk;
    struct inject_loop *loop = g_new0(struct inject_loop, 1);
    int error = -ENOMEM;

    loop->context.disk = disk;
    loop->chance = inject->rules.seed +
                   ((uint64_t)atomic_fetch_add_explicit(&inject->last_loop_number, 1, memory_order_relaxed) << 32);
    g_queue_init(&loop->delayed);
    g_queue_init(&loop->held);
    loop->timer = rt_timer_create(rt_loop, timer_expired, loop);
    if (loop->timer)
        error = vblk_disk_attach_loop(inject->inner, rt_loop, &loop->inner);
    if (error < 0) {
        rt_timer_destroy(loop->timer);
        g_free(loop);
        return error;
    }
    *context_out = &loop->context;
    return 0;
}

static void inject_detach_loop(struct vblk_disk_loop *context)
{
    struct inject_loop *loop = (struct inject_loop *)context;

    vblk_disk_detach_loop(loop->inner);
    rt_timer_destroy(loop->timer);
    g_free(loop);
}

static void inject_close(struct vblk_disk *disk)
{
    struct inject_disk *inject = (struct inject_disk *)disk;

    vblk_disk_close(inject->inner);
    vblk_inject_rules_clear(&inject->rules);
    g_free(inject);
}

static int inject_resize(struct vblk_disk *disk, uint64_t *size_inout)
{
    struct vblk_disk *inner = ((struct inject_disk *)disk)->inner;
    int error = vblk_disk_resize(inner, *size_inout);

    *size_inout = inner->facts.size_bytes;
    return error;
}

static int inject_hold(struct vblk_disk *disk, bool *changed_out)
{
    struct vblk_disk *inner = ((struct inject_disk *)disk)->inner;
    int error = vblk_disk_hold(inner);

    *changed_out = false; /* the inner one has seen to it */
    disk->facts.size_bytes = inner->facts.size_bytes;
    return error;
}

static void inject_let_go(struct vblk_disk *disk)
{
    vblk_disk_let_go(((struct inject_disk *)disk)->inner);
}

static const struct vblk_disk_ops inject_ops = {
    .close = inject_close,
    .attach_loop = inject_attach_loop,
    .detach_loop = inject_detach_loop,
    .read_co = inject_read_co,
    .write_co = inject_write_co,
    .flush_co = inject_flush_co,
    .discard_co = inject_discard_co,
    .write_zeroes_co = inject_write_zeroes_co,
    .resize = inject_resize,
    .hold = inject_hold,
    .let_go = inject_let_go,
};

int vblk_disk_inject_open(struct vblk_disk *inner, const char *rules, struct vblk_disk **disk_out, char **message_out)
{
    struct inject_disk *inject = g_new0(struct inject_disk, 1);
    char *wrong = NULL;
    int error = vblk_inject_rules_parse(rules, &inject->rules, &wrong);

    if (error < 0) {
        *message_out = g_strdup_printf("inject: %s", wrong);
        g_free(wrong);
        g_free(inject);
        return error;
    }
    inject->disk.ops = &inject_ops;
    inject->disk.facts = inner->facts;
    inject->disk.facts.instant = false; /* it delays */
    inject->disk.range_align_bytes = 0; /* the inner one splits, so that one request is one here */
    inject->inner = inner;
    *disk_out = &inject->disk;
    return 0;
}
