/*
 * Goal:   a request that the disk failed is reported to its driver, or waits and is tried again when the device is resumed;
 *         in neither case is it lost, and nobody who wants to stop waits for a person. An in-flight region hands it on.
 * Method: a device in this process in front of a disk that fails so many requests and then no more; a stop and the end of the
 *         device while requests wait; many requests of two queues, resumed again and again.
 * If it fails: guests lose acknowledged data when a disk is full for a moment, or hang for ever, or vblkd cannot be ended.
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
#include "vhost_user_wire.h"

static bool paused(struct vblk_device *device)
{
    return vblk_device_is_paused(device);
}

static bool one_waits(struct vblk_device *device)
{
    bool waits;

    rt_mutex_lock(&device->disk_errors.lock);
    waits = device->disk_errors.waiting_count == 1;
    rt_mutex_unlock(&device->disk_errors.lock);
    return waits;
}

static bool three_wait(struct vblk_device *device)
{
    bool wait;

    rt_mutex_lock(&device->disk_errors.lock);
    wait = device->disk_errors.waiting_count == 3;
    rt_mutex_unlock(&device->disk_errors.lock);
    return wait;
}

static void start(struct served *served, enum vblk_on_disk_error policy, const char *inject, unsigned queue_count)
{
    served_start(served, &(struct vblk_device_options){ .blk_file = "null:1M", .on_disk_error = policy, .inject = inject,
                                                        .queue_count = queue_count }, queue_count, 0);
}

static void test_errors_are_reported(void **state)
{
    static const uint32_t types[] = { VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT, VIRTIO_BLK_T_FLUSH };
    struct served served;
    struct front_end *fe;
    uint8_t data[512] = { 0 };

    (void)state;
    start(&served, VBLK_DISK_ERROR_REPORT, "error=100", 1);
    fe = served_front_end(&served, NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(types); i++)
        assert_int_equal(served_request(fe, 0, types[i], 0, data, types[i] == VIRTIO_BLK_T_FLUSH ? 0 : 512),
                         VIRTIO_BLK_S_IOERR);
    assert_false(vblk_device_is_paused(served.device));
    assert_int_equal(vblk_device_resume_co(served.device), 0);
    fe_destroy(fe);
    served_stop(&served);
}

/* Each kind of request in turn: it fails once, waits, and succeeds after the resume. */
static void test_requests_wait_for_a_resume(void **state)
{
    static const uint32_t types[] = { VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT, VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_DISCARD,
                                      VIRTIO_BLK_T_WRITE_ZEROES };
    const struct virtio_blk_discard_write_zeroes segment = { .sector = 8, .num_sectors = 8 };

    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(types); i++) {
        bool is_range = types[i] == VIRTIO_BLK_T_DISCARD || types[i] == VIRTIO_BLK_T_WRITE_ZEROES;
        uint32_t bytes = is_range ? sizeof(segment) : types[i] == VIRTIO_BLK_T_FLUSH ? 0 : 512;
        uint8_t data[512] = { 0 };
        struct served served;
        struct front_end *fe;
        uint16_t failing, behind;

        if (is_range)
            memcpy(data, &segment, sizeof(segment));
        start(&served, VBLK_DISK_ERROR_STOP, "count=1,error=100,errno=ENOSPC", 1);
        fe = served_front_end(&served, NULL);
        failing = served_submit(fe, 0, types[i], 0, data, bytes);
        fe_queue_publish(fe_queue(fe, 0));
        served_wait(&served, paused, "the device pauses");
        served_wait(&served, one_waits, "the request waits");
        /* One that comes now does not reach the disk, on which it would succeed. */
        behind = served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
        fe_queue_publish(fe_queue(fe, 0));
        while (!vblk_device_is_paused(served.device) || vblk_device_resume_co(served.device) == 0)
            g_usleep(100);
        assert_false(vblk_device_is_paused(served.device));
        for (unsigned j = 0; j < 2; j++) {
            uint16_t slot = served_reap(fe, 0);

            assert_true(slot == failing || slot == behind);
            assert_int_equal(*fe_queue(fe, 0)->slots[slot].status, VIRTIO_BLK_S_OK);
        }
        fe_destroy(fe);
        served_stop(&served);
    }
}

static void test_a_paused_device_holds_what_comes(void **state)
{
    struct served served;
    struct front_end *fe;
    uint16_t slots[3];

    (void)state;
    start(&served, VBLK_DISK_ERROR_STOP, "op=write,error=100", 1);
    fe = served_front_end(&served, NULL);
    slots[0] = served_submit(fe, 0, VIRTIO_BLK_T_OUT, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    served_wait(&served, one_waits, "the write waits");
    for (unsigned i = 1; i < 3; i++)
        slots[i] = served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    served_wait(&served, three_wait, "the reads behind it wait");
    /* Still broken: it pauses again, and the reads get through or wait again. */
    assert_int_equal(vblk_device_resume_co(served.device), 3);
    served_wait(&served, paused, "the device pauses again");
    /* The front end stops its ring: nobody waits for a person, and the driver is told. */
    assert_int_equal(fe_stop(fe), 0);
    for (unsigned i = 0; i < 3; i++) {
        uint16_t slot = served_reap(fe, 0);
        bool is_write = slot == slots[0];

        assert_int_equal(*fe_queue(fe, 0)->slots[slot].status, is_write ? VIRTIO_BLK_S_IOERR : VIRTIO_BLK_S_OK);
    }
    fe_destroy(fe);
    served_stop(&served);
}

static void test_the_end_does_not_wait(void **state)
{
    struct served served;
    struct front_end *fe;

    (void)state;
    start(&served, VBLK_DISK_ERROR_STOP, "error=100", 1);
    fe = served_front_end(&served, NULL);
    for (unsigned i = 0; i < 3; i++)
        served_submit(fe, 0, VIRTIO_BLK_T_OUT, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    served_wait(&served, paused, "the device pauses");
    served_stop(&served);
    fe_destroy(fe);
}

/* The disk stays broken until the process ends, and the next one has a better one: of what the front end keeps account of, the
 * driver learns no error. */
static void left_to_the_next_process(bool packed)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    struct served served;
    struct front_end *fe;

    options.layout.packed = packed;
    options.protocol_wanted = UINT64_C(1) << WIRE_P_INFLIGHT_SHMFD;
    start(&served, VBLK_DISK_ERROR_STOP, "error=100", 1);
    fe = served_front_end(&served, &options);
    for (unsigned i = 0; i < 3; i++)
        served_submit(fe, 0, i == 1 ? VIRTIO_BLK_T_FLUSH : VIRTIO_BLK_T_OUT, i, NULL, i == 1 ? 0 : 512);
    fe_queue_publish(fe_queue(fe, 0));
    served_wait(&served, three_wait, "the requests wait");
    served_destroy(&served);
    assert_int_equal(served_create(&served, &(struct vblk_device_options){ .blk_file = "null:1M" }, NULL), 0);
    assert_int_equal(fe_reconnect(fe), 0);
    assert_int_equal(fe_start(fe), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(*fe_queue(fe, 0)->slots[served_reap(fe, 0)].status, VIRTIO_BLK_S_OK);
    fe_destroy(fe);
    served_stop(&served);
}

static void test_left_to_the_next_process(void **state)
{
    (void)state;
    left_to_the_next_process(false);
}

static void test_left_to_the_next_process_packed(void **state)
{
    (void)state;
    left_to_the_next_process(true);
}

/* The same process goes on, and so does the pause. */
static void test_left_to_the_next_front_end(void **state)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    struct served served;
    struct front_end *fe;
    uint16_t slot;

    (void)state;
    options.protocol_wanted = UINT64_C(1) << WIRE_P_INFLIGHT_SHMFD;
    start(&served, VBLK_DISK_ERROR_STOP, "count=2,error=100", 1); /* at first, and once more when the front end leaves */
    fe = served_front_end(&served, &options);
    slot = served_submit(fe, 0, VIRTIO_BLK_T_OUT, 0, NULL, 512);
    fe_queue_publish(fe_queue(fe, 0));
    served_wait(&served, one_waits, "the write waits");
    assert_int_equal(fe_reconnect(fe), 0);
    assert_int_equal(fe_start(fe), 0);
    served_wait(&served, one_waits, "the write waits again");
    assert_int_equal(vblk_device_resume_co(served.device), 1);
    assert_int_equal(served_reap(fe, 0), slot);
    assert_int_equal(*fe_queue(fe, 0)->slots[slot].status, VIRTIO_BLK_S_OK);
    fe_destroy(fe);
    served_stop(&served);
}

#define REQUESTS 400

/* Every tenth fails: with each resume a few more get through, and in the end all have, on both loops. */
static void test_resumed_again_and_again(void **state)
{
    struct served served;
    struct front_end *fe;
    unsigned done = 0, resumes = 0;
    struct fe_options options = FE_OPTIONS_DEFAULT;

    (void)state;
    options.queue_count = 2;
    start(&served, VBLK_DISK_ERROR_STOP, "error=10", 2);
    fe = served_front_end(&served, &options);
    while (done < REQUESTS) {
        for (unsigned q = 0; q < 2; q++) {
            struct fe_queue *queue = fe_queue(fe, q);
            uint16_t slot;

            while (fe_queue_reap(queue, &slot, 1) == 1) {
                assert_int_equal(*queue->slots[slot].status, VIRTIO_BLK_S_OK);
                fe_queue_give(queue, slot);
                done++;
            }
            while (queue->in_flight < 4)
                served_submit(fe, q, VIRTIO_BLK_T_OUT, 0, NULL, 512);
            fe_queue_publish(queue);
        }
        if (vblk_device_is_paused(served.device)) {
            vblk_device_resume_co(served.device);
            resumes++;
        }
    }
    assert_true(resumes > 0);
    fe_destroy(fe);
    served_stop(&served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_reported),
        cmocka_unit_test(test_requests_wait_for_a_resume),
        cmocka_unit_test(test_a_paused_device_holds_what_comes),
        cmocka_unit_test(test_the_end_does_not_wait),
        cmocka_unit_test(test_left_to_the_next_process),
        cmocka_unit_test(test_left_to_the_next_process_packed),
        cmocka_unit_test(test_left_to_the_next_front_end),
        cmocka_unit_test(test_resumed_again_and_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
