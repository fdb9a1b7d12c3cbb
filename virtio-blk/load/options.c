/* Command line of vblk-load: see options.h. */
#include "options.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Text and numbers as GOption stores them, before they are checked. */
struct raw_options {
    char *socket_path, *rw, *bs, *size, *offset, *segment_size, *cpu, *ack_log;
    int iodepth, queues, queue_size, rwmixread, restarts, passes;
    gint64 number_ios, seed, generation;
    double runtime, hold, timeout, reconnect;
    gboolean poll, json, no_indirect, no_event_idx, no_reply_ack, no_protocol_features, no_drain, packed;
    gboolean write_only, read_only, version;
};

#define RUNTIME_UNSET (-DBL_MAX)

static const struct raw_options defaults = {
    .iodepth = 16,
    .queues = 1,
    .queue_size = 128,
    .rwmixread = 50,
    .seed = 1,
    .passes = 1,
    .runtime = RUNTIME_UNSET,
    .timeout = 30,
};

#define DEFAULT_RUNTIME_SECONDS 10

static GOptionContext *make_context(enum load_command command, struct raw_options *raw)
{
    const GOptionEntry common[] = {
        { "socket-path", 0, 0, G_OPTION_ARG_FILENAME, &raw->socket_path, "The server's socket (required)",
          "PATH" },
        { "json", 0, 0, G_OPTION_ARG_NONE, &raw->json, "Print the result as JSON", NULL },
        { "timeout", 0, 0, G_OPTION_ARG_DOUBLE, &raw->timeout,
          "Give up when nothing completes for so long (default 30)", "SECONDS" },
        { "no-reply-ack", 0, 0, G_OPTION_ARG_NONE, &raw->no_reply_ack, "Do not ask for acknowledged messages",
          NULL },
        { "no-protocol-features", 0, 0, G_OPTION_ARG_NONE, &raw->no_protocol_features,
          "Behave like a front end from before protocol features", NULL },
        { "no-event-idx", 0, 0, G_OPTION_ARG_NONE, &raw->no_event_idx, "Do not negotiate VIRTIO_F_EVENT_IDX",
          NULL },
        { "no-indirect", 0, 0, G_OPTION_ARG_NONE, &raw->no_indirect, "Do not negotiate indirect descriptors",
          NULL },
        { "packed", 0, 0, G_OPTION_ARG_NONE, &raw->packed, "Use packed rings; the server must offer them", NULL },
        { "queue-size", 0, 0, G_OPTION_ARG_INT, &raw->queue_size,
          "Entries of a ring, a power of two unless --packed (default 128)", "N" },
        { "version", 0, 0, G_OPTION_ARG_NONE, &raw->version, "Print the version", NULL },
        { NULL },
    };
    const GOptionEntry requests[] = {
        { "bs", 0, 0, G_OPTION_ARG_STRING, &raw->bs, "Bytes of a request, with K, M, G (default 4K)",
          "SIZE" },
        { "iodepth", 0, 0, G_OPTION_ARG_INT, &raw->iodepth, "Requests in flight in each queue (default 16)",
          "N" },
        { "queues", 0, 0, G_OPTION_ARG_INT, &raw->queues, "Queues, each with its own thread (default 1)",
          "N" },
        { "offset", 0, 0, G_OPTION_ARG_STRING, &raw->offset, "First byte of the disk to use (default 0)",
          "SIZE" },
        { "size", 0, 0, G_OPTION_ARG_STRING, &raw->size, "Bytes of the disk to use (default: up to its end)",
          "SIZE" },
        { "segment-size", 0, 0, G_OPTION_ARG_STRING, &raw->segment_size,
          "Split each request's data into segments of so many bytes (default: one segment)", "SIZE" },
        { "seed", 0, 0, G_OPTION_ARG_INT64, &raw->seed, "Seed of all random choices (default 1)", "N" },
        { "cpu", 0, 0, G_OPTION_ARG_STRING, &raw->cpu,
          "Pin the queues' threads to these CPUs in turn, like 0,2-3", "LIST" },
        { "poll", 0, 0, G_OPTION_ARG_NONE, &raw->poll,
          "Poll for completions instead of sleeping on the call eventfd", NULL },
        { "restarts", 0, 0, G_OPTION_ARG_INT, &raw->restarts,
          "Stop and start all rings so often during the run, or each phase of verify (default 0)", "N" },
        { "no-drain", 0, 0, G_OPTION_ARG_NONE, &raw->no_drain, "Restart with requests in flight", NULL },
        { "reconnect", 0, 0, G_OPTION_ARG_DOUBLE, &raw->reconnect,
          "Wait so long for a server that has gone, and go on with what was in flight (default 0)", "SECONDS" },
        { "hold", 0, 0, G_OPTION_ARG_DOUBLE, &raw->hold,
          "Stay connected with stopped rings for so long at the end (default 0)", "SECONDS" },
        { NULL },
    };
    const GOptionEntry load_only[] = {
        { "rw", 0, 0, G_OPTION_ARG_STRING, &raw->rw,
          "read, write, randread, randwrite or randrw (default randread)", "PATTERN" },
        { "rwmixread", 0, 0, G_OPTION_ARG_INT, &raw->rwmixread, "Percentage of reads in randrw (default 50)",
          "PERCENT" },
        { "runtime", 0, 0, G_OPTION_ARG_DOUBLE, &raw->runtime,
          "Length of the run (default 10, or no limit with --number-ios)", "SECONDS" },
        { "number-ios", 0, 0, G_OPTION_ARG_INT64, &raw->number_ios, "End after so many requests", "N" },
        { NULL },
    };
    const GOptionEntry verify_only[] = {
        { "passes", 0, 0, G_OPTION_ARG_INT, &raw->passes, "Write and check everything so often (default 1)",
          "N" },
        { "write-only", 0, 0, G_OPTION_ARG_NONE, &raw->write_only, "Write and flush, do not check", NULL },
        { "read-only", 0, 0, G_OPTION_ARG_NONE, &raw->read_only, "Check what an earlier --write-only wrote",
          NULL },
        { "ack-log", 0, 0, G_OPTION_ARG_FILENAME, &raw->ack_log,
          "Record each acknowledged write here before it counts; with --read-only, check against it",
          "FILE" },
        { "generation", 0, 0, G_OPTION_ARG_INT64, &raw->generation,
          "Generation that the first pass writes (default 1, or what follows the acknowledgement log)", "N" },
        { NULL },
    };
    /* GOption puts the program's name before the options: the command belongs there too. */
    static const char *const name[] = {
        [LOAD_RUN] = "vblk-load",
        [LOAD_VERIFY] = "vblk-load verify",
        [LOAD_INFO] = "vblk-load info",
    };
    static const char *const summary[] = {
        [LOAD_RUN] = "Load and measure any vhost-user-blk server.\n\n"
                     "Commands:\n"
                     "  (none)   load the server and report rates and latencies\n"
                     "  verify   stamp every block, read all back in another order, check each sector\n"
                     "  info     show what the server offers\n\n"
                     "'vblk-load COMMAND --help' shows a command's options.\n"
                     "Loading with a write pattern and verify overwrite the disk.",
        [LOAD_VERIFY] =
            "Stamp every block, read all back in another order, check each sector. Overwrites the disk.",
        [LOAD_INFO] = "Show features, queues and configuration of a server.",
    };
    GOptionContext *context = g_option_context_new(NULL);
    g_set_prgname(name[command]);
    g_option_context_set_summary(context, summary[command]);
    g_option_context_set_description(context, "Exit status: 0 done, 1 failed, 2 usage.");
    g_option_context_add_main_entries(context, common, NULL);
    if (command != LOAD_INFO)
        g_option_context_add_main_entries(context, requests, NULL);
    if (command == LOAD_RUN)
        g_option_context_add_main_entries(context, load_only, NULL);
    if (command == LOAD_VERIFY)
        g_option_context_add_main_entries(context, verify_only, NULL);
    return context;
}

char *options_help(enum load_command command)
{
    struct raw_options raw = defaults;
    GOptionContext *context = make_context(command, &raw);
    char *text = g_option_context_get_help(context, TRUE, NULL);
    g_option_context_free(context);
    return text;
}

gboolean options_parse_size(const char *text, uint64_t *bytes_out)
{
    char *end;
    if (!g_ascii_isdigit(text[0]))
        return FALSE;
    errno = 0;
    guint64 value = g_ascii_strtoull(text, &end, 10);
    if (errno)
        return FALSE;
    unsigned shift = 0;
    switch (*end) {
    case 'K':
    case 'k':
        shift = 10;
        end++;
        break;
    case 'M':
    case 'm':
        shift = 20;
        end++;
        break;
    case 'G':
    case 'g':
        shift = 30;
        end++;
        break;
    default:
        break;
    }
    if (*end != '\0' || value > UINT64_MAX >> shift)
        return FALSE;
    *bytes_out = value << shift;
    return TRUE;
}

gboolean options_parse_cpus(const char *text, GArray *cpus)
{
    enum { CPU_MAX = 1023 }; /* what a cpu_set_t holds */
    for (const char *at = text;; at++) {
        char *end;
        if (!g_ascii_isdigit(*at))
            return FALSE;
        guint64 first = g_ascii_strtoull(at, &end, 10), last = first;
        if (*end == '-') {
            if (!g_ascii_isdigit(end[1]))
                return FALSE;
            last = g_ascii_strtoull(end + 1, &end, 10);
        }
        if (first > last || last > CPU_MAX)
            return FALSE;
        for (unsigned cpu = first; cpu <= last; cpu++)
            g_array_append_val(cpus, cpu);
        if (*end == '\0')
            return TRUE;
        if (*end != ',')
            return FALSE;
        at = end;
    }
}

static char *check_size(const char *option, const char *text, uint64_t step, uint64_t max,
                        uint64_t *bytes_out)
{
    if (!text)
        return NULL;
    if (!options_parse_size(text, bytes_out))
        return g_strdup_printf("--%s=%s: not a size (use digits, with K, M or G behind them)", option, text);
    if (*bytes_out % step != 0 || *bytes_out > max)
        return g_strdup_printf("--%s=%s: not a multiple of %" G_GUINT64_FORMAT " up to %" G_GUINT64_FORMAT,
                               option, text, step, max);
    return NULL;
}

static char *check_pattern(struct load_options *options, const char *name, int rwmixread)
{
    static const struct {
        const char *name;
        bool random;
        int read_percent;
    } patterns[] = {
        { "read", false, 100 },   { "write", false, 0 },  { "randread", true, 100 },
        { "randwrite", true, 0 }, { "randrw", true, -1 },
    };
    if (rwmixread < 0 || rwmixread > 100)
        return g_strdup_printf("--rwmixread=%d: not a percentage (use 0 to 100)", rwmixread);
    for (unsigned i = 0; i < G_N_ELEMENTS(patterns); i++)
        if (strcmp(patterns[i].name, name) == 0) {
            options->random = patterns[i].random;
            options->read_percent = patterns[i].read_percent < 0 ? rwmixread : patterns[i].read_percent;
            options->rw_name = g_strdup(name);
            return NULL;
        }
    return g_strdup_printf("--rw=%s: unknown pattern (use read, write, randread, randwrite or randrw)", name);
}

static char *check_range(const char *option, gint64 value, gint64 min, gint64 max)
{
    if (value >= min && value <= max)
        return NULL;
    return g_strdup_printf("--%s=%" G_GINT64_FORMAT ": out of range (use %" G_GINT64_FORMAT
                           " to %" G_GINT64_FORMAT ")",
                           option, value, min, max);
}

static char *check_seconds(const char *option, double seconds, double min, uint64_t *ns_out)
{
    const double max = 1e9; /* keeps nanoseconds within 64 bits */
    if (!isfinite(seconds) || seconds < min || seconds > max)
        return g_strdup_printf("--%s=%g: out of range (use %g to %g seconds)", option, seconds, min, max);
    *ns_out = (uint64_t)(seconds * 1e9);
    return NULL;
}

/* The first problem, or NULL. */
static char *check(struct load_options *options, const struct raw_options *raw)
{
    const uint64_t mega = 1u << 20;
    char *problem = NULL;
    uint64_t bs = 4096, segment = 0;

    if (!raw->socket_path)
        return g_strdup("--socket-path is missing (name the server's socket)");
    options->socket_path = g_strdup(raw->socket_path);
    if ((problem = check_pattern(options, raw->rw ? raw->rw : "randread", raw->rwmixread)) ||
        (problem = check_size("bs", raw->bs, 512, 64 * mega, &bs)) ||
        (problem = check_size("offset", raw->offset, 512, UINT64_MAX / 2, &options->offset_bytes)) ||
        (problem = check_size("size", raw->size, 512, UINT64_MAX / 2, &options->size_bytes)) ||
        (problem = check_size("segment-size", raw->segment_size, 512, 64 * mega, &segment)) ||
        (problem = check_range("queues", raw->queues, 1, 1024)) ||
        (problem = check_range("queue-size", raw->queue_size, 4, 32768)) ||
        (problem = check_range("iodepth", raw->iodepth, 1, 32768)) ||
        (problem = check_range("number-ios", raw->number_ios, 0, G_MAXINT64)) ||
        (problem = check_range("restarts", raw->restarts, 0, 1000000)) ||
        (problem = check_range("passes", raw->passes, 1, 1000000)) ||
        (problem = check_range("generation", raw->generation, 0, UINT32_MAX - 1000000ll)) ||
        (problem = check_seconds("reconnect", raw->reconnect, 0, &options->reconnect_ns)) ||
        (problem = check_seconds("hold", raw->hold, 0, &options->hold_ns)) ||
        (problem = check_seconds("timeout", raw->timeout, 0.001, &options->timeout_ns)))
        return problem;
    if (bs == 0)
        return g_strdup("--bs=0: a request needs data (use 512 or more)");
    if (!raw->packed && raw->queue_size & (raw->queue_size - 1))
        return g_strdup_printf("--queue-size=%d: not a power of two (use 64, 128, 256, ...)",
                               raw->queue_size);
    if (raw->cpu && !options_parse_cpus(raw->cpu, options->cpus))
        return g_strdup_printf("--cpu=%s: not a list of CPUs (use something like 0,2-3)", raw->cpu);
    if (raw->restarts && options->reconnect_ns)
        return g_strdup("--restarts and --reconnect exclude each other (use one of them)");
    if (raw->write_only && raw->read_only)
        return g_strdup("--write-only and --read-only exclude each other (use one of them, or neither)");
    if (raw->read_only && raw->passes != 1)
        return g_strdup_printf(
            "--passes=%d: a --read-only phase has one pass (name what was written with --generation)",
            raw->passes);
    if (raw->no_protocol_features && options->command != LOAD_INFO && !raw->size)
        return g_strdup(
            "--no-protocol-features needs --size: the disk's size cannot be asked for without them");
    if (raw->runtime != RUNTIME_UNSET) {
        if ((problem = check_seconds("runtime", raw->runtime, 0.001, &options->runtime_ns)))
            return problem;
    } else if (options->command == LOAD_RUN && raw->number_ios == 0) {
        options->runtime_ns = DEFAULT_RUNTIME_SECONDS * 1000000000ull;
    }

    options->block_bytes = bs;
    options->segment_bytes = segment;
    options->queue_count = raw->queues;
    options->queue_size = raw->queue_size;
    options->iodepth = raw->iodepth;
    options->number_ios = raw->number_ios;
    options->seed = raw->seed;
    options->restarts = raw->restarts;
    options->drain = !raw->no_drain;
    options->poll = raw->poll;
    options->json = raw->json;
    options->packed = raw->packed;
    options->indirect = !raw->no_indirect;
    options->event_idx = !raw->no_event_idx;
    options->reply_ack = !raw->no_reply_ack;
    options->protocol_features = !raw->no_protocol_features;
    options->passes = raw->passes;
    options->write_phase = !raw->read_only;
    options->read_phase = !raw->write_only;
    options->ack_log_path = g_strdup(raw->ack_log);
    options->generation = raw->generation;
    return NULL;
}

enum options_outcome options_parse(struct load_options *options, int argc, char **argv, char **error_out)
{
    struct raw_options raw = defaults;
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) arguments = g_new0(char *, argc + 1);
    enum options_outcome outcome = OPTIONS_RUN;
    int count = 0;

    memset(options, 0, sizeof(*options));
    options->cpus = g_array_new(FALSE, FALSE, sizeof(unsigned));
    for (int i = 0; i < argc; i++) {
        if (i == 1 && strcmp(argv[i], "verify") == 0)
            options->command = LOAD_VERIFY;
        else if (i == 1 && strcmp(argv[i], "info") == 0)
            options->command = LOAD_INFO;
        else
            arguments[count++] = g_strdup(argv[i]);
    }

    GOptionContext *context = make_context(options->command, &raw);
    g_option_context_set_help_enabled(context, FALSE);
    gboolean help = FALSE;
    const GOptionEntry help_entry[] = { { "help", 'h', 0, G_OPTION_ARG_NONE, &help, "Show this text", NULL },
                                        { NULL } };
    g_option_context_add_main_entries(context, help_entry, NULL);
    if (!g_option_context_parse_strv(context, &arguments, &error)) {
        *error_out = g_strdup_printf("%s (see --help)", error->message);
        outcome = OPTIONS_USAGE;
    } else if (help) {
        g_autofree char *text = options_help(options->command);
        fputs(text, stdout); /* GLib's ellipsis as it is, whatever the locale */
        outcome = OPTIONS_HELP_SHOWN;
    } else if (raw.version) {
        printf("vblk-load %s\n", VBLK_VERSION);
        outcome = OPTIONS_HELP_SHOWN;
    } else if (arguments[0] && arguments[1]) {
        *error_out = g_strdup_printf("%s: unknown command (use verify, info or options only)", arguments[1]);
        outcome = OPTIONS_USAGE;
    } else if ((*error_out = check(options, &raw))) {
        outcome = OPTIONS_USAGE;
    }
    g_option_context_free(context);
    char *texts[] = { raw.socket_path, raw.rw,           raw.bs,  raw.size,
                      raw.offset,      raw.segment_size, raw.cpu, raw.ack_log };
    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++)
        g_free(texts[i]);
    return outcome;
}

void options_clear(struct load_options *options)
{
    g_clear_pointer(&options->cpus, g_array_unref);
    g_clear_pointer(&options->socket_path, g_free);
    g_clear_pointer(&options->rw_name, g_free);
    g_clear_pointer(&options->ack_log_path, g_free);
}

struct fe_options options_front_end(const struct load_options *options)
{
    struct fe_options fe = FE_OPTIONS_DEFAULT;
    fe.socket_path = options->socket_path;
    fe.queue_count = options->queue_count;
    fe.layout = (struct fe_queue_layout){
        .size = options->queue_size,
        .slot_count = options->iodepth,
        .slot_bytes = options->block_bytes,
        .segment_bytes = options->segment_bytes,
        .packed = options->packed,
        .indirect = options->indirect,
        .event_idx = options->event_idx,
    };
    fe.reply_ack = options->reply_ack;
    fe.protocol_features = options->protocol_features;
    if (options->reconnect_ns) /* it costs the server a little, and is of no use otherwise */
        fe.protocol_wanted |= 1ull << WIRE_P_INFLIGHT_SHMFD;
    fe.timeout_ms = MIN(options->timeout_ns / 1000000, G_MAXINT);
    return fe;
}
