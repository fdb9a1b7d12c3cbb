/*
 * Goal:   requests that a loop takes from a queue of another loop are reported; a move done right and unknown owners are not.
 * Method: begins in loops 3 and 4 around changes of owner.
 * Breaks: two threads work on one ring unnoticed, or every moved queue raises an alarm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "feed/feed.h"

#define BEGIN(time, id, loop)                                                                                \
    time " 1" loop "@1 vblk_request:begin request_id=" id " device_id=5 queue_index=1 head=" id              \
         " loop_id=" loop "\n"
#define END(time, id)                                                                                        \
    time " 14@1 vblk_request:end request_id=" id "\n" time                                                   \
         " 14@1 vblk_queue:interrupt device_id=5 queue_index=1\n"
#define MOVE(time)                                                                                           \
    time " 11@0 vblk_dataplane:loop_change device_id=5 queue_index=1 old_loop_id=3 new_loop_id=4\n"

static struct feed *run(const char *before, const char *lines)
{
    const char *only[] = { "wrong-loop", NULL }; /* handlers are left where they are */
    struct analysis_options options;
    struct feed *f;

    analysis_options_init(&options);
    options.checks = only;
    f = feed_create_with(FEED_ALL_SETS, &options);
    feed(f, before);
    feed(f, lines);
    return f;
}

static void expect(struct feed *f, const char *verdict)
{
    feed_end(f, 9);
    assert_string_equal(feed_verdict(f), verdict);
    feed_destroy(f);
}

static void test_old_loop_goes_on(void **state)
{
    struct feed *f = run(feed_baseline,
                         MOVE("2") BEGIN("3", "1", "3") END("3.1", "1") BEGIN("4", "2", "3") END("4.1", "2"));
    json_t *finding, *subject;

    feed_end(f, 9);
    finding = feed_finding(f, "wrong-loop");
    subject = json_object_get(finding, "subject");
    assert_string_equal(json_text_of(finding, "severity"), "error");
    assert_int_equal(json_number_of(finding, "count"), 2);
    assert_int_equal(json_number_of(subject, "device_id"), 5);
    assert_int_equal(json_number_of(subject, "queue_index"), 1);
    assert_string_equal(json_text_of(subject, "loop"), "iothread0");
    assert_int_equal(json_number_of(subject, "owner_loop_id"), 4);
    assert_int_equal(json_number_of(finding, "begin_ns"), 3000000000);
    assert_int_equal(json_number_of(finding, "end_ns"), 4000000000);
    assert_string_equal(feed_findings(f), "wrong-loop");
    feed_destroy(f);
}

static void test_never_moved(void **state)
{
    expect(run(feed_baseline, BEGIN("3", "1", "4") END("3.1", "1")), "wrong-loop/");
}

static void test_move_done_right(void **state)
{
    /* begun before the move, ended after it in the new loop; new ones in the new loop */
    expect(run(feed_baseline,
               BEGIN("1.9", "1", "3") MOVE("2") END("2.1", "1") BEGIN("3", "2", "4") END("3.1", "2")),
           "/");
}

static void test_hand_over(void **state)
{
    expect(run(feed_baseline, MOVE("2") BEGIN("2.0005", "1", "3") END("2.1", "1")), "/");
    /* the new loop may be a moment too early */
    expect(run(feed_baseline, BEGIN("1.9995", "1", "4") MOVE("2") END("2.1", "1")), "/");
    expect(run(feed_baseline, BEGIN("1.9", "1", "4") MOVE("2") END("2.1", "1")), "wrong-loop/");
    /* only from the loop that had it */
    expect(run(feed_baseline, MOVE("2") BEGIN("2.0005", "1", "2") END("2.1", "1")), "wrong-loop/");
}

static void test_unknown_owner(void **state)
{
    expect(run("", BEGIN("3", "1", "4") END("3.1", "1")), "/");
}

static void test_losses(void **state)
{
    const char *lines = MOVE("2") BEGIN("4", "1", "3") END("4.1", "1");
    struct feed *f = run(feed_baseline, lines);

    feed_loss(f, 0, 2.5, 3);
    expect(f, "/wrong-loop"); /* it may have moved back */
    f = run(feed_baseline, lines);
    feed_loss(f, 0, 1.3, 1.5);
    expect(f, "wrong-loop/");
    f = run(feed_baseline, lines);
    feed_loss(f, 0, 5, 6);
    expect(f, "wrong-loop/");
    f = run(feed_baseline, lines);
    feed_loss(f, 2, 2.5, 3); /* where the thread that moves queues never was */
    expect(f, "wrong-loop/");
    /* its own loop went on with it after the gap */
    f = run(feed_baseline,
            MOVE("2") BEGIN("3.5", "3", "4") END("3.6", "3") BEGIN("4", "1", "3") END("4.1", "1"));
    feed_loss(f, 0, 2.5, 3);
    expect(f, "wrong-loop/");
    /* a later breach whose owner is sure */
    f = run(feed_baseline,
            MOVE("2") BEGIN("4", "1", "3")
                END("4.1", "1") "5 11@0 vblk_dataplane:loop_change device_id=5 queue_index=1 old_loop_id=4 "
                                "new_loop_id=3\n" BEGIN("6", "2", "4") END("6.1", "2"));
    feed_loss(f, 0, 2.5, 3);
    expect(f, "wrong-loop/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_old_loop_goes_on), cmocka_unit_test(test_never_moved),
        cmocka_unit_test(test_move_done_right),  cmocka_unit_test(test_hand_over),
        cmocka_unit_test(test_unknown_owner),    cmocka_unit_test(test_losses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
