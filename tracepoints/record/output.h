/**
 * The folder that a recording goes to, and the room left on its file system.
 *
 * LTTng writes what it still holds, and the description without which nothing can be read, when a recording stops.
 * On a full disk that fails and the whole trace is worthless. So some room is set aside at the start and given back
 * before the stop, and a recording is to be ended while there is some room left.
 */
#ifndef RECORD_OUTPUT_H
#define RECORD_OUTPUT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct record_output;

/**
 * Make the folder @path (NULL: ./vblkscope-DATE-TIME), or take it if it is there and empty, and set room aside.
 *
 * Units:     held_bytes_max: what LTTng may still hold in its buffers when recording stops.
 * Returns:   NULL with @error set: it cannot be made or written, is not empty, or its file system is full.
 */
struct record_output *record_output_create(const char *path, uint64_t held_bytes_max, GError **error);

/** Its absolute path. */
const char *record_output_path(const struct record_output *output);

/** True when it is time to stop, because the file system is nearly full. */
bool record_output_nearly_full(const struct record_output *output);

/** Give back the room that was set aside. Call it before the recording stops. */
void record_output_release(struct record_output *output);

/** Remove the folder, if it was made here and holds no file: a recording that never began leaves nothing behind. */
void record_output_discard(struct record_output *output);

/** Frees @output, not the folder. NULL is allowed. */
void record_output_destroy(struct record_output *output);

#endif
