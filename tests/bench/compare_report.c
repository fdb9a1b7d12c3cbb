/* A benchmark's figures as a table, as Markdown and as JSON. */
#include "compare_internal.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#define WIDTH 110
#define QUICK_WARNING "QUICK: only shows that the benchmark works; the figures say nothing."

/* Thousands apart. */
static char *whole(double value)
{
    char *digits = g_strdup_printf("%.0f", fabs(value));
    size_t count = strlen(digits);
    GString *text = g_string_new(value < 0 && strcmp(digits, "0") != 0 ? "-" : "");

    for (size_t i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            g_string_append_c(text, ',');
        g_string_append_c(text, digits[i]);
    }
    g_free(digits);
    return g_string_free(text, FALSE);
}

/* Three digits that count, or all of a whole number. */
static char *number(double value)
{
    double size = fabs(value);

    if (size >= 100 || (value == rint(value) && size < 1e15))
        return whole(value);
    if (size >= 10)
        return g_strdup_printf("%.1f", value);
    if (size >= 1)
        return g_strdup_printf("%.2f", value);
    return g_strdup_printf("%.3g", value);
}

static char *percent(double ratio)
{
    double change = (ratio - 1) * 100;
    char *text, *signed_text;

    if (fabs(change) < 0.05)
        return g_strdup("0.0 %");
    text = fabs(change) >= 100 ? whole(change) : g_strdup_printf("%.1f", change);
    signed_text = g_strdup_printf("%s%s %%", change > 0 ? "+" : "", text);
    g_free(text);
    return signed_text;
}

static char *with_unit(double value, const char *unit)
{
    char *text = number(value), *result = g_strdup_printf(*unit ? "%s %s" : "%s", text, unit);

    g_free(text);
    return result;
}

static char *range(double low, double high, char *(*format)(double))
{
    char *from = format(low), *to = format(high), *text = g_strdup_printf("%s .. %s", from, to);

    g_free(from);
    g_free(to);
    return text;
}

/* ---- cells ---- */

enum { NAME, OLD, NEW, CHANGE, HALF, VERDICT, TARGET, COLUMNS };

static bool has_column(const struct bench_group *group, int column)
{
    switch (column) {
    case OLD:
    case CHANGE:
        return group->form != BENCH_FIGURE;
    case VERDICT:
        return group->form == BENCH_CHANGE;
    case TARGET:
        for (unsigned i = 0; i < group->rows->len; i++)
            if (((struct bench_row *)group->rows->pdata[i])->promise != PROMISE_NONE)
                return true;
        return false;
    default:
        return true;
    }
}

static const char *column_title(const struct bench_group *group, int column)
{
    static const char *const titles[3][COLUMNS] = {
        [BENCH_CHANGE] = { "", "OLD", "NEW", "CHANGE", "middle half", "", "target" },
        [BENCH_TIMES] = { "", "LIMIT", "FIGURE", "TIMES", "middle half", "", "target" },
        [BENCH_FIGURE] = { "", "", "FIGURE", "", "middle half", "", "target" }
    };

    return titles[group->form][column];
}

static char *target_cell(const struct bench_row *row)
{
    bool met, within_noise;
    char *text = bench_promise_text(row, &met, &within_noise), *cell;

    if (!text)
        return NULL;
    cell = g_strdup_printf("%s: %s%s", text, met ? "met" : "missed", within_noise ? ", within the noise" : "");
    g_free(text);
    return cell;
}

static bool in_words(const struct bench_row *row)
{
    return row->unavailable || row->old_side.words || row->new_side.words;
}

static char *side_cell(const struct bench_row *row, const struct bench_side *side)
{
    struct bench_spread spread = bench_side_spread(side);

    if (side->words)
        return g_strdup(side->words);
    return spread.count > 0 ? with_unit(spread.median, row->unit) : NULL;
}

/* NULL: nothing to say. */
static char *cell(const struct bench_row *row, int column)
{
    struct bench_spread figures = bench_side_spread(&row->new_side), ratio = bench_ratio_spread(row);

    if (row->unavailable)
        return column == NAME ? g_strdup(row->name) : column == NEW ? g_strdup(row->unavailable) : NULL;
    switch (column) {
    case NAME:
        return g_strdup(row->name);
    case OLD:
        return side_cell(row, &row->old_side);
    case NEW:
        return side_cell(row, &row->new_side);
    case CHANGE:
        if (in_words(row) || figures.count == 0)
            return NULL;
        if (ratio.count == 0)
            return g_strdup("from 0");
        return row->form == BENCH_TIMES ? number(ratio.median) : percent(ratio.median);
    case HALF:
        if (in_words(row) || figures.count < 2)
            return NULL;
        if (row->form == BENCH_FIGURE)
            return range(figures.low, figures.high, number);
        return ratio.count < 2 ? NULL : range(ratio.low, ratio.high, row->form == BENCH_TIMES ? number : percent);
    case VERDICT:
        return in_words(row) ? NULL : g_strdup(bench_verdict(row));
    default:
        return target_cell(row);
    }
}

/* ---- the table ---- */

static void print_wrapped(FILE *file, const char *indent, const char *text)
{
    char **words = g_strsplit_set(text, " \n", -1);
    size_t column = 0;

    for (char **word = words; *word; word++) {
        size_t length = strlen(*word);

        if (length == 0)
            continue;
        if (column > 0 && column + 1 + length > WIDTH) {
            fputc('\n', file);
            column = 0;
        }
        column += fprintf(file, "%s%s", column == 0 ? indent : " ", *word);
    }
    fputc('\n', file);
    g_strfreev(words);
}

static void widen(size_t *width, const char *text)
{
    if (text && strlen(text) > *width)
        *width = strlen(text);
}

static void append_cell(GString *line, int column, size_t width, const char *text)
{
    bool left = column == NAME || column == VERDICT || column == TARGET;

    g_string_append_printf(line, left ? "  %-*s" : "  %*s", (int)width, text ? text : "");
}

static void print_line(FILE *file, GString *line)
{
    fprintf(file, "%s\n", g_strchomp(line->str));
    g_string_truncate(line, 0);
}

static void print_row_in_words(FILE *file, const struct bench_group *group, const struct bench_row *row)
{
    char *target = target_cell(row), *old_text = cell(row, OLD), *new_text = cell(row, NEW);
    size_t width = MAX(strlen(group->old_label), strlen(group->new_label)) + 1;

    fprintf(file, "  %s\n", row->name);
    if (row->unavailable) {
        fprintf(file, "      not available: %s\n", row->unavailable);
    } else {
        if (old_text)
            fprintf(file, "      %*s: %s\n", (int)width, group->old_label, old_text);
        if (new_text)
            fprintf(file, "      %*s: %s\n", (int)width, group->new_label, new_text);
    }
    if (target && !row->unavailable)
        fprintf(file, "      %*s  target: %s\n", (int)width, "", target);
    g_free(target);
    g_free(old_text);
    g_free(new_text);
}

static void print_group(FILE *file, const struct bench_group *group)
{
    size_t widths[COLUMNS] = { 0 };
    GString *text_line = g_string_new("");

    for (int column = 0; column < COLUMNS; column++) {
        widen(&widths[column], column_title(group, column));
        for (unsigned i = 0; i < group->rows->len; i++)
            if (!in_words(group->rows->pdata[i])) {
                char *text = cell(group->rows->pdata[i], column);

                widen(&widths[column], text);
                g_free(text);
            }
    }
    widen(&widths[NAME], group->title);
    widen(&widths[OLD], group->old_label);
    widen(&widths[NEW], group->new_label);

    fputc('\n', file);
    for (int line = 0; line < 2; line++) {
        for (int column = 0; column < COLUMNS; column++) {
            const char *labels[COLUMNS] = { [OLD] = group->old_label, [NEW] = group->new_label };

            if (has_column(group, column))
                append_cell(text_line, column, widths[column],
                            line == 1 ? labels[column] : column == NAME ? group->title : column_title(group, column));
        }
        print_line(file, text_line);
    }
    for (unsigned i = 0; i < group->rows->len; i++) {
        const struct bench_row *row = group->rows->pdata[i];

        if (in_words(row)) {
            print_row_in_words(file, group, row);
            continue;
        }
        for (int column = 0; column < COLUMNS; column++)
            if (has_column(group, column)) {
                char *text = cell(row, column);

                append_cell(text_line, column, widths[column], text);
                g_free(text);
            }
        print_line(file, text_line);
    }
    g_string_free(text_line, TRUE);
    for (unsigned i = 0; i < group->notes->len; i++)
        print_wrapped(file, "    ", group->notes->pdata[i]);
}

void bench_print_table(const struct bench *bench, FILE *file)
{
    print_wrapped(file, "", bench->about);
    if (bench->quick)
        fprintf(file, QUICK_WARNING "\n");
    for (unsigned i = 0; i < bench->groups->len; i++)
        print_group(file, bench->groups->pdata[i]);
}

/* ---- Markdown ---- */

static void print_markdown_cell(FILE *file, const char *text)
{
    fputs(" ", file);
    for (const char *c = text ? text : ""; *c; c++)
        fprintf(file, *c == '|' ? "\\|" : "%c", *c);
    fputs(" |", file);
}

void bench_print_markdown(const struct bench *bench, FILE *file)
{
    fprintf(file, "%s\n", bench->about);
    if (bench->quick)
        fprintf(file, "\n" QUICK_WARNING "\n");
    for (unsigned i = 0; i < bench->groups->len; i++) {
        const struct bench_group *group = bench->groups->pdata[i];

        if (group->detail)
            continue;
        fprintf(file, "\n|");
        for (int column = 0; column < COLUMNS; column++)
            if (has_column(group, column)) {
                const char *label = column == OLD ? group->old_label : column == NEW ? group->new_label : "";
                char *title = g_strdup_printf("%s%s%s", column_title(group, column), *label ? ": " : "", label);

                print_markdown_cell(file, column == NAME ? group->title : title);
                g_free(title);
            }
        fprintf(file, "\n|");
        for (int column = 0; column < COLUMNS; column++)
            if (has_column(group, column))
                fputs(column == NAME || column == VERDICT || column == TARGET ? " --- |" : " ---: |", file);
        fputc('\n', file);
        for (unsigned j = 0; j < group->rows->len; j++) {
            const struct bench_row *row = group->rows->pdata[j];

            fputc('|', file);
            for (int column = 0; column < COLUMNS; column++)
                if (has_column(group, column)) {
                    char *text = cell(row, column);

                    if (row->unavailable && column == NEW) {
                        g_free(text);
                        text = g_strdup_printf("not available: %s", row->unavailable);
                    }
                    print_markdown_cell(file, text);
                    g_free(text);
                }
            fputc('\n', file);
        }
        for (unsigned j = 0; j < group->notes->len; j++)
            fprintf(file, "\n%s\n", (const char *)group->notes->pdata[j]);
    }
}

/* ---- JSON ---- */

static json_t *spread_json(struct bench_spread spread)
{
    if (spread.count == 0)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:i}", "median", spread.median, "low", spread.low, "high", spread.high,
                     "min", spread.min, "max", spread.max, "count", (int)spread.count);
}

static json_t *side_json(const struct bench_side *side)
{
    json_t *object = json_object(), *values = json_array();

    if (side->words)
        json_object_set_new(object, "words", json_string(side->words));
    json_object_set_new(object, "figures", spread_json(bench_side_spread(side)));
    for (unsigned i = 0; i < side->values->len; i++)
        json_array_append_new(values, json_real(g_array_index(side->values, double, i)));
    json_object_set_new(object, "values", values);
    return object;
}

/* A change in percent, as the table has it. */
static struct bench_spread as_percent(struct bench_spread ratio)
{
    double *const figures[] = { &ratio.median, &ratio.low, &ratio.high, &ratio.min, &ratio.max };

    for (unsigned i = 0; i < G_N_ELEMENTS(figures); i++)
        *figures[i] = (*figures[i] - 1) * 100;
    return ratio;
}

static json_t *row_json(const struct bench_row *row)
{
    json_t *object = json_pack("{s:s, s:s, s:s}", "name", row->name, "unit", row->unit, "better",
                               row->better == BENCH_LOWER ? "lower" : "higher");
    const char *verdict = bench_verdict(row);
    bool met, within_noise;
    char *target;

    if (row->unavailable) {
        json_object_set_new(object, "unavailable", json_string(row->unavailable));
        return object;
    }
    if (row->form != BENCH_FIGURE)
        json_object_set_new(object, row->form == BENCH_TIMES ? "limit" : "old", side_json(&row->old_side));
    json_object_set_new(object, row->form == BENCH_CHANGE ? "new" : "figure", side_json(&row->new_side));
    if (row->form == BENCH_CHANGE && !in_words(row))
        json_object_set_new(object, "change_percent", spread_json(as_percent(bench_ratio_spread(row))));
    if (row->form == BENCH_TIMES && !in_words(row))
        json_object_set_new(object, "times", spread_json(bench_ratio_spread(row)));
    if (verdict && !in_words(row))
        json_object_set_new(object, "verdict", json_string(verdict));
    target = bench_promise_text(row, &met, &within_noise);
    if (target)
        json_object_set_new(object, "target", json_pack("{s:s, s:b, s:b}", "text", target, "met", met, "within_noise",
                                                        within_noise));
    g_free(target);
    return object;
}

void bench_print_json(const struct bench *bench, FILE *file)
{
    static const char *const forms[] = { [BENCH_CHANGE] = "change", [BENCH_TIMES] = "times",
                                         [BENCH_FIGURE] = "figure" };
    json_t *groups = json_array(), *document;

    for (unsigned i = 0; i < bench->groups->len; i++) {
        const struct bench_group *group = bench->groups->pdata[i];
        json_t *rows = json_array(), *notes = json_array(), *object;

        for (unsigned j = 0; j < group->rows->len; j++)
            json_array_append_new(rows, row_json(group->rows->pdata[j]));
        for (unsigned j = 0; j < group->notes->len; j++)
            json_array_append_new(notes, json_string(group->notes->pdata[j]));
        object = json_pack("{s:s, s:s}", "title", group->title, "form", forms[group->form]);
        if (*group->old_label)
            json_object_set_new(object, "old", json_string(group->old_label));
        if (*group->new_label)
            json_object_set_new(object, "new", json_string(group->new_label));
        json_object_set_new(object, "rows", rows);
        json_object_set_new(object, "notes", notes);
        json_array_append_new(groups, object);
    }
    document = json_pack("{s:s, s:s, s:s, s:b, s:o, s:o}", "schema", "vblkscope-bench-1", "benchmark", bench->name,
                         "about", bench->about, "quick", bench->quick, "machine", bench_machine(bench), "groups", groups);
    json_dumpf(document, file, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
    fputc('\n', file);
    json_decref(document);
}
