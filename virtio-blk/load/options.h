/* Command line of vblk-load, checked and in units. */
#ifndef LOAD_OPTIONS_H
#define LOAD_OPTIONS_H

#include "front_end.h"

#include <glib.h>

enum load_command { LOAD_RUN, LOAD_VERIFY, LOAD_INFO };

struct load_options {
    enum load_command command;
    char *socket_path;
    char *rw_name;

    /* Pattern. */
    bool random;
    unsigned read_percent; /* 0..100 */
    uint32_t block_bytes;
    uint64_t offset_bytes;
    uint64_t size_bytes; /* 0: up to the end of the disk */
    uint64_t seed;

    /* Queues. */
    unsigned queue_count;
    unsigned queue_size;
    unsigned iodepth;
    uint32_t segment_bytes; /* 0: one segment */
    bool poll;
    bool packed;
    bool indirect;
    bool event_idx;
    bool reply_ack;
    bool protocol_features;
    GArray *cpus; /* unsigned; empty: threads are not pinned */

    /* Ends and interruptions. */
    uint64_t runtime_ns; /* 0: no limit */
    uint64_t number_ios; /* 0: no limit */
    unsigned restarts;
    bool drain;            /* before each restart */
    uint64_t reconnect_ns; /* how long a server that has gone is waited for; 0: not at all */
    uint64_t hold_ns;
    uint64_t timeout_ns; /* without any completion */

    /* Verify. */
    unsigned passes;
    bool write_phase;
    bool read_phase;
    char *ack_log_path;  /* NULL: none */
    uint64_t generation; /* of the first pass; 0: 1, or what follows the acknowledgement log */

    bool json;
};

enum options_outcome { OPTIONS_RUN, OPTIONS_HELP_SHOWN, OPTIONS_USAGE };

/**
 * Parse a command line. With OPTIONS_USAGE, *@error_out says in one line what is wrong.
 * With OPTIONS_HELP_SHOWN help or version went to stdout.
 *
 * Ownership: the caller calls options_clear() on any outcome.
 */
enum options_outcome options_parse(struct load_options *options, int argc, char **argv, char **error_out);
void options_clear(struct load_options *options);

/** The help text of a command. Ownership: caller frees. */
char *options_help(enum load_command command);

/** "4K", "1M", "2G", "512": bytes. FALSE if it is no size or overflows. */
gboolean options_parse_size(const char *text, uint64_t *bytes_out);

/** "0,2-3": a list of CPU numbers appended to @cpus. FALSE if it is none. */
gboolean options_parse_cpus(const char *text, GArray *cpus);

/** How to build the front end for these options. */
struct fe_options options_front_end(const struct load_options *options);

#endif
