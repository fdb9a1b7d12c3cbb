/*
 * Goal:   rules of --inject mean what their table says, and whatever cannot be read is refused with the key's name.
 * Method: parse good and bad texts; ask which requests a rule takes.
 * If it fails: an experiment disturbs other requests than it says, so that what it shows is wrong.
 */
#include <errno.h>
#include <glib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "disk/inject_rule.h"

static struct vblk_inject_rules parse(const char *text)
{
    struct vblk_inject_rules rules;
    char *message = NULL;

    if (vblk_inject_rules_parse(text, &rules, &message) != 0)
        fail_msg("%s: %s", text, message);
    return rules;
}

static void test_defaults(void **state)
{
    struct vblk_inject_rules rules = parse("delay-us=5");

    (void)state;
    assert_int_equal(rules.count, 1);
    assert_int_equal(rules.seed, 1);
    assert_int_equal(rules.rules[0].delay_us, 5);
    assert_int_equal(rules.rules[0].error, -EIO);
    assert_true(rules.rules[0].error_percent == 0 && rules.rules[0].reorder_percent == 0);
    assert_true(vblk_inject_rule_takes(&rules.rules[0], VBLK_INJECT_FLUSH, 0, 0, 99.9));
    assert_true(vblk_inject_rule_takes(&rules.rules[0], VBLK_INJECT_WRITE_ZEROES, 1 << 30, 512, 99.9));
    vblk_inject_rules_clear(&rules);
}

static void test_every_key(void **state)
{
    struct vblk_inject_rules rules =
        parse("op=read+discard,range=1M+64K,percent=2.5,skip=3,count=4,delay-us=200,reorder=20,error=5,errno=ENOSPC,seed=77;"
              "op=write-zeroes;op=flush;op=write");
    const struct vblk_inject_rule *rule = &rules.rules[0];

    (void)state;
    assert_int_equal(rules.count, 4);
    assert_int_equal(rules.seed, 77);
    assert_int_equal(rule->ops, VBLK_INJECT_READ | VBLK_INJECT_DISCARD);
    assert_int_equal(rule->first_bytes, 1 << 20);
    assert_int_equal(rule->range_bytes, 64 << 10);
    assert_true(rule->percent == 2.5 && rule->reorder_percent == 20 && rule->error_percent == 5);
    assert_int_equal(rule->skip, 3);
    assert_int_equal(rule->count, 4);
    assert_int_equal(rule->delay_us, 200);
    assert_int_equal(rule->error, -ENOSPC);
    assert_int_equal(rules.rules[1].ops, VBLK_INJECT_WRITE_ZEROES);
    assert_int_equal(rules.rules[2].ops, VBLK_INJECT_FLUSH);
    assert_int_equal(rules.rules[3].ops, VBLK_INJECT_WRITE);
    vblk_inject_rules_clear(&rules);
}

static void test_which_requests(void **state)
{
    struct vblk_inject_rules rules = parse("op=read+write,range=4K+4K,percent=50");
    struct vblk_inject_rule *rule = &rules.rules[0];

    (void)state;
    assert_true(vblk_inject_rule_takes(rule, VBLK_INJECT_READ, 4096, 512, 0));
    assert_true(vblk_inject_rule_takes(rule, VBLK_INJECT_WRITE, 0, 4097, 49.9));
    assert_true(vblk_inject_rule_takes(rule, VBLK_INJECT_READ, 8191, 512, 0));
    assert_false(vblk_inject_rule_takes(rule, VBLK_INJECT_READ, 8192, 512, 0));
    assert_false(vblk_inject_rule_takes(rule, VBLK_INJECT_READ, 0, 4096, 0));
    assert_false(vblk_inject_rule_takes(rule, VBLK_INJECT_READ, 4096, 512, 50));
    assert_false(vblk_inject_rule_takes(rule, VBLK_INJECT_DISCARD, 4096, 512, 0));
    rule->ops = ~0u;
    assert_false(vblk_inject_rule_takes(rule, VBLK_INJECT_FLUSH, 0, 0, 0)); /* has no range */
    vblk_inject_rules_clear(&rules);
}

static void test_skip_and_count(void **state)
{
    struct vblk_inject_rules rules = parse("op=write,skip=2,count=3");
    unsigned taken = 0;

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        bool takes = vblk_inject_rule_takes(&rules.rules[0], VBLK_INJECT_WRITE, 0, 512, 0);

        assert_false(vblk_inject_rule_takes(&rules.rules[0], VBLK_INJECT_READ, 0, 512, 0));
        assert_int_equal(takes, i >= 2 && i < 5);
        taken += takes;
    }
    assert_int_equal(taken, 3);
    vblk_inject_rules_clear(&rules);
}

static void test_what_cannot_be_read(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "", "empty" },
        { ";", "empty" },
        { "delay-us=1;", "empty" },
        { "delay-us", "KEY=VALUE" },
        { "delay-us=", "delay-us" },
        { "delay-us=-1", "delay-us" },
        { "delay-us=86400000001", "delay-us" },
        { "error=101", "error" },
        { "error=nan", "error" },
        { "error=EIO", "errno=" },
        { "errno=EWHAT", "errno" },
        { "reorder=5%", "reorder" },
        { "percent=", "percent" },
        { "op=trim", "op=trim" },
        { "op=", "op=" },
        { "op=read+", "op=read+" },
        { "range=4K", "range" },
        { "range=4K+0", "range" },
        { "range=15E+2E", "range" },
        { "count=x", "count" },
        { "skip=1.5", "skip" },
        { "seed=a", "seed" },
        { "stall=1", "known are: op" },
    };

    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vblk_inject_rules rules;
        char *message = NULL;

        if (vblk_inject_rules_parse(cases[i].text, &rules, &message) != -EINVAL)
            fail_msg("'%s' was taken", cases[i].text);
        if (!strstr(message, cases[i].words))
            fail_msg("'%s': '%s' does not say '%s'", cases[i].text, message, cases[i].words);
        g_free(message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_which_requests),  cmocka_unit_test(test_skip_and_count),
        cmocka_unit_test(test_what_cannot_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
