/*
 * Goal:   the command line is understood as the manual says, and each mistake is one line that names it, with status 2.
 * Method: a table of mistakes with the words that their line must hold; command lines with one and several disks.
 * If it fails: somebody serves another disk than he meant, or does not learn what is wrong.
 */
#include <glib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "options.h"
#include "rt/loop.h"

#define WORDS_MAX 12

/* Words separated by blanks. Output goes to @text_out (standard output and error in one). */
static int parse(const char *line, struct vblkd_options **options_out, char **text_out)
{
    char **words = g_strsplit(line, " ", -1);
    char *argv[WORDS_MAX] = { (char *)"vblkd" };
    int argc = 1, file = memfd_create("output", MFD_CLOEXEC), out, err, status;
    char text[8192];
    ssize_t bytes;

    for (char **word = words; *word; word++)
        if (**word != '\0') {
            assert_true(argc + 1 < WORDS_MAX);
            argv[argc++] = *word;
        }
    fflush(stdout);
    out = dup(STDOUT_FILENO);
    err = dup(STDERR_FILENO);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    status = vblkd_options_parse(argc, argv, options_out);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    bytes = pread(file, text, sizeof(text) - 1, 0);
    text[bytes < 0 ? 0 : bytes] = '\0';
    *text_out = g_strdup(text);
    close(out);
    close(err);
    close(file);
    g_strfreev(words);
    return status;
}

static struct vblkd_options *good(const char *line)
{
    struct vblkd_options *options = NULL;
    char *text;
    int status = parse(line, &options, &text);

    if (status != -1 || *text != '\0')
        fail_msg("'%s': status %d, '%s'", line, status, text);
    assert_non_null(options);
    g_free(text);
    return options;
}

#define DISK "--socket-path=/s --blk-file=/d "

static void test_mistakes(void **state)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        { "", "no disk" },
        { "--socket-path=/s", "no disk" },
        { "--blk-file=/d", "/d: no socket" },
        { DISK "--fd=3", "both a socket path and a descriptor" },
        { "--socket-path= --blk-file=/d", "--socket-path" },
        { "--socket-path=/s --blk-file=", "--blk-file" },
        { "--socket-path=/0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456"
          "7890123456789 --blk-file=/d", "107 bytes" },
        { DISK "--num-queues=0", "--num-queues=0" },
        { DISK "--num-queues=65", "1 to 64" },
        { DISK "--num-queues=-1", "--num-queues=-1" },
        { DISK "--num-queues=2x", "--num-queues=2x" },
        { DISK "--num-queues=", "--num-queues=" },
        { DISK "--iothreads=0", "--iothreads=0" },
        { DISK "--iothreads=65", "1 to 64" },
        { DISK "--iothreads=one", "--iothreads=one" },
        { DISK "--serial=123456789012345678901", "20 bytes" },
        { DISK "--block-size=1024", "512 or 4096" },
        { DISK "--block-size=5", "512 or 4096" },
        { DISK "--cache=writethrough", "writeback or none" },
        { DISK "--cache=", "writeback or none" },
        { DISK "--socket-mode=888", "octal" },
        { DISK "--socket-mode=07777", "octal" },
        { DISK "--socket-mode=-1", "octal" },
        { DISK "--socket-mode=", "octal" },
        { DISK "--poll-max-ns=-1", "nanoseconds" },
        { DISK "--poll-max-ns=1000000001", "nanoseconds" },
        { DISK "--poll-max-ns=0 --busy-poll", "exclude each other" },
        { DISK "--stack-guard=none", "--stack-guard=none" },
        { DISK "--request-lock=mutex", "--request-lock=mutex: must be sharded, thread or coroutine" },
        { DISK "--request-lock=", "--request-lock=" },
        { DISK "--loop-monitor=poll", "--loop-monitor=poll: must be epoll or io_uring" },
        { DISK "--notify=never", "--notify=never" },
        { DISK "--coroutine-pool=perthread", "--coroutine-pool=perthread" },
        { DISK "--inject=", "--inject: an empty rule" },
        { DISK "--inject=delay-us=1 --inject=error=200", "--inject: error=200 must be 0 to 100" },
        { "--disk=socket-path=/s,blk-file=/d,inject=delay-us=1,,error=x", "--inject: error=x" },
        { DISK "--fault=nonsense", "known are: started-before-attach" },
        { DISK "--fd=x", "--fd=x" },
        { "--fd=-1 --blk-file=/d", "--fd=-1" },
        { "--fd=99999999999 --blk-file=/d", "--fd=99999999999" },
        { DISK "--control-path=", "--control-path: empty" },
        { "--control-path=/c --blk-file=/d", "/d: no socket" },
        { DISK "stray", "stray: unexpected argument" },
        { DISK "--no-such-option", "--no-such-option" },
        { DISK "--num-queues", "--num-queues" },
        { "--disk=", "no disk" },
        { "--disk=blk-file=/d", "no socket" },
        { "--disk=socket-path=/s", "no disk" },
        { "--disk=nonsense", "KEY=VALUE" },
        { "--disk=socket-path=/s,blk-file=/d,stray", "KEY=VALUE" },
        { "--disk=socket-path=/s,,blk-file=/d", "no disk" },
        { "--disk=socket-path=/s,blk-file=/d,iothreads=2", "unknown key 'iothreads'" },
        { "--disk=socket-path=/s,blk-file=/d,read-only=yes", "on or off" },
        { "--disk=socket-path=/s,blk-file=/d,num-queues=0", "num-queues=0" },
        { DISK "--disk=socket-path=/s,blk-file=/e", "/s: the same socket" },
        { "--disk=fd=3,blk-file=/d --disk=fd=3,blk-file=/e", "--fd=3: the same socket" },
    };

    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vblkd_options *options = NULL;
        char *text;
        int status = parse(cases[i].line, &options, &text);
        char *end = strchr(text, '\n');

        if (status != 2 || options || !g_str_has_prefix(text, "vblkd: ") || !end || end[1] != '\0' ||
            !strstr(text, cases[i].words))
            fail_msg("'%s': status %d, '%s'", cases[i].line, status, text);
        g_free(text);
    }
}

static void test_one_disk(void **state)
{
    struct vblkd_options *options = good(DISK);

    (void)state;
    assert_int_equal(options->disk_count, 1);
    assert_int_equal(options->iothread_count, 1);
    assert_int_equal(options->poll_max_ns, 200000);
    assert_int_equal(options->stack_guard, RT_STACK_GUARD_AUTO);
    assert_int_equal(options->loop_policies.monitor, RT_LOOP_MONITOR_EPOLL);
    assert_int_equal(options->loop_policies.notify, RT_NOTIFY_BLOCKING_ONLY);
    assert_int_equal(options->coroutine_pool, RT_POOL_BATCHED);
    assert_int_equal(options->faults, 0);
    assert_string_equal(options->request_lock->name, "sharded");
    assert_true(options->tracing);
    assert_string_equal(options->disks[0].socket_path, "/s");
    assert_string_equal(options->disks[0].blk_file, "/d");
    assert_int_equal(options->disks[0].fd, -1);
    assert_int_equal(options->disks[0].queue_count, 64);
    assert_int_equal(options->disks[0].block_size_bytes, 512);
    assert_int_equal(options->disks[0].socket_mode, -1);
    assert_int_equal(options->disks[0].cache, VBLK_DISK_CACHE_WRITEBACK);
    assert_false(options->disks[0].read_only);
    assert_null(options->disks[0].serial);
    vblkd_options_free(options);

    options = good("--fd=7 --blk-file=null:1G --num-queues=64 --iothreads=64 --serial=12345678901234567890 "
                   "--block-size=4096 --cache=none --socket-mode=0660 --busy-poll -r");
    assert_int_equal(options->disks[0].fd, 7);
    assert_int_equal(options->disks[0].queue_count, 64);
    assert_int_equal(options->iothread_count, 64);
    assert_int_equal(options->disks[0].block_size_bytes, 4096);
    assert_int_equal(options->disks[0].cache, VBLK_DISK_CACHE_NONE);
    assert_int_equal(options->disks[0].socket_mode, 0660);
    assert_int_equal(options->poll_max_ns, RT_WHILE_ATTACHED);
    assert_true(options->disks[0].read_only);
    vblkd_options_free(options);

    options = good(DISK "--stack-guard=auto");
    assert_int_equal(options->stack_guard, RT_STACK_GUARD_AUTO);
    vblkd_options_free(options);

    options = good(DISK "--poll-max-ns=0 --loop-monitor=io_uring --notify=always --stack-guard=mprotect --no-tracing --fault=started-before-attach");
    assert_int_equal(options->poll_max_ns, 0);
    assert_int_equal(options->stack_guard, RT_STACK_GUARD_MPROTECT);
    assert_int_equal(options->loop_policies.monitor, RT_LOOP_MONITOR_IO_URING);
    assert_int_equal(options->loop_policies.notify, RT_NOTIFY_ALWAYS);
    assert_int_equal(options->disks[0].faults, VBLK_FAULT_STARTED_BEFORE_ATTACH);
    assert_false(options->tracing);
    vblkd_options_free(options);

    options = good(DISK "--request-lock=coroutine --disk=socket-path=/s2,blk-file=/e");
    assert_string_equal(options->request_lock->name, "coroutine");
    for (unsigned i = 0; i < 2; i++)
        assert_ptr_equal(options->disks[i].request_lock, options->request_lock); /* one for all disks */
    vblkd_options_free(options);
    for (enum rt_pool_policy policy = RT_POOL_BATCHED; policy <= RT_POOL_NONE; policy++) {
        char *text = g_strdup_printf(DISK "--coroutine-pool=%s", rt_pool_policy_name(policy));

        options = good(text);
        assert_int_equal(options->coroutine_pool, policy);
        vblkd_options_free(options);
        g_free(text);
    }
}

static void test_several_disks(void **state)
{
    struct vblkd_options *options =
        good(DISK "--num-queues=3 --serial=first --name=one --disk=socket-path=/s2,blk-file=/a,,b,read-only=on "
                  "--disk=blk-file=/c,num-queues=5,fd=4,serial=third,name=three,cache=none");

    (void)state;
    assert_int_equal(options->disk_count, 3);
    assert_string_equal(options->disks[0].name, "one");
    /* What all share is taken from the plain options; what names one disk is not. */
    assert_string_equal(options->disks[1].blk_file, "/a,b");
    assert_int_equal(options->disks[1].queue_count, 3);
    assert_null(options->disks[1].serial);
    assert_null(options->disks[1].name);
    assert_true(options->disks[1].read_only);
    assert_false(options->disks[0].read_only);
    assert_int_equal(options->disks[2].queue_count, 5);
    assert_int_equal(options->disks[2].fd, 4);
    assert_null(options->disks[2].socket_path);
    assert_string_equal(options->disks[2].serial, "third");
    assert_int_equal(options->disks[2].cache, VBLK_DISK_CACHE_NONE);
    vblkd_options_free(options);

    /* No plain disk: --disk alone; what is plain goes for all. */
    options = good("--num-queues=2 --disk=socket-path=/a,blk-file=null:1M --disk=socket-path=/b,blk-file=null:1M");
    assert_int_equal(options->disk_count, 2);
    assert_int_equal(options->disks[1].queue_count, 2);
    assert_null(options->disks[1].inject);
    vblkd_options_free(options);

    /* Several rules are one text; a disk that has its own has only those. */
    options = good(DISK "--inject=delay-us=5,op=read --inject=error=1 --disk=socket-path=/a,blk-file=/b "
                   "--disk=socket-path=/c,blk-file=/d,inject=reorder=5,,seed=3;error=2");
    assert_string_equal(options->disks[0].inject, "delay-us=5,op=read;error=1");
    assert_string_equal(options->disks[1].inject, "delay-us=5,op=read;error=1");
    assert_string_equal(options->disks[2].inject, "reorder=5,seed=3;error=2");
    vblkd_options_free(options);
}

static void test_disks_that_come_later(void **state)
{
    struct vblkd_options *options = good("--control-path=/c --num-queues=3 --cache=none -r");

    (void)state;
    assert_int_equal(options->disk_count, 0);
    assert_string_equal(options->control_path, "/c");
    assert_int_equal(options->disk_defaults.queue_count, 3);
    assert_int_equal(options->disk_defaults.cache, VBLK_DISK_CACHE_NONE);
    assert_true(options->disk_defaults.read_only);
    vblkd_options_free(options);

    /* What names one disk is not shared. */
    options = good(DISK "--control-path=/c --name=one --serial=first");
    assert_int_equal(options->disk_count, 1);
    assert_null(options->disk_defaults.name);
    assert_null(options->disk_defaults.serial);
    assert_null(options->disk_defaults.socket_path);
    assert_int_equal(options->disk_defaults.fd, -1);
    vblkd_options_free(options);
}

static void test_what_is_printed(void **state)
{
    static const struct {
        const char *line, *words;
    } cases[] = { { "--version", "vblkd " }, { "--print-capabilities", "\"type\": \"block\"" } };

    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vblkd_options *options = NULL;
        char *text;

        assert_int_equal(parse(cases[i].line, &options, &text), 0);
        assert_null(options);
        assert_non_null(strstr(text, cases[i].words));
        g_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_one_disk),
        cmocka_unit_test(test_several_disks),
        cmocka_unit_test(test_disks_that_come_later),
        cmocka_unit_test(test_what_is_printed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
