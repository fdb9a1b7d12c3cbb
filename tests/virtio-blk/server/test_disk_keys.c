/*
 * Goal:   one table says what a disk's keys are: each sets what it names, and each wrong value is refused by name.
 * Method: every key of the table is given a good and a bad value; texts with commas, blanks and halves.
 * If it fails: the command line and the control socket disagree about what a disk is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "server/disk_keys.h"

/* NULL: any text is fine. */
static const struct {
    const char *key, *good, *bad;
} values[] = {
    { "socket-path", "/s", "" },   { "fd", "3", "-1" },           { "blk-file", "null:1M", "" },
    { "name", "n", NULL },         { "read-only", "on", "yes" },  { "num-queues", "4", "65" },
    { "serial", "s", "123456789012345678901" }, { "block-size", "4096", "1024" }, { "cache", "none", "all" },
    { "socket-mode", "0660", "9" }, { "socket-group", "g", NULL }, { "inject", "delay-us=5", "delay=5" },
    { "on-disk-error", "stop", "ignore" }, { "nbd-reconnect", "0", "-1" }, { "incoming", "on", "perhaps" },
};

static void test_every_key(void **state)
{
    const struct vblk_disk_key *key;

    (void)state;
    for (unsigned i = 0; (key = vblk_disk_key_at(i)); i++) {
        struct vblk_device_options disk = { .fd = -1 };
        bool tried = false;

        for (unsigned j = 0; j < G_N_ELEMENTS(values); j++) {
            char *why;

            if (strcmp(values[j].key, key->name) != 0)
                continue;
            tried = true;
            assert_null(vblk_disk_keys_set(&disk, key->name, values[j].good));
            if (!values[j].bad)
                continue;
            why = vblk_disk_keys_set(&disk, key->name, values[j].bad);
            assert_non_null(why);
            assert_non_null(strstr(why, key->name));
            g_free(why);
        }
        if (!tried)
            fail_msg("%s: no value in this test", key->name);
        assert_true(key->text && *key->text);
    }
}

static void test_texts(void **state)
{
    struct vblk_device_options disk = { .fd = -1 };
    GPtrArray *strings = g_ptr_array_new_with_free_func(g_free);
    char *why;

    (void)state;
    assert_null(vblk_disk_keys_parse(&disk, "blk-file=/a,,b,num-queues=3,read-only=on,socket-path=/s", strings));
    assert_null(vblk_disk_keys_check(&disk));
    assert_string_equal(disk.blk_file, "/a,b");
    assert_string_equal(disk.socket_path, "/s");
    assert_int_equal(disk.queue_count, 3);
    assert_true(disk.read_only);
    why = vblk_disk_keys_parse(&disk, "color=red", strings);
    assert_non_null(strstr(why, "unknown key 'color'; known are: socket-path, fd, "));
    g_free(why);
    disk.fd = 3;
    why = vblk_disk_keys_check(&disk);
    assert_non_null(strstr(why, "both"));
    g_free(why);
    g_ptr_array_unref(strings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
