/*
 * Goal:   how much of a stream file is whole is found exactly, whatever its end looks like.
 * Method: a stream of three packets cut at every byte; damaged headers; an index that knows more or less.
 * Breaks: a verdict would rest on half a packet, or whole packets would be thrown away.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "input/folder.h"
#include "input/packets.h"

#define PACKET_BYTES 4096
#define HEADER_BYTES 84

static const char events[] = "!packet cpu1 2\n!packet cpu1 4\n"
                             "1 cpu1 rt_loop:wait_begin loop_id=1\n3 cpu1 rt_loop:wait_end loop_id=1\n"
                             "5 cpu1 rt_loop:wait_begin loop_id=1\n!end 6\n";

struct fixture {
    char *folder, *path;
    struct metadata metadata;
    guint8 *bytes;
    gsize size_bytes;
};

static int set_up(void **state)
{
    struct fixture *f = g_new0(struct fixture, 1);
    char *trace;

    f->folder = folder_make();
    folder_build_trace(f->folder, "t", events);
    trace = g_build_filename(f->folder, "t", NULL);
    assert_null(metadata_read(&f->metadata, trace));
    f->path = g_build_filename(trace, "channel0_1", NULL);
    f->bytes = folder_read(f->folder, "t/channel0_1", &f->size_bytes);
    assert_int_equal(f->size_bytes, 3 * PACKET_BYTES);
    g_free(trace);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    folder_remove(f->folder);
    g_free(f->path);
    g_free(f->bytes);
    g_free(f);
    return 0;
}

static struct stream_summary walk(struct fixture *f, uint64_t packets_max)
{
    struct stream_summary summary;

    assert_null(packets_walk(&summary, &f->metadata, f->path, packets_max));
    return summary;
}

static uint64_t content_bytes(const struct fixture *f, unsigned packet)
{
    uint64_t bits;

    memcpy(&bits, f->bytes + packet * PACKET_BYTES + 48, sizeof(bits));
    return bits / 8;
}

static void write_index(struct fixture *f, unsigned entry_count)
{
    guint8 index[16 + 3 * 72] = { 0xC1, 0xF1, 0xDC, 0xC1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 72 };

    folder_write(f->folder, "t/index/channel0_1.idx", index, 16 + entry_count * 72);
}

static void test_walks_a_whole_stream(void **state)
{
    struct stream_summary summary = walk(*state, PACKETS_ALL);

    assert_null(summary.damage);
    assert_int_equal(summary.packet_count, 3);
    assert_int_equal(summary.whole_bytes, 3 * PACKET_BYTES);
    assert_int_equal(summary.begin_cycles, 1000000000);
    assert_int_equal(summary.end_cycles, 6000000000);
    assert_int_equal(summary.cpu_id, 1);
}

static void test_cut_at_every_byte(void **state)
{
    struct fixture *f = *state;

    for (gsize cut = f->size_bytes; cut-- > 0;) { /* ever shorter: nothing has to be written again */
        unsigned packet = cut / PACKET_BYTES;
        uint64_t rest = cut % PACKET_BYTES;
        bool content_whole = rest >= content_bytes(f, packet);
        struct stream_summary summary;

        assert_int_equal(truncate(f->path, cut), 0);
        summary = walk(f, PACKETS_ALL);
        assert_int_equal(summary.packet_count, packet + (content_whole ? 1 : 0));
        assert_int_equal(summary.whole_bytes, summary.packet_count * PACKET_BYTES);
        /* cut between packets, nothing tells that there were more: the index does, where there is one */
        assert_int_equal(summary.damage != NULL, rest > 0 || cut == 0);
        if (summary.packet_count > 0)
            assert_int_equal(summary.end_cycles, summary.packet_count * 2000000000);
    }
}

static void test_stops_at_damaged_headers(void **state)
{
    static const unsigned offsets[] = { 0, 7, 50, 55, 56, 63, 46 }; /* magic, UUID, sizes, end time */
    struct fixture *f = *state;

    for (unsigned i = 0; i < G_N_ELEMENTS(offsets); i++) {
        guint8 *copy = g_memdup2(f->bytes, f->size_bytes);
        struct stream_summary summary;

        copy[2 * PACKET_BYTES + offsets[i]] ^= 0x5A;
        if (offsets[i] == 46) /* ends before it begins */
            memset(copy + 2 * PACKET_BYTES + 40, 1, 4), memset(copy + 2 * PACKET_BYTES + 44, 0, 4);
        folder_write(f->folder, "t/channel0_1", copy, f->size_bytes);
        summary = walk(f, PACKETS_ALL);
        assert_non_null(summary.damage);
        assert_int_equal(summary.packet_count, 2);
        assert_int_equal(summary.whole_bytes, 2 * PACKET_BYTES);
        g_free(copy);
    }
}

static void test_sizes_cannot_lead_astray(void **state)
{
    static const uint64_t sizes[][2] = { { 0, 0 },
                                         { HEADER_BYTES * 8 - 8, PACKET_BYTES * 8 },
                                         { HEADER_BYTES * 8, UINT64_MAX - 7 },
                                         { UINT64_MAX, UINT64_MAX },
                                         { HEADER_BYTES * 8, PACKET_BYTES * 8 + 1 } };
    struct fixture *f = *state;

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        guint8 *copy = g_memdup2(f->bytes, f->size_bytes);
        struct stream_summary summary;

        memcpy(copy + 48, sizes[i], sizeof(sizes[i]));
        folder_write(f->folder, "t/channel0_1", copy, f->size_bytes);
        summary = walk(f, PACKETS_ALL);
        assert_non_null(summary.damage);
        assert_int_equal(summary.packet_count, 0);
        g_free(copy);
    }
}

static void test_stops_where_it_is_told_to(void **state)
{
    struct stream_summary summary = walk(*state, 1);

    assert_non_null(summary.damage);
    assert_int_equal(summary.packet_count, 1);
    assert_int_equal(summary.whole_bytes, PACKET_BYTES);
}

static void test_index_knows_of_missing_packets(void **state)
{
    struct fixture *f = *state;

    write_index(f, 3);
    assert_null(walk(f, PACKETS_ALL).damage);
    folder_write(f->folder, "t/channel0_1", f->bytes, 2 * PACKET_BYTES);
    assert_non_null(walk(f, PACKETS_ALL).damage);
    write_index(f, 1); /* the tracer was killed before it wrote more */
    assert_null(walk(f, PACKETS_ALL).damage);
}

static void test_empty_file_is_damage_unless_nothing_happened(void **state)
{
    struct fixture *f = *state;

    folder_write(f->folder, "t/channel0_1", "", 0);
    assert_non_null(walk(f, PACKETS_ALL).damage);
    write_index(f, 1);
    assert_non_null(walk(f, PACKETS_ALL).damage);
    write_index(f, 0);
    assert_null(walk(f, PACKETS_ALL).damage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_walks_a_whole_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut_at_every_byte, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stops_at_damaged_headers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sizes_cannot_lead_astray, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stops_where_it_is_told_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_index_knows_of_missing_packets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_empty_file_is_damage_unless_nothing_happened, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
