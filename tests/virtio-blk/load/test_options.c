/*
 * Goal: every option reaches its field in the right unit, and every bad value is refused by name.
 * Method: parse command lines.
 * If it fails: a run measures something else than what was asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "options.h"

#include <string.h>

static enum options_outcome parse(struct load_options *options, const char *line, char **error_out)
{
    g_auto(GStrv) arguments = g_strsplit(line, " ", -1);
    return options_parse(options, g_strv_length(arguments), arguments, error_out);
}

static void assert_usage(const char *line, const char *words)
{
    struct load_options options;
    g_autofree char *problem = NULL;
    assert_int_equal(parse(&options, line, &problem), OPTIONS_USAGE);
    if (!strstr(problem, words))
        fail_msg("'%s': '%s' does not say '%s'", line, problem, words);
    options_clear(&options);
}

static void test_sizes(void **state)
{
    const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        { "0", 0 },
        { "512", 512 },
        { "4K", 4096 },
        { "4k", 4096 },
        { "1M", 1 << 20 },
        { "3G", 3ull << 30 },
        { "17179869183G", 17179869183ull << 30 },
    };
    const char *const bad[] = { "",    "K",  "-1",   "+1",   " 1",           "1 K",
                                "4KB", "4T", "0x10", "1.5K", "17179869184G", "99999999999999999999" };
    uint64_t bytes;
    for (unsigned i = 0; i < G_N_ELEMENTS(good); i++) {
        assert_true(options_parse_size(good[i].text, &bytes));
        assert_int_equal(bytes, good[i].bytes);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++)
        if (options_parse_size(bad[i], &bytes))
            fail_msg("'%s' is taken for a size", bad[i]);
}

static void test_cpus(void **state)
{
    const char *const bad[] = { "", ",", "1,", "a", "3-1", "1-", "-1", "1024", "1 2", "0-99999999999" };
    GArray *cpus = g_array_new(FALSE, FALSE, sizeof(unsigned));
    assert_true(options_parse_cpus("1,4-6,0", cpus));
    const unsigned expected[] = { 1, 4, 5, 6, 0 };
    assert_int_equal(cpus->len, 5);
    assert_memory_equal(cpus->data, expected, sizeof(expected));
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++)
        if (options_parse_cpus(bad[i], cpus))
            fail_msg("'%s' is taken for a list of CPUs", bad[i]);
    g_array_unref(cpus);
}

static void test_all_values_arrive(void **state)
{
    struct load_options options;
    char *problem = NULL;
    assert_int_equal(
        parse(&options,
              "vblk-load --socket-path=/s --rw=randrw --rwmixread=30 --bs=8K --iodepth=7 --queues=3 "
              "--queue-size=64 --runtime=1.5 --size=1G --offset=1M --number-ios=99 --seed=5 --poll "
              "--json --cpu=1 --restarts=2 --no-drain --hold=0.5 --timeout=2 --segment-size=4K "
              "--no-indirect --no-event-idx --no-reply-ack",
              &problem),
        OPTIONS_RUN);
    assert_int_equal(options.command, LOAD_RUN);
    assert_string_equal(options.socket_path, "/s");
    assert_true(options.random && options.poll && options.json && !options.drain);
    assert_true(!options.indirect && !options.event_idx && !options.reply_ack && options.protocol_features);
    assert_int_equal(options.read_percent, 30);
    assert_int_equal(options.block_bytes, 8192);
    assert_int_equal(options.iodepth, 7);
    assert_int_equal(options.queue_count, 3);
    assert_int_equal(options.queue_size, 64);
    assert_int_equal(options.runtime_ns, 1500000000);
    assert_int_equal(options.size_bytes, 1 << 30);
    assert_int_equal(options.offset_bytes, 1 << 20);
    assert_int_equal(options.number_ios, 99);
    assert_int_equal(options.seed, 5);
    assert_int_equal(options.restarts, 2);
    assert_int_equal(options.hold_ns, 500000000);
    assert_int_equal(options.timeout_ns, 2000000000);
    assert_int_equal(options.segment_bytes, 4096);
    assert_int_equal(options.cpus->len, 1);
    options_clear(&options);
}

static void test_defaults(void **state)
{
    struct load_options options;
    char *problem = NULL;
    assert_int_equal(parse(&options, "vblk-load --socket-path=/s", &problem), OPTIONS_RUN);
    assert_int_equal(options.read_percent, 100);
    assert_true(options.random && options.drain && options.indirect && options.event_idx && !options.packed);
    assert_int_equal(options.runtime_ns, 10000000000);
    options_clear(&options);
    assert_int_equal(parse(&options, "vblk-load --socket-path=/s --packed --queue-size=99", &problem), OPTIONS_RUN);
    assert_true(options.packed && options.queue_size == 99);
    options_clear(&options);
    assert_int_equal(parse(&options, "vblk-load --socket-path=/s --number-ios=5", &problem), OPTIONS_RUN);
    assert_int_equal(options.runtime_ns, 0);
    options_clear(&options);
    assert_int_equal(parse(&options, "vblk-load verify --socket-path=/s", &problem), OPTIONS_RUN);
    assert_int_equal(options.command, LOAD_VERIFY);
    assert_true(options.write_phase && options.read_phase);
    assert_int_equal(options.runtime_ns, 0);
    options_clear(&options);
}

static void test_bad_values_are_named(void **state)
{
    assert_usage("vblk-load", "--socket-path is missing");
    assert_usage("vblk-load --socket-path=/s extra", "extra: unknown command");
    assert_usage("vblk-load --socket-path=/s --frob", "--frob");
    assert_usage("vblk-load --socket-path=/s --rw=sideways", "--rw=sideways");
    assert_usage("vblk-load --socket-path=/s --bs=100", "--bs=100");
    assert_usage("vblk-load --socket-path=/s --bs=0", "--bs=0");
    assert_usage("vblk-load --socket-path=/s --bs=x", "--bs=x: not a size");
    assert_usage("vblk-load --socket-path=/s --iodepth=0", "--iodepth=0");
    assert_usage("vblk-load --socket-path=/s --iodepth=many", "--iodepth");
    assert_usage("vblk-load --socket-path=/s --queues=-1", "--queues=-1");
    assert_usage("vblk-load --socket-path=/s --queue-size=100", "--queue-size=100: not a power of two");
    assert_usage("vblk-load --socket-path=/s --packed --queue-size=3", "--queue-size=3");
    assert_usage("vblk-load --socket-path=/s --runtime=0", "--runtime=0");
    assert_usage("vblk-load --socket-path=/s --runtime=nan", "--runtime=nan");
    assert_usage("vblk-load --socket-path=/s --rwmixread=101", "--rwmixread=101");
    assert_usage("vblk-load --socket-path=/s --cpu=x", "--cpu=x");
    assert_usage("vblk-load --socket-path=/s --no-protocol-features", "--size");
    assert_usage("vblk-load --socket-path=/s --passes=2", "--passes"); /* verify's option */
    assert_usage("vblk-load verify --socket-path=/s --write-only --read-only", "exclude each other");
    assert_usage("vblk-load verify --socket-path=/s --reconnect=1 --restarts=1", "exclude each other");
    assert_usage("vblk-load verify --socket-path=/s --reconnect=-1", "--reconnect=-1");
    assert_usage("vblk-load verify --socket-path=/s --read-only --passes=2", "--passes=2");
    assert_usage("vblk-load verify --socket-path=/s --runtime=3", "--runtime"); /* the load's option */
    assert_usage("vblk-load info --socket-path=/s --bs=4K", "--bs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_cpus),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_all_values_arrive),
        cmocka_unit_test(test_bad_values_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
