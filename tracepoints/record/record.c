#include "tracepoints/record.h"

#include "buffers.h"
#include "command.h"
#include "daemon.h"
#include "error.h"
#include "output.h"
#include "session.h"
#include "trace_check.h"
#include "watchdog.h"

#include <errno.h>
#include <glib-unix.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ROOM_CHECK_MS = 100,
    PROGRESS_MS = 1000,
    COMMAND_PATIENCE_S = 10, /* after SIGTERM: then its end is said to be waited for, or made */
    COMMAND_RETRY_MS = 20,
    DURATION_MAX_S = 4000000, /* what a GLib timeout in ms can hold */
};

struct options {
    char *output;
    char *events;
    char *session;
    char *buffer_size;
    int pid;
    double duration_s;
    char **command; /* NULL-terminated; none: NULL */

    unsigned sets;
    struct record_buffers buffers[RECORD_CHANNEL_COUNT];
};

/* Why the recording ends. */
enum end {
    END_NONE,
    END_ASKED,   /* a signal, or --duration is over */
    END_COMMAND, /* the command ended */
    END_PROCESS, /* the process of --pid ended */
    END_DISK_FULL,
};

struct recording {
    const struct options *options;
    struct record_output *output;
    struct record_session *session;
    GMainLoop *loop;
    int signal_fd;
    gint64 started_us;
    double lasted_s;
    enum end end;
    pid_t command; /* 0: none, or it ended */
    int command_status;
    bool command_asked; /* to end */
    bool begun;
    bool on_terminal;
    int exit_status;
};

static void say(const char *format, ...) G_GNUC_PRINTF(1, 2);
static void say(const char *format, ...)
{
    g_autofree char *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s: %s\n", g_get_prgname(), text);
}

/* Options */

static void free_options(struct options *options)
{
    g_free(options->output);
    g_free(options->events);
    g_free(options->session);
    g_free(options->buffer_size);
    g_strfreev(options->command);
}

static bool usage_error(GError **error, const char *text)
{
    g_set_error_literal(error, RECORD_ERROR, RECORD_ERROR_USAGE, text);
    return false;
}

static bool parse_options(int argc, char **argv, struct options *options, GError **error)
{
    const GOptionEntry entries[] = {
        { "output", 'o', 0, G_OPTION_ARG_FILENAME, &options->output,
          "Write the trace to DIR, which is made or empty (default: ./vblkscope-DATE-TIME)", "DIR" },
        { "events", 'e', 0, G_OPTION_ARG_STRING, &options->events,
          "Sets of events: core, loop, lock, request, coroutine, or all; core is always recorded (default: "
          "core)",
          "SET,..." },
        { "pid", 'p', 0, G_OPTION_ARG_INT, &options->pid,
          "Record only this process, until it or COMMAND ends", "PID" },
        { "duration", 'd', 0, G_OPTION_ARG_DOUBLE, &options->duration_s,
          "End the recording after so many seconds; 0: without limit", "SECONDS" },
        { "buffer-size", 'b', 0, G_OPTION_ARG_STRING, &options->buffer_size,
          "Memory per CPU for the sets other than core, a power of two (default: 64M, less if memory is "
          "short)",
          "SIZE" },
        { "session", 0, 0, G_OPTION_ARG_STRING, &options->session,
          "Name of the LTTng session (default: vblkscope-PID)", "NAME" },
        { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_STRING_ARRAY, &options->command, NULL, "[-- COMMAND...]" },
        { NULL },
    };
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    g_autoptr(GError) cause = NULL;
    g_auto(GStrv) arguments = g_new0(char *, argc + 1);

    for (int i = 0; i < argc; i++)
        arguments[i] = g_strdup(argv[i]);
    g_option_context_set_summary(
        context, "Record what vblkd does with LTTng, until Ctrl-C, --duration, or the end of COMMAND or of\n"
                 "the process. A session daemon is started if none runs. Then: vblkscope analyze DIR");
    g_option_context_set_description(
        context,
        "Exit status: 0 done, 1 failed (also if COMMAND failed or nothing was recorded), 2 usage.\n");
    g_option_context_add_main_entries(context, entries, NULL);
    g_option_context_set_strict_posix(context, TRUE); /* what follows COMMAND is its own */
    if (!g_option_context_parse_strv(context, &arguments, &cause)) {
        g_set_error(error, RECORD_ERROR, RECORD_ERROR_USAGE, "%s (see --help)", cause->message);
        return false;
    }
    if (options->pid < 0)
        return usage_error(error, "--pid: a process id is above 0 (see pgrep -a vblkd)");
    if (!isfinite(options->duration_s) || options->duration_s < 0 || options->duration_s > DURATION_MAX_S)
        return usage_error(error, "--duration: must be a number of seconds, at most 4000000");
    if (options->session && (!*options->session || strchr(options->session, '/')))
        return usage_error(error, "--session: a name is not empty and has no '/'");

    record_buffers_default(options->buffers);
    return record_parse_sets(options->events ? options->events : "core", &options->sets, error) &&
           (!options->buffer_size || record_buffers_parse(options->buffer_size, options->buffers, error));
}

/* While it records */

static void end_recording(struct recording *recording, enum end end)
{
    if (recording->end == END_NONE)
        recording->end = end;
    g_main_loop_quit(recording->loop);
}

/* What it is doing may be worth recording: only its user can tell. */
static gboolean on_command_late(gpointer data)
{
    const struct recording *recording = data;

    if (recording->command)
        say("%s: was asked to end %d s ago and goes on: so does the recording (kill -KILL %d ends both)",
            recording->options->command[0], COMMAND_PATIENCE_S, (int)recording->command);
    return G_SOURCE_REMOVE;
}

/* Whoever wants the end waits for the command's last events. */
static void ask_for_end(struct recording *recording, int signal_for_command)
{
    if (!recording->command) {
        end_recording(recording, END_ASKED);
        return;
    }
    if (!recording->command_asked)
        g_timeout_add_seconds(COMMAND_PATIENCE_S, on_command_late, recording);
    recording->command_asked = true;
    if (signal_for_command)
        kill(recording->command, signal_for_command);
}

static gboolean on_signal(gint fd, GIOCondition condition, gpointer data)
{
    struct signalfd_siginfo info;

    /* The terminal sends Ctrl-C to the command too: it must not get it twice. */
    if (read(fd, &info, sizeof(info)) == sizeof(info))
        ask_for_end(data, info.ssi_code == SI_KERNEL ? 0 : (int)info.ssi_signo);
    return G_SOURCE_CONTINUE;
}

static gboolean on_duration(gpointer data)
{
    ask_for_end(data, SIGTERM);
    return G_SOURCE_REMOVE;
}

static void on_command_end(GPid pid, gint status, gpointer data)
{
    struct recording *recording = data;

    recording->command = 0;
    recording->command_status = status;
    end_recording(recording, END_COMMAND);
}

static gboolean on_process_end(gint fd, GIOCondition condition, gpointer data)
{
    end_recording(data, END_PROCESS);
    return G_SOURCE_REMOVE;
}

static gboolean on_room_check(gpointer data)
{
    struct recording *recording = data;

    if (record_output_nearly_full(recording->output))
        end_recording(recording, END_DISK_FULL);
    return G_SOURCE_CONTINUE;
}

static double seconds_so_far(const struct recording *recording)
{
    return (g_get_monotonic_time() - recording->started_us) / 1e6;
}

static gboolean on_progress(gpointer data)
{
    struct recording *recording = data;
    double total_s = recording->options->duration_s;
    g_autofree char *of_total = total_s > 0 ? g_strdup_printf(" of %g", total_s) : g_strdup("");
    g_autofree char *size = g_format_size_full(record_trace_bytes(record_output_path(recording->output)),
                                               G_FORMAT_SIZE_IEC_UNITS);

    fprintf(stderr, "\r\033[K%.0f%s s recorded, %s written", seconds_so_far(recording), of_total, size);
    fflush(stderr);
    return G_SOURCE_CONTINUE;
}

static void clear_progress(const struct recording *recording)
{
    if (recording->on_terminal)
        fputs("\r\033[K", stderr);
}

static void record_until_end(struct recording *recording)
{
    const struct options *options = recording->options;
    /* With a command its end decides, whatever becomes of the process. */
    bool watch_process = options->pid && !options->command;
    int pid_fd = watch_process ? (int)syscall(SYS_pidfd_open, options->pid, 0) : -1;

    recording->loop = g_main_loop_new(NULL, FALSE);
    recording->started_us = g_get_monotonic_time();
    g_unix_fd_add(recording->signal_fd, G_IO_IN, on_signal, recording);
    g_timeout_add(ROOM_CHECK_MS, on_room_check, recording);
    if (options->duration_s > 0)
        g_timeout_add((guint)(options->duration_s * 1000), on_duration, recording);
    if (recording->on_terminal && !recording->command)
        g_timeout_add(PROGRESS_MS, on_progress, recording);
    if (recording->command)
        g_child_watch_add(recording->command, on_command_end, recording);
    if (pid_fd >= 0)
        g_unix_fd_add(pid_fd, G_IO_IN, on_process_end, recording);
    else if (watch_process && errno == ESRCH)
        recording->end = END_PROCESS;

    if (recording->end == END_NONE)
        g_main_loop_run(recording->loop);
    recording->lasted_s = seconds_so_far(recording);
    clear_progress(recording);
    g_main_loop_unref(recording->loop);
    if (pid_fd >= 0)
        close(pid_fd);
}

/* Before and after */

/* Those that end the recording are read from the descriptor that this returns. */
static int take_over_signals(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN); /* a session daemon that goes away is an error, not our end */
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

static bool interrupted_again(void *signal_fd)
{
    GPollFD poll_fd = { .fd = *(int *)signal_fd, .events = G_IO_IN };

    return g_poll(&poll_fd, 1, 0) > 0;
}

static bool prepare(struct recording *recording, GError **error)
{
    const struct options *options = recording->options;
    struct record_session_options session = { .sets = options->sets, .pid = options->pid };
    g_autofree char *name = NULL;
    bool daemon_started;

    recording->output =
        record_output_create(options->output, record_buffers_total_bytes(options->buffers), error);
    if (!recording->output || !record_daemon_ensure(&daemon_started, error))
        return false;
    if (daemon_started)
        say("started an LTTng session daemon; it stays for later recordings");
    if (options->pid && !record_daemon_await_process(options->pid, error))
        return false;

    name = options->session ? g_strdup(options->session) : g_strdup_printf("vblkscope-%d", (int)getpid());
    session.name = name;
    session.output = record_output_path(recording->output);
    memcpy(session.buffers, options->buffers, sizeof(session.buffers));
    recording->session = record_session_create(&session, error);
    return recording->session && record_session_start(recording->session, error);
}

static void end_command(struct recording *recording)
{
    gint64 deadline_us = g_get_monotonic_time() + COMMAND_PATIENCE_S * G_TIME_SPAN_SECOND;

    recording->command_asked = true;
    kill(recording->command, SIGTERM);
    while (waitpid(recording->command, &recording->command_status, WNOHANG) == 0) {
        if (g_get_monotonic_time() > deadline_us) {
            say("%s: did not end within %d s of SIGTERM and was killed", recording->options->command[0],
                COMMAND_PATIENCE_S);
            kill(recording->command, SIGKILL);
            waitpid(recording->command, &recording->command_status, 0);
            break;
        }
        g_usleep(COMMAND_RETRY_MS * 1000);
    }
    recording->command = 0;
}

/* LTTng does not answer, and the thread that asked cannot be called back: no more can be done through LTTng. */
static void no_answer(const char *what, const char *object, void *opaque)
{
    struct recording *recording = opaque;
    const char *path = recording->output ? record_output_path(recording->output) : NULL;

    clear_progress(recording);
    say("%s: cannot %s: no answer from LTTng for %u s (is lttng-sessiond stopped, or the machine overloaded? "
        "VBLKSCOPE_RECORD_WAIT gives it more seconds; 'lttng list' shows a session that stays)",
        object, what, record_watchdog_limit_s());
    if (recording->command)
        end_command(recording);
    if (recording->output && recording->begun) {
        record_output_release(recording->output);
        say("%s: kept; the last events may be missing", path);
    } else if (recording->output) {
        record_output_discard(recording->output);
    }
    fflush(NULL);
    _exit(RECORD_ERROR_FAILED); /* the exit handlers are the stuck thread's */
}

/* Whatever happened, the session ends here and a command is not left behind. */
static void finish(struct recording *recording, GError **error)
{
    if (recording->output)
        record_output_release(recording->output);
    if (recording->session) {
        bool stopped =
            record_session_stop(recording->session, interrupted_again, &recording->signal_fd, error);

        record_session_destroy(recording->session, stopped ? error : NULL);
    }
    if (recording->command)
        end_command(recording);
}

static void report_loss(const struct record_trace_facts *facts)
{
    static const char *const remedies[RECORD_CHANNEL_COUNT] = {
        [RECORD_CHANNEL_CORE] = "the machine was too busy to write them",
        [RECORD_CHANNEL_DETAIL] = "record fewer sets, or with a larger --buffer-size",
    };
    bool any = false;

    for (int channel = 0; channel < RECORD_CHANNEL_COUNT; channel++) {
        if (facts->lost[channel])
            fprintf(stderr, "  lost:   events of channel %s (%s)\n", record_channel_name(channel),
                    remedies[channel]);
        any |= facts->lost[channel];
    }
    if (!any)
        fprintf(stderr, "  lost:   %s\n", facts->damaged ? "cannot tell, the trace is damaged" : "none");
}

static bool summarise(const struct recording *recording, GError **error)
{
    const char *path = record_output_path(recording->output);
    g_autofree char *sets = record_set_names(recording->options->sets);
    g_autofree char *size = NULL;
    struct record_trace_facts facts;

    if (!record_trace_check(path, &facts, error))
        return false;
    if (!facts.has_events && !facts.damaged) {
        record_output_discard(recording->output);
        g_set_error(
            error, RECORD_ERROR, RECORD_ERROR_FAILED,
            "%s: NOTHING WAS RECORDED: no process with our tracepoints was seen (is a vblkd running, as the "
            "same user or root? its log says whether it is traceable; or run it by: record -- vblkd ...)",
            path);
        return false;
    }
    size = g_format_size_full(facts.bytes, G_FORMAT_SIZE_IEC_UNITS);
    fprintf(stderr, "  trace:  %s\n  size:   %s in %.1f s\n  events: %s\n", path, size, recording->lasted_s,
            sets);
    report_loss(&facts);
    if (facts.damaged) {
        g_set_error(
            error, RECORD_ERROR, RECORD_ERROR_FAILED,
            "%s: the trace is damaged: a file is cut short or empty (was the disk full? make room and record "
            "again; vblkscope analyze reads what is whole)",
            path);
        return false;
    }
    if (recording->end == END_DISK_FULL) {
        g_set_error(
            error, RECORD_ERROR, RECORD_ERROR_FAILED,
            "%s: the file system is nearly full: the recording was ended after %.1f s and is whole (make "
            "room, or name another folder with --output)",
            path, recording->lasted_s);
        return false;
    }
    return true;
}

/* Print @error, if it is one, and let the exit status tell of it. */
static bool succeeded(struct recording *recording, GError *error)
{
    if (!error)
        return true;
    say("%s", error->message);
    recording->exit_status = error->code;
    g_error_free(error);
    return false;
}

static bool begin(struct recording *recording)
{
    const struct options *options = recording->options;
    GError *error = NULL;

    if (prepare(recording, &error) && options->command)
        recording->command = record_command_start(options->command, &error);
    if (!succeeded(recording, error)) {
        finish(recording, NULL);
        if (recording->output)
            record_output_discard(recording->output);
        return false;
    }
    recording->begun = true;
    if (!options->command) {
        g_autofree char *sets = record_set_names(options->sets);

        say("recording %s to %s%s", sets, record_output_path(recording->output),
            options->duration_s > 0 ? "" : "; Ctrl-C ends it");
    }
    return true;
}

static void record(struct recording *recording)
{
    GError *error = NULL;

    if (!begin(recording))
        return;
    record_until_end(recording);
    finish(recording, &error);
    succeeded(recording, error);

    error = NULL;
    summarise(recording, &error);
    succeeded(recording, error);

    error = NULL;
    if (recording->options->command)
        record_command_check(recording->options->command[0], recording->command_status,
                             recording->command_asked, &error);
    succeeded(recording, error);
}

int vblkscope_record_main(int argc, char **argv)
{
    struct options options = { 0 };
    struct recording recording = { .options = &options, .signal_fd = -1 };
    unsigned wait_limit_s = RECORD_WAIT_LIMIT_S;
    GError *error = NULL;

    g_set_prgname("vblkscope record");
    recording.on_terminal = isatty(STDERR_FILENO);
    if (record_wait_limit(&wait_limit_s, &error))
        parse_options(argc, argv, &options, &error);
    if (succeeded(&recording, error)) {
        recording.signal_fd = take_over_signals();
        record_watchdog_start(wait_limit_s, no_answer, &recording);
        record(&recording);
        record_output_destroy(recording.output);
        close(recording.signal_fd);
    }
    free_options(&options);
    return recording.exit_status;
}
