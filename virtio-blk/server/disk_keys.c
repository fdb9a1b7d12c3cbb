#include "server/disk_keys.h"

#include <stdlib.h>
#include <string.h>

#include "disk/inject_rule.h"

/* sun_path holds 108 bytes with its end. */
#define SOCKET_PATH_MAX 107

/* A day: who waits longer does not wait for a server. */
#define NBD_RECONNECT_S_MAX 86400

#define wrong g_strdup_printf

static bool parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *number_out)
{
    return g_ascii_string_to_unsigned(text, 10, min, max, number_out, NULL);
}

static char *set_socket_path(struct vblk_device_options *disk, const char *value)
{
    if (*value == '\0')
        return wrong("--socket-path: empty (say where to listen)");
    if (strlen(value) > SOCKET_PATH_MAX)
        return wrong("--socket-path=%s: longer than the %d bytes that a socket's path may have", value, SOCKET_PATH_MAX);
    disk->socket_path = value;
    return NULL;
}

static char *set_fd(struct vblk_device_options *disk, const char *value)
{
    uint64_t number;

    if (!parse_number(value, 0, INT32_MAX, &number))
        return wrong("--fd=%s: not a descriptor's number", value);
    disk->fd = number;
    return NULL;
}

static char *set_blk_file(struct vblk_device_options *disk, const char *value)
{
    if (*value == '\0')
        return wrong("--blk-file: empty (say a file, a block device, null:SIZE, or nbd:URI)");
    disk->blk_file = value;
    return NULL;
}

static char *set_name(struct vblk_device_options *disk, const char *value)
{
    disk->name = value;
    return NULL;
}

static char *set_read_only(struct vblk_device_options *disk, const char *value)
{
    if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
        return wrong("read-only=%s: must be on or off", value);
    disk->read_only = strcmp(value, "on") == 0;
    return NULL;
}

static char *set_incoming(struct vblk_device_options *disk, const char *value)
{
    if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
        return wrong("incoming=%s: must be on or off", value);
    disk->incoming = strcmp(value, "on") == 0;
    return NULL;
}

static char *set_num_queues(struct vblk_device_options *disk, const char *value)
{
    uint64_t number;

    if (!parse_number(value, 1, VBLK_QUEUES_MAX, &number))
        return wrong("--num-queues=%s: must be 1 to %d", value, VBLK_QUEUES_MAX);
    disk->queue_count = number;
    return NULL;
}

static char *set_serial(struct vblk_device_options *disk, const char *value)
{
    if (strlen(value) > VBLK_SERIAL_BYTES)
        return wrong("--serial=%s: longer than the %d bytes that a driver reads", value, VBLK_SERIAL_BYTES);
    disk->serial = value;
    return NULL;
}

static char *set_block_size(struct vblk_device_options *disk, const char *value)
{
    if (strcmp(value, "512") != 0 && strcmp(value, "4096") != 0)
        return wrong("--block-size=%s: must be 512 or 4096", value);
    disk->block_size_bytes = value[0] == '5' ? 512 : 4096;
    return NULL;
}

static char *set_cache(struct vblk_device_options *disk, const char *value)
{
    if (strcmp(value, "writeback") != 0 && strcmp(value, "none") != 0)
        return wrong("--cache=%s: must be writeback or none", value);
    disk->cache = value[0] == 'n' ? VBLK_DISK_CACHE_NONE : VBLK_DISK_CACHE_WRITEBACK;
    return NULL;
}

static char *set_nbd_reconnect(struct vblk_device_options *disk, const char *value)
{
    uint64_t number;

    if (!parse_number(value, 0, NBD_RECONNECT_S_MAX, &number))
        return wrong("--nbd-reconnect=%s: must be 0 to %d seconds", value, NBD_RECONNECT_S_MAX);
    disk->nbd_reconnect_s = number;
    return NULL;
}

static char *set_on_disk_error(struct vblk_device_options *disk, const char *value)
{
    if (strcmp(value, "report") != 0 && strcmp(value, "stop") != 0)
        return wrong("--on-disk-error=%s: must be report or stop", value);
    disk->on_disk_error = value[0] == 's' ? VBLK_DISK_ERROR_STOP : VBLK_DISK_ERROR_REPORT;
    return NULL;
}

static char *set_inject(struct vblk_device_options *disk, const char *value)
{
    struct vblk_inject_rules rules;
    char *message = NULL, *why;

    disk->inject = value;
    if (vblk_inject_rules_parse(value, &rules, &message) == 0) {
        vblk_inject_rules_clear(&rules);
        return NULL;
    }
    why = wrong("--inject: %s", message);
    g_free(message);
    return why;
}

static char *set_socket_mode(struct vblk_device_options *disk, const char *value)
{
    char *end;
    unsigned long mode = strtoul(value, &end, 8);

    if (*value == '\0' || *end != '\0' || mode > 0777)
        return wrong("--socket-mode=%s: not an octal mode such as 0660", value);
    disk->socket_mode = mode;
    return NULL;
}

static char *set_socket_group(struct vblk_device_options *disk, const char *value)
{
    disk->socket_group = value;
    return NULL;
}

static const struct vblk_disk_key keys[] = {
    { "socket-path", VBLK_KEY_TEXT, "Listen for the front end there", set_socket_path },
    { "fd", VBLK_KEY_NUMBER, "Use this descriptor: a connected or a listening socket", set_fd },
    { "blk-file", VBLK_KEY_TEXT, "A file, a block device, null:SIZE, or nbd:URI", set_blk_file },
    { "name", VBLK_KEY_TEXT, "Name in messages and traces (default: the socket path)", set_name },
    { "read-only", VBLK_KEY_SWITCH, "The driver may not write", set_read_only },
    { "incoming", VBLK_KEY_SWITCH, "Its guest comes by migration: take the disk when that starts", set_incoming },
    { "num-queues", VBLK_KEY_NUMBER, "Queues to offer", set_num_queues },
    { "serial", VBLK_KEY_TEXT, "Serial number, up to 20 bytes (default: the end of the name)", set_serial },
    { "block-size", VBLK_KEY_NUMBER, "Block size shown to the driver, 512 or 4096", set_block_size },
    { "cache", VBLK_KEY_TEXT, "writeback (the page cache) or none (direct I/O)", set_cache },
    { "nbd-reconnect", VBLK_KEY_NUMBER, "Seconds that requests wait for a lost NBD server", set_nbd_reconnect },
    { "on-disk-error", VBLK_KEY_TEXT, "What becomes of errors: report (to the driver) or stop (until resumed)", set_on_disk_error },
    { "inject", VBLK_KEY_TEXT, "Delay, reorder or fail requests by rules, for an experiment", set_inject },
    { "socket-mode", VBLK_KEY_TEXT, "Mode of the socket, octal", set_socket_mode },
    { "socket-group", VBLK_KEY_TEXT, "Group of the socket", set_socket_group },
};

const struct vblk_disk_key *vblk_disk_key_at(unsigned index)
{
    return index < G_N_ELEMENTS(keys) ? &keys[index] : NULL;
}

char *vblk_disk_keys_set(struct vblk_device_options *disk, const char *key, const char *value)
{
    GString *known;
    char *why;

    for (unsigned i = 0; i < G_N_ELEMENTS(keys); i++)
        if (strcmp(key, keys[i].name) == 0)
            return keys[i].set(disk, value);
    known = g_string_new(NULL);
    for (unsigned i = 0; i < G_N_ELEMENTS(keys); i++)
        g_string_append_printf(known, "%s%s", i ? ", " : "", keys[i].name);
    why = wrong("--disk: unknown key '%s'; known are: %s", key, known->str);
    g_string_free(known, TRUE);
    return why;
}

char *vblk_disk_keys_parse(struct vblk_device_options *disk, const char *text, GPtrArray *strings)
{
    const char *p = text;

    while (*p != '\0') {
        GString *value = g_string_new(NULL);
        const char *equals = strchr(p, '=');
        char *key, *why;

        if (!equals || memchr(p, ',', equals - p)) {
            g_string_free(value, TRUE);
            return wrong("--disk=%s: must be KEY=VALUE,KEY=VALUE,...", text);
        }
        key = g_strndup(p, equals - p);
        for (p = equals + 1; *p != '\0'; p++) {
            if (*p == ',' && *++p != ',')
                break;
            g_string_append_c(value, *p);
        }
        g_ptr_array_add(strings, key);
        g_ptr_array_add(strings, value->str);
        why = vblk_disk_keys_set(disk, key, g_string_free(value, FALSE));
        if (why)
            return why;
    }
    return NULL;
}

char *vblk_disk_keys_check(const struct vblk_device_options *disk)
{
    if (!disk->blk_file)
        return wrong("no disk: say --blk-file=FILE (a file, a block device, null:SIZE, or nbd:URI)");
    if (!disk->socket_path && disk->fd < 0)
        return wrong("%s: no socket: say --socket-path=PATH or --fd=N", disk->blk_file);
    if (disk->socket_path && disk->fd >= 0)
        return wrong("%s: both a socket path and a descriptor: say one", disk->blk_file);
    return NULL;
}
