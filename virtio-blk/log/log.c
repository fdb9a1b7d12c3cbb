#include "log/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES_MAX 1024
#define SECOND_NS INT64_C(1000000000)
#define LINE_COST_NS (SECOND_NS / VBLK_LOG_PER_SECOND)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

void vblk_log_init(struct vblk_log *log, const char *name)
{
    *log = (struct vblk_log){ .name = name,
                              .credit_ns = VBLK_LOG_BURST * LINE_COST_NS,
                              .refilled_ns = now_ns() };
}

/* A bucket of time: each line costs its share of a second, and it fills up as time passes. */
static bool may_speak_locked(struct vblk_log *log)
{
    int64_t now = now_ns();
    log->credit_ns += now - log->refilled_ns;
    log->refilled_ns = now;
    if (log->credit_ns > VBLK_LOG_BURST * LINE_COST_NS)
        log->credit_ns = VBLK_LOG_BURST * LINE_COST_NS;
    if (log->credit_ns < LINE_COST_NS) {
        log->held_back++;
        return false;
    }
    log->credit_ns -= LINE_COST_NS;
    return true;
}

/* systemd says in JOURNAL_STREAM which device and inode its stream has; stderr may have been redirected
 * since. */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    uintmax_t device, inode;
    struct stat status;
    return stream && sscanf(stream, "%ju:%ju", &device, &inode) == 2 && fstat(STDERR_FILENO, &status) == 0 &&
           device == status.st_dev && inode == status.st_ino;
}

/* snprintf at the end of what is there, cut at the buffer's end. */
__attribute__((format(printf, 3, 0))) static void append(char *line, size_t *length, const char *format,
                                                         va_list arguments)
{
    int added = vsnprintf(line + *length, LINE_BYTES_MAX - *length, format, arguments);
    if (added > 0)
        *length += (size_t)added < LINE_BYTES_MAX - *length ? (size_t)added : LINE_BYTES_MAX - *length - 1;
}

__attribute__((format(printf, 3, 4))) static void appendf(char *line, size_t *length, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(line, length, format, arguments);
    va_end(arguments);
}

void vblk_log(struct vblk_log *log, enum vblk_log_level level, const char *format, ...)
{
    char line[LINE_BYTES_MAX + 1];
    size_t length = 0;
    int saved_errno = errno;

    pthread_mutex_lock(&lock);
    if (!log || may_speak_locked(log)) {
        if (stderr_is_journal())
            appendf(line, &length, "<%d>", (int)level);
        appendf(line, &length, "%s: ", program_invocation_short_name);
        if (log)
            appendf(line, &length, "%s: ", log->name);
        va_list arguments;
        va_start(arguments, format);
        append(line, &length, format, arguments);
        va_end(arguments);
        if (log && log->held_back) {
            appendf(line, &length, " (%" PRIu64 " more lines were held back)", log->held_back);
            log->held_back = 0;
        }
        /* A name or a reason may hold what a guest chose: one line stays one line. */
        for (size_t i = 0; i < length; i++)
            if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
                line[i] = '?';
        line[length++] = '\n';
        /* Nobody is left to tell when stderr itself fails. */
        if (write(STDERR_FILENO, line, length) < 0) {
        }
    }
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
}
