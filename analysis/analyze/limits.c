#include "analyze/limits.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum limit_kind { LIMIT_DURATION, LIMIT_COUNT, LIMIT_SHARE };

struct limit {
    const char *name;
    enum limit_kind kind;
    size_t offset;
    const char *text;
};

#define LIMIT(name, kind, member, text)                                                                      \
    {                                                                                                        \
        name, kind, offsetof(struct analysis_options, member), text                                          \
    }

static const struct limit limits[] = {
    LIMIT("stuck-request", LIMIT_DURATION, stuck_request_ns,
          "A request is stuck, or a wake-up lost, after TIME"),
    LIMIT("slow-p999", LIMIT_DURATION, slow_p999_ns,
          "Requests are slow when 1 in 1000 takes longer than TIME"),
    LIMIT("slow-requests-min", LIMIT_COUNT, slow_requests_min, "Judge slowness over at least COUNT requests"),
    LIMIT("loop-hog", LIMIT_DURATION, loop_hog_ns, "A handler hogs its loop after TIME"),
    LIMIT("mapping-warning", LIMIT_SHARE, mapping_warning, "Warn when SHARE of max_map_count is used"),
    LIMIT("mapping-error", LIMIT_SHARE, mapping_error, "An error when SHARE of max_map_count is used"),
    LIMIT("handover-overlap", LIMIT_DURATION, handover_overlap_ns, "A queue may be in two loops for TIME"),
    LIMIT("deferred-interrupt", LIMIT_DURATION, deferred_interrupt_ns,
          "An interrupt may come TIME after completion"),
    LIMIT("unread-dispatches", LIMIT_COUNT, unread_dispatches,
          "A descriptor is unread after COUNT vain dispatches"),
    LIMIT("false-progress", LIMIT_COUNT, false_progress_polls,
          "Progress is false after COUNT polls without work"),
    LIMIT("deaf-queue", LIMIT_DURATION, deaf_queue_ns, "A queue is deaf when requests wait for TIME"),
    LIMIT("late-wakeup", LIMIT_DURATION, late_wakeup_ns, "A wake-up is late after TIME"),
    LIMIT("needless-writes", LIMIT_SHARE, needless_writes_share,
          "Event writes while polling: SHARE of notifies"),
    LIMIT("needless-writes-min", LIMIT_COUNT, needless_writes_min,
          "Event writes while polling: at least COUNT"),
    LIMIT("sustained", LIMIT_COUNT, sustained_seconds, "Sustained is COUNT seconds in a row"),
    LIMIT("contention", LIMIT_SHARE, contention_share,
          "A lock is contended when waits take SHARE of busy time"),
    LIMIT("contention-min", LIMIT_COUNT, contention_waits_min, "A lock is contended after COUNT waits"),
    LIMIT("thrash", LIMIT_SHARE, thrash_share, "A pool thrashes when SHARE of takes miss"),
    LIMIT("thrash-min", LIMIT_COUNT, thrash_takes_min, "A pool thrashes after COUNT takes"),
};

static const struct {
    const char *suffix;
    double ns;
} units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "min", 60e9 } };

static char *parse_duration(const char *text, int64_t *ns_out)
{
    char *end;
    double value = g_ascii_strtod(text, &end);

    for (unsigned i = 0; i < G_N_ELEMENTS(units); i++) {
        double ns = value * units[i].ns;

        if (end != text && strcmp(end, units[i].suffix) == 0 && ns >= 0 && ns < 9e18) {
            *ns_out = llround(ns);
            return NULL;
        }
    }
    return g_strdup_printf("'%s' is not a duration (write 10s, 100ms, 20us or 5ns)", text);
}

static char *parse_share(const char *text, double *share_out)
{
    char *end;
    double value = g_ascii_strtod(text, &end);

    if (end == text || strcmp(end, "%") != 0 || !(value >= 0 && value <= 100))
        return g_strdup_printf("'%s' is not a share (write 5%%)", text);
    *share_out = value / 100;
    return NULL;
}

static char *parse_count(const char *text, uint64_t *count_out)
{
    guint64 value;

    if (!g_ascii_string_to_unsigned(text, 10, 1, G_MAXUINT64, &value, NULL))
        return g_strdup_printf("'%s' is not a count of at least 1 (write 1000)", text);
    *count_out = value;
    return NULL;
}

static char *set(struct analysis_options *options, const struct limit *limit, const char *text)
{
    void *member = (char *)options + limit->offset;

    switch (limit->kind) {
    case LIMIT_DURATION:
        return parse_duration(text, member);
    case LIMIT_COUNT:
        return parse_count(text, member);
    case LIMIT_SHARE:
        return parse_share(text, member);
    }
    return NULL;
}

static char *format(const struct analysis_options *options, const struct limit *limit)
{
    const void *member = (const char *)options + limit->offset;
    double ns;

    switch (limit->kind) {
    case LIMIT_COUNT:
        return g_strdup_printf("%" PRIu64, *(const uint64_t *)member);
    case LIMIT_SHARE:
        return g_strdup_printf("%g%%", *(const double *)member * 100);
    case LIMIT_DURATION:
        break;
    }
    ns = *(const int64_t *)member;
    for (int i = 3; i > 0; i--)
        if (ns >= units[i].ns)
            return g_strdup_printf("%g%s", ns / units[i].ns, units[i].suffix);
    return g_strdup_printf("%gns", ns);
}

char *limits_set(struct analysis_options *options, const char *name, const char *text)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(limits); i++)
        if (strcmp(limits[i].name, name) == 0)
            return set(options, &limits[i], text);
    return g_strdup_printf("there is no limit '%s'", name);
}

const char *limits_name(unsigned index)
{
    return index < G_N_ELEMENTS(limits) ? limits[index].name : NULL;
}

const char *limits_meaning(unsigned index)
{
    return index < G_N_ELEMENTS(limits) ? limits[index].text : NULL;
}

char *limits_text(const struct analysis_options *options, const char *name)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(limits); i++)
        if (strcmp(limits[i].name, name) == 0)
            return format(options, &limits[i]);
    return NULL;
}

static gboolean on_option(const char *option, const char *value, gpointer data, GError **error)
{
    char *why = limits_set(data, option + 2, value);

    if (!why)
        return TRUE;
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s: %s", option, why);
    g_free(why);
    return FALSE;
}

void limits_add_options(GOptionGroup *group)
{
    static const char *const argument_names[] = { "TIME", "COUNT", "SHARE" };
    struct analysis_options defaults;

    analysis_options_init(&defaults);
    for (unsigned i = 0; i < G_N_ELEMENTS(limits); i++) {
        char *value = format(&defaults, &limits[i]);
        /* GOptionEntry keeps pointers only: the text lives as long as the program */
        char *text = g_strdup_printf("%s (default: %s)", limits[i].text, value);
        GOptionEntry entries[] = { { limits[i].name, 0, 0, G_OPTION_ARG_CALLBACK, on_option,
                                     g_intern_string(text), argument_names[limits[i].kind] },
                                   { NULL } };

        g_option_group_add_entries(group, entries);
        g_free(text);
        g_free(value);
    }
}
