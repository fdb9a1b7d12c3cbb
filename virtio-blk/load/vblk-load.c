/* vblk-load: loads, verifies and measures any vhost-user-blk server. */
#include "commands.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    struct load_options options;
    char *problem = NULL;
    int status = EXIT_DONE;

    switch (options_parse(&options, argc, argv, &problem)) {
    case OPTIONS_HELP_SHOWN:
        break;
    case OPTIONS_USAGE:
        report_failure(problem);
        status = EXIT_USAGE;
        break;
    case OPTIONS_RUN:
        switch (options.command) {
        case LOAD_RUN:
            status = command_run(&options);
            break;
        case LOAD_VERIFY:
            status = command_verify(&options);
            break;
        case LOAD_INFO:
            status = command_info(&options);
            break;
        }
        break;
    }
    g_free(problem);
    options_clear(&options);
    if (fflush(stdout) != 0 && status == EXIT_DONE)
        status = report_failure("stdout: cannot write the result (is the disk full or the reader gone?)");
    return status;
}
