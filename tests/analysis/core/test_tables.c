/*
 * Goal:   the tables give what was counted during the recording (totals are since process start), in the order of ids.
 * Method: two samples of everything.
 * Breaks: the report's tables, and all that is drawn from them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "feed/feed.h"

static json_t *row(struct feed *f, const char *table, size_t index)
{
    return json_array_get(json_object_get(feed_report(f), table), index);
}

static void test_tables(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);
    json_t *pool, *vma;

    feed(f, feed_baseline);
    feed(f, "2 19@3 rt_loop:sample loop_id=3 passes=100 busy_ns=50\n"
            "2 19@3 rt_lock:create lock_id=6 class_name=tracked kind=1\n"
            "2 19@3 rt_lock:sample lock_id=6 acquisitions=100 wait_ns=10\n"
            "2 19@3 vblk_queue:sample device_id=5 queue_index=1 kicks=100\n"
            "3 19@3 rt_process:vma_sample vma_count=1354 stack_count=512 stack_vma_count=1024 live_count=3\n"
            "3 19@3 rt_pool:local_sample thread_id=12 local_size=128 takes=9 name=iothread0\n"
            "3 19@3 rt_pool:global_sample global_size=384 global_max=512 global_hard_max=16000\n"
            "3 19@3 rt_loop:sample loop_id=3 passes=130 busy_ns=80\n"
            "3 19@3 rt_lock:sample lock_id=6 acquisitions=250 wait_ns=30\n"
            "3 19@3 vblk_queue:sample device_id=5 queue_index=1 kicks=104 in_flight=2\n");
    feed_end(f, 9);

    assert_string_equal(json_text_of(row(f, "loops", 0), "name"), "main");
    assert_string_equal(json_text_of(row(f, "loops", 1), "name"), "iothread0");
    assert_int_equal(json_number_of(row(f, "loops", 1), "passes"), 30);
    assert_int_equal(json_number_of(row(f, "loops", 1), "busy_ns"), 30);
    assert_int_equal(json_number_of(row(f, "loops", 1), "sampled_ns"), 1000000000);

    assert_string_equal(json_text_of(row(f, "locks", 0), "class_name"), "tracked");
    assert_string_equal(json_text_of(row(f, "locks", 0), "kind"), "coroutine_mutex");
    assert_int_equal(json_number_of(row(f, "locks", 0), "acquisitions"), 150);

    assert_int_equal(json_number_of(row(f, "queues", 1), "queue_index"), 1);
    assert_int_equal(json_number_of(row(f, "queues", 1), "kicks"), 4);
    assert_int_equal(json_number_of(row(f, "queues", 1), "in_flight"), 2);
    assert_int_equal(json_number_of(row(f, "queues", 1), "loop_id"), 3);

    pool = json_array_get(json_object_get(json_object_get(feed_report(f), "pool"), "processes"), 0);
    assert_int_equal(json_number_of(pool, "global_size"), 384);
    assert_int_equal(json_number_of(json_array_get(json_object_get(pool, "threads"), 1), "local_size"), 128);
    vma = json_array_get(json_object_get(json_object_get(feed_report(f), "vma"), "processes"), 0);
    assert_int_equal(json_number_of(vma, "vma_count"), 1354);
    assert_int_equal(json_number_of(vma, "mappings_per_1000_stacks"), 2000);
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
