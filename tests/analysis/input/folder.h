/* Temporary folders and tiny traces for tests of the input. */
#ifndef TESTS_ANALYSIS_INPUT_FOLDER_H
#define TESTS_ANALYSIS_INPUT_FOLDER_H

#include <glib.h>

/* A new folder; remove it with folder_remove(). */
char *folder_make(void);
/* Remove a folder and all in it, and free the path. */
void folder_remove(char *folder);

/* Write a file, making the folders above it. */
void folder_write(const char *folder, const char *name, const void *bytes, gsize size_bytes);
/* Read a file; the caller frees it. */
guint8 *folder_read(const char *folder, const char *name, gsize *size_bytes_out);

/* Build a trace from a list of events (builder/build_trace.py) in @folder/@name. */
void folder_build_trace(const char *folder, const char *name, const char *events);

#endif
