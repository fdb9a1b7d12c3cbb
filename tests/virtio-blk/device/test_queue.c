/*
 * Goal:   a queue takes everything that the driver offers, however much comes at once and whatever runs out.
 * Method: a device in this process whose loop does not poll (a missed notification is a hang then) gets full batches,
 *         chains that use up the budget, a ring that is polled, and no coroutines for a while (the linker puts the test's
 *         function in front of rt_coroutine_create).
 * If it fails: guests hang, or a driver can keep an IOThread busy for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rt/pool.h"
#include "served.h"

/* ---- coroutines that cannot be had ---- */

static _Atomic int refusals; /* how many requests get no coroutine */

struct rt_coroutine *__real_rt_coroutine_create(rt_coroutine_fn *fn, void *opaque);
struct rt_coroutine *__wrap_rt_coroutine_create(rt_coroutine_fn *fn, void *opaque);

struct rt_coroutine *__wrap_rt_coroutine_create(rt_coroutine_fn *fn, void *opaque)
{
    if (fn == vblk_request_run && atomic_load(&refusals) > 0) {
        atomic_fetch_sub(&refusals, 1);
        errno = ENOMEM;
        return NULL;
    }
    return __real_rt_coroutine_create(fn, opaque);
}

static struct fe_options ring_of(uint16_t size)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;

    options.layout.size = size;
    options.layout.slot_count = size;
    options.layout.slot_bytes = 512;
    return options;
}

/* Offer @count reads with one index update and wait for all. */
static void burst(struct front_end *fe, unsigned count)
{
    struct fe_queue *queue = fe_queue(fe, 0);

    for (unsigned i = 0; i < count; i++)
        served_submit(fe, 0, VIRTIO_BLK_T_IN, i, NULL, 512);
    for (unsigned i = 0; i < count; i++) {
        uint16_t slot = served_reap(fe, 0);

        assert_int_equal(*queue->slots[slot].status, VIRTIO_BLK_S_OK);
        fe_queue_give(queue, slot);
    }
}

static void test_bursts_of_every_size_around_a_batch(void **state)
{
    static const unsigned sizes[] = { 1, 255, 256, 257, 511, 512, 513, 768, 1024, 256, 1 };
    struct fe_options options = ring_of(1024);

    (void)state;
    for (unsigned run = 0; run < 4; run++) {
        struct served served;
        struct front_end *fe;

        options.layout.event_idx = run % 2;
        served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .instant_on_loop = run / 2 }, 1, 0);
        fe = served_front_end(&served, &options);
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            burst(fe, sizes[i]);
            burst(fe, 1); /* the queue still hears its driver */
        }
        assert_int_equal(fe_stop(fe), 0);
        fe_destroy(fe);
        served_stop(&served);
    }
}

static void test_requests_without_coroutine_run_later(void **state)
{
    struct fe_options options = ring_of(128);
    struct served served;
    struct front_end *fe;

    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M" }, 1, 0);
    fe = served_front_end(&served, &options);
    for (unsigned i = 0; i < 3; i++) {
        /* All of a burst; a few of it; and one that is alone, which only the timer can bring back. */
        atomic_store(&refusals, i == 0 ? 128 + 7 : i == 1 ? 5 : 3);
        burst(fe, i == 2 ? 1 : 128);
        assert_int_equal(atomic_load(&refusals), 0);
    }
    /* Stopping waits for those that were taken and have not begun. */
    atomic_store(&refusals, 20);
    for (unsigned i = 0; i < 16; i++)
        served_submit(fe, 0, VIRTIO_BLK_T_IN, i, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    assert_int_equal(fe_stop(fe), 0);
    fe_destroy(fe);
    served_stop(&served);
    atomic_store(&refusals, 0);
}

static uint64_t pool_takes;

static void add_takes(const struct rt_pool_thread_stats *stats, void *opaque)
{
    (void)opaque;
    pool_takes += stats->takes;
}

/* Reads and writes of a null disk run when no coroutine can be had; what may have to wait gets one, and whoever comes behind
 * it keeps its turn. A write that its driver wants flushed may have to wait. */
static void test_an_instant_disk_needs_no_coroutine(void **state)
{
    struct fe_options options = ring_of(128);
    uint8_t data[512] = { 0 };

    (void)state;
    for (unsigned cache = 0; cache < 2; cache++) {
        struct served served;
        struct front_end *fe;
        uint64_t takes;

        options.features_mask = cache ? UINT64_MAX : ~(UINT64_C(1) << VIRTIO_BLK_F_FLUSH | UINT64_C(1) << VIRTIO_BLK_F_CONFIG_WCE);
        served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .instant_on_loop = true }, 1, 0);
        fe = served_front_end(&served, &options);
        pool_takes = 0;
        rt_pool_each_thread(add_takes, NULL);
        takes = pool_takes;
        burst(fe, 128);
        assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, 2048, data, 512), VIRTIO_BLK_S_IOERR);
        for (unsigned i = 0; i < 10; i++)
            assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_OUT, i, data, 512), VIRTIO_BLK_S_OK);
        pool_takes = 0;
        rt_pool_each_thread(add_takes, NULL);
        assert_int_equal(pool_takes - takes, cache ? 0 : 10);

        atomic_store(&refusals, 3);
        assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_GET_ID, 0, data, 20), VIRTIO_BLK_S_OK);
        assert_int_equal(atomic_load(&refusals), 0);
        atomic_store(&refusals, 5);
        served_submit(fe, 0, VIRTIO_BLK_T_GET_ID, 0, NULL, 20);
        served_submit(fe, 0, VIRTIO_BLK_T_IN, 1, NULL, 512);
        fe_queue_publish(fe_queue(fe, 0));
        assert_int_equal(fe_stop(fe), 0); /* waits for both */
        fe_destroy(fe);
        served_stop(&served);
        atomic_store(&refusals, 0);
    }
}

/* ---- chains that use up the budget ---- */

#define LONG_CHAIN 1000
#define BUDGET_RING 512

/* One indirect table for all: a read of 998 sectors into the same sector of memory. */
static void offer_long_chains(struct front_end *fe, unsigned count)
{
    struct fe_queue *queue = fe_queue(fe, 0);
    uint8_t *extra = fe_extra(fe);
    uint64_t base = fe_memory_guest_addr(fe) + (extra - fe_memory(fe, NULL));
    struct vring_desc *table = (struct vring_desc *)extra;
    uint8_t *header = extra + 65536, *data = header + 512;

    memset(header, 0, 16);
    for (unsigned i = 0; i < LONG_CHAIN; i++) {
        bool is_last = i + 1 == LONG_CHAIN;

        table[i].addr = base + (i == 0 ? header : data) - extra;
        table[i].len = i == 0 ? 16 : is_last ? 1 : 512;
        table[i].flags = (i == 0 ? 0 : VRING_DESC_F_WRITE) | (is_last ? 0 : VRING_DESC_F_NEXT);
        table[i].next = i + 1;
    }
    for (unsigned i = 0; i < count; i++) {
        queue->desc[i] = (struct vring_desc){ .addr = base, .len = sizeof(*table) * LONG_CHAIN,
                                              .flags = VRING_DESC_F_INDIRECT };
        queue->avail->ring[i % queue->layout.size] = i;
    }
    __atomic_store_n(&queue->avail->idx, (uint16_t)count, __ATOMIC_SEQ_CST);
    fe_queue_kick(queue);
}

static void test_a_driver_that_uses_up_the_budget(void **state)
{
    struct fe_options options = ring_of(BUDGET_RING);
    char disk[] = "/tmp/vblk-queue-XXXXXX";
    int fd = mkstemp(disk);
    struct served served;
    struct front_end *fe;
    int64_t deadline_ns;

    (void)state;
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    close(fd);
    /* More pieces than the budget while nothing can end: a file's requests begin after the batch. */
    assert_true(BUDGET_RING * LONG_CHAIN > VBLK_VIRTQUEUE_IOV_BUDGET);
    options.layout.slot_count = 1;
    options.extra_bytes = 1 << 20;
    served_start(&served, &(struct vblk_device_options){ .blk_file = disk }, 1, 0);
    fe = served_front_end(&served, &options);
    offer_long_chains(fe, BUDGET_RING);
    deadline_ns = rt_clock_ns() + SERVED_DEADLINE_MS * INT64_C(1000000);
    while (__atomic_load_n(&fe_queue(fe, 0)->used->idx, __ATOMIC_ACQUIRE) != BUDGET_RING) {
        struct pollfd interrupt = { .fd = fe_queue(fe, 0)->call_fd, .events = POLLIN };

        assert_true(rt_clock_ns() < deadline_ns);
        (void)poll(&interrupt, 1, 1);
    }
    fe_destroy(fe);
    served_stop(&served);
    unlink(disk);
}

/* ---- a ring that nobody kicks ---- */

static void test_a_polled_ring(void **state)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    const uint64_t no_fd = 1 << 8; /* VHOST_USER_VRING_NOFD_MASK, ring 0 */
    struct served served;
    struct front_end *fe;

    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M" }, 1, 0);
    fe = served_front_end(&served, &options);
    assert_int_equal(fe_set(fe, WIRE_SET_VRING_KICK, &no_fd, sizeof(no_fd), NULL, 0), 0);
    for (unsigned i = 0; i < 50; i++) {
        struct fe_queue *queue = fe_queue(fe, 0);
        int kick_fd = queue->kick_fd, nobody = eventfd(0, EFD_CLOEXEC);

        queue->kick_fd = nobody;
        assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, i, NULL, 512), VIRTIO_BLK_S_OK);
        queue->kick_fd = kick_fd;
        close(nobody);
    }
    assert_int_equal(fe_stop(fe), 0);
    fe_destroy(fe);
    served_stop(&served);
}

/* ---- a driver that breaks the rules ---- */

static void test_a_broken_queue_stops_alone(void **state)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    struct pollfd error = { .events = POLLIN };
    struct served served;
    struct front_end *fe;
    struct fe_queue *queue;
    uint16_t base;

    (void)state;
    options.queue_count = 2;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .queue_count = 2 }, 1, 0);
    fe = served_front_end(&served, &options);
    queue = fe_queue(fe, 0);
    queue->avail->ring[0] = queue->layout.size; /* no such descriptor */
    __atomic_store_n(&queue->avail->idx, 1, __ATOMIC_SEQ_CST);
    fe_queue_kick(queue);
    error.fd = fe_err_fd(fe);
    assert_int_equal(poll(&error, 1, SERVED_DEADLINE_MS), 1);
    assert_int_equal(served_request(fe, 1, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
    assert_int_equal(fe_queue_stop(fe, 0, &base), 0);
    assert_int_equal(base, 0);
    /* A driver that starts over is served. */
    __atomic_store_n(&queue->avail->idx, 0, __ATOMIC_SEQ_CST);
    assert_int_equal(fe_queue_start(fe, 0), 0);
    assert_int_equal(fe_queue_enable(fe, 0, true), 0);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
    fe_destroy(fe);
    served_stop(&served);
}

static void test_a_broken_packed_queue_stops_alone(void **state)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    struct pollfd error = { .events = POLLIN };
    struct served served;
    struct front_end *fe;
    struct fe_queue *queue;
    uint32_t base;

    (void)state;
    options.queue_count = 2;
    options.layout.packed = true;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .queue_count = 2 }, 1, 0);
    fe = served_front_end(&served, &options);
    queue = fe_queue(fe, 0);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
    queue->packed_desc[1].id = queue->layout.size; /* no such buffer */
    queue->packed_desc[1].addr = fe_queue_guest_addr(queue, queue->slots[0].header);
    queue->packed_desc[1].len = 16;
    __atomic_store_n(&queue->packed_desc[1].flags, 1 << VRING_PACKED_DESC_F_AVAIL, __ATOMIC_SEQ_CST);
    fe_queue_kick(queue);
    error.fd = fe_err_fd(fe);
    assert_int_equal(poll(&error, 1, SERVED_DEADLINE_MS), 1);
    assert_int_equal(served_request(fe, 1, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
    assert_int_equal(fe_queue_get_base(fe, 0, &base), 0);
    assert_int_equal(base, 0x80018001);
    /* A driver that takes it back is served. */
    __atomic_store_n(&queue->packed_desc[1].flags, 0, __ATOMIC_SEQ_CST);
    assert_int_equal(fe_queue_start(fe, 0), 0);
    assert_int_equal(fe_queue_enable(fe, 0, true), 0);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
    fe_destroy(fe);
    served_stop(&served);
}

static bool has_let_its_notifier_go(struct vblk_device *device)
{
    bool has_gone;

    pthread_mutex_lock(&device->ring_lock);
    has_gone = atomic_load(&device->queues[0].broken) && !device->queues[0].handler;
    pthread_mutex_unlock(&device->ring_lock);
    return has_gone;
}

/* The end of a pipe that nobody writes is ready for ever and cannot be read: the loop must not spin on it. */
static void test_a_kick_descriptor_that_is_none(void **state)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    const uint64_t ring = 0;
    struct served served;
    struct front_end *fe;
    uint16_t base;
    int ends[2];

    (void)state;
    options.queue_count = 2;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .queue_count = 2 }, 1, 0);
    fe = served_front_end(&served, &options);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[1]);
    assert_int_equal(fe_set(fe, WIRE_SET_VRING_KICK, &ring, sizeof(ring), ends, 1), 0);
    close(ends[0]);
    served_wait(&served, has_let_its_notifier_go, "the queue broke and its notifier left the loop");
    assert_int_equal(served_request(fe, 1, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
    assert_int_equal(fe_queue_stop(fe, 0, &base), 0);
    assert_int_equal(fe_queue_start(fe, 0), 0);
    assert_int_equal(fe_queue_enable(fe, 0, true), 0);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512), VIRTIO_BLK_S_OK);
    fe_destroy(fe);
    served_stop(&served);
}

/* With a loop that polls, many small bursts: each phase of polling turns notifications off and on. */
static void test_bursts_while_the_loop_polls(void **state)
{
    struct fe_options options = ring_of(512);
    static const int64_t polls_ns[] = { 50000, RT_WHILE_ATTACHED, RT_FOREVER };

    (void)state;
    for (unsigned p = 0; p < 3; p++) {
        struct served served;
        struct front_end *fe;

        served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .instant_on_loop = p == 1 }, 1, polls_ns[p]);
        for (unsigned again = 0; again < 2; again++) {
            fe = served_front_end(&served, &options);
            for (unsigned i = 0; i < 150; i++)
                burst(fe, i % 7 == 0 ? 256 : 1 + i % 3);
            assert_int_equal(fe_stop(fe), 0);
            fe_destroy(fe);
        }
        served_stop(&served);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bursts_of_every_size_around_a_batch),
        cmocka_unit_test(test_requests_without_coroutine_run_later),
        cmocka_unit_test(test_an_instant_disk_needs_no_coroutine),
        cmocka_unit_test(test_a_driver_that_uses_up_the_budget),
        cmocka_unit_test(test_a_polled_ring),
        cmocka_unit_test(test_a_broken_queue_stops_alone),
        cmocka_unit_test(test_a_broken_packed_queue_stops_alone),
        cmocka_unit_test(test_a_kick_descriptor_that_is_none),
        cmocka_unit_test(test_bursts_while_the_loop_polls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
