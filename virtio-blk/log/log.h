/**
 * The device's log: one line on stderr for each thing that an operator should know.
 *
 *     struct vblk_log log;
 *     vblk_log_init(&log, "disk0");
 *     vblk_log(&log, VBLK_LOG_WARNING, "queue 3 stopped: %s", reason);       // vblkd: disk0: queue 3
 * stopped: ... vblk_log(NULL, VBLK_LOG_INFO, "ready");                                // vblkd: ready
 *
 * A guest or a front end can cause lines at will, so each object may write only so many: a burst of
 * VBLK_LOG_BURST, then VBLK_LOG_PER_SECOND. What was held back is counted and told with the next line.
 */
#ifndef VBLK_LOG_H
#define VBLK_LOG_H

#include <stdint.h>

#define VBLK_LOG_BURST 20
#define VBLK_LOG_PER_SECOND 2

/** Values are syslog's, which is what the journal reads. */
enum vblk_log_level { VBLK_LOG_ERROR = 3, VBLK_LOG_WARNING = 4, VBLK_LOG_INFO = 6 };

/** One object that speaks: a device. Fields are log.c's, under its lock. */
struct vblk_log {
    const char *name; /**< outlives the log */
    int64_t credit_ns, refilled_ns;
    uint64_t held_back;
};

void vblk_log_init(struct vblk_log *log, const char *name);

/**
 * Write one line: program, object, text. @log NULL: the program itself speaks; such lines are never held
 * back.
 *
 * The line is written at once and whole (one write); control characters in it become '?'. When stderr is the
 * journal's, the level goes before it as "<4>".
 * Thread:    any; may block on stderr, so not from a data path.
 */
void vblk_log(struct vblk_log *log, enum vblk_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
