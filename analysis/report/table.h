/**
 * A table as text: cells of any width under their titles, figures to the right.
 *
 *     struct text_table *table = text_table_create((const char *const[]){ "lock", "waits", NULL });
 *     text_table_add(table, g_strdup("requests"), false);
 *     text_table_add(table, g_strdup("12"), true);
 *     text_table_write(table, out, "  ");
 *     text_table_destroy(table);
 *
 * Cells are added row by row. A column stands to the right if any of its cells does. Thread: one at a time.
 */
#ifndef ANALYSIS_REPORT_TABLE_H
#define ANALYSIS_REPORT_TABLE_H

#include <glib.h>
#include <stdbool.h>

struct text_table;

/** @titles: NULL ends; they must outlive the table. */
struct text_table *text_table_create(const char *const *titles);
void text_table_destroy(struct text_table *table);

/** The next cell; @text is taken (g_free()). */
void text_table_add(struct text_table *table, char *text, bool right);

/** Titles and rows, each line begun with @indent and ended without spaces. */
void text_table_write(const struct text_table *table, GString *out, const char *indent);

#endif
