/* How much memory a recording's buffers take. */
#ifndef RECORD_BUFFERS_H
#define RECORD_BUFFERS_H

#include "session.h"

/**
 * What suits this machine: 64 MiB a CPU for the detail channel and 8 MiB for the core channel, less where that
 * would take over a quarter of the free memory or of the free shared memory (containers often have little).
 */
void record_buffers_default(struct record_buffers buffers[RECORD_CHANNEL_COUNT]);

/**
 * Set the detail channel's buffers to @text bytes a CPU (suffixes K, M, G), a power of two.
 *
 * Returns:   false with @error set if @text is no such size; buffers are untouched then.
 */
bool record_buffers_parse(const char *text, struct record_buffers buffers[RECORD_CHANNEL_COUNT],
                          GError **error);

/** All channels on all CPUs, for one user's processes. */
uint64_t record_buffers_total_bytes(const struct record_buffers buffers[RECORD_CHANNEL_COUNT]);

#endif
