/**
 * `vblkscope record`: record what processes with our tracepoints do, through LTTng's control library.
 */
#ifndef TRACEPOINTS_RECORD_H
#define TRACEPOINTS_RECORD_H

/**
 * The whole subcommand: options, session daemon, recording, summary. vblkscope-record(1) describes it.
 *
 * Shape:     argv[0] is the subcommand's name, "record"; the rest its options and operands. argv may be reordered.
 * Returns:   the exit status: 0 done, 1 failed, 2 usage. Talk goes to stderr, --help to stdout.
 * Thread:    the main thread of a program that has no other yet: it blocks SIGINT, SIGTERM and SIGHUP and reads
 *            them from a descriptor, ignores SIGPIPE, and sets the process's name in GLib.
 */
int vblkscope_record_main(int argc, char **argv);

#endif
