#include "ctl/ctl.h"

#include <glib.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/arguments.h"
#include "ctl/exchange.h"
#include "ctl/render.h"
#include "report/complain.h"

#define STATUS_FAILED 1
#define STATUS_USAGE 2

struct ctl {
    char **words; /* SOCKET COMMAND NAME=VALUE... */
    gboolean json;
    int timeout_s;
};

static char *parse(struct ctl *ctl, int *argc, char ***argv)
{
    const GOptionEntry entries[] = {
        { "json", 'j', 0, G_OPTION_ARG_NONE, &ctl->json, "Print the answer as JSON", NULL },
        { "timeout", 't', 0, G_OPTION_ARG_INT, &ctl->timeout_s,
          "Give up when there is no answer for so long; 0 waits as long as it takes (default: 0)", "SECONDS" },
        { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &ctl->words, NULL, "SOCKET COMMAND [NAME=VALUE...]" },
        { NULL },
    };
    GOptionContext *context = g_option_context_new(NULL);
    GError *error = NULL;
    char *why = NULL;

    g_option_context_set_summary(context,
                                 "Asks a running vblkd, or changes it, over the socket of its option --control-path.\n"
                                 "The command 'commands' lists what can be asked, with the arguments. See vblkd-control(7).\n"
                                 "Exit status: 0 done, 1 failed or refused, 2 usage.");
    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, argc, argv, &error)) {
        why = g_strdup_printf("%s (see vblkscope ctl --help)", error->message);
        g_error_free(error);
    } else if (!ctl->words || !ctl->words[0]) {
        why = g_strdup("no socket given (SOCKET COMMAND; the path of vblkd's --control-path)");
    } else if (!ctl->words[1]) {
        why = g_strdup_printf("%s: no command given (the command 'commands' lists them)", ctl->words[0]);
    } else if (ctl->timeout_s < 0) {
        why = g_strdup("--timeout: must not be negative");
    }
    g_option_context_free(context);
    return why;
}

static int print(const struct ctl *ctl, const char *command, const json_t *answer)
{
    if (ctl->json) {
        json_dumpf(answer, stdout, JSON_INDENT(2));
        putchar('\n');
    } else {
        char *text = render_answer(command, answer);

        fputs(text, stdout);
        g_free(text);
    }
    /* A full disk or a closed pipe shows here. */
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : complain(STATUS_FAILED, "cannot write the answer");
}

static int run(const struct ctl *ctl, struct exchange *exchange)
{
    const char *command = ctl->words[1];
    json_t *commands = NULL, *arguments = NULL, *answer = NULL;
    const json_t *described;
    int status = STATUS_FAILED;
    char *why = exchange_ask(exchange, "commands", NULL, &commands);

    if (!why) {
        status = STATUS_USAGE;
        described = arguments_find_command(commands, command, &why);
        if (described)
            why = arguments_parse(described, ctl->words + 2, &arguments);
    }
    if (!why) {
        status = STATUS_FAILED;
        why = exchange_ask(exchange, command, arguments, &answer);
    }
    status = why ? complain(status, "%s", why) : print(ctl, command, answer);
    g_free(why);
    json_decref(commands);
    json_decref(arguments);
    json_decref(answer);
    return status;
}

int vblkscope_ctl_main(int argc, char **argv)
{
    struct ctl ctl = { NULL };
    struct exchange exchange;
    char *why = parse(&ctl, &argc, &argv);
    int status;

    if (why) {
        status = complain(STATUS_USAGE, "%s", why);
        g_free(why);
        g_strfreev(ctl.words);
        return status;
    }
    why = exchange_open(&exchange, ctl.words[0], ctl.timeout_s);
    status = why ? complain(STATUS_FAILED, "%s", why) : run(&ctl, &exchange);
    g_free(why);
    exchange_close(&exchange);
    g_strfreev(ctl.words);
    return status;
}
