/*
 * Goal:   requests that must not overlap do not, nobody waits without need or for ever, and a flush covers what it says;
 *         the same under every lock policy.
 * Method: coroutines in one loop begin and end tracked requests in a scripted order; a log tells who runs. Flushes go to
 *         a function that notes its calls and is finished by the test. Threads: stress_tracked.
 * If it fails: two read-modify-writes lose an update, requests hang, or a flush is acknowledged that never happened.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "device/tracked.h"
#include "rt/coroutine.h"
#include "rt/loop.h"

#define QUEUES 3

static struct rt_loop *loop;
static const struct vblk_request_lock *policy;
static struct vblk_tracked_disk disk;

struct actor {
    struct vblk_tracked tracked;
    unsigned queue;
    bool runs, ends;
    struct rt_coroutine *co; /* suspended while it runs, until the test lets it end */
};

static void act(void *opaque)
{
    struct actor *actor = opaque;

    vblk_tracked_begin_co(&disk, actor->queue, &actor->tracked);
    actor->runs = true;
    actor->co = rt_coroutine_self();
    rt_coroutine_yield();
    actor->runs = false;
    vblk_tracked_end_co(&disk, actor->queue, &actor->tracked, actor->tracked.write);
    actor->ends = true;
}

static void begin(struct actor *actor, uint64_t id, unsigned queue, uint64_t offset, uint64_t size, bool serialising)
{
    *actor = (struct actor){ .tracked = { .request_id = id, .offset_bytes = offset, .size_bytes = size, .write = true,
                                          .serialising = serialising },
                             .queue = queue };
    rt_coroutine_enter(rt_coroutine_create(act, actor));
}

/* Returns the passes that made progress: work that feeds on itself never ends. */
static unsigned settle(void)
{
    unsigned passes = 0;

    while (rt_loop_pass(loop, false))
        assert_true(++passes < 100);
    return passes;
}

static void end(struct actor *actor)
{
    assert_true(actor->runs);
    rt_coroutine_wake(actor->co);
    settle();
    assert_true(actor->ends);
}

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(rt_loop_create("test", &loop), 0);
    rt_loop_bind(loop);
    vblk_tracked_init(&disk, policy, QUEUES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(disk.list_count, policy->list_per_queue ? QUEUES : 1);
    for (unsigned i = 0; i < disk.list_count; i++)
        assert_null(disk.lists[i].first);
    assert_int_equal(atomic_load(&disk.serialising_count), 0);
    assert_int_equal(atomic_load(&disk.waiting_count), 0);
    vblk_tracked_deinit(&disk);
    rt_loop_destroy(loop);
    return 0;
}

static void test_plain_ones_never_wait(void **state)
{
    struct actor a, b, c;

    (void)state;
    begin(&a, 1, 0, 0, 4096, false);
    begin(&b, 2, 0, 0, 4096, false);
    begin(&c, 3, 1, 512, 512, false);
    assert_true(a.runs && b.runs && c.runs);
    end(&b);
    end(&a);
    end(&c);
}

static void test_touching_is_not_overlapping(void **state)
{
    struct actor a, before, after, inside;

    (void)state;
    begin(&a, 1, 0, 4096, 4096, true);
    begin(&before, 2, 1, 0, 4096, true);
    begin(&after, 3, 2, 8192, 512, false);
    begin(&inside, 4, 2, 8191, 1, false);
    assert_true(a.runs && before.runs && after.runs && !inside.runs);
    end(&a);
    assert_true(inside.runs);
    end(&before);
    end(&after);
    end(&inside);
}

static void test_serialising_waits_for_plain_ones_in_every_queue(void **state)
{
    struct actor plain[3], serialising;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        begin(&plain[i], 1 + i, i, i * 512, 512, false);
    begin(&serialising, 4, 1, 0, 4096, true);
    for (unsigned i = 0; i < 3; i++) {
        assert_false(serialising.runs);
        end(&plain[i]);
    }
    assert_true(serialising.runs);
    end(&serialising);
}

static void test_later_plain_ones_wait_without_holding_up(void **state)
{
    struct actor first, serialising, later[4];

    (void)state;
    begin(&first, 1, 0, 0, 512, false);
    begin(&serialising, 2, 1, 0, 4096, true);
    for (unsigned i = 0; i < 4; i++)
        begin(&later[i], 3 + i, i % 3, 1024, 512, false);
    /* Those that stepped back must not wake each other again and again. */
    assert_true(settle() < 20);
    assert_false(serialising.runs);
    end(&first);
    assert_true(serialising.runs);
    for (unsigned i = 0; i < 4; i++)
        assert_false(later[i].runs);
    assert_int_equal(settle(), 0);
    end(&serialising);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(later[i].runs);
        end(&later[i]);
    }
}

/* Ids are dealt to queues in blocks, so the later one may have the lower id. */
static void test_two_serialising_ones_with_any_ids(void **state)
{
    static const uint64_t ids[][2] = { { 1, 5000 }, { 5000, 1 } };

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct actor a, b, c;

        begin(&a, ids[i][0], 0, 0, 4096, true);
        begin(&b, ids[i][1], 1, 2048, 4096, true);
        begin(&c, 3000, 2, 4096, 4096, true);
        assert_true(a.runs && !b.runs);
        /* c overlaps with b only, which came before. */
        assert_false(c.runs);
        end(&a);
        assert_true(b.runs && !c.runs);
        end(&b);
        assert_true(c.runs);
        end(&c);
    }
}

/* ---- flushes ---- */

struct flusher {
    int result;
    bool done;
};

static unsigned flush_calls;
static struct rt_coroutine *flushing;
static int flush_result;

static int flush_co(void *opaque)
{
    (void)opaque;
    flush_calls++;
    flushing = rt_coroutine_self();
    rt_coroutine_yield();
    flushing = NULL;
    return flush_result;
}

static void flush(void *opaque)
{
    struct flusher *flusher = opaque;

    flusher->result = vblk_tracked_flush_co(&disk, flush_co, NULL);
    flusher->done = true;
}

static void begin_flush(struct flusher *flusher)
{
    *flusher = (struct flusher){ .result = 1 };
    rt_coroutine_enter(rt_coroutine_create(flush, flusher));
}

static void finish_flush(int result)
{
    assert_non_null(flushing);
    flush_result = result;
    rt_coroutine_wake(flushing);
    settle();
}

static void write_once(void)
{
    struct actor write;

    begin(&write, 1, 0, 0, 512, false);
    end(&write);
}

static void test_flushes_share_what_covers_them(void **state)
{
    struct flusher a, b, c, d;

    (void)state;
    flush_calls = 0;
    /* Even without a write of ours: an earlier process may have left some. */
    begin_flush(&a);
    assert_int_equal(flush_calls, 1);
    write_once();
    begin_flush(&b);
    begin_flush(&c);
    assert_int_equal(flush_calls, 1); /* one at a time */
    finish_flush(0);
    assert_true(a.done && a.result == 0);
    /* The write ended after a began: a second one is needed, one for both. */
    assert_false(b.done);
    assert_false(c.done);
    assert_int_equal(flush_calls, 2);
    finish_flush(0);
    assert_true(b.done && c.done && b.result == 0 && c.result == 0);
    assert_int_equal(flush_calls, 2);
    begin_flush(&d); /* nothing was written since */
    assert_true(d.done && d.result == 0);
    assert_int_equal(flush_calls, 2);
}

static void test_a_failed_flush_covers_nobody(void **state)
{
    struct flusher a, b, c;

    (void)state;
    flush_calls = 0;
    write_once();
    begin_flush(&a);
    begin_flush(&b);
    finish_flush(-EIO);
    assert_true(a.done && a.result == -EIO);
    assert_false(b.done);
    assert_int_equal(flush_calls, 2);
    finish_flush(0);
    assert_true(b.done && b.result == 0);
    begin_flush(&c);
    assert_true(c.done && c.result == 0);
    assert_int_equal(flush_calls, 2);
}

static void test_generations_never_go_back(void **state)
{
    struct flusher old, new, again;

    (void)state;
    flush_calls = 0;
    begin_flush(&old);
    write_once();
    write_once();
    begin_flush(&new);
    finish_flush(0);
    finish_flush(0);
    assert_true(old.done && new.done);
    assert_int_equal(disk.flushed_generation, 3);
    begin_flush(&again);
    assert_true(again.done);
    assert_int_equal(flush_calls, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_plain_ones_never_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_touching_is_not_overlapping, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_serialising_waits_for_plain_ones_in_every_queue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_later_plain_ones_wait_without_holding_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_serialising_ones_with_any_ids, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_flushes_share_what_covers_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_failed_flush_covers_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_generations_never_go_back, set_up, tear_down),
    };
    int failures = 0;

    for (unsigned i = 0; (policy = vblk_request_lock_at(i)); i++)
        failures += cmocka_run_group_tests_name(policy->name, tests, NULL, NULL);
    return failures;
}
