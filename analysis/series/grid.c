#include "series/grid.h"

#include <glib.h>

#define UNKNOWN INT64_MIN

struct column {
    struct grid *grid;
    enum column_kind kind;
    int64_t *values; /* GRID_STEPS_MAX; NULL: none yet */
};

struct grid {
    int64_t begin_ns, step_ns;
    unsigned steps;
    GPtrArray *columns;
};

static void column_free(void *data)
{
    struct column *column = data;

    g_free(column->values);
    g_free(column);
}

struct grid *grid_create(int64_t begin_ns)
{
    struct grid *grid = g_new0(struct grid, 1);

    grid->begin_ns = begin_ns;
    grid->step_ns = GRID_STEP_NS;
    grid->columns = g_ptr_array_new_with_free_func(column_free);
    return grid;
}

void grid_destroy(struct grid *grid)
{
    if (!grid)
        return;
    g_ptr_array_free(grid->columns, TRUE);
    g_free(grid);
}

int64_t grid_begin_ns(const struct grid *grid)
{
    return grid->begin_ns;
}

int64_t grid_step_ns(const struct grid *grid)
{
    return grid->step_ns;
}

unsigned grid_steps(const struct grid *grid)
{
    return grid->steps;
}

/* Values come from a trace, which may say anything. */
static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN + 1 : INT64_MAX;
    return sum;
}

static int64_t joined(enum column_kind kind, int64_t earlier, int64_t later)
{
    if (earlier == UNKNOWN || later == UNKNOWN)
        return later == UNKNOWN ? earlier : later;
    return kind == COLUMN_GAUGE ? later : plus(earlier, later);
}

static void double_step(struct grid *grid)
{
    for (unsigned i = 0; i < grid->columns->len; i++) {
        struct column *column = g_ptr_array_index(grid->columns, i);
        int64_t *values = column->values;

        if (!values)
            continue;
        for (unsigned step = 0; step < GRID_STEPS_MAX / 2; step++)
            values[step] = joined(column->kind, values[2 * step], values[2 * step + 1]);
        for (unsigned step = GRID_STEPS_MAX / 2; step < GRID_STEPS_MAX; step++)
            values[step] = UNKNOWN;
    }
    grid->step_ns *= 2;
    grid->steps = (grid->steps + 1) / 2;
}

static int64_t since_begin(const struct grid *grid, int64_t time_ns)
{
    const uint64_t offset_ns = (uint64_t)time_ns - (uint64_t)grid->begin_ns;

    return time_ns <= grid->begin_ns ? 0 : (int64_t)MIN(offset_ns, (uint64_t)INT64_MAX);
}

void grid_reach(struct grid *grid, int64_t time_ns)
{
    const int64_t offset_ns = since_begin(grid, time_ns);

    while (offset_ns / grid->step_ns >= GRID_STEPS_MAX)
        double_step(grid);
    grid->steps = MAX(grid->steps, (unsigned)(offset_ns / grid->step_ns) + 1);
}

struct column *grid_column(struct grid *grid, enum column_kind kind)
{
    struct column *column = g_new0(struct column, 1);

    column->grid = grid;
    column->kind = kind;
    g_ptr_array_add(grid->columns, column);
    return column;
}

static void need_values(struct column *column)
{
    if (column->values)
        return;
    column->values = g_new(int64_t, GRID_STEPS_MAX);
    for (unsigned step = 0; step < GRID_STEPS_MAX; step++)
        column->values[step] = UNKNOWN;
}

void column_set(struct column *gauge, int64_t time_ns, int64_t value)
{
    grid_reach(gauge->grid, time_ns);
    need_values(gauge);
    gauge->values[since_begin(gauge->grid, time_ns) / gauge->grid->step_ns] = value;
}

void column_add(struct column *total, int64_t begin_ns, int64_t end_ns, int64_t growth)
{
    const struct grid *grid = total->grid;
    int64_t from, to, given = 0, last;

    growth = CLAMP(growth, 0, INT64_MAX / 4);
    grid_reach(total->grid, end_ns);
    need_values(total);
    from = since_begin(grid, begin_ns);
    to = since_begin(grid, end_ns);
    last = to > from ? (to - 1) / grid->step_ns : to / grid->step_ns;
    for (int64_t step = MIN(from / grid->step_ns, last); step <= last; step++) {
        const double edge = (double)(step + 1) * (double)grid->step_ns;
        /* what is due up to here, not step by step: rounding must not add up */
        const int64_t due =
            step == last ? growth : (int64_t)((double)growth * ((edge - (double)from) / (double)(to - from)));

        total->values[step] = joined(COLUMN_TOTAL, total->values[step], due - given);
        given = due;
    }
}

json_t *column_json(const struct column *column)
{
    json_t *array = json_array();

    for (unsigned step = 0; step < column->grid->steps; step++)
        json_array_append_new(array, column->values && column->values[step] != UNKNOWN
                                         ? json_integer(column->values[step])
                                         : json_null());
    return array;
}

int64_t column_sum(const struct column *total)
{
    int64_t sum = 0;

    for (unsigned step = 0; total->values && step < total->grid->steps; step++)
        if (total->values[step] != UNKNOWN)
            sum = plus(sum, total->values[step]);
    return sum;
}
