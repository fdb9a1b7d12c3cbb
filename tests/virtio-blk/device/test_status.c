/*
 * Goal:   what a device tells about itself is what happened: its state, its rings, totals by kind, open requests.
 * Method: a device in this process serves a known number of requests of each kind, good and bad; then its disk is made
 *         to hold a request back (the linker puts the test's function in front of vblk_disk_read_co), and that must be
 *         listed with its offset, size and stage; then the driver breaks its ring.
 * If it fails: an operator looks for a fault in the wrong queue.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "served.h"

static _Atomic bool hold;
static _Atomic(struct rt_coroutine *) held;

int __real_vblk_disk_read_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov,
                             int iov_count);
int __wrap_vblk_disk_read_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov,
                             int iov_count);

int __wrap_vblk_disk_read_co(struct vblk_disk_loop *context, uint64_t offset_bytes, const struct iovec *iov,
                             int iov_count)
{
    if (atomic_load(&hold)) {
        atomic_store(&held, rt_coroutine_self());
        rt_coroutine_yield();
    }
    return __real_vblk_disk_read_co(context, offset_bytes, iov, iov_count);
}

struct look {
    struct vblk_device *device;
    struct vblk_device_status status;
    struct vblk_queue_status queues[2];
    unsigned queue_count;
    struct vblk_request_status request;
    unsigned request_count;
};

static void see_queue(const struct vblk_queue_status *status, void *opaque)
{
    struct look *look = opaque;

    assert_int_equal(status->index, look->queue_count);
    look->queues[look->queue_count++] = *status;
}

static void see_request(const struct vblk_request_status *status, void *opaque)
{
    struct look *look = opaque;

    look->request = *status;
    look->request_count++;
}

static void look_co(void *opaque)
{
    struct look *look = opaque;

    vblk_device_status(look->device, &look->status);
    vblk_device_each_queue(look->device, see_queue, look);
    vblk_device_each_request(look->device, see_request, look);
}

static struct look look_at(struct served *served)
{
    struct look look = { .device = served->device };

    served_run_co(served, look_co, &look);
    return look;
}

static bool is_held(struct vblk_device *device)
{
    (void)device;
    return atomic_load(&held) != NULL;
}

static void expect_totals(const struct vblk_queue_status *queue, enum vblk_request_kind kind, uint64_t requests,
                          uint64_t errors, uint64_t bytes)
{
    const struct vblk_request_totals *totals = &queue->by_kind[kind];

    if (totals->requests != requests || totals->errors != errors || totals->bytes != bytes)
        fail_msg("%s: %d requests, %d errors, %d bytes", vblk_request_kind_name(kind), (int)totals->requests,
                 (int)totals->errors, (int)totals->bytes);
}

static void test_totals_and_rings(void **state)
{
    struct served served;
    struct front_end *fe;
    struct look look;
    uint8_t buffer[4096] = { 0 };

    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .queue_count = 2, .name = "d" }, 1, 0);
    look = look_at(&served);
    assert_string_equal(look.status.name, "d");
    assert_string_equal(look.status.state, "stopped");
    assert_false(look.status.connected);
    assert_int_equal(look.status.size_bytes, 1 << 20);
    assert_int_equal(look.queue_count, 2);
    assert_false(look.queues[0].has_ring);

    fe = served_front_end(&served, NULL);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_IN, i, buffer, 4096), VIRTIO_BLK_S_OK);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_OUT, i, buffer, 512), VIRTIO_BLK_S_OK);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_OUT, 1 << 20, buffer, 512), VIRTIO_BLK_S_IOERR);
    assert_int_equal(served_request(fe, 0, VIRTIO_BLK_T_FLUSH, 0, NULL, 0), VIRTIO_BLK_S_OK);
    assert_int_equal(served_request(fe, 0, 77, 0, NULL, 0), VIRTIO_BLK_S_UNSUPP);
    look = look_at(&served);
    assert_string_equal(look.status.state, "started");
    assert_true(look.status.connected);
    assert_true(look.status.memory_region_count >= 1 && look.status.memory_bytes > 0);
    assert_int_equal(look.request_count, 0);
    expect_totals(&look.queues[0], VBLK_REQUEST_READ, 3, 0, 3 * 4096);
    expect_totals(&look.queues[0], VBLK_REQUEST_WRITE, 3, 1, 2 * 512);
    expect_totals(&look.queues[0], VBLK_REQUEST_FLUSH, 1, 0, 0);
    expect_totals(&look.queues[0], VBLK_REQUEST_OTHER, 1, 1, 0);
    assert_int_equal(look.queues[0].pops, 8);
    assert_int_equal(look.queues[0].completions, 8);
    assert_true(look.queues[0].has_ring && look.queues[0].attached && look.queues[0].enabled);
    assert_int_equal(look.queues[0].avail_index, look.queues[0].popped_index);
    assert_int_equal(look.queues[0].popped_index, look.queues[0].used_index);
    assert_null(look.queues[0].broken_reason);

    vblk_queue_break(&served.device->queues[0], -EPROTO, "for this test");
    look = look_at(&served);
    assert_string_equal(look.queues[0].broken_reason, "for this test");
    fe_destroy(fe);
    served_stop(&served);
}

static void test_open_requests(void **state)
{
    struct served served;
    struct front_end *fe;
    struct look look;

    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .queue_count = 1 }, 1, 0);
    fe = served_front_end(&served, NULL);
    atomic_store(&hold, true);
    served_submit(fe, 0, VIRTIO_BLK_T_IN, 8, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    served_wait(&served, is_held, "a request is held");
    look = look_at(&served);
    assert_int_equal(look.request_count, 1);
    assert_int_equal(look.status.in_flight, 1);
    assert_int_equal(look.request.kind, VBLK_REQUEST_READ);
    assert_int_equal(look.request.offset_bytes, 8 * 512);
    assert_int_equal(look.request.size_bytes, 512);
    assert_string_equal(look.request.stage, "backend");
    assert_true(look.request.age_ns >= 0 && look.request.request_id > 0);
    atomic_store(&hold, false);
    rt_coroutine_wake(atomic_load(&held));
    served_reap(fe, 0);
    assert_int_equal(look_at(&served).request_count, 0);
    fe_destroy(fe);
    served_stop(&served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_totals_and_rings),
        cmocka_unit_test(test_open_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
