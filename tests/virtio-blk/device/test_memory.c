/*
 * Goal:   letting go of a guest's memory does not stop the main loop; and memory that comes and goes while rings run costs
 *         no request, wherever rings and buffers lie.
 * Method: the release of a mapping is held up (its munmap is ours) until the main loop has run something posted to it. A
 *         front end with memory slots adds and removes regions under its own rings and buffers.
 * If it fails: every other disk's control messages wait for the kernel to free a guest that went away; guests hang or lose
 * requests when their memory grows.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "fe_control.h"
#include "served.h"

void __real_vhost_user_memory_map_unref(struct vhost_user_memory_map *map);
void __wrap_vhost_user_memory_map_unref(struct vhost_user_memory_map *map);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool hold, in_release, loop_ran;

void __wrap_vhost_user_memory_map_unref(struct vhost_user_memory_map *map)
{
    pthread_mutex_lock(&lock);
    in_release = true;
    pthread_cond_broadcast(&changed);
    while (hold && !loop_ran)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    __real_vhost_user_memory_map_unref(map);
}

static void note_that_the_loop_runs(void *opaque)
{
    (void)opaque;
    pthread_mutex_lock(&lock);
    loop_ran = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static struct vhost_user_memory_map *make_map(void)
{
    struct vhost_user_memory_region region = { .size_bytes = 1 << 20, .user_address = 1 << 20 };
    struct vhost_user_memory_map *map;
    const char *reason;
    unsigned index;
    int fd = memfd_create("guest", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, region.size_bytes), 0);
    assert_int_equal(vhost_user_memory_map_create(&region, &fd, 1, &map, &reason, &index), 0);
    close(fd);
    return map;
}

static void release_co(void *opaque)
{
    vblk_memory_release_co(opaque);
}

static void *run_release(void *opaque)
{
    served_run_co(opaque, release_co, make_map());
    return NULL;
}

static void test_main_loop_runs_while_memory_is_released(void **state)
{
    struct served served;
    pthread_t thread;

    (void)state;
    served_start_loops(&served, 1, 0);
    hold = true;
    assert_int_equal(pthread_create(&thread, NULL, run_release, &served), 0);
    pthread_mutex_lock(&lock);
    while (!in_release)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    /* The release waits for this; were it in the loop's thread, neither would ever go on (the test's time limit). */
    assert_int_equal(rt_loop_post(served.main_loop, note_that_the_loop_runs, NULL), 0);
    pthread_join(thread, NULL);
    assert_true(loop_ran);
    hold = false;
    served_run_co(&served, release_co, NULL); /* no memory: nothing to do */
    served_stop_loops(&served);
}

/* ---- memory that comes and goes ---- */

static struct served device;

static int set_up(void **state)
{
    (void)state;
    served_start(&device, &(struct vblk_device_options){ .blk_file = "null:1M", .queue_count = 2 }, 2, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    served_stop(&device);
    return 0;
}

static struct front_end *open_with_slots(unsigned region_count)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;

    options.queue_count = 2;
    options.protocol_wanted = 1ull << WIRE_P_CONFIGURE_MEM_SLOTS;
    options.memory_region_count = region_count;
    return served_front_end(&device, &options);
}

static void read_once(struct front_end *fe, unsigned queue)
{
    assert_int_equal(served_request(fe, queue, VIRTIO_BLK_T_IN, 0, NULL, 4096), VIRTIO_BLK_S_OK);
}

/* The whole shared memory as one region. */
static struct wire_memory_region whole(const struct front_end *fe)
{
    size_t bytes;
    uint8_t *memory = fe_memory(fe, &bytes);

    return (struct wire_memory_region){ .guest_addr = fe_memory_guest_addr(fe),
                                        .size_bytes = bytes,
                                        .user_addr = (uintptr_t)memory };
}

/* Rings and buffers in many regions, and buffers across their borders. */
static void test_many_slots(void **state)
{
    struct front_end *fe = open_with_slots(300);
    uint64_t slots;

    (void)state;
    assert_int_equal(fe_memory_slots(fe, &slots), 0);
    assert_in_range(slots, 32, 509);
    for (unsigned i = 0; i < 64; i++)
        read_once(fe, i % 2);
    assert_int_equal(fe_stop(fe), 0);
    fe_destroy(fe);
}

static void test_regions_come_and_go_beside_rings(void **state)
{
    struct front_end *fe = open_with_slots(1);
    struct wire_memory_region more = whole(fe);

    (void)state;
    more.guest_addr += 1ull << 40;
    more.user_addr += 1ull << 40;
    for (unsigned i = 0; i < 20; i++) {
        read_once(fe, 0);
        assert_int_equal(fe_add_memory(fe, &more, fe_memory_fd(fe)), 0);
        read_once(fe, 1);
        assert_int_equal(fe_remove_memory(fe, &more, i % 2 ? fe_memory_fd(fe) : -1), 0);
    }
    assert_int_equal(fe_remove_memory(fe, &more, -1), -EREMOTEIO);
    read_once(fe, 0);
    assert_int_equal(fe_stop(fe), 0);
    fe_destroy(fe);
}

/* As a front end does that changes a region: it takes it away and gives it anew. What was asked meanwhile is done then. */
static void test_rings_rest_while_their_memory_is_away(void **state)
{
    struct front_end *fe = open_with_slots(1);
    struct wire_memory_region region = whole(fe);
    uint16_t slot;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        read_once(fe, 0);
        assert_int_equal(fe_remove_memory(fe, &region, -1), 0);
        slot = served_submit(fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 4096);
        fe_queue_publish(fe_queue(fe, 0));
        fe_queue_kick(fe_queue(fe, 0));
        assert_int_equal(fe_add_memory(fe, &region, fe_memory_fd(fe)), 0);
        assert_int_equal(served_reap(fe, 0), slot);
        fe_queue_give(fe_queue(fe, 0), slot);
        read_once(fe, 1);
    }
    /* A ring that rests stops like any other; fe_stop() compares the base. */
    assert_int_equal(fe_remove_memory(fe, &region, -1), 0);
    assert_int_equal(fe_stop(fe), 0);
    served_wait(&device, served_is_stopped, "rings without memory stopped");
    assert_int_equal(fe_add_memory(fe, &region, fe_memory_fd(fe)), 0);
    assert_int_equal(fe_start(fe), 0);
    read_once(fe, 0);
    fe_destroy(fe);
}

struct reader {
    pthread_t thread;
    struct front_end *fe;
    _Atomic bool stop;
    _Atomic uint64_t done;
};

static void *read_on(void *opaque)
{
    struct reader *reader = opaque;

    while (!atomic_load(&reader->stop)) {
        read_once(reader->fe, 1);
        atomic_fetch_add(&reader->done, 1);
    }
    return NULL;
}

/* Rings take the larger map while they run, and drain for the smaller one. */
static void test_regions_come_and_go_under_load(void **state)
{
    struct reader reader = { .fe = open_with_slots(3) };
    struct wire_memory_region more = whole(reader.fe);
    uint64_t before;

    (void)state;
    more.guest_addr += 1ull << 40;
    more.user_addr += 1ull << 40;
    assert_int_equal(pthread_create(&reader.thread, NULL, read_on, &reader), 0);
    for (unsigned i = 0; i < 30; i++) {
        before = atomic_load(&reader.done);
        assert_int_equal(fe_add_memory(reader.fe, &more, fe_memory_fd(reader.fe)), 0);
        while (atomic_load(&reader.done) == before)
            usleep(100);
        assert_int_equal(fe_remove_memory(reader.fe, &more, -1), 0);
    }
    atomic_store(&reader.stop, true);
    pthread_join(reader.thread, NULL);
    assert_int_equal(fe_stop(reader.fe), 0);
    fe_destroy(reader.fe);
}

static void test_a_front_end_leaves_while_its_rings_rest(void **state)
{
    struct front_end *fe = open_with_slots(1);
    struct wire_memory_region region = whole(fe);

    (void)state;
    read_once(fe, 0);
    assert_int_equal(fe_remove_memory(fe, &region, -1), 0);
    fe_destroy(fe);
    fe = open_with_slots(2);
    read_once(fe, 1);
    fe_destroy(fe);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_many_slots),
        TEST(test_regions_come_and_go_beside_rings),
        TEST(test_rings_rest_while_their_memory_is_away),
        TEST(test_regions_come_and_go_under_load),
        TEST(test_a_front_end_leaves_while_its_rings_rest),
        cmocka_unit_test(test_main_loop_runs_while_memory_is_released),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
