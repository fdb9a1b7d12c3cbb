/**
 * Builds the temporary copy of a damaged trace: links to what is whole, shortened copies of what is not.
 *
 * Each function returns NULL, or why it failed: object, cause and remedy. The caller frees it.
 */
#ifndef ANALYSIS_INPUT_SALVAGE_H
#define ANALYSIS_INPUT_SALVAGE_H

#include <stdint.h>

/** Link file @name of folder @from, and its LTTng index if it has one, into folder @to. */
char *salvage_link(const char *from, const char *to, const char *name);

/**
 * Copy the first @size_bytes of file @name, followed by zeros where the file is shorter (lost padding). Without its
 * index, which would still describe the whole file. 0 bytes: no file, as babeltrace2 would skip an empty one.
 */
char *salvage_cut(const char *from, const char *to, const char *name, uint64_t size_bytes);

/** Remove a folder and all in it. A failure is left to whoever cleans the temporary folder. */
void salvage_remove_folder(const char *folder);

#endif
