/* Goal: what is said about a finished trace is true: its size, whether it holds events, what was lost, whether it is damaged.
 * Method: files of packet heads with one thing wrong in each.
 * If it fails: a user trusts a trace with holes, or throws a good one away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "trace_check.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

enum { HEAD_BYTES = 84, PACKET_BYTES = 4096 };

struct packet {
    uint32_t magic;
    uint64_t content_bytes, packet_bytes, seq_num, discarded;
};

static char *folder; /* of the test that runs */

static int make_folder(void **state)
{
    folder = g_dir_make_tmp("trace-check-XXXXXX", NULL);
    g_autofree char *metadata = g_build_filename(folder, "metadata", NULL);

    return !g_file_set_contents(metadata, "/* CTF 1.8 */", -1, NULL);
}

static void remove_tree(const char *path)
{
    GDir *dir = g_dir_open(path, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *inner = g_build_filename(path, name, NULL);

        if (g_remove(inner) != 0)
            remove_tree(inner);
    }
    if (dir)
        g_dir_close(dir);
    g_rmdir(path);
}

static int remove_folder(void **state)
{
    remove_tree(folder);
    g_clear_pointer(&folder, g_free);
    return 0;
}

/* Append @packet to the stream file @name, in the layout of lttng-ust's metadata: 32 bytes of packet header, then
 * two time stamps, sizes in bits, sequence number, discarded events, CPU. @written_bytes of it reach the file. */
static void put(const char *name, struct packet packet, size_t written_bytes)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_autofree uint8_t *bytes = g_malloc0(packet.packet_bytes);
    uint64_t content_bits = packet.content_bytes * 8, packet_bits = packet.packet_bytes * 8;
    FILE *file = fopen(path, "ab");

    memcpy(bytes, &packet.magic, 4);
    memcpy(bytes + 48, &content_bits, 8);
    memcpy(bytes + 56, &packet_bits, 8);
    memcpy(bytes + 64, &packet.seq_num, 8);
    memcpy(bytes + 72, &packet.discarded, 8);
    assert_int_equal(fwrite(bytes, 1, written_bytes, file), written_bytes);
    fclose(file);
}

static struct packet good(uint64_t seq_num)
{
    return (struct packet){ 0xc1fc1fc1, 1000, PACKET_BYTES, seq_num, 0 };
}

static struct record_trace_facts facts(void)
{
    struct record_trace_facts facts;

    assert_true(record_trace_check(folder, &facts, NULL));
    return facts;
}

static void whole(void **state)
{
    put("core_0", good(0), PACKET_BYTES);
    put("core_0", good(1), PACKET_BYTES);
    put("detail_0", good(0), PACKET_BYTES);
    assert_int_equal(facts().bytes, 3 * PACKET_BYTES + strlen("/* CTF 1.8 */"));
    assert_int_equal(record_trace_bytes(folder), facts().bytes);
    assert_true(facts().has_events);
    assert_false(facts().damaged);
    assert_false(facts().lost[RECORD_CHANNEL_CORE]);
    assert_false(facts().lost[RECORD_CHANNEL_DETAIL]);
}

static void no_events(void **state)
{
    struct packet empty = good(0);

    empty.content_bytes = HEAD_BYTES;
    put("core_0", empty, PACKET_BYTES);
    assert_false(facts().has_events);
    assert_false(facts().damaged);
}

static void discarded(void **state)
{
    struct packet losing = good(1);

    losing.discarded = 7;
    put("core_0", good(0), PACKET_BYTES);
    put("detail_0", good(0), PACKET_BYTES);
    put("detail_0", losing, PACKET_BYTES);
    assert_false(facts().lost[RECORD_CHANNEL_CORE]);
    assert_true(facts().lost[RECORD_CHANNEL_DETAIL]);
}

static void missing_packet(void **state)
{
    put("core_1", good(0), PACKET_BYTES);
    put("core_1", good(2), PACKET_BYTES);
    assert_true(facts().lost[RECORD_CHANNEL_CORE]);
    assert_false(facts().damaged);
}

static void cut_anywhere(void **state)
{
    static const size_t lengths[] = { 1, 4, HEAD_BYTES - 1, HEAD_BYTES, PACKET_BYTES - 1 };

    for (size_t i = 0; i < G_N_ELEMENTS(lengths); i++) {
        g_autofree char *path = g_build_filename(folder, "core_0", NULL);

        put("core_0", good(0), PACKET_BYTES);
        put("core_0", good(1), lengths[i]);
        assert_true(facts().damaged);
        g_unlink(path);
    }
}

static void garbled(void **state)
{
    struct packet wrong_magic = good(0), no_size = good(0), overfull = good(0);
    const struct packet *const packets[] = { &wrong_magic, &no_size, &overfull };

    wrong_magic.magic = 0;
    no_size.packet_bytes = HEAD_BYTES - 1; /* would never get on */
    overfull.content_bytes = PACKET_BYTES + 1;
    for (size_t i = 0; i < G_N_ELEMENTS(packets); i++) {
        g_autofree char *path = g_build_filename(folder, "core_0", NULL);

        put("core_0", *packets[i], packets[i]->packet_bytes);
        assert_true(facts().damaged);
        g_unlink(path);
    }
}

static void no_description(void **state)
{
    g_autofree char *metadata = g_build_filename(folder, "metadata", NULL);

    put("core_0", good(0), PACKET_BYTES);
    assert_true(g_file_set_contents(metadata, "", 0, NULL));
    assert_true(facts().damaged);
}

static void room_set_aside_is_no_progress(void **state)
{
    g_autofree char *aside = g_build_filename(folder, ".room-to-finish", NULL);

    assert_true(g_file_set_contents(aside, "0123456789", -1, NULL));
    assert_int_equal(record_trace_bytes(folder), strlen("/* CTF 1.8 */"));
}

static void no_folder(void **state)
{
    struct record_trace_facts untouched = { .bytes = 12345 };
    GError *error = NULL;

    assert_false(record_trace_check("/nonexistent", &untouched, &error));
    assert_int_equal(untouched.bytes, 12345);
    g_error_free(error);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whole),        TEST(no_events), TEST(discarded),      TEST(missing_packet),
        TEST(cut_anywhere), TEST(garbled),   TEST(no_description), TEST(room_set_aside_is_no_progress),
        TEST(no_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
