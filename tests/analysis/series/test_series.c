/*
 * Goal:   the series tell what went on when: totals become growth, a lost sample loses nothing, each process, loop, lock and
 *         queue has its own row, and nothing is collected unless it is asked for.
 * Method: samples as text, with gaps, ends and many objects; the report's series.
 * Breaks: plots, comparisons, and the memory of long recordings.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"
#include "series/series.h"

static struct feed *create(void)
{
    struct analysis_options options;

    analysis_options_init(&options);
    options.series = true;
    return feed_create_with(FEED_ALL_SETS, &options);
}

static json_t *rows(struct feed *f, const char *kind)
{
    return json_object_get(json_object_get(feed_report(f), "series"), kind);
}

static json_t *row(struct feed *f, const char *kind, size_t index)
{
    json_t *found = json_array_get(rows(f, kind), index);

    assert_non_null(found);
    return found;
}

static int64_t sum(json_t *row_of, const char *key)
{
    const json_t *values = json_object_get(row_of, key);
    size_t index;
    json_t *value;
    int64_t result = 0;

    assert_true(json_is_array(values));
    json_array_foreach (values, index, value)
        result += json_integer_value(value);
    return result;
}

/* The value in the step that holds the time, counted from the first event; -1: null. */
static int64_t at(struct feed *f, json_t *row_of, const char *key, double seconds)
{
    json_t *series = json_object_get(feed_report(f), "series");
    const json_t *value = json_array_get(json_object_get(row_of, key),
                                         (size_t)(seconds * 1e9 / (double)json_number_of(series, "step_ns")));

    assert_int_equal(json_array_size(json_object_get(row_of, key)), json_number_of(series, "steps"));
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static void test_off_unless_asked_for(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, feed_baseline);
    feed_end(f, 9);
    assert_null(json_object_get(feed_report(f), "series"));
    feed_destroy(f);
}

static void test_no_event(void **state)
{
    struct feed *f = create();
    json_t *report, *series;

    analysis_finish(feed_analysis(f), false);
    report = analysis_report(feed_analysis(f));
    series = json_object_get(report, "series");
    assert_int_equal(json_number_of(series, "steps"), 0);
    assert_true(json_is_null(json_object_get(series, "begin_ns")));
    assert_int_equal(json_array_size(json_object_get(series, "loops")), 0);
    json_decref(report);
    feed_destroy(f);
}

static void test_values_that_cannot_be(void **state)
{
    struct feed *f = create();

    feed(f, "1 19@3 rt_loop:sample loop_id=3 passes=0\n"
            "1 19@3 vblk_queue:sample device_id=5 in_flight=18446744073709551615\n"
            "2 19@3 rt_loop:sample loop_id=3 passes=18446744073709551615\n"
            "3 19@3 rt_loop:sample loop_id=3 passes=0\n"
            "4 19@3 rt_loop:sample loop_id=3 passes=18446744073709551615\n");
    feed_end(f, 9);
    assert_true(sum(row(f, "loops", 0), "passes") > 0);
    feed_destroy(f);
}

static void test_loops(void **state)
{
    struct feed *f = create();

    feed(f, "0 19@3 rt_loop:create loop_id=3 name=iothread0 thread_id=12\n"
            "0 19@3 rt_loop:sample loop_id=3 passes=1000 busy_ns=5000 wait_ns=7 notifies=2 event_writes=1\n"
            "1 19@3 rt_loop:sample loop_id=3 passes=1100 busy_ns=5600 wait_ns=7 notifies=2 event_writes=1\n"
            "# the samples at 2 and 3 are lost\n"
            "4 19@3 rt_loop:sample loop_id=3 passes=1400 busy_ns=8600 wait_ns=7 notifies=8 event_writes=4\n");
    feed_end(f, 5.9);
    assert_int_equal(json_array_size(rows(f, "loops")), 1);
    assert_string_equal(json_text_of(row(f, "loops", 0), "loop"), "iothread0");
    assert_string_equal(json_text_of(row(f, "loops", 0), "process"), "process 1");
    assert_int_equal(sum(row(f, "loops", 0), "busy_ns"), 3600);
    assert_int_equal(sum(row(f, "loops", 0), "passes"), 400);
    assert_int_equal(sum(row(f, "loops", 0), "event_writes"), 3);
    assert_int_equal(at(f, row(f, "loops", 0), "busy_ns", 0.505), 6);  /* 600 in 100 steps */
    assert_int_equal(at(f, row(f, "loops", 0), "busy_ns", 2.505), 10); /* 3000 in 300 */
    assert_int_equal(at(f, row(f, "loops", 0), "wait_ns", 2.505), 0);
    assert_int_equal(at(f, row(f, "loops", 0), "busy_ns", 4.505), -1); /* after the last sample: not known */
    feed_destroy(f);
}

static void test_several_processes_and_one_that_ends(void **state)
{
    struct feed *f = create();

    feed(f, "0 7:19@3 rt_loop:sample loop_id=3 passes=10\n"
            "0 8:29@2 rt_loop:sample loop_id=3 passes=1000\n"
            "1 7:19@3 rt_loop:sample loop_id=3 passes=15\n"
            "1 8:29@2 rt_loop:sample loop_id=3 passes=1700\n"
            "1.5 7:12@3 rt_loop:destroy loop_id=3\n"
            "2 8:29@2 rt_loop:sample loop_id=3 passes=2400\n"
            "# another process under the same id, whose totals start anew\n"
            "3 7:12@3 rt_loop:sample loop_id=3 passes=2\n"
            "4 7:12@3 rt_loop:sample loop_id=3 passes=5\n");
    feed_end(f, 5);
    assert_int_equal(json_array_size(rows(f, "loops")), 2);
    assert_int_equal(json_number_of(row(f, "loops", 0), "pid"), 7);
    assert_int_equal(sum(row(f, "loops", 0), "passes"), 5 + 3);
    assert_int_equal(at(f, row(f, "loops", 0), "passes", 2.0), -1);
    assert_int_equal(json_number_of(row(f, "loops", 1), "pid"), 8);
    assert_int_equal(sum(row(f, "loops", 1), "passes"), 1400);
    feed_destroy(f);
}

static void test_pool_and_mappings(void **state)
{
    struct feed *f = create();
    json_t *pool, *local;

    feed(f, "0 19@3 rt_pool:global_sample global_size=100 global_max=512\n"
            "0 19@3 rt_pool:local_sample thread_id=12 local_size=5 takes=10 misses=2 name=iothread0\n"
            "0 19@3 rt_pool:local_sample thread_id=13 local_size=6 takes=20 name=iothread1\n"
            "0 19@3 rt_process:vma_sample vma_count=1000 max_map_count=65530 stack_count=4 live_count=1\n"
            "0.5 12@1 rt_pool:donate thread_id=12 given=64 global_size=164 global_max=512\n"
            "1 19@3 rt_pool:local_sample thread_id=12 local_size=7 takes=15 misses=3\n"
            "1 19@3 rt_pool:local_sample thread_id=13 local_size=6 takes=29\n"
            "1.2 13@1 rt_pool:thread_exit thread_id=13 freed=6\n"
            "# another thread under its id\n"
            "2 19@3 rt_pool:local_sample thread_id=13 local_size=1 takes=4\n"
            "2 19@3 rt_process:vma_sample vma_count=3000 max_map_count=65530 stack_count=9 live_count=8\n");
    feed_end(f, 3);
    pool = row(f, "pool", 0);
    assert_int_equal(at(f, pool, "global_size", 0.005), 100);
    assert_int_equal(at(f, pool, "global_size", 0.505), 164);
    assert_int_equal(at(f, pool, "global_size", 0.255), -1);
    assert_int_equal(sum(pool, "takes"), 5 + 9 + 4);
    assert_int_equal(sum(pool, "misses"), 1);
    local = json_array_get(json_object_get(pool, "locals"), 1);
    assert_int_equal(json_number_of(local, "thread_id"), 13);
    assert_string_equal(json_text_of(local, "name"), "iothread1");
    assert_int_equal(at(f, local, "size", 1.205), 0);
    assert_int_equal(at(f, local, "size", 2.005), 1);
    assert_int_equal(at(f, row(f, "vma", 0), "vma_count", 2.005), 3000);
    assert_int_equal(at(f, row(f, "vma", 0), "max_map_count", 0.005), 65530);
    feed_destroy(f);
}

static void test_locks_by_holder(void **state)
{
    struct feed *f = create();
    json_t *lock, *holder;

    feed(f, "0 19@3 rt_lock:create lock_id=6 class_name=tracked kind=1\n"
            "0 19@3 rt_lock:create lock_id=7 class_name=idle kind=1\n"
            "0 19@3 rt_pool:local_sample thread_id=13 name=iothread1\n"
            "0 19@3 rt_lock:sample lock_id=6 acquisitions=100 contentions=4 wait_ns=1000\n"
            "0 19@3 rt_lock:sample lock_id=7 acquisitions=100\n"
            "1 19@3 rt_lock:sample lock_id=6 acquisitions=150 contentions=4 wait_ns=1000\n"
            "1 19@3 rt_lock:sample lock_id=7 acquisitions=200\n"
            "1.5 12@1 rt_lock:wait lock_id=6 thread_id=12 coroutine_id=9 owner_thread_id=13\n"
            "1.7 12@1 rt_lock:acquired lock_id=6 thread_id=12 coroutine_id=9 waited=1\n"
            "2 19@3 rt_lock:sample lock_id=6 acquisitions=170 contentions=5 wait_ns=200001000\n"
            "2.5 12@1 rt_lock:wait lock_id=6 thread_id=12 coroutine_id=9\n"
            "2.6 12@1 rt_lock:acquired lock_id=6 thread_id=12 coroutine_id=9 waited=1\n"
            "# its end is not recorded\n"
            "2.8 12@1 rt_lock:wait lock_id=6 thread_id=12 coroutine_id=9 owner_thread_id=13\n");
    feed_end(f, 3);
    assert_int_equal(json_array_size(rows(f, "locks")), 1); /* nobody waited for the other one */
    lock = row(f, "locks", 0);
    assert_string_equal(json_text_of(lock, "class_name"), "tracked");
    assert_int_equal(sum(lock, "acquisitions"), 70);
    assert_int_equal(sum(lock, "contentions"), 1);
    assert_int_equal(sum(lock, "wait_ns"), 200000000);
    assert_int_equal(json_array_size(json_object_get(lock, "holders")), 2);
    holder = json_array_get(json_object_get(lock, "holders"), 0); /* not known who */
    assert_true(json_is_null(json_object_get(holder, "thread_id")));
    assert_int_equal(sum(holder, "wait_ns"), 100000000);
    holder = json_array_get(json_object_get(lock, "holders"), 1);
    assert_string_equal(json_text_of(holder, "name"), "iothread1");
    assert_int_equal(sum(holder, "wait_ns"), 200000000);
    assert_int_equal(at(f, holder, "wait_ns", 1.605), 10000000);
    assert_int_equal(at(f, holder, "wait_ns", 1.405), -1);
    feed_destroy(f);
}

static void test_queues(void **state)
{
    struct feed *f = create();
    json_t *queue;

    feed(f, "0 19@3 vblk_dataplane:device_create device_id=5 name=disk queue_count=1\n"
            "0 19@3 vblk_queue:sample device_id=5 queue_index=1 avail_index=2 popped_index=65530 in_flight=3 "
            "completions=10 kicks=4\n"
            "0.5 12@1 vblk_request:begin request_id=1 device_id=5 queue_index=1\n"
            "0.6 12@1 vblk_request:end request_id=1\n"
            "1 19@3 vblk_queue:sample device_id=5 queue_index=1 avail_index=9 popped_index=9 in_flight=1 "
            "completions=30 kicks=6\n");
    feed_end(f, 2);
    queue = row(f, "queues", 0);
    assert_string_equal(json_text_of(queue, "device"), "disk");
    assert_int_equal(json_number_of(queue, "queue_index"), 1);
    assert_int_equal(at(f, queue, "depth", 0.005), 3 + 8); /* the indexes wrap at 65536 */
    assert_int_equal(at(f, queue, "depth", 1.005), 1);
    assert_int_equal(at(f, queue, "in_flight", 0.505), 4);
    assert_int_equal(at(f, queue, "in_flight", 0.605), 3);
    assert_int_equal(at(f, queue, "in_flight", 1.005), 1);
    assert_int_equal(sum(queue, "completions"), 20);
    feed_destroy(f);
}

static void test_rows_are_bounded(void **state)
{
    struct feed *f = create();

    for (int at_s = 0; at_s < 2; at_s++)
        for (int i = 1; i <= SERIES_ROWS_MAX + 10; i++)
            feed_format(f,
                        "%d 19@3 rt_loop:sample loop_id=%d passes=%d\n"
                        "%d 19@3 rt_lock:sample lock_id=%d contentions=%d\n"
                        "%d 19@3 rt_pool:local_sample thread_id=%d takes=%d\n",
                        at_s, i, at_s, at_s, i, at_s, at_s, i, at_s);
    feed_end(f, 3);
    assert_int_equal(json_array_size(rows(f, "loops")), SERIES_ROWS_MAX);
    assert_int_equal(json_array_size(rows(f, "locks")), SERIES_ROWS_MAX);
    assert_int_equal(json_array_size(json_object_get(row(f, "pool", 0), "locals")), SERIES_ROWS_MAX);
    assert_int_equal(sum(row(f, "pool", 0), "takes"), SERIES_ROWS_MAX + 10); /* the sum is of all */
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off_unless_asked_for),
        cmocka_unit_test(test_no_event),
        cmocka_unit_test(test_values_that_cannot_be),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_several_processes_and_one_that_ends),
        cmocka_unit_test(test_pool_and_mappings),
        cmocka_unit_test(test_locks_by_holder),
        cmocka_unit_test(test_queues),
        cmocka_unit_test(test_rows_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
