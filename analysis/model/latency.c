#include "model/latency.h"

#include "histogram/histogram.h"

enum stage { QUEUED, BACKEND, COMPLETING, TOTAL, STAGES };

struct request {
    uint64_t id;
    unsigned process;
    int64_t begin_ns, submit_ns, complete_ns; /* 0: not yet */
};

struct latency {
    GHashTable *open; /* struct request, its own key */
    struct histogram *stages[STAGES];
};

static guint request_hash(const void *key)
{
    const struct request *request = key;

    return (guint)(request->id * 31 + request->process);
}

static gboolean request_equal(const void *a, const void *b)
{
    const struct request *x = a, *y = b;

    return x->id == y->id && x->process == y->process;
}

struct latency *latency_create(void)
{
    struct latency *latency = g_new0(struct latency, 1);

    latency->open = g_hash_table_new_full(request_hash, request_equal, NULL, g_free);
    for (unsigned i = 0; i < STAGES; i++)
        latency->stages[i] = histogram_create();
    return latency;
}

void latency_destroy(struct latency *latency)
{
    if (!latency)
        return;
    for (unsigned i = 0; i < STAGES; i++)
        histogram_destroy(latency->stages[i]);
    g_hash_table_destroy(latency->open);
    g_free(latency);
}

static void finished(struct latency *latency, const struct request *request, int64_t end_ns)
{
    if (request->submit_ns)
        histogram_add(latency->stages[QUEUED], request->submit_ns - request->begin_ns);
    if (request->submit_ns && request->complete_ns)
        histogram_add(latency->stages[BACKEND], request->complete_ns - request->submit_ns);
    if (request->complete_ns)
        histogram_add(latency->stages[COMPLETING], end_ns - request->complete_ns);
    histogram_add(latency->stages[TOTAL], end_ns - request->begin_ns);
}

void latency_event(struct latency *latency, const struct occurrence *what)
{
    const struct event *event = what->event;
    /* request_id comes first in every event of vblk_request */
    const struct request key = { .id = event->fields.slots[0].u, .process = what->process->index };
    struct request *request;

    if (event->id == EVENT_vblk_request_begin) {
        request = g_new0(struct request, 1);
        *request = key;
        request->begin_ns = event->time_ns;
        g_hash_table_replace(latency->open, request, request);
        return;
    }
    request = g_hash_table_lookup(latency->open, &key);
    if (!request)
        return;
    switch (event->id) {
    case EVENT_vblk_request_submit:
        request->submit_ns = event->time_ns;
        break;
    case EVENT_vblk_request_complete:
        request->complete_ns = event->time_ns;
        break;
    case EVENT_vblk_request_end:
        finished(latency, request, event->time_ns);
        g_hash_table_remove(latency->open, request);
        break;
    case EVENT_vblk_request_abandoned:
        g_hash_table_remove(latency->open, request);
        break;
    default:
        break;
    }
}

json_t *latency_json(const struct latency *latency)
{
    static const char *const names[STAGES] = { "queued", "backend", "completing", "total" };
    json_t *stages = json_object();

    for (unsigned i = 0; i < STAGES; i++) {
        const struct histogram *h = latency->stages[i];

        if (!histogram_count(h))
            continue;
        json_object_set_new(
            stages, names[i],
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)histogram_count(h),
                      "mean_ns", (json_int_t)(histogram_sum(h) / (int64_t)histogram_count(h)), "p50_ns",
                      (json_int_t)histogram_quantile(h, 0.5), "p90_ns",
                      (json_int_t)histogram_quantile(h, 0.9), "p99_ns",
                      (json_int_t)histogram_quantile(h, 0.99), "p999_ns",
                      (json_int_t)histogram_quantile(h, 0.999), "max_ns", (json_int_t)histogram_max(h)));
    }
    return json_pack("{s:I, s:I, s:o}", "requests", (json_int_t)histogram_count(latency->stages[TOTAL]),
                     "in_flight", (json_int_t)g_hash_table_size(latency->open), "stages", stages);
}
