#include "model/latency.h"

#include "histogram/histogram.h"
#include "model/request.h"

enum { QUEUED, SERIALISING, BACKEND, COMPLETING, TOTAL, STAGES };

struct latency {
    struct histogram *stages[STAGES];
};

struct latency *latency_create(void)
{
    struct latency *latency = g_new0(struct latency, 1);

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
    g_free(latency);
}

void latency_event(struct latency *latency, const struct occurrence *what)
{
    const struct request *request = what->request;
    struct request_times times;

    if (what->event->id != EVENT_vblk_request_end || !request || !request->begin_seen)
        return;
    times = request_times(request, what->event->time_ns);
    if (times.queued_ns >= 0)
        histogram_add(latency->stages[QUEUED], times.queued_ns);
    if (times.serialising_ns > 0)
        histogram_add(latency->stages[SERIALISING], times.serialising_ns);
    if (times.backend_ns >= 0)
        histogram_add(latency->stages[BACKEND], times.backend_ns);
    if (times.completing_ns >= 0)
        histogram_add(latency->stages[COMPLETING], times.completing_ns);
    histogram_add(latency->stages[TOTAL], times.total_ns);
}

json_t *latency_json(const struct latency *latency, uint64_t in_flight)
{
    static const char *const names[STAGES] = { "queued", "serialising", "backend", "completing", "total" };
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
                     "in_flight", (json_int_t)in_flight, "stages", stages);
}
