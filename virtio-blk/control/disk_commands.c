/* Commands about disks: what they do, and what is done to them. */
#include <errno.h>
#include <string.h>

#include "control/answer.h"
#include "control/command.h"
#include "control/internal.h"
#include "device/status.h"
#include "server/disk_keys.h"

static const char *device_argument(const json_t *arguments)
{
    return json_string_value(json_object_get(arguments, "device"));
}

static json_t *device_answer(const char *name)
{
    json_t *answer = json_object();

    vblk_answer_set_text(answer, "device", name);
    return answer;
}

/* ---- stats ---- */

struct totals {
    struct vblk_request_totals by_kind[VBLK_REQUEST_KIND_COUNT];
    uint64_t kicks, empty_kicks, pops, completions, interrupts, suppressed_interrupts;
    json_t *queues; /* those that were ever used */
};

static void set_totals(json_t *object, const struct totals *totals)
{
    json_t *requests = json_object();

    for (unsigned kind = 0; kind < VBLK_REQUEST_KIND_COUNT; kind++) {
        json_t *one = json_object();

        vblk_answer_set_number(one, "requests", totals->by_kind[kind].requests);
        vblk_answer_set_number(one, "errors", totals->by_kind[kind].errors);
        vblk_answer_set_number(one, "bytes", totals->by_kind[kind].bytes);
        json_object_set_new(requests, vblk_request_kind_name(kind), one);
    }
    json_object_set_new(object, "requests", requests);
    vblk_answer_set_number(object, "kicks", totals->kicks);
    vblk_answer_set_number(object, "empty_kicks", totals->empty_kicks);
    vblk_answer_set_number(object, "pops", totals->pops);
    vblk_answer_set_number(object, "completions", totals->completions);
    vblk_answer_set_number(object, "interrupts", totals->interrupts);
    vblk_answer_set_number(object, "suppressed_interrupts", totals->suppressed_interrupts);
}

static void add_queue_totals(const struct vblk_queue_status *status, void *opaque)
{
    struct totals *sum = opaque, own = {
        .kicks = status->kicks,
        .empty_kicks = status->empty_kicks,
        .pops = status->pops,
        .completions = status->completions,
        .interrupts = status->interrupts,
        .suppressed_interrupts = status->suppressed_interrupts,
    };
    json_t *queue;

    if (!status->has_ring && status->pops == 0 && status->kicks == 0)
        return;
    for (unsigned kind = 0; kind < VBLK_REQUEST_KIND_COUNT; kind++) {
        own.by_kind[kind] = status->by_kind[kind];
        sum->by_kind[kind].requests += own.by_kind[kind].requests;
        sum->by_kind[kind].errors += own.by_kind[kind].errors;
        sum->by_kind[kind].bytes += own.by_kind[kind].bytes;
    }
    sum->kicks += own.kicks;
    sum->empty_kicks += own.empty_kicks;
    sum->pops += own.pops;
    sum->completions += own.completions;
    sum->interrupts += own.interrupts;
    sum->suppressed_interrupts += own.suppressed_interrupts;
    queue = json_object();
    vblk_answer_set_number(queue, "queue", status->index);
    set_totals(queue, &own);
    json_array_append_new(sum->queues, queue);
}

static void add_disk_totals(const struct vblk_devices_entry *entry, void *opaque)
{
    struct totals sum = { .queues = json_array() };
    struct vblk_device_status status;
    json_t *disk = json_object();

    vblk_device_status(entry->device, &status);
    vblk_device_each_queue(entry->device, add_queue_totals, &sum);
    vblk_answer_set_number(disk, "device_id", status.device_id);
    vblk_answer_set_text(disk, "device", entry->name);
    vblk_answer_set_number(disk, "in_flight", status.in_flight);
    set_totals(disk, &sum);
    json_object_set_new(disk, "queues", sum.queues);
    json_array_append_new(opaque, disk);
}

json_t *vblk_command_stats(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    json_t *disks = json_array();

    vblk_devices_each(control->options.devices, add_disk_totals, disks);
    return json_pack("{s:o}", "disks", disks);
}

/* ---- queues ---- */

struct queue_list {
    json_t *array;
    const char *device; /* whose queues are being added */
    uint32_t device_id;
};

static void describe_queue(const struct vblk_queue_status *status, void *opaque)
{
    const struct queue_list *list = opaque;
    json_t *queue;

    if (!status->has_ring && !status->size && !status->broken_reason)
        return; /* the front end has not said a word about it */
    queue = json_object();
    vblk_answer_set_number(queue, "device_id", list->device_id);
    vblk_answer_set_text(queue, "device", list->device);
    vblk_answer_set_number(queue, "queue", status->index);
    vblk_answer_set_number(queue, "size", status->size);
    json_object_set_new(queue, "packed", json_boolean(status->packed));
    json_object_set_new(queue, "enabled", json_boolean(status->enabled));
    json_object_set_new(queue, "running", json_boolean(status->has_ring));
    json_object_set_new(queue, "attached", json_boolean(status->attached));
    vblk_answer_set_text(queue, "broken", status->broken_reason);
    vblk_answer_set_number(queue, "loop_id", status->loop_id);
    vblk_answer_set_text(queue, "loop", status->loop_name);
    vblk_answer_set_number(queue, "avail_index", status->avail_index);
    vblk_answer_set_number(queue, "popped_index", status->popped_index);
    vblk_answer_set_number(queue, "used_index", status->used_index);
    vblk_answer_set_number(queue, "in_flight", status->in_flight);
    json_object_set_new(queue, "notifications_enabled", json_boolean(status->notifications_enabled));
    json_array_append_new(list->array, queue);
}

static void describe_queues(const struct vblk_devices_entry *entry, void *opaque)
{
    struct queue_list *list = opaque;
    struct vblk_device_status status;

    vblk_device_status(entry->device, &status);
    list->device = entry->name;
    list->device_id = status.device_id;
    vblk_device_each_queue(entry->device, describe_queue, list);
}

json_t *vblk_command_queues(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    struct queue_list list = { .array = json_array() };

    vblk_devices_each(control->options.devices, describe_queues, &list);
    return json_pack("{s:o}", "queues", list.array);
}

/* ---- requests ---- */

struct open_request {
    struct vblk_request_status status;
    const char *device;
    uint32_t device_id;
};

struct open_requests {
    GArray *all;
    const char *wanted, *device; /* wanted: NULL for every disk */
    uint32_t device_id;
};

static void collect_request(const struct vblk_request_status *status, void *opaque)
{
    struct open_requests *open = opaque;
    struct open_request request = { .status = *status, .device = open->device, .device_id = open->device_id };

    g_array_append_val(open->all, request);
}

static void collect_requests(const struct vblk_devices_entry *entry, void *opaque)
{
    struct open_requests *open = opaque;
    struct vblk_device_status status;

    if (open->wanted && strcmp(open->wanted, entry->name) != 0)
        return;
    vblk_device_status(entry->device, &status);
    open->device = entry->name;
    open->device_id = status.device_id;
    vblk_device_each_request(entry->device, collect_request, open);
}

static int older_first(const void *a, const void *b)
{
    const struct open_request *left = a, *right = b;

    if (left->status.age_ns != right->status.age_ns)
        return left->status.age_ns > right->status.age_ns ? -1 : 1;
    return left->status.request_id < right->status.request_id ? -1 : 1;
}

json_t *vblk_command_requests(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    struct open_requests open = { .wanted = device_argument(arguments) };
    const json_t *limit_argument = json_object_get(arguments, "limit");
    unsigned limit = limit_argument ? json_integer_value(limit_argument) : VBLK_REQUESTS_SHOWN_DEFAULT, count;
    json_t *list = json_array();

    if (open.wanted) {
        struct vblk_device *device;

        /* Only to learn whether there is one. */
        if (vblk_devices_hold(control->options.devices, open.wanted, &device, message_out) < 0) {
            json_decref(list);
            return NULL;
        }
        vblk_devices_release(control->options.devices, device);
    }
    open.all = g_array_new(FALSE, FALSE, sizeof(struct open_request));
    vblk_devices_each(control->options.devices, collect_requests, &open);
    g_array_sort(open.all, older_first);
    count = open.all->len;
    for (unsigned i = 0; i < count && i < limit; i++) {
        const struct open_request *request = &g_array_index(open.all, struct open_request, i);
        json_t *one = json_object();

        vblk_answer_set_number(one, "request_id", request->status.request_id);
        vblk_answer_set_number(one, "device_id", request->device_id);
        vblk_answer_set_text(one, "device", request->device);
        vblk_answer_set_number(one, "queue", request->status.queue_index);
        vblk_answer_set_text(one, "type", vblk_request_kind_name(request->status.kind));
        vblk_answer_set_number(one, "offset_bytes", request->status.offset_bytes & INT64_MAX);
        vblk_answer_set_number(one, "size_bytes", request->status.size_bytes);
        vblk_answer_set_number(one, "age_ns", MAX(request->status.age_ns, 0));
        vblk_answer_set_text(one, "stage", request->status.stage);
        json_array_append_new(list, one);
    }
    g_array_unref(open.all);
    return json_pack("{s:I, s:o}", "total", (json_int_t)count, "requests", list);
}

/* ---- what changes something ---- */

/* The name that a command meant, also when it named none. Taken before it yields: the disk may be gone after. */
static char *meant_name(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    const char *name = device_argument(arguments);
    struct vblk_device_status status;
    struct vblk_device *device;
    char *meant;

    if (vblk_devices_hold(control->options.devices, name, &device, message_out) < 0)
        return NULL;
    vblk_device_status(device, &status);
    meant = g_strdup(status.name);
    vblk_devices_release(control->options.devices, device);
    return meant;
}

/* A drain has requests that wait for a resume tried once more, and reports what fails: no command may cost a guest an error. */
static bool refuse_paused(struct vblk_control *control, const char *name, char **message_out)
{
    struct vblk_device *device;
    bool paused;

    if (vblk_devices_hold(control->options.devices, name, &device, message_out) < 0)
        return true;
    paused = vblk_device_is_paused(device);
    vblk_devices_release(control->options.devices, device);
    if (paused)
        *message_out = g_strdup_printf("%s: is paused by an error of its disk, which its driver would now be told (resume it "
                                       "first)", name);
    return paused;
}

json_t *vblk_command_drain_co(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    char *name = meant_name(control, arguments, message_out);
    json_t *answer = NULL;

    if (name && !refuse_paused(control, name, message_out) &&
        vblk_devices_drain_co(control->options.devices, name, message_out) == 0)
        answer = device_answer(name);
    g_free(name);
    return answer;
}

json_t *vblk_command_resume_co(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    char *name = meant_name(control, arguments, message_out);
    json_t *answer = NULL;
    struct vblk_devices_resumed resumed;

    if (name && vblk_devices_resume_co(control->options.devices, name, &resumed, message_out) == 0) {
        answer = device_answer(name);
        json_object_set_new(answer, "was_drained", json_boolean(resumed.was_drained));
        vblk_answer_set_number(answer, "retried", resumed.retried_count);
    }
    g_free(name);
    return answer;
}

json_t *vblk_command_move_queue_co(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    int64_t queue = json_integer_value(json_object_get(arguments, "queue"));
    int64_t iothread = json_integer_value(json_object_get(arguments, "iothread"));
    char *name = meant_name(control, arguments, message_out);
    struct vblk_device *device;
    json_t *answer = NULL;
    int error;

    if (name && !refuse_paused(control, name, message_out) &&
        vblk_devices_hold(control->options.devices, name, &device, message_out) == 0) {
        error = vblk_device_move_queue_co(device, queue, iothread);
        vblk_devices_release(control->options.devices, device);
        if (error == 0) {
            answer = device_answer(name);
            vblk_answer_set_number(answer, "queue", queue);
            vblk_answer_set_number(answer, "iothread", iothread);
        } else if (error == -EINVAL) {
            *message_out = g_strdup_printf("%s: there is no queue %" G_GINT64_FORMAT ", or no IOThread %" G_GINT64_FORMAT
                                           " (both count from 0; --num-queues, --iothreads)", name, queue, iothread);
        } else {
            *message_out = g_strdup_printf("%s: queue %" G_GINT64_FORMAT " cannot be moved: %s (the log says more)", name,
                                           queue, g_strerror(-error));
        }
    }
    g_free(name);
    return answer;
}

json_t *vblk_command_resize_co(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    int64_t size_bytes = json_integer_value(json_object_get(arguments, "size_bytes")); /* 0 if it is not there */
    char *name = meant_name(control, arguments, message_out);
    struct vblk_device_status status;
    struct vblk_device *device;
    json_t *answer = NULL;
    int error;

    if (name && !refuse_paused(control, name, message_out) &&
        vblk_devices_hold(control->options.devices, name, &device, message_out) == 0) {
        error = vblk_device_resize_co(device, size_bytes);
        vblk_device_status(device, &status);
        vblk_devices_release(control->options.devices, device);
        if (error == 0) {
            answer = device_answer(name);
            vblk_answer_set_number(answer, "size_bytes", status.size_bytes);
        } else if (error == -EINVAL) {
            *message_out = g_strdup_printf("%s: cannot be of that size (a multiple of its block size of %u bytes)", name,
                                           status.block_size_bytes);
        } else {
            *message_out = g_strdup_printf("%s: cannot be resized: %s (the log says more)", name, g_strerror(-error));
        }
    }
    g_free(name);
    return answer;
}

/* The value as the command line would have it; NULL: it is one already. */
static char *value_text(const json_t *value)
{
    return json_is_integer(value)   ? g_strdup_printf("%" JSON_INTEGER_FORMAT, json_integer_value(value))
           : json_is_boolean(value) ? g_strdup(json_is_true(value) ? "on" : "off")
                                    : g_strdup(json_string_value(value));
}

/* Messages speak of options, which have no place in a request. */
static char *without_dashes(char *message)
{
    char *text = g_strdup(g_str_has_prefix(message, "--") ? message + 2 : message);

    g_free(message);
    return text;
}

json_t *vblk_command_add_disk_co(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    struct vblk_device_options disk = *control->options.disk_defaults;
    GPtrArray *strings = g_ptr_array_new_with_free_func(g_free);
    json_t *answer = NULL, *value;
    char *why = NULL;
    const char *key;

    json_object_foreach ((json_t *)arguments, key, value) {
        char *text = value_text(value);

        g_ptr_array_add(strings, text);
        if (!why)
            why = vblk_disk_keys_set(&disk, key, text);
    }
    if (!why)
        why = vblk_disk_keys_check(&disk);
    if (why)
        *message_out = without_dashes(why);
    else if (vblk_devices_add_co(control->options.devices, &disk, message_out) == 0)
        answer = device_answer(disk.name ? disk.name : disk.socket_path);
    g_ptr_array_unref(strings);
    return answer;
}

json_t *vblk_command_remove_disk_co(struct vblk_control *control, const json_t *arguments, char **message_out)
{
    bool force = json_is_true(json_object_get(arguments, "force"));
    char *name = meant_name(control, arguments, message_out);
    json_t *answer = NULL;

    if (name && vblk_devices_remove_co(control->options.devices, name, force, message_out) == 0)
        answer = device_answer(name);
    g_free(name);
    return answer;
}
