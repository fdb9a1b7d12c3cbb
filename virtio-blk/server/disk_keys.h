/**
 * How a user describes one disk: the keys of --disk=KEY=VALUE,..., of the plain options of the same names, and of the
 * control command add-disk. One table for all of them.
 *
 *     struct vblk_device_options disk = ...;                       // the defaults
 *     char *why = vblk_disk_keys_set(&disk, "num-queues", "4");
 *     if (!why)
 *         why = vblk_disk_keys_check(&disk);
 *
 * Errors:    NULL: fine; else one line that names the key and the remedy, which the caller frees with g_free().
 * Ownership: values are kept as they are: they must outlive the options.
 */
#ifndef VBLK_SERVER_DISK_KEYS_H
#define VBLK_SERVER_DISK_KEYS_H

#include <glib.h>

#include "device/device.h"

enum vblk_disk_key_type { VBLK_KEY_TEXT, VBLK_KEY_NUMBER, VBLK_KEY_SWITCH /**< on or off */ };

struct vblk_disk_key {
    const char *name;
    enum vblk_disk_key_type type;
    const char *text; /**< what it is, for people */
    char *(*set)(struct vblk_device_options *disk, const char *value);
};

/** The key at @index, or NULL behind the last one. */
const struct vblk_disk_key *vblk_disk_key_at(unsigned index);

char *vblk_disk_keys_set(struct vblk_device_options *disk, const char *key, const char *value);

/** KEY=VALUE,KEY=VALUE; a comma in a value is written twice, as QEMU has it. @strings takes what the options point to. */
char *vblk_disk_keys_parse(struct vblk_device_options *disk, const char *text, GPtrArray *strings);

/** Whether they say what to serve and where. */
char *vblk_disk_keys_check(const struct vblk_device_options *disk);

#endif
