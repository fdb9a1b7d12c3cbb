/* What a server offers: features, queues, configuration, serial number. */
#include "commands.h"
#include "fe_control.h"

#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <linux/virtio_config.h>

struct bit_name {
    unsigned bit;
    const char *name;
};

static const struct bit_name feature_names[] = {
    { VIRTIO_BLK_F_SIZE_MAX, "SIZE_MAX" },
    { VIRTIO_BLK_F_SEG_MAX, "SEG_MAX" },
    { VIRTIO_BLK_F_GEOMETRY, "GEOMETRY" },
    { VIRTIO_BLK_F_RO, "RO" },
    { VIRTIO_BLK_F_BLK_SIZE, "BLK_SIZE" },
    { VIRTIO_BLK_F_SCSI, "SCSI" },
    { VIRTIO_BLK_F_FLUSH, "FLUSH" },
    { VIRTIO_BLK_F_TOPOLOGY, "TOPOLOGY" },
    { VIRTIO_BLK_F_CONFIG_WCE, "CONFIG_WCE" },
    { VIRTIO_BLK_F_MQ, "MQ" },
    { VIRTIO_BLK_F_DISCARD, "DISCARD" },
    { VIRTIO_BLK_F_WRITE_ZEROES, "WRITE_ZEROES" },
    { VIRTIO_BLK_F_SECURE_ERASE, "SECURE_ERASE" },
    { VIRTIO_F_NOTIFY_ON_EMPTY, "NOTIFY_ON_EMPTY" },
    { 26, "LOG_ALL" },
    { VIRTIO_F_ANY_LAYOUT, "ANY_LAYOUT" },
    { VIRTIO_RING_F_INDIRECT_DESC, "INDIRECT_DESC" },
    { VIRTIO_RING_F_EVENT_IDX, "EVENT_IDX" },
    { WIRE_F_PROTOCOL_FEATURES, "PROTOCOL_FEATURES" },
    { VIRTIO_F_VERSION_1, "VERSION_1" },
    { VIRTIO_F_ACCESS_PLATFORM, "ACCESS_PLATFORM" },
    { VIRTIO_F_RING_PACKED, "RING_PACKED" },
    { VIRTIO_F_IN_ORDER, "IN_ORDER" },
    { VIRTIO_F_ORDER_PLATFORM, "ORDER_PLATFORM" },
};

static const struct bit_name protocol_names[] = {
    { WIRE_P_MQ, "MQ" },
    { WIRE_P_LOG_SHMFD, "LOG_SHMFD" },
    { WIRE_P_REPLY_ACK, "REPLY_ACK" },
    { WIRE_P_BACKEND_REQ, "BACKEND_REQ" },
    { WIRE_P_CONFIG, "CONFIG" },
    { WIRE_P_BACKEND_SEND_FD, "BACKEND_SEND_FD" },
    { WIRE_P_HOST_NOTIFIER, "HOST_NOTIFIER" },
    { WIRE_P_INFLIGHT_SHMFD, "INFLIGHT_SHMFD" },
    { WIRE_P_RESET_DEVICE, "RESET_DEVICE" },
    { WIRE_P_INBAND_NOTIFICATIONS, "INBAND_NOTIFICATIONS" },
    { WIRE_P_CONFIGURE_MEM_SLOTS, "CONFIGURE_MEM_SLOTS" },
    { WIRE_P_STATUS, "STATUS" },
};

static json_t *names_json(uint64_t bits, const struct bit_name *names, size_t name_count)
{
    json_t *array = json_array();
    for (unsigned bit = 0; bit < 64; bit++) {
        const char *name = NULL;
        if (!(bits >> bit & 1))
            continue;
        for (size_t i = 0; i < name_count; i++)
            if (names[i].bit == bit)
                name = names[i].name;
        json_array_append_new(array, name ? json_string(name) : json_sprintf("bit %u", bit));
    }
    return array;
}

/* GET_ID on queue 0. Returns 0 and at most 20 characters, or a negative errno. */
static int read_serial(struct front_end *fe, int timeout_ms, char serial_out[VIRTIO_BLK_ID_BYTES + 1])
{
    struct fe_queue *queue = fe_queue(fe, 0);
    uint16_t slot = fe_queue_take(queue);
    int count;
    fe_queue_prepare(queue, slot, VIRTIO_BLK_T_GET_ID, 0, VIRTIO_BLK_ID_BYTES, FE_FROM_DEVICE);
    fe_queue_submit(queue, slot);
    fe_queue_publish(queue);
    while ((count = fe_queue_reap(queue, &slot, 1)) == 0) {
        struct pollfd fds[] = { { .fd = queue->call_fd, .events = POLLIN },
                                { .fd = fe_socket(fe), .events = POLLRDHUP } };
        if (fe_queue_arm(queue))
            continue;
        int ready = poll(fds, 2, timeout_ms);
        if (ready == 0)
            return -ETIMEDOUT;
        if (fds[1].revents)
            return -ECONNRESET;
        if (fds[0].revents && fe_queue_wait(queue) < 0)
            return -EIO;
    }
    if (count < 0 || *queue->slots[slot].status != VIRTIO_BLK_S_OK)
        return -EIO;
    memcpy(serial_out, queue->slots[slot].data, VIRTIO_BLK_ID_BYTES);
    serial_out[VIRTIO_BLK_ID_BYTES] = '\0';
    return 0;
}

static json_t *config_json(const struct fe_info *info)
{
    const struct virtio_blk_config *config = &info->config;
    if (!info->config_known)
        return json_null();
    const struct {
        const char *key;
        uint64_t value;
    } fields[] = {
        { "capacity_sectors", config->capacity },
        { "capacity_bytes", config->capacity * 512 },
        { "size_max", config->size_max },
        { "seg_max", config->seg_max },
        { "blk_size", config->blk_size },
        { "physical_block_exp", config->physical_block_exp },
        { "alignment_offset", config->alignment_offset },
        { "min_io_size", config->min_io_size },
        { "opt_io_size", config->opt_io_size },
        { "wce", config->wce },
        { "num_queues", config->num_queues },
        { "max_discard_sectors", config->max_discard_sectors },
        { "max_discard_seg", config->max_discard_seg },
        { "discard_sector_alignment", config->discard_sector_alignment },
        { "max_write_zeroes_sectors", config->max_write_zeroes_sectors },
        { "max_write_zeroes_seg", config->max_write_zeroes_seg },
        { "write_zeroes_may_unmap", config->write_zeroes_may_unmap },
    };
    json_t *object = json_object();
    for (unsigned i = 0; i < G_N_ELEMENTS(fields); i++)
        json_object_set_new(object, fields[i].key, json_integer(fields[i].value));
    return object;
}

/* The text form walks the same document, so that both forms always say the same. */
static void print_text(json_t *document)
{
    const char *key;
    json_t *value;
    json_object_foreach (document, key, value) {
        if (json_is_object(value)) {
            printf("%s:\n", key);
            const char *inner_key;
            json_t *inner;
            json_object_foreach (value, inner_key, inner)
                printf("  %-26s %" JSON_INTEGER_FORMAT "\n", inner_key, json_integer_value(inner));
        } else if (json_is_array(value)) {
            size_t i;
            json_t *element;
            printf("%-28s", key);
            json_array_foreach (value, i, element)
                printf(" %s", json_string_value(element));
            putchar('\n');
        } else if (json_is_integer(value)) {
            printf("%-28s %" JSON_INTEGER_FORMAT "\n", key, json_integer_value(value));
        } else {
            printf("%-28s %s\n", key, json_is_string(value) ? json_string_value(value) : "not told");
        }
    }
}

int command_info(const struct load_options *options)
{
    struct fe_options fe_options = options_front_end(options);
    fe_options.protocol_wanted |= 1ull << WIRE_P_CONFIGURE_MEM_SLOTS;
    struct front_end *fe = fe_create(&fe_options);
    const struct fe_info *info = fe_info(fe);
    char serial[VIRTIO_BLK_ID_BYTES + 1];
    uint64_t slots = 0; /* that the server can tell */
    int status = EXIT_DONE;

    if (fe_open(fe) < 0 || (info->protocol_features >> WIRE_P_CONFIGURE_MEM_SLOTS & 1 &&
                            fe_memory_slots(fe, &slots) < 0)) {
        status = report_failure(fe_error(fe));
        fe_destroy(fe);
        return status;
    }
    int rc = read_serial(fe, fe_options.timeout_ms, serial);
    char features[24], protocol_features[24];
    g_snprintf(features, sizeof(features), "%#" PRIx64, info->features_offered);
    g_snprintf(protocol_features, sizeof(protocol_features), "%#" PRIx64, info->protocol_features_offered);

    json_t *document = json_pack(
        "{ss ss so so ss so so so so so}", "socket_path", options->socket_path, "features", features,
        "features_offered", names_json(info->features_offered, feature_names, G_N_ELEMENTS(feature_names)),
        "features_negotiated", names_json(info->features, feature_names, G_N_ELEMENTS(feature_names)),
        "protocol_features", protocol_features, "protocol_features_offered",
        names_json(info->protocol_features_offered, protocol_names, G_N_ELEMENTS(protocol_names)),
        "queue_count", info->queue_count_max ? json_integer(info->queue_count_max) : json_null(), "memory_slots",
        slots ? json_integer((json_int_t)slots) : json_null(), "serial",
        rc == 0 && g_utf8_validate(serial, -1, NULL) ? json_string(serial) : json_null(), "config",
        config_json(info));
    if (options->json) {
        json_dumpf(document, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        putchar('\n');
    } else {
        print_text(document);
    }
    json_decref(document);
    if (rc == -ETIMEDOUT || rc == -ECONNRESET) {
        g_autofree char *text =
            g_strdup_printf("%s: a GET_ID request was not answered: %s (the server's log says why)",
                            options->socket_path, g_strerror(-rc));
        status = report_failure(text);
    } else if (fe_stop(fe) < 0) {
        status = report_failure(fe_error(fe));
    }
    fe_destroy(fe);
    return status;
}
