/*
 * Goal:   requests in flight are known by id and by head, in their stage, and none stays that the driver has back.
 * Method: lives of requests as events; looks into the model.
 * Breaks: checks of requests see ghosts, or memory grows with the trace.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/check.h"
#include "feed/feed.h"
#include "model/request.h"

static const struct request *get(struct feed *f, uint64_t id)
{
    return process_request(analysis_process(feed_analysis(f), 0), id);
}

static void test_stages(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1 12@1 vblk_request:begin request_id=1 device_id=5 queue_index=2 head=7 type=1 loop_id=3\n"
            "1 12@1 vblk_request:begin request_id=2 device_id=5 queue_index=2 head=8 loop_id=3\n");
    assert_int_equal(request_stage(get(f, 1)), REQUEST_QUEUED);
    assert_int_equal(get(f, 1)->queue_index, 2);
    assert_int_equal(get(f, 1)->vtid, 12);
    feed(f, "2 12@1 vblk_request:serialise_wait request_id=1 blocking_request_id=2\n");
    assert_int_equal(request_stage(get(f, 1)), REQUEST_SERIALISING);
    feed(f, "3 12@1 vblk_request:submit request_id=1\n");
    assert_int_equal(request_stage(get(f, 1)), REQUEST_BACKEND);
    feed(f, "4 12@1 vblk_request:complete request_id=1\n");
    assert_int_equal(request_stage(get(f, 1)), REQUEST_COMPLETING);
    feed(f, "5 12@1 vblk_request:end request_id=1\n"
            "5 12@1 vblk_request:abandoned request_id=2\n");
    assert_null(get(f, 1));
    assert_null(get(f, 2));
    feed_end(f, 9);
    feed_destroy(f);
}

static void test_a_head_posted_anew_ends_its_request(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1 12@1 vblk_request:begin request_id=1 device_id=5 head=7\n"
            "1 12@1 vblk_request:begin request_id=2 device_id=5 head=8\n"
            "1 12@1 vblk_request:begin request_id=3 device_id=5 queue_index=1 head=7\n"
            "2 12@1 vblk_request:begin request_id=4 device_id=5 head=7\n");
    assert_null(get(f, 1));
    assert_non_null(get(f, 2));
    assert_non_null(get(f, 3));
    assert_non_null(get(f, 4));
    feed_end(f, 9);
    feed_destroy(f);
}

static void test_recovered_replaces_and_restart_marks(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1 12@1 vblk_request:begin request_id=1 device_id=5 head=7\n"
            "1 12@1 vblk_request:begin request_id=2 device_id=6 head=7\n"
            "2 11@0 vhost_user:disconnect device_id=5\n"
            "3 11@0 vhost_user:connect device_id=5\n");
    assert_int_equal(get(f, 1)->restart_ns, 3000000000);
    assert_int_equal(get(f, 2)->restart_ns, 0);
    feed(f, "4 12@1 vblk_request:recovered request_id=9 device_id=5 head=7\n"
            "5 12@1 vblk_request:begin request_id=9 device_id=5 head=7\n");
    assert_null(get(f, 1));
    assert_true(get(f, 9)->recovered);
    assert_int_equal(get(f, 9)->restart_ns, 0);
    feed_end(f, 9);
    feed_destroy(f);
}

static void test_slow_tells_of_older_ones(void **state)
{
    struct feed *f = feed_create(FEED_CORE_ONLY);

    feed(
        f,
        "5 12@1 vblk_request:slow request_id=1 device_id=5 queue_index=2 type=1 stage=2 age_ns=2000000000\n");
    assert_int_equal(get(f, 1)->begin_ns, 3000000000);
    assert_int_equal(request_stage(get(f, 1)), REQUEST_BACKEND);
    feed(f,
         "6 12@1 vblk_request:slow request_id=1 device_id=5 queue_index=2 type=1 stage=3 age_ns=3000000000 "
         "finished=1\n");
    assert_null(get(f, 1));
    feed_end(f, 9);
    feed_destroy(f);
}

static void test_slow_after_the_end_makes_no_ghost(void **state)
{
    struct feed *f = feed_create(FEED_ALL_SETS);

    feed(f, "1 12@1 vblk_request:begin request_id=1 device_id=5 head=7\n"
            "2 12@1 vblk_request:end request_id=1\n"
            "2.1 29@0 vblk_request:slow request_id=1 device_id=5 stage=2 age_ns=1000000000\n");
    assert_null(get(f, 1));
    feed_end(f, 9);
    feed_destroy(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_a_head_posted_anew_ends_its_request),
        cmocka_unit_test(test_recovered_replaces_and_restart_marks),
        cmocka_unit_test(test_slow_tells_of_older_ones),
        cmocka_unit_test(test_slow_after_the_end_makes_no_ghost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
