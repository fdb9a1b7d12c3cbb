/* The front end's life: features, shared memory, starting and stopping rings. See front_end.h. */
#include "front_end_state.h"

#include "fe_control.h"

#include <endian.h>
#include <errno.h>
#include <linux/virtio_config.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <unistd.h>

/* Guest addresses start here: unlike any address of this process, so that a server which confuses
 * guest and user addresses fails at once. */
#define GUEST_ADDR_BASE 0x100000000ull

/* SPDK registers memory with its drivers in units of 2 MiB. */
#define MEMORY_STEP_BYTES (2u << 20)

struct front_end *fe_create(const struct fe_options *options)
{
    struct front_end *fe = g_new0(struct front_end, 1);
    fe->options = *options;
    fe->socket_path =
        options->socket_path ? g_strdup(options->socket_path) : g_strdup_printf("socket %d", options->fd);
    fe->socket = -1;
    fe->memory_fd = -1;
    fe->err_fd = -1;
    fe->backend_channel = -1;
    fe->inflight_fd = -1;
    fe->memory = MAP_FAILED;
    fe->retired_fds = g_array_new(FALSE, FALSE, sizeof(int));
    return fe;
}

static void retire_fds(struct front_end *fe, struct fe_queue *queue)
{
    if (queue->kick_fd >= 0)
        g_array_append_val(fe->retired_fds, queue->kick_fd);
    if (queue->call_fd >= 0)
        g_array_append_val(fe->retired_fds, queue->call_fd);
    queue->kick_fd = queue->call_fd = -1;
}

/* The connection and all that was made for the server at its other end. */
static void forget_server(struct front_end *fe)
{
    if (fe->socket >= 0)
        close(fe->socket);
    if (fe->backend_channel >= 0)
        close(fe->backend_channel);
    fe->socket = fe->backend_channel = -1;
    for (unsigned i = 0; fe->queues && i < fe->options.queue_count; i++) {
        retire_fds(fe, &fe->queues[i]);
        fe->queue_started[i] = false;
    }
    for (unsigned i = 0; i < fe->retired_fds->len; i++)
        close(g_array_index(fe->retired_fds, int, i));
    g_array_set_size(fe->retired_fds, 0);
}

void fe_destroy(struct front_end *fe)
{
    if (!fe)
        return;
    forget_server(fe);
    for (unsigned i = 0; fe->queues && i < fe->options.queue_count; i++)
        fe_queue_deinit(&fe->queues[i]);
    g_array_free(fe->retired_fds, TRUE);
    if (fe->inflight_fd >= 0)
        close(fe->inflight_fd);
    if (fe->err_fd >= 0)
        close(fe->err_fd);
    if (fe->memory != MAP_FAILED)
        munmap(fe->memory, fe->memory_bytes);
    if (fe->memory_fd >= 0)
        close(fe->memory_fd);
    g_free(fe->queues);
    g_free(fe->queue_started);
    g_free(fe->socket_path);
    g_free(fe);
}

const char *fe_error(const struct front_end *fe)
{
    return fe->error;
}

int fe_read_config(struct front_end *fe)
{
    /* What VIRTIO 1.1 defines. Secure erase, which 1.2 added behind it, is not used here, and servers
     * refuse to answer for more than they know. */
    enum { CONFIG_BYTES = offsetof(struct virtio_blk_config, max_secure_erase_sectors) };
    struct {
        struct wire_config_header header;
        uint8_t bytes[CONFIG_BYTES];
    } message = { .header = { .size = CONFIG_BYTES } };

    int rc = fe_get(fe, WIRE_GET_CONFIG, &message, sizeof(message), &message, sizeof(message));
    if (rc < 0)
        return rc;
    struct virtio_blk_config *config = &fe->info.config;
    memcpy(config, message.bytes, CONFIG_BYTES);
    config->capacity = le64toh(config->capacity);
    config->size_max = le32toh(config->size_max);
    config->seg_max = le32toh(config->seg_max);
    config->geometry.cylinders = le16toh(config->geometry.cylinders);
    config->blk_size = le32toh(config->blk_size);
    config->min_io_size = le16toh(config->min_io_size);
    config->opt_io_size = le32toh(config->opt_io_size);
    config->num_queues = le16toh(config->num_queues);
    config->max_discard_sectors = le32toh(config->max_discard_sectors);
    config->max_discard_seg = le32toh(config->max_discard_seg);
    config->discard_sector_alignment = le32toh(config->discard_sector_alignment);
    config->max_write_zeroes_sectors = le32toh(config->max_write_zeroes_sectors);
    config->max_write_zeroes_seg = le32toh(config->max_write_zeroes_seg);
    fe->info.config_known = true;
    return 0;
}

/* SET_PROTOCOL_FEATURES and what they open. */
static int negotiate_protocol(struct front_end *fe)
{
    struct fe_info *info = &fe->info;
    int rc =
        fe_get(fe, WIRE_GET_PROTOCOL_FEATURES, NULL, 0, &info->protocol_features_offered, sizeof(uint64_t));
    if (rc < 0)
        return rc;
    uint64_t wanted = 1ull << WIRE_P_MQ | 1ull << WIRE_P_CONFIG | fe->options.protocol_wanted;
    if (fe->options.reply_ack)
        wanted |= 1ull << WIRE_P_REPLY_ACK;
    uint64_t agreed = wanted & info->protocol_features_offered;
    /* REPLY_ACK holds only from the next message on, so this one is sent plainly. */
    rc = fe_send(fe, WIRE_SET_PROTOCOL_FEATURES, 0, &agreed, sizeof(agreed), NULL, 0);
    if (rc < 0)
        return rc;
    info->protocol_features = agreed;
    info->queue_count_max = 1;
    if (fe_has(agreed, WIRE_P_MQ))
        rc = fe_get(fe, WIRE_GET_QUEUE_NUM, NULL, 0, &info->queue_count_max, sizeof(uint64_t));
    return rc;
}

static int check_agreed(struct front_end *fe)
{
    struct fe_info *info = &fe->info;
    struct fe_queue_layout *layout = &fe->options.layout;
    layout->indirect = fe_has(info->features, VIRTIO_RING_F_INDIRECT_DESC);
    layout->event_idx = fe_has(info->features, VIRTIO_RING_F_EVENT_IDX);
    if (info->queue_count_max && fe->options.queue_count > info->queue_count_max)
        return fe_fail(fe, -EINVAL,
                       "cannot use %u queues: the server offers %" G_GUINT64_FORMAT
                       " (use --queues=%" G_GUINT64_FORMAT " or fewer)",
                       fe->options.queue_count, info->queue_count_max, info->queue_count_max);
    if (fe_has(info->features, VIRTIO_BLK_F_SIZE_MAX) && info->config.size_max > 0 &&
        (layout->segment_bytes == 0 || layout->segment_bytes > info->config.size_max))
        layout->segment_bytes = info->config.size_max;
    unsigned segments =
        layout->segment_bytes ? (layout->slot_bytes + layout->segment_bytes - 1) / layout->segment_bytes : 1;
    if (fe_has(info->features, VIRTIO_BLK_F_SEG_MAX) && info->config.seg_max > 0 &&
        segments > info->config.seg_max)
        return fe_fail(fe, -EINVAL,
                       "a request of %u bytes needs %u segments, the server takes %u (use a smaller --bs or "
                       "a larger --segment-size)",
                       layout->slot_bytes, segments, info->config.seg_max);
    unsigned slots_max = fe_queue_slots_max(layout);
    if (slots_max == 0)
        return fe_fail(fe, -EINVAL,
                       "a request of %u segments does not fit into a queue of %u entries (use a larger "
                       "--queue-size or --segment-size)",
                       segments, layout->size);
    if (layout->slot_count > slots_max)
        return fe_fail(fe, -EINVAL,
                       "cannot keep %u requests in flight: %u entries %s indirect descriptors hold %u (use "
                       "--iodepth=%u or a larger --queue-size)",
                       layout->slot_count, layout->size, layout->indirect ? "with" : "without", slots_max,
                       slots_max);
    return 0;
}

int fe_negotiate(struct front_end *fe)
{
    struct fe_info *info = &fe->info;
    int rc = fe_get(fe, WIRE_GET_FEATURES, NULL, 0, &info->features_offered, sizeof(uint64_t));
    if (rc < 0)
        return rc;
    if (!fe_has(info->features_offered, VIRTIO_F_VERSION_1))
        return fe_fail(fe, -EPROTO,
                       "the server offers no VIRTIO_F_VERSION_1 (features %#" G_GINT64_MODIFIER
                       "x; legacy devices are not supported)",
                       info->features_offered);

    uint64_t wanted = 1ull << VIRTIO_F_VERSION_1 | 1ull << VIRTIO_BLK_F_SIZE_MAX |
                      1ull << VIRTIO_BLK_F_SEG_MAX | 1ull << VIRTIO_BLK_F_RO | 1ull << VIRTIO_BLK_F_BLK_SIZE |
                      1ull << VIRTIO_BLK_F_FLUSH | 1ull << VIRTIO_BLK_F_TOPOLOGY |
                      1ull << VIRTIO_BLK_F_CONFIG_WCE | 1ull << VIRTIO_BLK_F_MQ |
                      1ull << VIRTIO_BLK_F_DISCARD | 1ull << VIRTIO_BLK_F_WRITE_ZEROES;
    if (fe->options.layout.indirect)
        wanted |= 1ull << VIRTIO_RING_F_INDIRECT_DESC;
    if (fe->options.layout.event_idx)
        wanted |= 1ull << VIRTIO_RING_F_EVENT_IDX;
    if (fe->options.layout.packed)
        wanted |= 1ull << VIRTIO_F_RING_PACKED;
    if (fe->options.protocol_features)
        wanted |= 1ull << WIRE_F_PROTOCOL_FEATURES;
    info->features = info->features_offered & wanted & fe->options.features_mask;
    if (fe->options.layout.packed && !fe_has(info->features, VIRTIO_F_RING_PACKED))
        return fe_fail(fe, -ENOTSUP, "the server offers no packed rings (leave out --packed)");

    if (fe_has(info->features, WIRE_F_PROTOCOL_FEATURES)) {
        rc = negotiate_protocol(fe);
        if (rc < 0)
            return rc;
    }
    rc = fe_set(fe, WIRE_SET_OWNER, NULL, 0, NULL, 0);
    if (rc == 0 && fe_has(info->protocol_features, WIRE_P_CONFIG))
        rc = fe_read_config(fe);
    if (rc == 0)
        rc = fe_set(fe, WIRE_SET_FEATURES, &info->features, sizeof(info->features), NULL, 0);
    if (rc == 0)
        rc = check_agreed(fe);
    return rc;
}

/* memory_bytes is a multiple of 2 MiB, so up to 512 regions each begin on a page. */
static struct wire_memory_region memory_region(const struct front_end *fe, unsigned index)
{
    unsigned count = fe->options.memory_region_count;
    size_t step = fe->memory_bytes / count / 4096 * 4096, at = index * step;
    return (struct wire_memory_region){ .guest_addr = GUEST_ADDR_BASE + at,
                                        .size_bytes = index + 1 < count ? step : fe->memory_bytes - at,
                                        .user_addr = (uintptr_t)fe->memory + at,
                                        .mmap_offset = at };
}

static int send_memory_table(struct front_end *fe)
{
    unsigned count = fe->options.memory_region_count;
    struct wire_memory_table table = { .region_count = count };
    int fds[WIRE_FDS_MAX];
    g_assert(count <= WIRE_FDS_MAX);
    for (unsigned i = 0; i < count; i++) {
        table.regions[i] = memory_region(fe, i);
        fds[i] = fe->memory_fd;
    }
    return fe_set(fe, WIRE_SET_MEM_TABLE, &table,
                  offsetof(struct wire_memory_table, regions) + count * sizeof(table.regions[0]), fds, count);
}

static int announce_memory(struct front_end *fe)
{
    int rc = 0;
    if (!fe_has(fe->info.protocol_features, WIRE_P_CONFIGURE_MEM_SLOTS))
        return send_memory_table(fe);
    for (unsigned i = 0; rc == 0 && i < fe->options.memory_region_count; i++) {
        struct wire_memory_region region = memory_region(fe, i);
        rc = fe_add_memory(fe, &region, fe->memory_fd);
    }
    return rc;
}

static int send_inflight(struct front_end *fe)
{
    return fe_set(fe, WIRE_SET_INFLIGHT_FD, &fe->inflight, sizeof(fe->inflight), &fe->inflight_fd, 1);
}

/* A region for the server's notes, which outlives it here. */
static int ask_inflight(struct front_end *fe)
{
    const struct wire_inflight asked = { .queue_count = fe->options.queue_count,
                                         .queue_size = fe->options.layout.size };
    if (!fe_has(fe->info.protocol_features, WIRE_P_INFLIGHT_SHMFD))
        return 0;
    int rc = fe_get_fd(fe, WIRE_GET_INFLIGHT_FD, &asked, sizeof(asked), &fe->inflight, sizeof(fe->inflight),
                       &fe->inflight_fd);
    return rc < 0 ? rc : send_inflight(fe);
}

int fe_map(struct front_end *fe)
{
    const struct fe_queue_layout *layout = &fe->options.layout;
    size_t queue_bytes = fe_queue_memory_bytes(layout);
    g_assert(fe->options.memory_region_count >= 1);
    fe->extra_offset = queue_bytes * fe->options.queue_count;
    fe->memory_bytes = (fe->extra_offset + fe->options.extra_bytes + MEMORY_STEP_BYTES - 1) /
                       MEMORY_STEP_BYTES * MEMORY_STEP_BYTES;
    fe->memory_fd = memfd_create("vblk-load", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fe->memory_fd < 0 || ftruncate(fe->memory_fd, fe->memory_bytes) < 0 ||
        fcntl(fe->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0 ||
        (fe->memory = mmap(NULL, fe->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fe->memory_fd, 0)) ==
            MAP_FAILED)
        return fe_fail(fe, -errno,
                       "cannot share %zu MiB of memory: %s (use fewer --queues, a smaller --iodepth or --bs)",
                       fe->memory_bytes >> 20, g_strerror(errno));
    fe->queues = g_new0(struct fe_queue, fe->options.queue_count);
    fe->queue_started = g_new0(bool, fe->options.queue_count);
    for (unsigned i = 0; i < fe->options.queue_count; i++)
        fe_queue_init(&fe->queues[i], layout, fe->memory + i * queue_bytes,
                      GUEST_ADDR_BASE + i * queue_bytes);
    fe->err_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fe->err_fd < 0)
        return fe_fail(fe, -errno, "cannot make an eventfd: %s (raise the limit of open files)",
                       g_strerror(errno));
    int rc = announce_memory(fe);
    return rc < 0 ? rc : ask_inflight(fe);
}

int fe_reconnect(struct front_end *fe)
{
    const uint64_t features = fe->info.features;
    if (fe->inflight_fd < 0)
        return fe_fail(fe, -ENOTSUP,
                       "the server went away, and it keeps no record of requests in flight: they may be lost");
    forget_server(fe);
    int rc = fe_connect(fe);
    if (rc == 0)
        rc = fe_negotiate(fe);
    if (rc == 0 && (fe->info.features != features || !fe_has(fe->info.protocol_features, WIRE_P_INFLIGHT_SHMFD)))
        rc = fe_fail(fe, -EPROTO, "the server that came back offers something else (start it with the same options)");
    if (rc == 0)
        rc = announce_memory(fe);
    return rc < 0 ? rc : send_inflight(fe);
}

int fe_queue_start(struct front_end *fe, unsigned index)
{
    struct fe_queue *queue = &fe->queues[index];
    retire_fds(fe, queue);
    queue->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* Blocking, so that fe_queue_wait() sleeps in its read. */
    queue->call_fd = eventfd(0, EFD_CLOEXEC);
    queue->call_fd_nonblocking = false;
    if (queue->kick_fd < 0 || queue->call_fd < 0)
        return fe_fail(fe, -errno, "cannot make an eventfd: %s (raise the limit of open files)",
                       g_strerror(errno));

    struct wire_vring_state num = { .index = index, .num = queue->layout.size };
    /* What was used is done; requests published beyond it are for the server to take (again). */
    struct wire_vring_state base = { .index = index, .num = fe_queue_base(queue) };
    struct wire_vring_addr addr = {
        .index = index,
        .desc_user_addr = (uintptr_t)queue->desc,
        .avail_user_addr = (uintptr_t)queue->avail,
        .used_user_addr = (uintptr_t)queue->used,
    };
    uint64_t vring = index;
    int rc = fe_set(fe, WIRE_SET_VRING_NUM, &num, sizeof(num), NULL, 0);
    if (rc == 0)
        rc = fe_set(fe, WIRE_SET_VRING_BASE, &base, sizeof(base), NULL, 0);
    if (rc == 0)
        rc = fe_set(fe, WIRE_SET_VRING_ADDR, &addr, sizeof(addr), NULL, 0);
    if (rc == 0)
        rc = fe_set(fe, WIRE_SET_VRING_CALL, &vring, sizeof(vring), &queue->call_fd, 1);
    if (rc == 0)
        rc = fe_set(fe, WIRE_SET_VRING_ERR, &vring, sizeof(vring), &fe->err_fd, 1);
    if (rc == 0)
        rc = fe_set(fe, WIRE_SET_VRING_KICK, &vring, sizeof(vring), &queue->kick_fd, 1);
    if (rc == 0)
        fe->queue_started[index] = true;
    return rc;
}

int fe_queue_enable(struct front_end *fe, unsigned index, bool enable)
{
    struct wire_vring_state state = { .index = index, .num = enable };
    return fe_set(fe, WIRE_SET_VRING_ENABLE, &state, sizeof(state), NULL, 0);
}

int fe_start(struct front_end *fe)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < fe->options.queue_count; i++)
        rc = fe_queue_start(fe, i);
    /* Without protocol features a ring is enabled from the start. */
    for (unsigned i = 0;
         rc == 0 && fe_has(fe->info.features, WIRE_F_PROTOCOL_FEATURES) && i < fe->options.queue_count; i++)
        rc = fe_queue_enable(fe, i, true);
    /* A ring starts with its first kick; requests published before a restart bring none by themselves. */
    for (unsigned i = 0; rc == 0 && i < fe->options.queue_count; i++)
        fe_queue_kick(&fe->queues[i]);
    return rc;
}

int fe_open(struct front_end *fe)
{
    int rc = fe_connect(fe);
    if (rc == 0)
        rc = fe_negotiate(fe);
    if (rc == 0)
        rc = fe_map(fe);
    if (rc == 0)
        rc = fe_start(fe);
    return rc;
}

int fe_queue_get_base(struct front_end *fe, unsigned index, uint32_t *base_out)
{
    struct wire_vring_state state = { .index = index };
    int rc = fe_get(fe, WIRE_GET_VRING_BASE, &state, sizeof(state), &state, sizeof(state));
    if (rc < 0)
        return rc;
    fe->queue_started[index] = false;
    if (state.index != index || (!fe->options.layout.packed && state.num > UINT16_MAX))
        return fe_fail(fe, -EPROTO, "queue %u: GET_VRING_BASE answers index %u, base %u", index, state.index,
                       state.num);
    *base_out = state.num;
    return 0;
}

int fe_queue_stop(struct front_end *fe, unsigned index, uint16_t *base_out)
{
    uint32_t base;
    int rc = fe_queue_get_base(fe, index, &base);
    if (rc == 0)
        *base_out = (uint16_t)base;
    return rc;
}

/* A stopped ring has nothing in flight: what was taken is completed, so both counts are equal. */
static int check_base(struct front_end *fe, unsigned index, uint32_t base)
{
    uint32_t complete = fe_queue_base(&fe->queues[index]);
    int16_t lost = (int16_t)(base - complete);
    if (base == complete)
        return 0;
    if (fe->options.layout.packed)
        return fe_fail(fe, -EPROTO,
                       "queue %u: stopped with base %#x, but completions end at %#x: requests were taken and not "
                       "completed, or completed more often than taken (a fault of the server)",
                       index, base, complete);
    return fe_fail(fe, -EPROTO,
                   "queue %u: stopped with base %u but %u completions: %d requests were %s (a fault of the server)",
                   index, base, complete, abs(lost),
                   lost > 0 ? "taken and not completed" : "completed more often than taken");
}

int fe_stop(struct front_end *fe)
{
    int first_error = 0;
    for (unsigned i = 0; i < fe->options.queue_count; i++) {
        uint32_t base;
        if (!fe->queue_started[i])
            continue;
        int rc = fe_queue_get_base(fe, i, &base);
        if (rc == -ECONNRESET || rc == -ETIMEDOUT)
            return rc;
        if (rc == 0)
            rc = check_base(fe, i, base);
        if (rc < 0 && first_error == 0)
            first_error = rc;
    }
    for (unsigned i = 0; i < fe->options.queue_count; i++)
        fe_queue_kick(&fe->queues[i]);
    return first_error;
}

struct fe_queue *fe_queue(struct front_end *fe, unsigned index)
{
    return &fe->queues[index];
}

const struct fe_info *fe_info(const struct front_end *fe)
{
    return &fe->info;
}

int fe_socket(const struct front_end *fe)
{
    return fe->socket;
}

int fe_err_fd(const struct front_end *fe)
{
    return fe->err_fd;
}

uint8_t *fe_memory(const struct front_end *fe, size_t *size_bytes_out)
{
    if (size_bytes_out)
        *size_bytes_out = fe->memory_bytes;
    return fe->memory;
}

int fe_memory_fd(const struct front_end *fe)
{
    return fe->memory_fd;
}

uint64_t fe_memory_guest_addr(const struct front_end *fe)
{
    return GUEST_ADDR_BASE;
}

uint8_t *fe_extra(const struct front_end *fe)
{
    return fe->memory + fe->extra_offset;
}
