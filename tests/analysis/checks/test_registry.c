/*
 * Goal:   the registry is in the contract's order, names nothing twice, and every entry can run.
 * Method: compares it with the contract's list of findings.
 * Breaks: reports list findings in an arbitrary order, or a check is never called.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "checks/registry.h"

/* Section "Findings" of the trace contract. */
static const char *const contract[] = {
    "stale-fd",
    "unread-fd",
    "false-progress",
    "deaf-queue",
    "lost-wakeup",
    "late-wakeup",
    "needless-event-writes",
    "notify-me-unbalanced",
    "drain-order",
    "vma-pressure",
    "vma-exhausted",
    "pool-overflow",
    "pool-imbalance",
    "pool-thrash",
    "lock-contention",
    "lock-across-yield",
    "stuck-request",
    "wrong-loop",
    "loop-hog",
    "slow-requests",
    "missing-interrupt",
    "queue-broken",
    "lost-request",
    "poll-waste",
    "events-lost",
};

static int position(const char *id)
{
    for (unsigned i = 0; i < sizeof(contract) / sizeof(contract[0]); i++)
        if (!strcmp(contract[i], id))
            return (int)i;
    fail_msg("%s is no finding of the contract", id);
    return -1;
}

static void test_order_and_names(void **state)
{
    bool seen[sizeof(contract) / sizeof(contract[0])] = { false };
    int last = -1;

    for (unsigned i = 0; check_registry[i]; i++) {
        const struct check_class *check = check_registry[i];

        assert_non_null(check->ids[0]);
        assert_true(position(check->ids[0]) > last);
        last = position(check->ids[0]);
        for (unsigned j = 0; j < CHECK_IDS_MAX && check->ids[j]; j++) {
            assert_false(seen[position(check->ids[j])]);
            seen[position(check->ids[j])] = true;
        }
    }
}

static void test_every_check_can_run(void **state)
{
    for (unsigned i = 0; check_registry[i]; i++) {
        const struct check_class *check = check_registry[i];

        assert_true(check->shared_finish || check->finish || check->event);
        if (check->events)
            assert_true(check->create && check->event);
    }
}

static void test_rank_follows_the_order(void **state)
{
    assert_true(registry_rank("stale-fd") < registry_rank("queue-broken"));
    assert_true(registry_rank("queue-broken") < registry_rank("events-lost"));
    assert_true(registry_rank("no such id") > registry_rank("events-lost"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_names),
        cmocka_unit_test(test_every_check_can_run),
        cmocka_unit_test(test_rank_follows_the_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
