#include "series/heat.h"

#include "histogram/log_bucket.h"
#include "model/request.h"

#define SUB_BITS 2

enum { QUEUED, SERIALISING, BACKEND, COMPLETING, TOTAL, STAGES };

struct heat {
    struct grid *grid;
    GPtrArray *buckets[STAGES]; /* struct column, NULL: empty */
};

struct heat *heat_create(struct grid *grid)
{
    struct heat *heat = g_new0(struct heat, 1);

    heat->grid = grid;
    for (unsigned i = 0; i < STAGES; i++)
        heat->buckets[i] = g_ptr_array_new();
    return heat;
}

void heat_destroy(struct heat *heat)
{
    if (!heat)
        return;
    for (unsigned i = 0; i < STAGES; i++)
        g_ptr_array_free(heat->buckets[i], TRUE);
    g_free(heat);
}

static void count(struct heat *heat, unsigned stage, int64_t duration_ns, int64_t time_ns)
{
    GPtrArray *buckets = heat->buckets[stage];
    const unsigned bucket = log_bucket((uint64_t)MAX(duration_ns, 0), SUB_BITS);

    if (bucket >= buckets->len)
        g_ptr_array_set_size(buckets, (int)bucket + 1);
    if (!buckets->pdata[bucket])
        buckets->pdata[bucket] = grid_column(heat->grid, COLUMN_TOTAL);
    column_add(buckets->pdata[bucket], time_ns, time_ns, 1);
}

void heat_event(struct heat *heat, const struct occurrence *what)
{
    const int64_t time_ns = what->event->time_ns;
    struct request_times times;

    if (what->event->id != EVENT_vblk_request_end || !what->request || !what->request->begin_seen)
        return;
    times = request_times(what->request, time_ns);
    if (times.queued_ns >= 0)
        count(heat, QUEUED, times.queued_ns, time_ns);
    if (times.serialising_ns > 0)
        count(heat, SERIALISING, times.serialising_ns, time_ns);
    if (times.backend_ns >= 0)
        count(heat, BACKEND, times.backend_ns, time_ns);
    if (times.completing_ns >= 0)
        count(heat, COMPLETING, times.completing_ns, time_ns);
    count(heat, TOTAL, times.total_ns, time_ns);
}

json_t *heat_json(const struct heat *heat)
{
    static const char *const names[STAGES] = { "queued", "serialising", "backend", "completing", "total" };
    json_t *stages = json_object(), *heats = json_object();

    for (unsigned i = 0; i < STAGES; i++) {
        const GPtrArray *buckets = heat->buckets[i];
        json_t *from, *counts, *rows;
        unsigned bucket = 0;

        if (!buckets->len)
            continue;
        from = json_array();
        counts = json_array();
        rows = json_array();
        while (!buckets->pdata[bucket])
            bucket++;
        for (; bucket < buckets->len; bucket++) {
            const struct column *column = buckets->pdata[bucket];

            json_array_append_new(from, json_integer((json_int_t)log_bucket_from(bucket, SUB_BITS)));
            json_array_append_new(counts, json_integer(column ? column_sum(column) : 0));
            json_array_append_new(rows, column ? column_json(column) : json_null());
        }
        json_array_append_new(from, json_integer((json_int_t)log_bucket_from(bucket, SUB_BITS)));
        json_object_set_new(stages, names[i], json_pack("{s:o, s:o}", "from_ns", from, "counts", counts));
        json_object_set_new(heats, names[i], rows);
    }
    return json_pack("{s:o, s:o}", "stages", stages, "heat", heats);
}
