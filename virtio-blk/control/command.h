/**
 * The table of control commands, and what is the same for all: a line's form, the check of its arguments, the answer's.
 *
 * `commands`, the schema's test, and the manual's test read the table.
 */
#ifndef VBLK_CONTROL_COMMAND_H
#define VBLK_CONTROL_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vblk_control;

enum vblk_argument_type { VBLK_ARGUMENT_STRING, VBLK_ARGUMENT_INTEGER, VBLK_ARGUMENT_BOOLEAN };

struct vblk_argument {
    const char *name;
    enum vblk_argument_type type;
    bool required;
    int64_t min, max; /**< of an integer */
    const char *text; /**< what it is, for people */
};

struct vblk_command {
    const char *name, *text;
    const struct vblk_argument *arguments; /**< up to one without name; NULL: none, or the disk's keys */
    bool takes_disk_keys;
    /**
     * What "return" holds, a new reference; or NULL with one line in message_out (g_free). @arguments were checked and are an
     * object. In a coroutine of the main loop; may yield.
     */
    json_t *(*run_co)(struct vblk_control *control, const json_t *arguments, char **message_out);
};

const struct vblk_command *vblk_command_at(unsigned index); /**< NULL behind the last one */
/** False behind the last one. */
bool vblk_command_argument_at(const struct vblk_command *command, unsigned index, struct vblk_argument *argument_out);
/** "string", "integer", "boolean": as in a JSON schema. */
const char *vblk_argument_type_name(enum vblk_argument_type type);

/** NULL: they are what the table says. Else why not, in one line (g_free). */
char *vblk_command_check(const struct vblk_command *command, const json_t *arguments);

/** Run what a line asks for. The answer is one line with its end; the caller frees it with g_free(). May yield. */
char *vblk_command_line_co(struct vblk_control *control, const char *line, size_t length);
/** The answer to a line that was too long to be kept. */
char *vblk_command_refuse_line(size_t max);

/* process_commands.c */
json_t *vblk_command_commands(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_status(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_pool(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_loops(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_locks(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_set_poll(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_trace_baseline(struct vblk_control *control, const json_t *arguments, char **message_out);

/* disk_commands.c */
json_t *vblk_command_stats(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_queues(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_requests(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_drain_co(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_resume_co(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_move_queue_co(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_resize_co(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_add_disk_co(struct vblk_control *control, const json_t *arguments, char **message_out);
json_t *vblk_command_remove_disk_co(struct vblk_control *control, const json_t *arguments, char **message_out);

#define VBLK_REQUESTS_SHOWN_MAX 10000
#define VBLK_REQUESTS_SHOWN_DEFAULT 100

#endif
