/*
 * events-lost: the tracer discarded events. Only the intervals are told: the number of discarded events is unreliable in
 * lttng-tools 2.13.
 */
#include <inttypes.h>

#include "core/check.h"

static void *shared_create(struct analysis *analysis)
{
    return analysis;
}

static const char *stream_text(const struct stream *stream)
{
    return stream->path ? stream->path : "a stream";
}

static void shared_finish(void *shared)
{
    struct analysis *analysis = shared;
    const int64_t end_ns = analysis_end_ns(analysis);
    struct finding *finding = NULL;
    unsigned streams = 0;
    uint64_t intervals = 0;

    for (unsigned i = 0; i < analysis_stream_count(analysis); i++) {
        const struct stream *stream = analysis_stream_at(analysis, i);

        streams += stream->losses->len > 0;
        for (unsigned j = 0; j < stream->losses->len; j++, intervals++) {
            const struct loss *loss = &g_array_index(stream->losses, struct loss, j);

            if (!finding)
                finding = finding_get_global(analysis, "events-lost", "all");
            finding_span(finding, loss->begin_ns,
                         loss->kind == LOSS_CUT ? MAX(loss->begin_ns, end_ns) : loss->end_ns);
            finding_add_count(finding, 1);
            if (loss->kind == LOSS_CUT)
                finding_note(finding, loss->begin_ns, "cut", "%s is cut: nothing after this time",
                             stream_text(stream));
            else
                finding_note(finding, loss->begin_ns, "lost", "%s lost %s for %.6f s", stream_text(stream),
                             loss->kind == LOSS_DISCARDED_EVENTS ? "events" : "whole packets",
                             (double)(loss->end_ns - loss->begin_ns) / 1e9);
        }
    }
    if (!finding)
        return;
    finding_subject(finding, "streams", json_integer(streams));
    finding_summary(finding, "the recording is incomplete: %" PRIu64 " intervals in %u streams lack events",
                    intervals, streams);
    finding_advice(
        finding,
        "Verdicts that could hang on what is missing say \"cannot tell\". Record again with fewer sets or a "
        "larger --buffer-size (vblkscope record); with lttng itself, with larger or more sub-buffers "
        "(lttng enable-channel --subbuf-size, --num-subbuf).");
}

const struct check_class check_events_lost = {
    .ids = { "events-lost" },
    .needs_nothing = true,
    .shared_create = shared_create,
    .shared_finish = shared_finish,
};
