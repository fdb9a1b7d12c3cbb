/*
 * Goal:   the sampler sees every request that is older than a second while it is open, whatever it waits for, with what that is.
 * Method: a device in this process whose disk holds a write-zeroes until it is let go, behind it a write that overlaps, and a
 *         device that is paused; the sampler's look is called from here, as its thread does once a second.
 * If it fails: a disk that stalls is told of only after it ended, or never, or another stage is blamed for it.
 */
#include <glib.h>
#include <linux/virtio_blk.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "served.h"

static struct rt_coroutine *_Atomic held;

int __wrap_vblk_disk_write_zeroes_co(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes, bool may_unmap);

int __wrap_vblk_disk_write_zeroes_co(struct vblk_disk_loop *context, uint64_t offset_bytes, uint64_t size_bytes, bool may_unmap)
{
    (void)context, (void)offset_bytes, (void)size_bytes, (void)may_unmap;
    atomic_store(&held, rt_coroutine_self());
    rt_coroutine_yield();
    return 0;
}

/* How many open requests of this kind, in this stage, the sampler has seen to be slow. */
static unsigned slow_ones(struct vblk_device *device, uint8_t type, enum vblk_stage stage)
{
    struct vblk_queue *queue = &device->queues[0];
    unsigned count = 0;

    pthread_mutex_lock(&device->ring_lock);
    for (unsigned i = 0; i < queue->request_count; i++) {
        struct vblk_request *request = &queue->requests[i];

        count += atomic_load(&request->id) != 0 && atomic_load(&request->slow) && atomic_load(&request->type) == type &&
                 atomic_load(&request->stage) == stage;
    }
    pthread_mutex_unlock(&device->ring_lock);
    return count;
}

static bool zeroes_and_write_are_slow(struct vblk_device *device)
{
    device->source.sample(device);
    return slow_ones(device, VIRTIO_BLK_T_WRITE_ZEROES, VBLK_BACKEND) == 1 &&
           slow_ones(device, VIRTIO_BLK_T_OUT, VBLK_SERIALISING) == 1;
}

static bool two_are_slow(struct vblk_device *device)
{
    device->source.sample(device);
    return slow_ones(device, VIRTIO_BLK_T_OUT, VBLK_BACKEND) == 1 && slow_ones(device, VIRTIO_BLK_T_IN, VBLK_BACKEND) == 1;
}

static bool is_paused(struct vblk_device *device)
{
    return vblk_device_is_paused(device);
}

static void reap_all(struct front_end *fe, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(*fe_queue(fe, 0)->slots[served_reap(fe, 0)].status, VIRTIO_BLK_S_OK);
}

static void test_a_disk_that_stalls(void **state)
{
    const struct virtio_blk_discard_write_zeroes segment = { .sector = 8, .num_sectors = 8 };
    struct served served;
    struct front_end *fe;

    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M" }, 1, 0);
    fe = served_front_end(&served, NULL);
    served_submit(fe, 0, VIRTIO_BLK_T_WRITE_ZEROES, 0, &segment, sizeof(segment));
    served_submit(fe, 0, VIRTIO_BLK_T_OUT, 8, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    served_wait(&served, zeroes_and_write_are_slow, "both requests are seen to be slow");
    rt_coroutine_wake(atomic_load(&held));
    reap_all(fe, 2);
    fe_destroy(fe);
    served_stop(&served);
}

/* Whatever waits for a resume waits for the disk. */
static void test_a_paused_device(void **state)
{
    struct served served;
    struct front_end *fe;

    (void)state;
    served_start(&served, &(struct vblk_device_options){ .blk_file = "null:1M", .on_disk_error = VBLK_DISK_ERROR_STOP,
                                                         .inject = "op=write,count=1,error=100" }, 1, 0);
    fe = served_front_end(&served, NULL);
    served_submit(fe, 0, VIRTIO_BLK_T_OUT, 8, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    served_wait(&served, is_paused, "the device pauses");
    served_submit(fe, 0, VIRTIO_BLK_T_IN, 8, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    served_wait(&served, two_are_slow, "both requests are seen to be slow");
    vblk_device_resume_co(served.device);
    reap_all(fe, 2);
    fe_destroy(fe);
    served_stop(&served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_disk_that_stalls),
        cmocka_unit_test(test_a_paused_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
