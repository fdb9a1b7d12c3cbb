/*
 * Goal:   metadata that babeltrace2 would loop on, or cannot read, is refused with the reason; the layout of packets is
 *         understood where it is LTTng's, and left alone where it is not.
 * Method: metadata of a built trace as text and in packets, cut at every byte, with damaged headers; other layouts.
 * Breaks: the program would hang on a cut file, or cut streams at wrong places.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "input/folder.h"
#include "input/metadata.h"

#define PACKET_BYTES 4096
#define EVENTS "!trace uuid=00112233-4455-6677-8899-aabbccddeeff\n!declare core rt_loop:wait_begin\n"

static struct metadata parse_text(const char *text)
{
    struct metadata metadata;

    assert_null(metadata_parse(&metadata, (const uint8_t *)text, strlen(text)));
    return metadata;
}

static void assert_refused(const uint8_t *bytes, size_t size_bytes, const char *reason)
{
    struct metadata metadata;
    char *why = metadata_parse(&metadata, bytes, size_bytes);

    assert_non_null(why);
    if (!strstr(why, reason))
        fail_msg("'%s' does not say '%s'", why, reason);
    g_free(why);
}

static guint8 *build(const char *events, gsize *size_bytes_out)
{
    char *folder = folder_make();
    guint8 *bytes;

    folder_build_trace(folder, "t", events);
    bytes = folder_read(folder, "t/metadata", size_bytes_out);
    folder_remove(folder);
    return bytes;
}

static void check_known(const guint8 *bytes, gsize size_bytes)
{
    struct metadata metadata;

    assert_null(metadata_parse(&metadata, bytes, size_bytes));
    assert_true(metadata.has_uuid);
    assert_int_equal(metadata.uuid[0], 0x00);
    assert_int_equal(metadata.uuid[1], 0x11);
    assert_int_equal(metadata.uuid[15], 0xff);
    assert_true(metadata.declared[EVENT_rt_loop_wait_begin]);
    assert_true(metadata.declared[EVENT_rt_loop_create]);
    assert_false(metadata.declared[EVENT_rt_loop_wait_end]);
    assert_true(metadata.layout.known);
    assert_false(metadata.layout.big_endian);
    assert_int_equal(metadata.layout.header_bytes, 84);
    assert_int_equal(metadata.layout.fields[PACKET_UUID].offset_bytes, 4);
    assert_int_equal(metadata.layout.fields[PACKET_STREAM_ID].offset_bytes, 20);
    assert_int_equal(metadata.layout.fields[PACKET_TIMESTAMP_BEGIN].offset_bytes, 32);
    assert_int_equal(metadata.layout.fields[PACKET_CONTENT_SIZE].offset_bytes, 48);
    assert_int_equal(metadata.layout.fields[PACKET_PACKET_SIZE].offset_bytes, 56);
    assert_int_equal(metadata.layout.fields[PACKET_CPU_ID].offset_bytes, 80);
    assert_int_equal(metadata.layout.fields[PACKET_CPU_ID].size_bytes, 4);
}

static void test_reads_text_and_packets(void **state)
{
    gsize size_bytes;
    guint8 *bytes = build(EVENTS, &size_bytes);

    check_known(bytes, size_bytes);
    g_free(bytes);
    bytes = build(EVENTS "!packetised\n", &size_bytes);
    assert_true(size_bytes > 2 * PACKET_BYTES);
    check_known(bytes, size_bytes);
    g_free(bytes);
}

static void test_refuses_packets_cut_anywhere(void **state)
{
    gsize size_bytes;
    guint8 *bytes = build(EVENTS "!packetised\n", &size_bytes);

    assert_refused(bytes, 0, "empty");
    for (size_t cut = 4; cut < 3 * PACKET_BYTES; cut++)
        if (cut % PACKET_BYTES)
            assert_refused(bytes, cut, "cut short inside a packet");
    g_free(bytes);
}

static void test_refuses_damaged_packet_headers(void **state)
{
    static const struct {
        size_t offset;
        uint8_t value;
        const char *reason;
    } damages[] = {
        { PACKET_BYTES, 0, "damaged packet header" },         /* magic */
        { PACKET_BYTES + 24, 0, "damaged packet header" },    /* content shorter than the header */
        { PACKET_BYTES + 27, 0xFF, "damaged packet header" }, /* content longer than the packet */
        { PACKET_BYTES + 31, 0xFF, "cut short" },             /* packet longer than the file */
        { PACKET_BYTES + 32, 1, "compressed" },
    };
    gsize size_bytes;
    guint8 *bytes = build(EVENTS "!packetised\n", &size_bytes);

    for (unsigned i = 0; i < G_N_ELEMENTS(damages); i++) {
        guint8 *copy = g_memdup2(bytes, size_bytes);

        copy[damages[i].offset] = damages[i].value;
        if (damages[i].offset == PACKET_BYTES + 24)
            memset(copy + damages[i].offset, 0, 4);
        assert_refused(copy, size_bytes, damages[i].reason);
        g_free(copy);
    }
    g_free(bytes);
}

static void test_refuses_text_without_a_trace(void **state)
{
    assert_refused((const uint8_t *)"/", 1, "describes no trace");
    assert_refused((const uint8_t *)"/* CTF 1.8 */ env { };", 21, "describes no trace");
}

static void test_refuses_ctf2(void **state)
{
    assert_refused((const uint8_t *)"\x1e{\"type\":\"preamble\"}", 20, "CTF 2");
}

static void test_leaves_other_layouts_alone(void **state)
{
    static const char types[] = "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
                                "typealias integer { size = 5; align = 1; signed = false; } := uint5_t;\n";
    static const char *const texts[] = {
        "trace { major = 1; minor = 8; byte_order = le; };",
        "trace { byte_order = le; packet.header := struct { uint32_t magic; }; };\n"
        "stream { packet.context := struct { uint32_t packet_size; uint32_t content_size; }; };",
        "trace { byte_order = le; packet.header := struct { uint5_t magic; }; };",
        "trace { byte_order = le; packet.header := struct { unknown_t magic; }; };",
        "not a trace at all {{{{ \" ;;; }",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
        char *text = g_strconcat("/* CTF 1.8 */\n", types, texts[i], NULL);

        assert_false(parse_text(text).layout.known);
        g_free(text);
    }
}

static void test_honours_alignment_and_byte_order(void **state)
{
    const struct metadata metadata = parse_text(
        "/* CTF 1.8 */ typealias integer { size = 32; align = 32; } := uint32_t;\n"
        "typealias integer { size = 8; align = 8; } := uint8_t;\n"
        "typealias integer { size = 64; align = 64; } := u64;\n"
        "trace { byte_order = be; /* } */ packet.header := struct { uint32_t magic; uint8_t uuid[16]; "
        "uint8_t stream_id; }; };\n"
        "struct ctx { u64 timestamp_begin; u64 timestamp_end; uint32_t content_size; u64 packet_size; };\n"
        "stream { id = 0; packet.context := struct ctx; };\nstream { id = 1; packet.context := struct ctx; "
        "};\n");

    assert_true(metadata.layout.known);
    assert_true(metadata.layout.big_endian);
    assert_int_equal(metadata.layout.fields[PACKET_STREAM_ID].offset_bytes, 20);
    assert_int_equal(metadata.layout.fields[PACKET_TIMESTAMP_BEGIN].offset_bytes, 24);
    assert_int_equal(metadata.layout.fields[PACKET_CONTENT_SIZE].offset_bytes, 40);
    assert_int_equal(metadata.layout.fields[PACKET_PACKET_SIZE].offset_bytes, 48);
    assert_int_equal(metadata.layout.fields[PACKET_CPU_ID].size_bytes, 0);
    assert_int_equal(metadata.layout.header_bytes, 56);
}

static void test_refuses_different_contexts(void **state)
{
    assert_false(
        parse_text(
            "/* CTF 1.8 */ typealias integer { size = 32; align = 8; } := u;\n"
            "typealias integer { size = 8; align = 8; } := b;\n"
            "trace { byte_order = le; packet.header := struct { u magic; b uuid[16]; u stream_id; }; };\n"
            "stream { packet.context := struct { u timestamp_begin; u timestamp_end; u content_size; u "
            "packet_size; }; };\n"
            "stream { packet.context := struct { u content_size; u packet_size; }; };\n")
            .layout.known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_text_and_packets),
        cmocka_unit_test(test_refuses_packets_cut_anywhere),
        cmocka_unit_test(test_refuses_damaged_packet_headers),
        cmocka_unit_test(test_refuses_ctf2),
        cmocka_unit_test(test_leaves_other_layouts_alone),
        cmocka_unit_test(test_honours_alignment_and_byte_order),
        cmocka_unit_test(test_refuses_different_contexts),
        cmocka_unit_test(test_refuses_text_without_a_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
