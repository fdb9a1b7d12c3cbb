/*
 * Goal:   a loss hides an event of a thread only where that thread was seen, in the channel of that event, and in time.
 * Method: two channels on two processors, built by hand; losses in each.
 * Breaks: verdicts are doubted without need, or stand on what was lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/check.h"

struct fixture {
    struct analysis *analysis;
    unsigned core[2], loop[2]; /* streams by processor */
    int64_t time_ns;
};

static int destroy(void **state)
{
    analysis_destroy(((struct fixture *)*state)->analysis);
    return 0;
}

static void see(struct fixture *f, unsigned stream, int64_t vtid, enum event_id id)
{
    const struct event event = {
        .time_ns = ++f->time_ns, .id = id, .stream = stream, .vpid = 1, .vtid = vtid
    };

    analysis_event(f->analysis, &event);
}

static int create(void **state)
{
    static struct fixture f;
    struct analysis_options options;
    struct analysis_trace trace = { .path = "ust", .vpid = EVENT_UNKNOWN_ID };

    f = (struct fixture){ 0 };
    memset(trace.declared, 1, sizeof(trace.declared));
    analysis_options_init(&options);
    f.analysis = analysis_create(&options);
    analysis_add_trace(f.analysis, &trace);
    for (unsigned cpu = 0; cpu < 2; cpu++) {
        const struct analysis_stream core = { .stream_class_id = 0, .cpu_id = cpu };
        const struct analysis_stream loop = { .stream_class_id = 1, .cpu_id = cpu };

        f.core[cpu] = analysis_add_stream(f.analysis, 0, &core);
        f.loop[cpu] = analysis_add_stream(f.analysis, 0, &loop);
    }
    see(&f, f.core[0], 10, EVENT_vhost_user_message);
    see(&f, f.core[1], 20, EVENT_vhost_user_message);
    see(&f, f.loop[0], 10, EVENT_rt_loop_wait_begin);
    see(&f, f.loop[1], 20, EVENT_rt_loop_wait_begin);
    see(&f, f.loop[1], 30, EVENT_rt_loop_wait_begin); /* on processor 1, in the other channel only */
    *state = &f;
    return 0;
}

static bool hides(struct fixture *f, int64_t vtid, enum event_id id, int64_t begin_ns, int64_t end_ns)
{
    return loss_hides(analysis_process(f->analysis, 0), vtid, id, begin_ns, end_ns, NULL);
}

static void test_where_the_thread_was_seen(void **state)
{
    struct fixture *f = *state;

    analysis_loss(f->analysis, f->core[0], LOSS_DISCARDED_EVENTS, 100, 200);
    assert_true(hides(f, 10, EVENT_vhost_user_message, 150, 160));
    assert_false(hides(f, 20, EVENT_vhost_user_message, 150, 160));
}

static void test_in_time(void **state)
{
    struct fixture *f = *state;
    struct loss loss;

    analysis_loss(f->analysis, f->core[0], LOSS_DISCARDED_EVENTS, 100, 200);
    assert_false(hides(f, 10, EVENT_vhost_user_message, 10, 99));
    assert_false(hides(f, 10, EVENT_vhost_user_message, 201, 300));
    assert_true(hides(f, 10, EVENT_vhost_user_message, 10, 100));
    assert_true(loss_hides(analysis_process(f->analysis, 0), 10, EVENT_vhost_user_message, 10, 1000, &loss));
    assert_int_equal(loss.begin_ns, 100);
}

static void test_in_the_channel_of_the_event(void **state)
{
    struct fixture *f = *state;

    analysis_loss(f->analysis, f->loop[0], LOSS_DISCARDED_EVENTS, 100, 200);
    assert_false(hides(f, 10, EVENT_vhost_user_message, 100, 200));
    assert_true(hides(f, 10, EVENT_rt_loop_wait_begin, 100, 200));
    assert_true(hides(f, 10, EVENT_rt_loop_publish, 100, 200));    /* never seen: where its set is */
    assert_false(hides(f, 10, EVENT_rt_loop_fd_detach, 100, 200)); /* core, as the message */
    assert_true(hides(f, 10, EVENT_vblk_request_begin, 100, 200)); /* nothing of its set was seen: anywhere */
}

static void test_a_thread_may_emit_in_any_channel_of_its_processor(void **state)
{
    struct fixture *f = *state;

    analysis_loss(f->analysis, f->core[1], LOSS_DISCARDED_EVENTS, 100, 200);
    assert_true(hides(f, 30, EVENT_vhost_user_message, 100, 200));
    assert_false(hides(f, 10, EVENT_vhost_user_message, 100, 200));
}

static void test_unknown_threads_could_be_anywhere(void **state)
{
    struct fixture *f = *state;

    analysis_loss(f->analysis, f->core[1], LOSS_DISCARDED_EVENTS, 100, 200);
    assert_true(hides(f, 77, EVENT_vhost_user_message, 100, 200));
    assert_true(hides(f, EVENT_UNKNOWN_ID, EVENT_vhost_user_message, 100, 200));
}

static void test_cut_streams_lose_all_that_follows(void **state)
{
    struct fixture *f = *state;

    analysis_loss(f->analysis, f->core[0], LOSS_CUT, 100, 0);
    assert_true(hides(f, 10, EVENT_vhost_user_message, 1000000, 1000001));
    assert_false(hides(f, 10, EVENT_vhost_user_message, 10, 99));
}

static void test_overwritten_streams_lack_all_that_came_before(void **state)
{
    struct fixture *f = *state;

    analysis_loss(f->analysis, f->core[0], LOSS_OVERWRITTEN, 0, 100);
    assert_true(hides(f, 10, EVENT_vhost_user_message, 50, 60));
    assert_true(hides(f, 10, EVENT_vhost_user_message, 100, 200));
    assert_false(hides(f, 10, EVENT_vhost_user_message, 101, 200));
    assert_false(hides(f, 20, EVENT_vhost_user_message, 50, 60));
}

static void test_thread_seen_later_counts(void **state)
{
    struct fixture *f = *state;

    analysis_loss(f->analysis, f->core[1], LOSS_DISCARDED_EVENTS, 100, 200);
    assert_false(hides(f, 10, EVENT_vhost_user_message, 100, 200));
    f->time_ns = 500;
    see(f, f->core[1], 10, EVENT_vhost_user_message); /* it migrates */
    assert_true(hides(f, 10, EVENT_vhost_user_message, 100, 200));
}

static void test_many_losses_stay_bounded_and_covered(void **state)
{
    struct fixture *f = *state;

    for (int64_t i = 1; i <= 5000; i++)
        analysis_loss(f->analysis, f->core[0], LOSS_DISCARDED_EVENTS, i * 100, i * 100 + 10);
    assert_true(analysis_stream_at(f->analysis, f->core[0])->losses->len <= 1024);
    for (int64_t i = 1; i <= 5000; i++)
        assert_true(hides(f, 10, EVENT_vhost_user_message, i * 100 + 1, i * 100 + 2));
}

/* Another host's clock has nothing to do with it. */
static void test_a_process_ends_with_its_own_trace(void **state)
{
    struct fixture *f = *state;
    struct analysis_trace trace = { .path = "other", .hostname = "h2", .vpid = EVENT_UNKNOWN_ID };
    const struct analysis_stream stream = { .stream_class_id = 0 };
    unsigned far;

    memset(trace.declared, 1, sizeof(trace.declared));
    far = analysis_add_stream(f->analysis, analysis_add_trace(f->analysis, &trace), &stream);
    analysis_unknown_event(f->analysis, f->loop[1], 500);
    f->time_ns = 1000000;
    see(f, far, 10, EVENT_vhost_user_message);
    assert_int_equal(process_end_ns(analysis_process(f->analysis, 0)), 500);
    assert_int_equal(process_end_ns(analysis_process(f->analysis, 1)), 1000001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_where_the_thread_was_seen, create, destroy),
        cmocka_unit_test_setup_teardown(test_in_time, create, destroy),
        cmocka_unit_test_setup_teardown(test_in_the_channel_of_the_event, create, destroy),
        cmocka_unit_test_setup_teardown(test_a_thread_may_emit_in_any_channel_of_its_processor, create,
                                        destroy),
        cmocka_unit_test_setup_teardown(test_unknown_threads_could_be_anywhere, create, destroy),
        cmocka_unit_test_setup_teardown(test_cut_streams_lose_all_that_follows, create, destroy),
        cmocka_unit_test_setup_teardown(test_overwritten_streams_lack_all_that_came_before, create, destroy),
        cmocka_unit_test_setup_teardown(test_thread_seen_later_counts, create, destroy),
        cmocka_unit_test_setup_teardown(test_a_process_ends_with_its_own_trace, create, destroy),
        cmocka_unit_test_setup_teardown(test_many_losses_stay_bounded_and_covered, create, destroy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
