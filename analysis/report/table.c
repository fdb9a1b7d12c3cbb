#include "report/table.h"

struct text_table {
    const char *const *titles;
    unsigned columns;
    GPtrArray *cells;
    bool *right;      /* by column */
    unsigned *widths; /* by column, in characters */
};

struct text_table *text_table_create(const char *const *titles)
{
    struct text_table *table = g_new0(struct text_table, 1);

    table->titles = titles;
    table->columns = g_strv_length((char **)titles);
    table->cells = g_ptr_array_new_with_free_func(g_free);
    table->right = g_new0(bool, table->columns + 1);
    table->widths = g_new0(unsigned, table->columns + 1);
    for (unsigned i = 0; i < table->columns; i++)
        table->widths[i] = (unsigned)g_utf8_strlen(titles[i], -1);
    return table;
}

void text_table_destroy(struct text_table *table)
{
    if (!table)
        return;
    g_ptr_array_unref(table->cells);
    g_free(table->right);
    g_free(table->widths);
    g_free(table);
}

void text_table_add(struct text_table *table, char *text, bool right)
{
    unsigned column = table->cells->len % table->columns;

    table->widths[column] = MAX(table->widths[column], (unsigned)g_utf8_strlen(text, -1));
    table->right[column] |= right;
    g_ptr_array_add(table->cells, text);
}

static void write_cell(GString *out, const char *text, unsigned width, bool right)
{
    int space = (int)width - (int)g_utf8_strlen(text, -1);

    g_string_append_printf(out, "%*s%s%*s", right ? space : 0, "", text, right ? 0 : space, "");
}

static void write_row(const struct text_table *table, const char *const *cells, GString *out, const char *indent)
{
    g_string_append(out, indent);
    for (unsigned i = 0; i < table->columns; i++) {
        if (i > 0)
            g_string_append(out, "  ");
        write_cell(out, cells[i], table->widths[i], table->right[i]);
    }
    while (out->len > 0 && out->str[out->len - 1] == ' ')
        g_string_truncate(out, out->len - 1);
    g_string_append_c(out, '\n');
}

void text_table_write(const struct text_table *table, GString *out, const char *indent)
{
    write_row(table, table->titles, out, indent);
    for (unsigned i = 0; i + table->columns <= table->cells->len; i += table->columns)
        write_row(table, (const char *const *)&table->cells->pdata[i], out, indent);
}
