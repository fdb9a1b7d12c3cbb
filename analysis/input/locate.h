/**
 * Finds traces: a path given by a user is a session folder, a trace folder or anything above them.
 *
 *     GPtrArray *folders = locate_create();
 *     char *why = locate_add(folders, "recording");     // several paths, in any order
 *     locate_finish(folders);                           // sorted, each folder once
 *     g_ptr_array_unref(folders);
 */
#ifndef ANALYSIS_INPUT_LOCATE_H
#define ANALYSIS_INPUT_LOCATE_H

#include <glib.h>

/** An array of char *, which owns them. */
GPtrArray *locate_create(void);

/**
 * Append every folder at or below @path that holds a file `metadata`. Symbolic links below @path are not followed.
 *
 * Returns:   NULL, or why no trace was found there: cause and remedy, without the path. The caller frees it.
 */
char *locate_add(GPtrArray *folders, const char *path);

/** Sort, and keep one of the paths that lead to the same folder. */
void locate_finish(GPtrArray *folders);

#endif
