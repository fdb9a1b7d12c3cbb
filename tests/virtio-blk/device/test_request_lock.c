/*
 * Goal:   a policy is found by its name and by no other, and locks what it says: lists of their own for each queue, or
 *         one lock for the whole disk.
 * Method: names; then two queues' lists locked at once, or in turn, and what the runtime counts for their locks.
 *         What requests make of the policies: test_tracked.
 * If it fails: --request-lock compares something with itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "device/tracked.h"
#include "rt/coroutine.h"
#include "rt/loop.h"

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(vblk_request_lock_at(0)->name, "sharded"); /* the default */
    for (unsigned i = 0; i < 3; i++)
        assert_ptr_equal(vblk_request_lock_find(vblk_request_lock_at(i)->name), vblk_request_lock_at(i));
    assert_null(vblk_request_lock_find("mutex"));
    assert_null(vblk_request_lock_find(""));
    assert_null(vblk_request_lock_at(3));
}

struct seen {
    unsigned locks;
    enum rt_lock_kind kind;
    uint64_t acquisitions, contentions;
};

static void visit(const struct rt_lock_info *info, void *opaque)
{
    struct seen *seen = opaque;

    if (strcmp(info->class_name, VBLK_TRACKED_LOCK_CLASS) != 0)
        return;
    seen->locks++;
    seen->kind = info->kind;
    seen->acquisitions += atomic_load(&info->acquisitions);
    seen->contentions += atomic_load(&info->contentions);
}

static struct vblk_tracked_disk disk;
static struct vblk_tracked requests[2];

static void begin_in_both_queues(void *opaque)
{
    (void)opaque;
    for (unsigned i = 0; i < 2; i++)
        vblk_tracked_begin_co(&disk, i, &requests[i]);
    for (unsigned i = 0; i < 2; i++)
        vblk_tracked_end_co(&disk, i, &requests[i], false);
}

static void test_what_is_locked(void **state)
{
    static const struct {
        const char *name;
        unsigned locks;
        enum rt_lock_kind kind;
    } expected[] = {
        { "sharded", 2, RT_LOCK_THREAD_MUTEX },
        { "thread", 1, RT_LOCK_THREAD_MUTEX },
        { "coroutine", 1, RT_LOCK_COROUTINE_MUTEX },
    };
    struct rt_loop *loop;

    (void)state;
    assert_int_equal(rt_loop_create("test", &loop), 0);
    rt_loop_bind(loop);
    for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        struct seen seen = { 0 };

        vblk_tracked_init(&disk, vblk_request_lock_find(expected[i].name), 2);
        assert_true(((uintptr_t)disk.lists & 63) == 0); /* no cache line is shared */
        assert_int_equal(sizeof(disk.lists[0]) % 64, 0);
        rt_coroutine_enter(rt_coroutine_create(begin_in_both_queues, NULL));
        rt_lock_each(visit, &seen);
        assert_int_equal(seen.locks, expected[i].locks);
        assert_int_equal(seen.kind, expected[i].kind);
        assert_int_equal(seen.acquisitions, 4); /* a begin and an end each */
        assert_int_equal(seen.contentions, 0);
        vblk_tracked_deinit(&disk);
    }
    rt_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_what_is_locked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
