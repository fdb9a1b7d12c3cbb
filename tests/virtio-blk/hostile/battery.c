#include "battery.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DISKS 104 /* the last one is the healthy one */
#define CASES_A_DISK 4

extern char **environ;

struct disk {
    char path[96], socket_path[96];
    int fd;
};

struct battery {
    pid_t pid;
    char directory[64], log_path[96];
    struct disk disks[DISKS];
    struct front_end *healthy;
    unsigned fds_at_rest, done, failed;
    off_t log_from;
    int log_fd;
};

/* Ended with us, however that comes about. */
static pid_t child;

static void end_child(void)
{
    if (child > 0)
        kill(child, SIGKILL);
}

static void end_by_signal(int number)
{
    end_child();
    _exit(128 + number);
}

uint8_t attempt_disk_byte(uint64_t offset_bytes)
{
    return (uint8_t)(offset_bytes * 131 + offset_bytes / 512 * 7 + 3);
}

static void must(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "hostile: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

/* ---- the process ---- */

static void make_disk(struct battery *battery, unsigned index)
{
    struct disk *disk = &battery->disks[index];
    g_autofree uint8_t *content = g_malloc(HOSTILE_DISK_BYTES);

    snprintf(disk->path, sizeof(disk->path), "%s/%u.img", battery->directory, index);
    snprintf(disk->socket_path, sizeof(disk->socket_path), "%s/%u.sock", battery->directory, index);
    for (unsigned i = 0; i < HOSTILE_DISK_BYTES; i++)
        content[i] = attempt_disk_byte(i);
    disk->fd = open(disk->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(disk->fd >= 0 && write(disk->fd, content, HOSTILE_DISK_BYTES) == HOSTILE_DISK_BYTES, disk->path);
}

static unsigned count_fds(const struct battery *battery)
{
    char path[64];
    unsigned count = 0;
    DIR *directory;

    snprintf(path, sizeof(path), "/proc/%d/fd", battery->pid);
    directory = opendir(path);
    if (!directory)
        return 0;
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static bool is_alive(const struct battery *battery, int *status_out)
{
    return waitpid(battery->pid, status_out, WNOHANG) == 0;
}

static bool read_ok(struct front_end *fe, unsigned queue_index)
{
    struct attempt attempt = { .fe = fe };

    return attempt_read(&attempt, queue_index) == WORKS;
}

static struct front_end *open_plain(const char *socket_path)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    struct front_end *fe;

    options.socket_path = socket_path;
    options.layout.size = 16;
    options.layout.slot_count = 4;
    options.timeout_ms = HOSTILE_DEADLINE_MS;
    fe = fe_create(&options);
    if (fe_open(fe) == 0)
        return fe;
    fprintf(stderr, "hostile: %s\n", fe_error(fe));
    fe_destroy(fe);
    return NULL;
}

struct battery *battery_create(const char *vblkd)
{
    struct battery *battery = g_new0(struct battery, 1);
    g_autoptr(GPtrArray) arguments = g_ptr_array_new_with_free_func(g_free);
    posix_spawn_file_actions_t actions;
    gint64 deadline_us = g_get_monotonic_time() + HOSTILE_DEADLINE_MS * 1000;

    strcpy(battery->directory, "/tmp/vblk-hostile-XXXXXX");
    must(mkdtemp(battery->directory) != NULL, "a directory");
    snprintf(battery->log_path, sizeof(battery->log_path), "%s/log", battery->directory);
    g_ptr_array_add(arguments, g_strdup(vblkd));
    g_ptr_array_add(arguments, g_strdup("--iothreads=2"));
    for (unsigned i = 0; i < DISKS; i++) {
        make_disk(battery, i);
        g_ptr_array_add(arguments, g_strdup_printf("--disk=socket-path=%s,blk-file=%s,num-queues=%u",
                                                   battery->disks[i].socket_path, battery->disks[i].path,
                                                   i % 8 == 7 ? 64 : HOSTILE_QUEUES));
    }
    g_ptr_array_add(arguments, NULL);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, battery->log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    must(posix_spawn(&battery->pid, vblkd, &actions, NULL, (char **)arguments->pdata, environ) == 0, vblkd);
    posix_spawn_file_actions_destroy(&actions);
    child = battery->pid;
    atexit(end_child);
    signal(SIGTERM, end_by_signal);
    signal(SIGINT, end_by_signal);
    battery->log_fd = open(battery->log_path, O_RDONLY | O_CLOEXEC);
    while (access(battery->disks[DISKS - 1].socket_path, F_OK) != 0) {
        must(is_alive(battery, NULL) && g_get_monotonic_time() < deadline_us, "vblkd does not start");
        g_usleep(1000);
    }
    while (!(battery->healthy = open_plain(battery->disks[DISKS - 1].socket_path)))
        must(g_get_monotonic_time() < deadline_us, "the healthy disk cannot be used");
    must(read_ok(battery->healthy, 0), "the healthy disk cannot be read");
    /* A disk's first start makes things that stay (threads of io_uring, traces): count after one. */
    struct front_end *first = open_plain(battery->disks[0].socket_path);
    must(first && read_ok(first, 0), "the first disk cannot be read");
    unsigned with_it = count_fds(battery);
    fe_destroy(first);
    while ((battery->fds_at_rest = count_fds(battery)) >= with_it) {
        must(g_get_monotonic_time() < deadline_us, "the first disk's descriptors are not closed");
        g_usleep(1000);
    }
    for (unsigned last = 0; last != battery->fds_at_rest;) {
        last = battery->fds_at_rest;
        first = open_plain(battery->disks[0].socket_path); /* served when the one before is drained */
        must(first != NULL, "the first disk, once more");
        fe_destroy(first);
        g_usleep(20000);
        battery->fds_at_rest = count_fds(battery);
    }
    return battery;
}

unsigned battery_destroy(struct battery *battery)
{
    unsigned failed = battery->failed;
    int status = 0;
    DIR *directory;
    struct dirent *entry;

    fe_destroy(battery->healthy);
    kill(battery->pid, SIGTERM);
    if (waitpid(battery->pid, &status, 0) == battery->pid && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        fprintf(stderr, "hostile: vblkd did not end in order: status %#x\n", status);
        failed++;
    }
    child = 0;
    directory = opendir(battery->directory);
    while (directory && (entry = readdir(directory)))
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        closedir(directory);
    rmdir(battery->directory);
    g_free(battery);
    return failed;
}

/* ---- looking ---- */

static char *read_log(struct battery *battery)
{
    off_t end = lseek(battery->log_fd, 0, SEEK_END);
    size_t bytes = end > battery->log_from ? (size_t)(end - battery->log_from) : 0;
    char *text = g_malloc(bytes + 1);
    ssize_t got = pread(battery->log_fd, text, bytes, battery->log_from);

    text[got > 0 ? got : 0] = 0;
    return text;
}

bool battery_log_has(struct battery *battery, const char *text)
{
    g_autofree char *log = read_log(battery);

    return strstr(log, text) != NULL;
}

static bool log_comes_to_have(struct battery *battery, const char *text)
{
    gint64 deadline_us = g_get_monotonic_time() + HOSTILE_DEADLINE_MS * 1000;

    while (!battery_log_has(battery, text)) {
        if (g_get_monotonic_time() > deadline_us || !is_alive(battery, NULL))
            return false;
        g_usleep(1000);
    }
    return true;
}

static const char *check_disks(struct battery *battery, unsigned attacked, const struct hostile_case *hostile)
{
    static uint8_t content[HOSTILE_DISK_BYTES];
    uint64_t first = hostile->legal_sector * 512, last = first + hostile->legal_bytes;
    const unsigned looked_at[] = { attacked, DISKS - 1 };

    for (unsigned i = 0; i < 2; i++) {
        struct disk *disk = &battery->disks[looked_at[i]];

        if (lseek(disk->fd, 0, SEEK_END) != HOSTILE_DISK_BYTES)
            return "the image has another size";
        if (pread(disk->fd, content, HOSTILE_DISK_BYTES, 0) != HOSTILE_DISK_BYTES)
            return "the image cannot be read";
        for (uint64_t at = 0; at < HOSTILE_DISK_BYTES; at++) {
            if (content[at] == attempt_disk_byte(at))
                continue;
            if (looked_at[i] != attacked || at < first || at >= last)
                return "a disk was changed";
            content[at] = attempt_disk_byte(at);
            if (pwrite(disk->fd, &content[at], 1, (off_t)at) != 1)
                return "the image cannot be written";
        }
    }
    return NULL;
}

static const char *check_descriptors(struct battery *battery)
{
    gint64 deadline_us = g_get_monotonic_time() + HOSTILE_DEADLINE_MS * 1000;

    while (count_fds(battery) != battery->fds_at_rest) {
        if (g_get_monotonic_time() > deadline_us)
            return count_fds(battery) > battery->fds_at_rest ? "descriptors are left open" : "descriptors are missing";
        g_usleep(500);
    }
    return NULL;
}

/* Everything else is as it was. NULL, or what is not. */
static const char *check_harm(struct battery *battery, struct attempt *attempt, const struct hostile_case *hostile)
{
    int status;

    if (!is_alive(battery, &status))
        return "the process is gone";
    if (!read_ok(battery->healthy, 0))
        return "the healthy disk does not answer";
    struct front_end *next = open_plain(attempt->socket_path);
    bool works = next && read_ok(next, 0);
    fe_destroy(next);
    if (!works)
        return "the next front end is not served";
    const char *harm = check_descriptors(battery);
    return harm ? harm : check_disks(battery, attempt->disk, hostile);
}

void battery_next_disk(struct battery *battery)
{
    battery->done = (battery->done + CASES_A_DISK - 1) / CASES_A_DISK * CASES_A_DISK;
}

void battery_run(struct battery *battery, const struct hostile_case *hostile)
{
    static const char *const words[] = { "works", "refused", "connection ended", "queue broken", "harmless", "nothing" };
    unsigned index = battery->done / CASES_A_DISK;
    must(index < DISKS - 1, "more cases than disks");
    struct attempt attempt = { .battery = battery,
                               .disk = index,
                               .socket_path = battery->disks[index].socket_path };
    const char *harm = NULL;

    battery->log_from = lseek(battery->log_fd, 0, SEEK_END);
    enum seen seen = hostile->act(&attempt, hostile->argument);
    bool as_expected = hostile->seen == HARMLESS ? seen != STUCK : seen == hostile->seen;
    fe_destroy(attempt.fe);
    if (as_expected && hostile->reason && !log_comes_to_have(battery, hostile->reason))
        harm = "the log does not tell why";
    if (!harm)
        harm = check_harm(battery, &attempt, hostile);
    battery->done++;
    if (as_expected && !harm) {
        printf("ok   %s: %s\n", hostile->name, words[seen]);
        return;
    }
    battery->failed++;
    g_autofree char *log = read_log(battery);
    printf("FAIL %s: seen %s%s%s, expected %s%s%s%s%s\n%s", hostile->name, words[seen], *attempt.detail ? ": " : "",
           attempt.detail, words[hostile->seen], hostile->reason ? ": " : "", hostile->reason ? hostile->reason : "",
           harm ? "; " : "", harm ? harm : "", log);
    fflush(stdout);
    must(is_alive(battery, NULL), "vblkd is gone: no more cases");
}

/* ---- for cases ---- */

struct fe_options attempt_options(const struct attempt *attempt)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;

    options.socket_path = attempt->socket_path;
    options.layout.size = 16;
    options.layout.slot_count = 4;
    options.memory_region_count = 4;
    options.extra_bytes = 3u << 20;
    options.timeout_ms = HOSTILE_DEADLINE_MS;
    return options;
}

static bool note(struct attempt *attempt, int result)
{
    if (result < 0)
        g_strlcpy(attempt->detail, fe_error(attempt->fe), sizeof(attempt->detail));
    return result == 0;
}

bool attempt_prepare(struct attempt *attempt, const struct fe_options *options)
{
    attempt->fe = fe_create(options);
    if (!note(attempt, fe_connect(attempt->fe)) || !note(attempt, fe_negotiate(attempt->fe)) ||
        !note(attempt, fe_map(attempt->fe)))
        return false;
    if (!options->protocol_features)
        return true;
    /* What the front end does not use itself. */
    uint64_t all = fe_info(attempt->fe)->protocol_features_offered;
    return note(attempt, fe_set(attempt->fe, WIRE_SET_PROTOCOL_FEATURES, &all, sizeof(all), NULL, 0));
}

bool attempt_open(struct attempt *attempt, const struct fe_options *options)
{
    return attempt_prepare(attempt, options) && note(attempt, fe_start(attempt->fe));
}

enum seen attempt_ask(struct attempt *attempt)
{
    uint64_t features;
    int result = fe_get(attempt->fe, WIRE_GET_FEATURES, NULL, 0, &features, sizeof(features));

    if (result == -ECONNRESET)
        return ENDED;
    /* An answer to something else, which was asked before. */
    return result == 0 || result == -EPROTO ? WORKS : STUCK;
}

enum seen attempt_message(struct attempt *attempt, uint32_t request, const void *payload, uint32_t size_bytes,
                          const int *fds, unsigned fd_count)
{
    struct fe_message answer;
    uint64_t verdict = 0;
    int result = fe_send(attempt->fe, request, WIRE_NEED_REPLY, payload, size_bytes, fds, fd_count);

    if (result == 0)
        result = fe_recv(attempt->fe, &answer);
    note(attempt, result);
    if (result == -ECONNRESET || result == -EPIPE)
        return ENDED;
    if (result < 0)
        return STUCK;
    for (unsigned i = 0; i < answer.fd_count; i++)
        close(answer.fds[i]);
    /* A question's answer is no verdict; an empty one says no. */
    if (answer.header.size == 0)
        return attempt_ask(attempt) == ENDED ? ENDED : REFUSED;
    if (answer.header.size == sizeof(verdict))
        memcpy(&verdict, answer.payload, sizeof(verdict));
    bool is_question = request == WIRE_GET_FEATURES || request == WIRE_GET_PROTOCOL_FEATURES ||
                       request == WIRE_GET_QUEUE_NUM || request == WIRE_GET_MAX_MEM_SLOTS ||
                       request == WIRE_GET_VRING_BASE || request == WIRE_GET_STATUS;
    if (!verdict || is_question)
        return WORKS;
    return attempt_ask(attempt) == ENDED ? ENDED : REFUSED;
}

static enum seen wait_one(struct attempt *attempt, int call_fd)
{
    struct pollfd fds[] = { { .fd = fe_err_fd(attempt->fe), .events = POLLIN },
                            { .fd = fe_socket(attempt->fe), .events = POLLIN },
                            { .fd = call_fd, .events = POLLIN } };
    uint64_t count;

    if (poll(fds, call_fd < 0 ? 2 : 3, HOSTILE_DEADLINE_MS) <= 0)
        return STUCK;
    if (fds[0].revents)
        return BROKEN;
    if (fds[1].revents && fe_gone(attempt->fe))
        return ENDED;
    if (call_fd >= 0 && fds[2].revents && read(call_fd, &count, sizeof(count)) != sizeof(count))
        return STUCK;
    return WORKS;
}

static bool is_used(const struct fe_queue *queue, uint16_t used_index)
{
    const uint16_t both = 1 << VRING_PACKED_DESC_F_AVAIL | 1 << VRING_PACKED_DESC_F_USED;

    if (!queue->layout.packed) /* after the store of the event index, which the device reads after it has stored this */
        return le16toh(__atomic_load_n(&queue->used->idx, __ATOMIC_SEQ_CST)) == used_index;
    return (__atomic_load_n(&queue->packed_desc[used_index].flags, __ATOMIC_ACQUIRE) & both) == both;
}

/* fe_queue_arm() asks for the entry after those that fe_queue_reap() has taken; cases that fill a split ring themselves have
 * it take none, and an event index that the device has passed interrupts no more. */
static void ask_for_interrupt(struct fe_queue *queue, uint16_t used_index)
{
    if (queue->layout.packed || !queue->layout.event_idx)
        (void)fe_queue_arm(queue);
    else
        __atomic_store_n(queue->used_event, htole16((uint16_t)(used_index - 1)), __ATOMIC_SEQ_CST);
}

enum seen attempt_wait_used(struct attempt *attempt, unsigned queue_index, uint16_t used_index)
{
    struct fe_queue *queue = fe_queue(attempt->fe, queue_index);

    for (;;) {
        ask_for_interrupt(queue, used_index); /* before the look: what comes after it interrupts */
        if (is_used(queue, used_index))
            return WORKS;
        enum seen seen = wait_one(attempt, queue->call_fd);
        if (seen != WORKS)
            return seen;
    }
}

enum seen attempt_wait_end(struct attempt *attempt)
{
    return wait_one(attempt, -1);
}

enum seen attempt_read(struct attempt *attempt, unsigned queue_index)
{
    struct fe_queue *queue = fe_queue(attempt->fe, queue_index);
    uint16_t slot = fe_queue_take(queue), got;
    int count;

    if (slot == FE_NO_SLOT)
        return STUCK;
    fe_queue_prepare(queue, slot, VIRTIO_BLK_T_IN, 8, 4096, FE_FROM_DEVICE);
    fe_queue_submit(queue, slot);
    fe_queue_publish(queue);
    while ((count = fe_queue_reap(queue, &got, 1)) == 0) {
        if (fe_queue_arm(queue))
            continue;
        enum seen seen = wait_one(attempt, queue->call_fd);
        if (seen != WORKS)
            return seen;
    }
    if (count < 0) {
        g_strlcpy(attempt->detail, queue->broken, sizeof(attempt->detail));
        return STUCK;
    }
    bool right = *queue->slots[slot].status == VIRTIO_BLK_S_OK;
    for (unsigned i = 0; right && i < 4096; i++)
        right = queue->slots[slot].data[i] == attempt_disk_byte(4096 + i);
    fe_queue_give(queue, slot);
    if (!right)
        g_strlcpy(attempt->detail, "a plain read failed or brought something else", sizeof(attempt->detail));
    return right ? WORKS : STUCK;
}
