/*
 * Goal:   what --inject says happens to the requests that it says it of, in the same way each time, and nothing is lost.
 * Method: a null disk behind rules; many requests in coroutines of one loop, with the order and time in which they complete.
 * If it fails: tests that rely on delays, on reordering and on errors test nothing, or requests hang.
 */
#include <errno.h>
#include <glib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "disk_loop.h"
#include "rt/coroutine.h"

#define REQUESTS 200

struct batch {
    struct disk_loop *dl;
    unsigned begun, ended;
    unsigned order[REQUESTS]; /* order[n]: which request completed as the n-th */
    int result[REQUESTS];     /* by request */
    bool done;
};

static void one(void *opaque)
{
    struct batch *batch = opaque;
    unsigned number = batch->begun++;
    char buffer[512];
    const struct iovec iov = { buffer, sizeof(buffer) };

    memset(buffer, 0, sizeof(buffer));
    if (number % 2 == 0)
        batch->result[number] = vblk_disk_read_co(batch->dl->context, number * 512, &iov, 1);
    else
        batch->result[number] = vblk_disk_write_co(batch->dl->context, number * 512, &iov, 1);
    batch->order[batch->ended++] = number;
    batch->done = batch->ended == REQUESTS;
}

/* All at once through one loop: even ones are reads. Returns the nanoseconds that it took. */
static int64_t run(const char *rules, struct batch *batch)
{
    struct disk_loop dl;
    int64_t begin_ns;

    *batch = (struct batch){ .dl = &dl };
    disk_loop_open(&dl, "null:1G", &(struct vblk_disk_options){ .inject = rules });
    assert_string_equal(dl.facts.backend, "null");
    assert_int_equal(dl.facts.size_bytes, 1 << 30);
    begin_ns = rt_clock_ns();
    for (unsigned i = 0; i < REQUESTS; i++)
        rt_coroutine_enter(rt_coroutine_create(one, batch));
    disk_loop_wait(&dl, &batch->done);
    begin_ns = rt_clock_ns() - begin_ns;
    disk_loop_close(&dl);
    return begin_ns;
}

static void test_delays(void **state)
{
    struct batch batch;

    (void)state;
    assert_true(run("delay-us=20000", &batch) >= 20000000);
    for (unsigned i = 0; i < REQUESTS; i++) {
        assert_int_equal(batch.result[i], 0);
        assert_int_equal(batch.order[i], i); /* all the same delay: nothing overtakes */
    }
    /* Only reads are late: every write is done before the first read. */
    assert_true(run("op=read,delay-us=20000", &batch) >= 20000000);
    for (unsigned i = 0; i < REQUESTS; i++)
        assert_int_equal(batch.order[i] % 2, i < REQUESTS / 2);
    /* By deadline, not by arrival. */
    run("delay-us=1;range=0+512,delay-us=300000", &batch);
    assert_int_equal(batch.order[REQUESTS - 1], 0);
}

static void test_reorders(void **state)
{
    struct batch batch;
    unsigned late = 0;

    (void)state;
    run("reorder=30", &batch);
    for (unsigned i = 0; i < REQUESTS; i++) {
        assert_int_equal(batch.result[i], 0);
        for (unsigned j = 0; j < i; j++)
            if (batch.order[j] > batch.order[i]) {
                late++;
                break;
            }
    }
    /* A binomial of 200 and 0.3 is outside of this once in a billion runs, and the seed is fixed. */
    assert_in_range(late, 20, 120);
}

static void test_every_request_reordered_still_completes(void **state)
{
    struct batch batch;

    (void)state;
    run("reorder=100", &batch); /* nobody passes: time releases them */
    assert_int_equal(batch.ended, REQUESTS);
}

static void test_fails_by_rule(void **state)
{
    struct batch batch;
    unsigned failed = 0;

    (void)state;
    run("op=write,error=20,errno=ENOSPC;range=1024+512,error=100", &batch);
    for (unsigned i = 0; i < REQUESTS; i++) {
        if (i == 2)
            assert_int_equal(batch.result[i], -EIO);
        else if (i % 2 == 0)
            assert_int_equal(batch.result[i], 0);
        else
            assert_true(batch.result[i] == 0 || batch.result[i] == -ENOSPC);
        failed += batch.result[i] == -ENOSPC;
    }
    assert_in_range(failed, 5, 50);
}

static void test_flushes(void **state)
{
    struct disk_loop dl;
    char buffer[512];
    const struct iovec iov = { buffer, sizeof(buffer) };

    (void)state;
    memset(buffer, 0, sizeof(buffer));
    disk_loop_open(&dl, "null:1M", &(struct vblk_disk_options){ .inject = "op=flush,count=1,error=100" });
    assert_int_equal(disk_loop_write(&dl, 0, &iov, 1), 0);
    assert_int_equal(disk_loop_flush(&dl), -EIO);
    assert_int_equal(disk_loop_flush(&dl), 0);
    disk_loop_close(&dl);
}

static void test_same_seed_same_fate(void **state)
{
    struct batch first, second, other;

    (void)state;
    run("error=10,reorder=20", &first);
    run("error=10,reorder=20", &second);
    run("error=10,reorder=20,seed=2", &other);
    assert_memory_equal(first.result, second.result, sizeof(first.result));
    assert_memory_not_equal(first.result, other.result, sizeof(first.result));
    /* A rule that never strikes changes nothing for the others. */
    run("error=10,reorder=20;error=0,op=flush", &other);
    assert_true(other.ended == REQUESTS);
}

static void test_the_disk_behind_it_is_resized(void **state)
{
    struct vblk_disk_facts facts;
    struct disk_loop dl;

    (void)state;
    disk_loop_open(&dl, "null:1M", &(struct vblk_disk_options){ .inject = "delay-us=1" });
    assert_int_equal(vblk_disk_resize(dl.disk, 2 << 20), 0);
    vblk_disk_facts(dl.disk, &facts);
    assert_int_equal(facts.size_bytes, 2 << 20);
    assert_int_equal(vblk_disk_resize(dl.disk, 1000), -EINVAL);
    disk_loop_close(&dl);
}

static void test_bad_rules(void **state)
{
    struct vblk_disk *disk = NULL;
    char *message = NULL;

    (void)state;
    assert_int_equal(vblk_disk_open("null:1M", &(struct vblk_disk_options){ .inject = "delay=1" }, &disk, &message), -EINVAL);
    assert_null(disk);
    assert_non_null(strstr(message, "inject"));
    g_free(message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delays),
        cmocka_unit_test(test_reorders),
        cmocka_unit_test(test_every_request_reordered_still_completes),
        cmocka_unit_test(test_fails_by_rule),
        cmocka_unit_test(test_flushes),
        cmocka_unit_test(test_same_seed_same_fate),
        cmocka_unit_test(test_the_disk_behind_it_is_resized),
        cmocka_unit_test(test_bad_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
