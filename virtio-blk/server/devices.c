#include "server/devices.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "device/status.h"
#include "rt/coroutine.h"

struct served_device {
    struct vblk_devices *devices;
    struct vblk_device *device;
    char *name, *blk_file, *socket_path;
    bool ended;    /* its front end was given connected, and has left */
    bool removing;
    bool drained, draining, drain_cancelled;
    unsigned holders;
    struct rt_coroutine *remover; /* waits until nobody holds it */
};

struct vblk_devices {
    struct vblk_devices_options options;
    GPtrArray *served; /* of struct served_device */
    unsigned opening_count; /* disks that a command is about to add */
    struct rt_coroutine *destroyer; /* waits until a command has removed what it removes, or knows what it opened */
};

struct vblk_devices *vblk_devices_create(const struct vblk_devices_options *options)
{
    struct vblk_devices *devices = g_new0(struct vblk_devices, 1);

    devices->options = *options;
    devices->served = g_ptr_array_new();
    return devices;
}

unsigned vblk_devices_count(const struct vblk_devices *devices)
{
    return devices->served->len;
}

static struct served_device *served_at(const struct vblk_devices *devices, unsigned index)
{
    return g_ptr_array_index(devices->served, index);
}

void vblk_devices_each(struct vblk_devices *devices,
                       void (*visit)(const struct vblk_devices_entry *entry, void *opaque), void *opaque)
{
    for (unsigned i = 0; i < devices->served->len; i++) {
        const struct served_device *served = served_at(devices, i);
        const struct vblk_devices_entry entry = {
            .device = served->device,
            .name = served->name,
            .blk_file = served->blk_file,
            .socket_path = served->socket_path,
            .drained = served->drained,
            .draining = served->draining,
        };

        visit(&entry, opaque);
    }
}

/* "a, b, c", for whoever asked for another one. */
static char *names(const struct vblk_devices *devices)
{
    GString *text = g_string_new(NULL);

    for (unsigned i = 0; i < devices->served->len; i++)
        g_string_append_printf(text, "%s%s", i ? ", " : "", served_at(devices, i)->name);
    return g_string_free(text, FALSE);
}

static struct served_device *find(const struct vblk_devices *devices, const char *name)
{
    for (unsigned i = 0; i < devices->served->len; i++)
        if (strcmp(served_at(devices, i)->name, name) == 0)
            return served_at(devices, i);
    return NULL;
}

static struct served_device *need(const struct vblk_devices *devices, const char *name, int *error_out, char **message_out)
{
    struct served_device *served = NULL;
    char *known;

    if (name)
        served = find(devices, name);
    else if (devices->served->len == 1)
        served = served_at(devices, 0);
    *error_out = -EBUSY;
    if (served && !served->removing)
        return served;
    if (served) {
        *message_out = g_strdup_printf("%s: is being removed", served->name);
        return NULL;
    }
    *error_out = -ENOENT;
    if (devices->served->len == 0) {
        *message_out = g_strdup_printf("%s%sthere is no disk (add-disk makes one)", name ? name : "", name ? ": " : "");
        return NULL;
    }
    known = names(devices);
    *message_out = name ? g_strdup_printf("%s: there is no disk of that name; there are: %s", name, known)
                        : g_strdup_printf("which disk? (say device; there are: %s)", known);
    g_free(known);
    return NULL;
}

/* ---- who uses a device while it yields ---- */

static void hold(struct served_device *served)
{
    served->holders++;
}

static void release(struct served_device *served)
{
    struct rt_coroutine *remover = served->remover;

    if (--served->holders > 0 || !remover)
        return;
    served->remover = NULL;
    rt_coroutine_wake(remover);
}

int vblk_devices_hold(struct vblk_devices *devices, const char *name, struct vblk_device **device_out, char **message_out)
{
    int error;
    struct served_device *served = need(devices, name, &error, message_out);

    if (!served)
        return error;
    hold(served);
    *device_out = served->device;
    return 0;
}

void vblk_devices_release(struct vblk_devices *devices, struct vblk_device *device)
{
    for (unsigned i = 0; i < devices->served->len; i++)
        if (served_at(devices, i)->device == device) {
            release(served_at(devices, i));
            return;
        }
}

/* ---- come and go ---- */

static void device_ended(void *opaque)
{
    struct served_device *served = opaque;
    struct vblk_devices *devices = served->devices;

    served->ended = true;
    for (unsigned i = 0; i < devices->served->len; i++)
        if (!served_at(devices, i)->ended)
            return;
    if (devices->options.ended)
        devices->options.ended(devices->options.opaque);
}

/* Something of what it waits for has ended. */
static void wake_destroyer(struct vblk_devices *devices)
{
    struct rt_coroutine *destroyer = devices->destroyer;

    devices->destroyer = NULL;
    if (destroyer)
        rt_coroutine_wake(destroyer);
}

static void free_served(struct served_device *served)
{
    g_free(served->name);
    g_free(served->blk_file);
    g_free(served->socket_path);
    g_free(served);
}

static struct served_device *new_served(struct vblk_devices *devices, const struct vblk_device_options *options)
{
    struct served_device *served = g_new0(struct served_device, 1);

    served->devices = devices;
    served->name = options->name          ? g_strdup(options->name)
                   : options->socket_path ? g_strdup(options->socket_path)
                                          : g_strdup_printf("fd-%d", options->fd);
    served->blk_file = g_strdup(options->blk_file);
    served->socket_path = g_strdup(options->socket_path);
    return served;
}

static int refuse_twins(const struct served_device *served, char **message_out)
{
    if (!find(served->devices, served->name))
        return 0;
    *message_out = g_strdup_printf("%s: there is a disk of that name already (choose another one with --name)", served->name);
    return -EEXIST;
}

/* A disk that is being opened. */
struct opening {
    struct vblk_device_options options;
    struct vblk_disk *disk;
    char *message;
    int error;
};

static void open_disk(void *opaque)
{
    struct opening *opening = opaque;

    opening->error = vblk_device_open_disk(&opening->options, &opening->disk, &opening->message);
}

static int serve(struct served_device *served, struct opening *opening, char **message_out)
{
    struct vblk_devices *devices = served->devices;

    opening->options.name = served->name;
    opening->options.loops = devices->options.loops;
    opening->options.loop_count = devices->options.loop_count;
    opening->options.main_loop = devices->options.main_loop;
    opening->options.ended = device_ended;
    opening->options.opaque = served;
    return vblk_device_create(&opening->options, opening->disk, &served->device, message_out);
}

/* @in_coroutine: what takes long is done aside. */
static int add(struct vblk_devices *devices, const struct vblk_device_options *options, bool in_coroutine,
               char **message_out)
{
    struct served_device *served = new_served(devices, options);
    struct opening opening = { .options = *options };
    int error = refuse_twins(served, message_out);

    if (error == 0) {
        devices->opening_count++;
        if (in_coroutine)
            rt_offload_co("open-disk", open_disk, &opening);
        else
            open_disk(&opening);
        devices->opening_count--;
        *message_out = opening.message;
        error = opening.error;
    }
    if (error == 0) {
        error = refuse_twins(served, message_out); /* who came meanwhile */
        if (error == 0 && devices->destroyer) {
            *message_out = g_strdup_printf("%s: the process ends", served->name);
            error = -ECANCELED;
        }
        if (error < 0)
            vblk_disk_close(opening.disk);
        else
            error = serve(served, &opening, message_out);
    }
    if (error < 0)
        free_served(served);
    else
        g_ptr_array_add(devices->served, served);
    wake_destroyer(devices);
    return error;
}

int vblk_devices_add(struct vblk_devices *devices, const struct vblk_device_options *options, char **message_out)
{
    return add(devices, options, false, message_out);
}

int vblk_devices_add_co(struct vblk_devices *devices, const struct vblk_device_options *options, char **message_out)
{
    return add(devices, options, true, message_out);
}

/* Nobody else looks at it any more: the caller has set removing. */
static void remove_co(struct served_device *served)
{
    struct vblk_devices *devices = served->devices;

    if (served->drained)
        vblk_device_drain_end(served->device);
    served->drained = false;
    served->drain_cancelled = true;
    if (served->holders > 0) {
        served->remover = rt_coroutine_self();
        rt_coroutine_yield();
    }
    vblk_device_destroy_co(served->device);
    g_ptr_array_remove(devices->served, served); /* its name is free from here on, as its socket is */
    free_served(served);
    wake_destroyer(devices);
}

int vblk_devices_remove_co(struct vblk_devices *devices, const char *name, bool force, char **message_out)
{
    struct vblk_device_status status;
    int error;
    struct served_device *served = need(devices, name, &error, message_out);

    if (!served)
        return error;
    vblk_device_status(served->device, &status);
    if (status.connected && !force) {
        *message_out = g_strdup_printf("%s: a front end is connected (detach the disk there first, or say force)",
                                       served->name);
        return -EBUSY;
    }
    served->removing = true;
    remove_co(served);
    return 0;
}

void vblk_devices_destroy_co(struct vblk_devices *devices)
{
    if (!devices)
        return;
    while (devices->served->len > 0 || devices->opening_count > 0) {
        struct served_device *served = NULL;

        if (devices->served->len > 0)
            served = served_at(devices, devices->served->len - 1);
        if (!served || served->removing) {
            devices->destroyer = rt_coroutine_self();
            rt_coroutine_yield();
            continue;
        }
        served->removing = true;
        remove_co(served);
    }
    g_ptr_array_unref(devices->served);
    g_free(devices);
}

/* ---- drain ---- */

int vblk_devices_drain_co(struct vblk_devices *devices, const char *name, char **message_out)
{
    int error;
    struct served_device *served = need(devices, name, &error, message_out);

    if (!served)
        return error;
    if (served->drained || served->draining) {
        *message_out = g_strdup_printf("%s: is drained already (resume ends that)", served->name);
        return -EALREADY;
    }
    hold(served);
    served->draining = true;
    served->drain_cancelled = false;
    vblk_device_drain_begin_co(served->device);
    served->draining = false;
    if (served->drain_cancelled) {
        vblk_device_drain_end(served->device);
        *message_out = g_strdup_printf("%s: was %s before it was drained", served->name,
                                       served->removing ? "removed" : "resumed");
        error = -ECANCELED;
    } else {
        served->drained = true;
        error = 0;
    }
    release(served);
    return error;
}

int vblk_devices_resume_co(struct vblk_devices *devices, const char *name, struct vblk_devices_resumed *resumed_out,
                           char **message_out)
{
    int error;
    struct served_device *served = need(devices, name, &error, message_out);

    if (!served)
        return error;
    hold(served);
    resumed_out->was_drained = served->drained || served->draining;
    served->drain_cancelled = true;
    if (served->drained)
        vblk_device_drain_end(served->device);
    served->drained = false;
    resumed_out->retried_count = vblk_device_resume_co(served->device);
    release(served);
    return 0;
}
