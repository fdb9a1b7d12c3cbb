/* The program: hands over to its subcommands. */
#include <glib.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "analyze/analyze.h"
#include "compare/compare.h"
#include "ctl/ctl.h"
#include "demo/demo.h"
#include "explain/explain.h"
#include "export/export.h"
#include "lami/lami.h"
#include "tracepoints/record.h"

#define STATUS_USAGE 2

static const struct command {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *text;
} commands[] = {
    { "demo", vblkscope_demo_main, "Serve, load, record and judge a healthy and a faulty device" },
    { "record", vblkscope_record_main, "Record what a running or a new device does" },
    { "analyze", vblkscope_analyze_main, "Say what is wrong in a recording" },
    { "compare", vblkscope_compare_main, "Set recordings side by side: what changed, and is it chance" },
    { "export", vblkscope_export_main, "Write a recording as a Chrome trace, for Perfetto" },
    { "lami", vblkscope_lami_main, "Run the analyses for Trace Compass" },
    { "explain", vblkscope_explain_main, "Say what a finding means and what to do" },
    { "ctl", vblkscope_ctl_main, "Ask a running device, or change it" },
};

static void print_help(FILE *file)
{
    fputs("Usage:\n  vblkscope COMMAND [OPTION...]\n\nSees into a virtio-blk device: records it and says "
          "what is wrong.\n\n"
          "Commands:\n",
          file);
    for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++)
        fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].text);
    fputs("\nOptions:\n  -h, --help   Show this help\n  --version    Show the version\n\n"
          "vblkscope COMMAND --help shows the options of a command.\n",
          file);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    setlocale(LC_CTYPE,
              ""); /* file names are printed as they are; numbers stay in the C locale for machines */
    if (!name) {
        print_help(stderr);
        return STATUS_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0) {
        printf("vblkscope %s\n", VBLKSCOPE_VERSION);
        return 0;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            char *program = g_strdup_printf("vblkscope %s", name);
            int status;

            g_set_prgname(program); /* what --help calls it */
            status = commands[i].main(argc - 1, argv + 1);
            g_free(program);
            return status;
        }
    }
    fprintf(stderr, "vblkscope: there is no command '%s' (see vblkscope --help)\n", name);
    return STATUS_USAGE;
}
