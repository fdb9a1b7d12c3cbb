/*
 * A vblkd process with many disks under attack, and one that a well-behaved front end uses all the time.
 *
 * A case is one line of a table: what is done, and what must be seen of it. After each the battery looks whether it
 * harmed anything else: the process lives, the healthy disk answers, the attacked one serves the next front end, no
 * descriptor is left, and no byte of any image has changed that was not to.
 *
 * Each disk gets a few cases only, because a device's log holds lines back when there are many.
 */
#ifndef TEST_HOSTILE_BATTERY_H
#define TEST_HOSTILE_BATTERY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "front_end.h"

enum seen {
    WORKS,    /* done as asked */
    REFUSED,  /* a message was answered with no, and the connection goes on */
    ENDED,    /* the connection was closed */
    BROKEN,   /* the queue stopped, told by its error eventfd */
    HARMLESS, /* in a table: any of these, whatever comes first */
    STUCK     /* never in a table: nothing was seen */
};

struct battery;

/* One case while it runs. */
struct attempt {
    struct battery *battery;
    unsigned disk;
    const char *socket_path;
    struct front_end *fe; /* the case's; destroyed after it */
    char detail[256];     /* what was seen instead, for people */
};

struct hostile_case {
    const char *name;
    enum seen seen;
    const char *reason; /* what the log must say; NULL: nothing in particular */
    enum seen (*act)(struct attempt *attempt, const void *argument);
    const void *argument;
    uint64_t legal_sector; /* what may change on the disk */
    uint32_t legal_bytes;
};

#define HOSTILE_DISK_BYTES (1u << 20)
#define HOSTILE_QUEUES 4
#define HOSTILE_DEADLINE_MS 60000

extern const struct hostile_case ring_cases[], packed_cases[], message_cases[], memory_cases[],
    combined_cases[];
extern const unsigned ring_case_count, packed_case_count, message_case_count, memory_case_count,
    combined_case_count;

struct battery *battery_create(const char *vblkd);
/* Runs one; tells and counts what is wrong. */
void battery_run(struct battery *battery, const struct hostile_case *hostile);
/* What follows has disks, and so lines in the log, of its own. */
void battery_next_disk(struct battery *battery);
/* Ends the process in order; returns how many cases failed. */
unsigned battery_destroy(struct battery *battery);

/* What the log has said since the case began. */
bool battery_log_has(struct battery *battery, const char *text);

/* For cases. Options with small rings, four memory regions, and extra memory in which two of them meet. */
struct fe_options attempt_options(const struct attempt *attempt);
/* Connect, negotiate with every protocol feature that is offered, map; false: it went wrong, see detail. */
bool attempt_prepare(struct attempt *attempt, const struct fe_options *options);
/* The same, and start the rings. */
bool attempt_open(struct attempt *attempt, const struct fe_options *options);
/* Whether the connection goes on: a question is answered (WORKS), or it has ENDED. */
enum seen attempt_ask(struct attempt *attempt);
/* Send with a request for an answer, and what came of it. */
enum seen attempt_message(struct attempt *attempt, uint32_t request, const void *payload, uint32_t size_bytes,
                          const int *fds, unsigned fd_count);
/* A plain read through a ring as a driver does it: WORKS with the disk's content, or what else was seen. */
enum seen attempt_read(struct attempt *attempt, unsigned queue_index);
/* Wait until the used ring is at @used_index (packed: until that entry is used, in the ring's first turn): WORKS, or
 * BROKEN, ENDED, STUCK. */
enum seen attempt_wait_used(struct attempt *attempt, unsigned queue_index, uint16_t used_index);
/* Wait until an error eventfd or the end of the connection says so. */
enum seen attempt_wait_end(struct attempt *attempt);
/* What the disk holds at a byte. */
uint8_t attempt_disk_byte(uint64_t offset_bytes);

#endif
