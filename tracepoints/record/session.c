#include "session.h"

#include "error.h"
#include "trace_check.h"
#include "watchdog.h"

#include <lttng/lttng.h>
#include <lttng/tracker.h>
#include <stdlib.h>

enum {
    PENDING_RETRY_MS = 10,
    PENDING_PROGRESS_MS = 1000,
};

struct record_session {
    char *name;
    char *output;
    struct lttng_handle *handle;
};

static const struct lttng_domain domain = { .type = LTTNG_DOMAIN_UST, .buf_type = LTTNG_BUFFER_PER_UID };

const char *record_channel_name(enum record_channel channel)
{
    static const char *const names[RECORD_CHANNEL_COUNT] = { "core", "detail" };

    return names[channel];
}

static const char *remedy(int code)
{
    switch (code) {
    case LTTNG_ERR_FATAL: /* the connection broke */
    case LTTNG_ERR_NO_SESSIOND:
    case LTTNG_ERR_NO_USTCONSUMERD:
        return " (restart lttng-sessiond)";
    case LTTNG_ERR_EXIST_SESS:
        return " (name another one with --session)";
    case LTTNG_ERR_NOMEM:
    case LTTNG_ERR_UST_CHAN_FAIL:
        return " (try a smaller --buffer-size)";
    default:
        return "";
    }
}

/* @code is an LTTng error, negative or not; 0 and LTTNG_OK are none. */
static bool check(int code, const char *what, const char *object, GError **error)
{
    code = abs(code);
    if (code == 0 || code == LTTNG_OK)
        return true;
    g_set_error(error, RECORD_ERROR, RECORD_ERROR_FAILED, "%s: cannot %s: %s%s", object, what,
                lttng_strerror(-code), remedy(code));
    return false;
}

static bool answered(int code, const char *what, const char *object, GError **error)
{
    record_watchdog_end();
    return check(code, what, object, error);
}

/* @call asks the session daemon; how long it takes is bounded. */
#define ASK(call, what, object, error) \
    (record_watchdog_begin((what), (object)), answered((call), (what), (object), (error)))

static bool add_channel(struct record_session *session, enum record_channel which,
                        const struct record_buffers *buffers, GError **error)
{
    /* The last one is dear, and for people only: not with events that come by the million. */
    static const enum lttng_event_context_type contexts[] = { LTTNG_EVENT_CONTEXT_VTID,
                                                              LTTNG_EVENT_CONTEXT_VPID,
                                                              LTTNG_EVENT_CONTEXT_PROCNAME };
    const size_t context_count = which == RECORD_CHANNEL_CORE ? G_N_ELEMENTS(contexts) : G_N_ELEMENTS(contexts) - 1;
    struct lttng_domain writable = domain;
    struct lttng_channel *channel = lttng_channel_create(&writable);
    const char *name = record_channel_name(which);
    bool done;

    if (!channel)
        return check(LTTNG_ERR_NOMEM, "make channel", name, error);
    g_strlcpy(channel->name, name, sizeof(channel->name));
    channel->attr.overwrite = 0; /* a full buffer costs the newest events and is counted */
    channel->attr.subbuf_size = buffers->piece_bytes;
    channel->attr.num_subbuf = buffers->piece_count;
    done = ASK(lttng_enable_channel(session->handle, channel), "make its buffers", name, error);
    lttng_channel_destroy(channel);

    for (size_t i = 0; i < context_count && done; i++) {
        struct lttng_event_context context = { .ctx = contexts[i] };

        done = ASK(lttng_add_context(session->handle, &context, NULL, name), "add a context", name, error);
    }
    return done;
}

static bool add_event(struct record_session *session, const struct record_choice *choice, GError **error)
{
    struct lttng_event *event = lttng_event_create();
    bool done;

    if (!event)
        return check(LTTNG_ERR_NOMEM, "enable event", choice->event, error);
    event->type = LTTNG_EVENT_TRACEPOINT;
    event->loglevel_type = LTTNG_EVENT_LOGLEVEL_ALL;
    g_strlcpy(event->name, choice->event, sizeof(event->name));
    done = ASK(lttng_enable_event_with_filter(session->handle, event, record_channel_name(choice->channel),
                                              choice->filter),
               "record this event", choice->event, error);
    lttng_event_destroy(event);
    return done;
}

/* An LTTng error code. */
static int track_only(struct record_session *session, pid_t pid)
{
    struct lttng_process_attr_tracker_handle *tracker = NULL;
    int code = lttng_session_get_tracker_handle(session->name, LTTNG_DOMAIN_UST,
                                                LTTNG_PROCESS_ATTR_VIRTUAL_PROCESS_ID, &tracker);

    if (code == LTTNG_OK &&
        (lttng_process_attr_tracker_handle_set_tracking_policy(tracker, LTTNG_TRACKING_POLICY_INCLUDE_SET) !=
             LTTNG_PROCESS_ATTR_TRACKER_HANDLE_STATUS_OK ||
         lttng_process_attr_virtual_process_id_tracker_handle_add_pid(tracker, pid) !=
             LTTNG_PROCESS_ATTR_TRACKER_HANDLE_STATUS_OK))
        code = LTTNG_ERR_PROCESS_ATTR_TRACKER_INVALID_TRACKING_POLICY;
    lttng_process_attr_tracker_handle_destroy(tracker);
    return code;
}

static bool fill(struct record_session *session, const struct record_session_options *options, GError **error)
{
    struct record_choice choices[RECORD_CHOICES_MAX];
    size_t count = record_select(options->sets, choices);
    bool needed[RECORD_CHANNEL_COUNT] = { false };

    for (size_t i = 0; i < count; i++)
        needed[choices[i].channel] = true;
    for (int channel = 0; channel < RECORD_CHANNEL_COUNT; channel++) {
        if (needed[channel] && !add_channel(session, channel, &options->buffers[channel], error))
            return false;
    }
    /* Before the events: enabling them reaches every process that is not excluded. */
    if (options->pid && !ASK(track_only(session, options->pid), "restrict the recording to --pid",
                             session->name, error))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!add_event(session, &choices[i], error))
            return false;
    }
    return true;
}

struct record_session *record_session_create(const struct record_session_options *options, GError **error)
{
    struct lttng_session_descriptor *descriptor =
        lttng_session_descriptor_local_create(options->name, options->output);
    struct record_session *session;
    struct lttng_domain writable = domain;
    bool created;

    if (!descriptor) {
        check(LTTNG_ERR_INVALID, "create a session of this name", options->name, error);
        return NULL;
    }
    created =
        ASK(lttng_create_session_ext(descriptor), "create a session of this name", options->name, error);
    lttng_session_descriptor_destroy(descriptor);
    if (!created)
        return NULL;

    session = g_new0(struct record_session, 1);
    session->name = g_strdup(options->name);
    session->output = g_strdup(options->output);
    session->handle = lttng_create_handle(options->name, &writable);
    if (!check(session->handle ? LTTNG_OK : LTTNG_ERR_NOMEM, "open the session", options->name, error) ||
        !fill(session, options, error)) {
        record_session_destroy(session, NULL);
        return NULL;
    }
    return session;
}

bool record_session_start(struct record_session *session, GError **error)
{
    return ASK(lttng_start_tracing(session->name), "start recording", session->name, error);
}

/* 1: some data is not written yet; 0: all is; negative: an LTTng error. */
static int data_pending(const struct record_session *session)
{
    int pending;

    record_watchdog_begin("tell whether all events are written", session->name);
    pending = lttng_data_pending(session->name);
    record_watchdog_end();
    return pending;
}

struct stall {
    uint64_t bytes; /* of the trace */
    gint64 look_us, deadline_us;
};

/* Whether the daemons have written nothing for as long as the watchdog waits. A slow disk may take its time. */
static bool is_stalled(const struct record_session *session, struct stall *stall)
{
    gint64 now_us = g_get_monotonic_time();
    uint64_t bytes;

    if (now_us < stall->look_us)
        return false;
    stall->look_us = now_us + PENDING_PROGRESS_MS * 1000;
    bytes = record_trace_bytes(session->output);
    if (bytes != stall->bytes || stall->deadline_us == 0)
        stall->deadline_us = now_us + record_watchdog_limit_s() * G_TIME_SPAN_SECOND;
    stall->bytes = bytes;
    return now_us >= stall->deadline_us;
}

bool record_session_stop(struct record_session *session, bool (*give_up)(void *opaque), void *opaque,
                         GError **error)
{
    struct stall stall = { 0 };
    int pending;

    if (!ASK(lttng_stop_tracing_no_wait(session->name), "stop recording", session->name, error))
        return false;
    while ((pending = data_pending(session)) == 1) {
        if (give_up(opaque)) {
            g_set_error(error, RECORD_ERROR, RECORD_ERROR_FAILED,
                        "%s: interrupted while the last events were written: they may be missing",
                        session->name);
            return false;
        }
        if (is_stalled(session, &stall)) {
            g_set_error(error, RECORD_ERROR, RECORD_ERROR_FAILED,
                        "%s: LTTng says that the last events are not written, but has written nothing for %u s: "
                        "the trace is kept, they may be missing (is lttng-consumerd stopped?)",
                        session->name, record_watchdog_limit_s());
            return false;
        }
        g_usleep(PENDING_RETRY_MS * 1000);
    }
    return check(pending, "wait for the last events", session->name, error);
}

/* An LTTng error code. */
static int destroy_and_wait(const char *name)
{
    struct lttng_destruction_handle *destruction = NULL;
    enum lttng_error_code code = lttng_destroy_session_ext(name, &destruction);

    if (code == LTTNG_OK &&
        (lttng_destruction_handle_wait_for_completion(destruction, -1) !=
             LTTNG_DESTRUCTION_HANDLE_STATUS_COMPLETED ||
         lttng_destruction_handle_get_result(destruction, &code) != LTTNG_DESTRUCTION_HANDLE_STATUS_OK))
        code = LTTNG_ERR_UNK;
    lttng_destruction_handle_destroy(destruction);
    return code;
}

bool record_session_destroy(struct record_session *session, GError **error)
{
    bool ended;

    if (!session)
        return true;
    ended = ASK(destroy_and_wait(session->name), "end the session", session->name, error);
    lttng_destroy_handle(session->handle);
    g_free(session->name);
    g_free(session->output);
    g_free(session);
    return ended;
}
