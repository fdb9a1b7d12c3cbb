#include "control/command.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "control/answer.h"
#include "server/disk_keys.h"

/* Parsing nests as deep as the text does, on a coroutine's stack; no request needs more than three levels. */
#define DEPTH_MAX 8

#define DEVICE { "device", VBLK_ARGUMENT_STRING, false, 0, 0, "The disk's name; may be left out if there is one disk only" }
#define END { NULL }

static const struct vblk_argument device_only[] = { DEVICE, END };
static const struct vblk_argument requests_arguments[] = {
    DEVICE,
    { "limit", VBLK_ARGUMENT_INTEGER, false, 1, VBLK_REQUESTS_SHOWN_MAX, "How many to show at most (default: 100)" },
    END,
};
static const struct vblk_argument move_arguments[] = {
    DEVICE,
    { "queue", VBLK_ARGUMENT_INTEGER, true, 0, VBLK_QUEUES_MAX - 1, "The queue's index" },
    { "iothread", VBLK_ARGUMENT_INTEGER, true, 0, UINT16_MAX, "The IOThread's index, from 0" },
    END,
};
static const struct vblk_argument resize_arguments[] = {
    DEVICE,
    { "size_bytes", VBLK_ARGUMENT_INTEGER, false, 512, INT64_MAX,
      "The new size (default: as large as the file or block device is now)" },
    END,
};
static const struct vblk_argument remove_arguments[] = {
    DEVICE,
    { "force", VBLK_ARGUMENT_BOOLEAN, false, 0, 0, "Hang up on the front end if there is one" },
    END,
};
static const struct vblk_argument poll_arguments[] = {
    { "max_ns", VBLK_ARGUMENT_INTEGER, true, -1, INT64_C(1000000000), "Longest polling; 0: none, -1: never sleep" },
    { "loop", VBLK_ARGUMENT_STRING, false, 0, 0, "A loop's name (default: those of all IOThreads)" },
    END,
};

static const struct vblk_command commands[] = {
    { "commands", "List the commands and their arguments", NULL, false, vblk_command_commands },
    { "status", "Version, policies, limits, and each disk's state", NULL, false, vblk_command_status },
    { "stats", "Totals of each disk and queue, by kind of request", NULL, false, vblk_command_stats },
    { "pool", "The coroutine pool: what threads take and give, mappings left", NULL, false, vblk_command_pool },
    { "loops", "Each event loop's time and what it watches", NULL, false, vblk_command_loops },
    { "queues", "Each ring's state", NULL, false, vblk_command_queues },
    { "locks", "Each class of locks: waiting, holding, owner", NULL, false, vblk_command_locks },
    { "requests", "Open requests, the oldest first", requests_arguments, false, vblk_command_requests },
    { "drain", "Wait until a disk has nothing in flight, and hold it there", device_only, false, vblk_command_drain_co },
    { "resume", "End a drain, and let a disk go on that its errors stopped", device_only, false, vblk_command_resume_co },
    { "move-queue", "Let another IOThread process a queue", move_arguments, false, vblk_command_move_queue_co },
    { "resize", "Give a disk another size", resize_arguments, false, vblk_command_resize_co },
    { "add-disk", "Serve one more disk", NULL, true, vblk_command_add_disk_co },
    { "remove-disk", "Drain a disk and serve it no more", remove_arguments, false, vblk_command_remove_disk_co },
    { "set-poll", "Set the longest busy polling", poll_arguments, false, vblk_command_set_poll },
    { "trace-baseline", "Write once more into the trace what exists", NULL, false, vblk_command_trace_baseline },
};

const struct vblk_command *vblk_command_at(unsigned index)
{
    return index < G_N_ELEMENTS(commands) ? &commands[index] : NULL;
}

const char *vblk_argument_type_name(enum vblk_argument_type type)
{
    static const char *const names[] = { [VBLK_ARGUMENT_STRING] = "string",
                                         [VBLK_ARGUMENT_INTEGER] = "integer",
                                         [VBLK_ARGUMENT_BOOLEAN] = "boolean" };

    return names[type];
}

/* A descriptor's number means something in this process only. */
static bool is_for_clients(const struct vblk_disk_key *key)
{
    return strcmp(key->name, "fd") != 0;
}

static bool disk_key_argument(unsigned index, struct vblk_argument *argument_out)
{
    static const enum vblk_argument_type types[] = { [VBLK_KEY_TEXT] = VBLK_ARGUMENT_STRING,
                                                     [VBLK_KEY_NUMBER] = VBLK_ARGUMENT_INTEGER,
                                                     [VBLK_KEY_SWITCH] = VBLK_ARGUMENT_BOOLEAN };
    const struct vblk_disk_key *key;

    for (unsigned i = 0; (key = vblk_disk_key_at(i)); i++) {
        if (!is_for_clients(key) || index-- > 0)
            continue;
        *argument_out = (struct vblk_argument){
            .name = key->name,
            .type = types[key->type],
            .required = strcmp(key->name, "socket-path") == 0 || strcmp(key->name, "blk-file") == 0,
            .max = INT64_MAX,
            .text = key->text,
        };
        return true;
    }
    return false;
}

bool vblk_command_argument_at(const struct vblk_command *command, unsigned index, struct vblk_argument *argument_out)
{
    if (command->takes_disk_keys)
        return disk_key_argument(index, argument_out);
    for (unsigned i = 0; command->arguments && command->arguments[i].name; i++)
        if (i == index) {
            *argument_out = command->arguments[i];
            return true;
        }
    return false;
}

/* ---- arguments ---- */

static char *check_value(const struct vblk_argument *argument, const json_t *value)
{
    bool fits = argument->type == VBLK_ARGUMENT_STRING    ? json_is_string(value)
                : argument->type == VBLK_ARGUMENT_INTEGER ? json_is_integer(value)
                                                          : json_is_boolean(value);

    if (!fits)
        return g_strdup_printf("%s: must be %s %s", argument->name,
                               argument->type == VBLK_ARGUMENT_INTEGER ? "an" : "a",
                               vblk_argument_type_name(argument->type));
    if (argument->type == VBLK_ARGUMENT_INTEGER &&
        (json_integer_value(value) < argument->min || json_integer_value(value) > argument->max))
        return g_strdup_printf("%s: must be %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, argument->name, argument->min,
                               argument->max);
    return NULL;
}

static char *unknown_argument(const struct vblk_command *command, const char *name)
{
    GString *known = g_string_new(NULL);
    struct vblk_argument argument;
    char *why;

    for (unsigned i = 0; vblk_command_argument_at(command, i, &argument); i++)
        g_string_append_printf(known, "%s%s", i ? ", " : "", argument.name);
    why = known->len > 0 ? g_strdup_printf("%s has no argument '%s'; there are: %s", command->name, name, known->str)
                         : g_strdup_printf("%s takes no arguments", command->name);
    g_string_free(known, TRUE);
    return why;
}

char *vblk_command_check(const struct vblk_command *command, const json_t *arguments)
{
    struct vblk_argument argument;
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)arguments, name, value) {
        bool known = false;

        for (unsigned i = 0; !known && vblk_command_argument_at(command, i, &argument); i++)
            known = strcmp(argument.name, name) == 0;
        if (!known)
            return unknown_argument(command, name);
    }
    for (unsigned i = 0; vblk_command_argument_at(command, i, &argument); i++) {
        char *why;

        value = json_object_get(arguments, argument.name);
        if (!value && argument.required)
            return g_strdup_printf("%s needs %s (%s)", command->name, argument.name, argument.text);
        why = value ? check_value(&argument, value) : NULL;
        if (why)
            return why;
    }
    return NULL;
}

/* ---- a line ---- */

/* Whether arrays and objects nest deeper than any request does. Strings may hold brackets. */
static bool is_too_deep(const char *line, size_t length)
{
    bool in_string = false;
    int depth = 0;

    for (size_t i = 0; i < length; i++) {
        if (in_string) {
            if (line[i] == '\\')
                i++;
            else if (line[i] == '"')
                in_string = false;
        } else if (line[i] == '"') {
            in_string = true;
        } else if (line[i] == '[' || line[i] == '{') {
            if (++depth > DEPTH_MAX)
                return true;
        } else if (line[i] == ']' || line[i] == '}') {
            depth--;
        }
    }
    return false;
}

static char *unknown_command(const char *name)
{
    GString *text = g_string_new(NULL);

    g_string_append_printf(text, "there is no command '%s'; there are: ", name);
    for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++)
        g_string_append_printf(text, "%s%s", i ? ", " : "", commands[i].name);
    return g_string_free(text, FALSE);
}

/* What "return" holds, or NULL and why. */
static json_t *run_co(struct vblk_control *control, const json_t *request, char **message_out)
{
    const char *name = json_string_value(json_object_get(request, "command")), *key;
    json_t *arguments = json_object_get(request, "arguments"), *value, *none, *result = NULL;
    const struct vblk_command *command = NULL;

    json_object_foreach ((json_t *)request, key, value)
        if (strcmp(key, "command") != 0 && strcmp(key, "arguments") != 0 && strcmp(key, "id") != 0) {
            *message_out = g_strdup_printf("a request has no '%s'; there are: command, arguments, id", key);
            return NULL;
        }
    if (!name) {
        *message_out = g_strdup("a request needs \"command\", a string (the command \"commands\" lists them)");
        return NULL;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(commands); i++)
        if (strcmp(name, commands[i].name) == 0)
            command = &commands[i];
    if (!command) {
        *message_out = unknown_command(name);
        return NULL;
    }
    if (arguments && !json_is_object(arguments)) {
        *message_out = g_strdup("\"arguments\" must be an object");
        return NULL;
    }
    none = json_object();
    *message_out = vblk_command_check(command, arguments ? arguments : none);
    if (!*message_out)
        result = command->run_co(control, arguments ? arguments : none, message_out);
    json_decref(none);
    return result;
}

/* Takes @result and @message, one of which is NULL. */
static char *make_answer(json_t *result, char *message, const json_t *id)
{
    json_t *answer = json_object();
    char *text, *line;

    if (result)
        json_object_set_new(answer, "return", result);
    else
        json_object_set_new(answer, "error", json_pack("{s:o}", "message", vblk_answer_text(message)));
    g_free(message);
    if (id)
        json_object_set(answer, "id", (json_t *)id);
    text = json_dumps(answer, JSON_COMPACT);
    json_decref(answer);
    line = g_strconcat(text, "\n", NULL);
    free(text);
    return line;
}

char *vblk_command_line_co(struct vblk_control *control, const char *line, size_t length)
{
    json_t *request = NULL, *result = NULL, *id;
    json_error_t error;
    char *message = NULL, *answer;

    if (is_too_deep(line, length))
        message = g_strdup("the request nests too deeply");
    else if (!(request = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error)))
        message = g_strdup_printf("the request is no JSON object: %s (column %d)", error.text, error.column);
    else if (!json_is_object(request))
        message = g_strdup("the request is no JSON object");
    id = request ? json_object_get(request, "id") : NULL;
    if (id && !json_is_string(id) && !json_is_integer(id)) {
        message = g_strdup("\"id\" must be a string or an integer");
        id = NULL;
    }
    if (!message)
        result = run_co(control, request, &message);
    answer = make_answer(result, message, id);
    json_decref(request);
    return answer;
}

char *vblk_command_refuse_line(size_t max)
{
    return make_answer(NULL, g_strdup_printf("the line is longer than %zu bytes", max), NULL);
}
