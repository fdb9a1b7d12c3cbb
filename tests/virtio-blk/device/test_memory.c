/*
 * Goal: letting go of a guest's memory does not stop the main loop. If this fails, every other disk's control messages
 * wait for the kernel to free a guest that went away.
 * Method: the release of a mapping is held up (its munmap is ours) until the main loop has run something posted to it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_main_loop_runs_while_memory_is_released),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
