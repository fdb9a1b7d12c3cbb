#include "vhost_user/dispatch.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "tracepoints/vhost_user.h"
#include "vhost_user/exchange.h"

#define PROTOCOL_FEATURES_OFFERED                                                                            \
    (UINT64_C(1) << VHOST_USER_PROTOCOL_F_MQ | UINT64_C(1) << VHOST_USER_PROTOCOL_F_REPLY_ACK |              \
     UINT64_C(1) << VHOST_USER_PROTOCOL_F_CONFIG |                                                          \
     UINT64_C(1) << VHOST_USER_PROTOCOL_F_CONFIGURE_MEM_SLOTS |                                             \
     UINT64_C(1) << VHOST_USER_PROTOCOL_F_LOG_SHMFD |                                                       \
     UINT64_C(1) << VHOST_USER_PROTOCOL_F_BACKEND_REQ | UINT64_C(1) << VHOST_USER_PROTOCOL_F_RESET_DEVICE |  \
     UINT64_C(1) << VHOST_USER_PROTOCOL_F_STATUS | UINT64_C(1) << VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD)

enum answer {
    ANSWER_ACK,     /* only if REPLY_ACK asks for it */
    ANSWER_ALWAYS,  /* the front end waits for it, and there is no way to say no */
    ANSWER_OR_EMPTY /* an empty payload says no */
};

enum descriptors { FDS_NONE, FDS_ONE, FDS_ONE_AT_MOST, FDS_ONE_A_REGION, FDS_ONE_UNLESS_FLAGGED };

enum needs { NEEDS_NOTHING, NEEDS_VIRTIO_BIT, NEEDS_PROTOCOL_BIT };

struct rule {
    uint32_t request;
    const char *name;
    uint32_t size_min_bytes, size_max_bytes;
    enum descriptors descriptors;
    enum needs needs;
    unsigned bit;
    enum answer answer;
    int (*handle_co)(struct exchange *exchange);
};

/* ---- negotiation ---- */

static int get_features(struct exchange *exchange)
{
    return reply_u64(exchange, exchange->session->features_offered);
}

static int set_features_co(struct exchange *exchange)
{
    struct vhost_user_session *session = exchange->session;
    uint64_t features = exchange->message->payload.u64, before = session->features;
    session->features_accepted = false;
    if (features & ~session->features_offered)
        return refuse(exchange, -EINVAL, "a feature was not offered");
    session->features = features;
    int error = session->ops->set_features_co(session->opaque,
                                              features & ~(UINT64_C(1) << VHOST_USER_F_PROTOCOL_FEATURES));
    if (error)
        session->features = before;
    session->features_accepted = !error;
    return error == -EBUSY ? refuse(exchange, error, "rings run with other features (stop them first)") : error;
}

static int set_owner(struct exchange *exchange)
{
    return 0; /* There is one front end a connection, so it owns the device already. */
}

static int reset_owner_co(struct exchange *exchange)
{
    /* Protocol features belong to the connection, not to the device: they stay. */
    exchange->session->features = 0;
    exchange->session->features_accepted = false;
    exchange->session->status = 0;
    exchange->session->map = NULL;
    return exchange->session->ops->reset_co(exchange->session->opaque);
}

static int get_protocol_features(struct exchange *exchange)
{
    return reply_u64(exchange, PROTOCOL_FEATURES_OFFERED);
}

static int set_protocol_features(struct exchange *exchange)
{
    uint64_t features = exchange->message->payload.u64;
    if (features & ~PROTOCOL_FEATURES_OFFERED)
        return refuse(exchange, -EINVAL, "a protocol feature was not offered");
    exchange->session->protocol_features = features;
    return 0;
}

static int get_queue_num(struct exchange *exchange)
{
    return reply_u64(exchange, exchange->session->queue_count);
}

/* ---- rings ---- */

static int check_ring(struct exchange *exchange, uint64_t index)
{
    exchange->at = index <= UINT16_MAX ? (int)index : -1;
    if (index >= exchange->session->queue_count)
        return refuse(exchange, -EINVAL, "the device has no such ring");
    return 0;
}

static int set_vring_num(struct exchange *exchange)
{
    const struct vhost_user_vring_state *state = &exchange->message->payload.state;
    struct vhost_user_session *session = exchange->session;
    int error = check_ring(exchange, state->index);
    return error ? error : session->ops->set_ring_size(session->opaque, (uint16_t)state->index, state->num);
}

static int set_vring_addr_co(struct exchange *exchange)
{
    const struct vhost_user_vring_address *wire = &exchange->message->payload.address;
    struct vhost_user_session *session = exchange->session;
    const struct vhost_user_ring_address address = { .desc_user = wire->desc_user,
                                                     .used_user = wire->used_user,
                                                     .avail_user = wire->avail_user,
                                                     .log_guest = wire->log_guest,
                                                     .flags = wire->flags };
    int error = check_ring(exchange, wire->index);
    if (error)
        return error;
    uint32_t allowed = session->features & UINT64_C(1) << VHOST_F_LOG_ALL ? VHOST_USER_VRING_F_LOG : 0;
    if (wire->flags & ~allowed)
        return refuse(exchange, -EINVAL, "a flag is unknown or was not negotiated");
    return session->ops->set_ring_address_co(session->opaque, (uint16_t)wire->index, &address);
}

static int set_vring_base(struct exchange *exchange)
{
    const struct vhost_user_vring_state *state = &exchange->message->payload.state;
    struct vhost_user_session *session = exchange->session;
    int error = check_ring(exchange, state->index);
    return error ? error : session->ops->set_ring_base(session->opaque, (uint16_t)state->index, state->num);
}

static int get_vring_base_co(struct exchange *exchange)
{
    const struct vhost_user_vring_state *state = &exchange->message->payload.state;
    struct vhost_user_session *session = exchange->session;
    int error = check_ring(exchange, state->index);
    uint32_t base = 0;
    if (!error)
        error = session->ops->get_ring_base_co(session->opaque, (uint16_t)state->index, &base);
    if (error)
        return error;
    exchange->reply->payload.state = (struct vhost_user_vring_state){ .index = state->index, .num = base };
    exchange->reply->size_bytes = sizeof exchange->reply->payload.state;
    return 0;
}

static int set_vring_enable_co(struct exchange *exchange)
{
    const struct vhost_user_vring_state *state = &exchange->message->payload.state;
    struct vhost_user_session *session = exchange->session;
    int error = check_ring(exchange, state->index);
    if (!error && state->num > 1)
        error = refuse(exchange, -EINVAL, "it is neither 0 nor 1");
    return error ? error
                 : session->ops->set_ring_enable_co(session->opaque, (uint16_t)state->index, state->num == 1);
}

/* The descriptor goes to the device if it takes it; otherwise it is closed with the message. */
static int set_ring_fd_co(struct exchange *exchange, int (*set_co)(void *opaque, uint16_t index, int fd))
{
    struct vhost_user_message *message = exchange->message;
    uint64_t value = message->payload.u64;
    int error = value & ~(uint64_t)(VHOST_USER_VRING_INDEX_MASK | VHOST_USER_VRING_NO_FD)
                    ? refuse(exchange, -EINVAL, "a flag is unknown")
                    : check_ring(exchange, value & VHOST_USER_VRING_INDEX_MASK);
    if (error)
        return error;
    int fd = message->fd_count ? message->fds[0] : -1;
    error = fd >= 0 ? make_non_blocking(exchange, fd) : 0;
    if (error)
        return error;
    error = set_co(exchange->session->opaque, (uint16_t)(value & VHOST_USER_VRING_INDEX_MASK), fd);
    if (!error && fd >= 0)
        (void)vhost_user_message_take_fd(message, 0);
    return error;
}

static int set_vring_kick_co(struct exchange *exchange)
{
    return set_ring_fd_co(exchange, exchange->session->ops->set_ring_kick_co);
}

static int set_vring_call(struct exchange *exchange)
{
    return set_ring_fd_co(exchange, exchange->session->ops->set_ring_call);
}

static int set_vring_err(struct exchange *exchange)
{
    return set_ring_fd_co(exchange, exchange->session->ops->set_ring_error);
}

/* ---- configuration space ---- */

static int check_config(struct exchange *exchange)
{
    const struct vhost_user_config *config = &exchange->message->payload.config;
    if (!config->size_bytes || config->size_bytes > VHOST_USER_CONFIG_MAX ||
        config->offset > VHOST_USER_CONFIG_MAX - config->size_bytes)
        return refuse(exchange, -EINVAL, "it lies outside the configuration space");
    return 0;
}

static int get_config(struct exchange *exchange)
{
    const struct vhost_user_config *asked = &exchange->message->payload.config;
    struct vhost_user_session *session = exchange->session;
    struct vhost_user_config *answer = &exchange->reply->payload.config;
    int error = check_config(exchange);
    if (!error)
        error = session->ops->get_config(session->opaque, asked->offset, asked->size_bytes, answer->bytes);
    if (error)
        return error;
    answer->offset = asked->offset;
    answer->size_bytes = asked->size_bytes;
    answer->flags = asked->flags;
    exchange->reply->size_bytes = VHOST_USER_CONFIG_HEADER_BYTES + asked->size_bytes;
    return 0;
}

static int set_config(struct exchange *exchange)
{
    const struct vhost_user_config *config = &exchange->message->payload.config;
    struct vhost_user_session *session = exchange->session;
    int error = check_config(exchange);
    if (!error && exchange->message->header.size_bytes != VHOST_USER_CONFIG_HEADER_BYTES + config->size_bytes)
        error = refuse(exchange, -EBADMSG, "its payload has another length than it says");
    if (!error && config->flags != VHOST_USER_CONFIG_BY_DRIVER && config->flags != VHOST_USER_CONFIG_BY_MIGRATION)
        error = refuse(exchange, -EINVAL, "it comes neither from the driver nor from a migration");
    return error
               ? error
               : session->ops->set_config(session->opaque, config->offset, config->size_bytes, config->bytes);
}

/* ---- the back end's own requests ---- */

/* The session takes it into use when the message is answered. */
static int set_backend_req_fd(struct exchange *exchange)
{
    int error = vhost_user_backend_channel_check(exchange->message->fds[0]);
    if (error)
        return refuse(exchange, error, "its descriptor is not one of a pair of Unix stream sockets");
    exchange->session->offered_channel_fd = vhost_user_message_take_fd(exchange->message, 0);
    return 0;
}

/* ---- the table ---- */

#define U64 sizeof(uint64_t), sizeof(uint64_t)
#define STATE sizeof(struct vhost_user_vring_state), sizeof(struct vhost_user_vring_state)
#define ADDRESS sizeof(struct vhost_user_vring_address), sizeof(struct vhost_user_vring_address)
#define TABLE offsetof(struct vhost_user_memory_table, regions), sizeof(struct vhost_user_memory_table)
#define SLOT sizeof(struct vhost_user_memory_slot), sizeof(struct vhost_user_memory_slot)
#define LOG sizeof(struct vhost_user_log), sizeof(struct vhost_user_log)
#define CONFIG VHOST_USER_CONFIG_HEADER_BYTES, sizeof(struct vhost_user_config)
#define INFLIGHT VHOST_USER_INFLIGHT_DESCRIPTION_BYTES, sizeof(struct vhost_user_inflight_description)
#define ANYTIME NEEDS_NOTHING, 0
#define RING_STATES NEEDS_VIRTIO_BIT, VHOST_USER_F_PROTOCOL_FEATURES
#define PROTOCOL(feature) NEEDS_PROTOCOL_BIT, VHOST_USER_PROTOCOL_F_##feature
#define MEM_SLOTS PROTOCOL(CONFIGURE_MEM_SLOTS)
#define ROW(request) VHOST_USER_##request, #request

/* clang-format off */
static const struct rule rules[] = {
    { ROW(GET_FEATURES),          0, 0,    FDS_NONE,               ANYTIME,          ANSWER_ALWAYS,   get_features },
    { ROW(SET_FEATURES),          U64,     FDS_NONE,               ANYTIME,          ANSWER_ACK,      set_features_co },
    { ROW(SET_OWNER),             0, 0,    FDS_NONE,               ANYTIME,          ANSWER_ACK,      set_owner },
    { ROW(RESET_OWNER),           0, 0,    FDS_NONE,               ANYTIME,          ANSWER_ACK,      reset_owner_co },
    { ROW(SET_MEM_TABLE),         TABLE,   FDS_ONE_A_REGION,       ANYTIME,          ANSWER_ACK,      vhost_user_set_mem_table_co },
    { ROW(SET_LOG_BASE),          LOG,     FDS_ONE,                PROTOCOL(LOG_SHMFD), ANSWER_ALWAYS, vhost_user_set_log_base_co },
    { ROW(SET_LOG_FD),            0, 8,    FDS_ONE,                PROTOCOL(LOG_SHMFD), ANSWER_ACK,   vhost_user_set_log_fd_co },
    { ROW(SET_VRING_NUM),         STATE,   FDS_NONE,               ANYTIME,          ANSWER_ACK,      set_vring_num },
    { ROW(SET_VRING_ADDR),        ADDRESS, FDS_NONE,               ANYTIME,          ANSWER_ACK,      set_vring_addr_co },
    { ROW(SET_VRING_BASE),        STATE,   FDS_NONE,               ANYTIME,          ANSWER_ACK,      set_vring_base },
    { ROW(GET_VRING_BASE),        STATE,   FDS_NONE,               ANYTIME,          ANSWER_ALWAYS,   get_vring_base_co },
    { ROW(SET_VRING_KICK),        U64,     FDS_ONE_UNLESS_FLAGGED, ANYTIME,          ANSWER_ACK,      set_vring_kick_co },
    { ROW(SET_VRING_CALL),        U64,     FDS_ONE_UNLESS_FLAGGED, ANYTIME,          ANSWER_ACK,      set_vring_call },
    { ROW(SET_VRING_ERR),         U64,     FDS_ONE_UNLESS_FLAGGED, ANYTIME,          ANSWER_ACK,      set_vring_err },
    { ROW(GET_PROTOCOL_FEATURES), 0, 0,    FDS_NONE,               ANYTIME,          ANSWER_ALWAYS,   get_protocol_features },
    { ROW(SET_PROTOCOL_FEATURES), U64,     FDS_NONE,               ANYTIME,          ANSWER_ACK,      set_protocol_features },
    { ROW(GET_QUEUE_NUM),         0, 0,    FDS_NONE,               PROTOCOL(MQ),     ANSWER_ALWAYS,   get_queue_num },
    { ROW(SET_VRING_ENABLE),      STATE,   FDS_NONE,               RING_STATES,      ANSWER_ACK,      set_vring_enable_co },
    { ROW(SET_BACKEND_REQ_FD),    0, 0,    FDS_ONE,                PROTOCOL(BACKEND_REQ), ANSWER_ACK, set_backend_req_fd },
    { ROW(GET_CONFIG),            CONFIG,  FDS_NONE,               PROTOCOL(CONFIG), ANSWER_OR_EMPTY, get_config },
    { ROW(SET_CONFIG),            CONFIG,  FDS_NONE,               PROTOCOL(CONFIG), ANSWER_ACK,      set_config },
    { ROW(RESET_DEVICE),          0, 0,    FDS_NONE,               PROTOCOL(RESET_DEVICE), ANSWER_ACK, vhost_user_reset_device_co },
    { ROW(GET_MAX_MEM_SLOTS),     0, 0,    FDS_NONE,               MEM_SLOTS,        ANSWER_ALWAYS,   vhost_user_get_max_mem_slots },
    { ROW(ADD_MEM_REG),           SLOT,    FDS_ONE,                MEM_SLOTS,        ANSWER_ACK,      vhost_user_add_mem_reg_co },
    { ROW(REM_MEM_REG),           SLOT,    FDS_ONE_AT_MOST,        MEM_SLOTS,        ANSWER_ACK,      vhost_user_rem_mem_reg_co },
    { ROW(SET_STATUS),            U64,     FDS_NONE,               PROTOCOL(STATUS), ANSWER_ACK,      vhost_user_set_status_co },
    { ROW(GET_STATUS),            0, 0,    FDS_NONE,               PROTOCOL(STATUS), ANSWER_ALWAYS,   vhost_user_get_status },
    { ROW(GET_INFLIGHT_FD),       INFLIGHT, FDS_NONE,              PROTOCOL(INFLIGHT_SHMFD), ANSWER_ALWAYS, vhost_user_get_inflight_fd },
    { ROW(SET_INFLIGHT_FD),       INFLIGHT, FDS_ONE,               PROTOCOL(INFLIGHT_SHMFD), ANSWER_ACK, vhost_user_set_inflight_fd },
};
/* clang-format on */

static const struct rule *find_rule(uint32_t request)
{
    for (size_t i = 0; i < G_N_ELEMENTS(rules); i++)
        if (rules[i].request == request)
            return &rules[i];
    return NULL;
}

static bool is_negotiated(const struct vhost_user_session *session, const struct rule *rule)
{
    switch (rule->needs) {
    case NEEDS_VIRTIO_BIT:
        return session->features >> rule->bit & 1;
    case NEEDS_PROTOCOL_BIT:
        return session->protocol_features >> rule->bit & 1;
    case NEEDS_NOTHING:
        break;
    }
    return true;
}

/* How many descriptors the payload, whose size is right, says that there are. */
static uint64_t fds_expected(const struct rule *rule, const struct vhost_user_message *message)
{
    switch (rule->descriptors) {
    case FDS_ONE:
        return 1;
    case FDS_ONE_AT_MOST:
        return message->fd_count ? 1 : 0;
    case FDS_ONE_A_REGION:
        return message->payload.memory.count;
    case FDS_ONE_UNLESS_FLAGGED:
        return message->payload.u64 & VHOST_USER_VRING_NO_FD ? 0 : 1;
    case FDS_NONE:
        break;
    }
    return 0;
}

static int check(struct exchange *exchange, const struct rule *rule)
{
    const struct vhost_user_message *message = exchange->message;
    if (!rule) {
        /* Descriptors that it brought can belong to nothing. */
        exchange->is_fatal = message->fd_count > 0;
        return refuse(exchange, -EOPNOTSUPP, "it is not supported");
    }
    uint32_t size_bytes = message->header.size_bytes;
    if (size_bytes < rule->size_min_bytes || size_bytes > rule->size_max_bytes) {
        exchange->is_fatal = message->fd_count > 0;
        return refuse(exchange, -EBADMSG, "its payload has a wrong length");
    }
    if (message->fd_count != fds_expected(rule, message)) {
        /* Both sides no longer agree which descriptor is whose. */
        exchange->is_fatal = true;
        return refuse(exchange, -EBADMSG, "descriptors are missing or too many");
    }
    if (rule->descriptors == FDS_ONE_A_REGION &&
        size_bytes < offsetof(struct vhost_user_memory_table, regions) +
                         message->payload.memory.count * sizeof message->payload.memory.regions[0])
        return refuse(exchange, -EBADMSG, "its payload is shorter than its regions");
    if (!is_negotiated(exchange->session, rule))
        return refuse(exchange, -EPERM, "its feature was not negotiated");
    return 0;
}

static void report_refused(const struct exchange *exchange, const struct rule *rule, int error)
{
    char name[32], at[32] = "";
    g_snprintf(name, sizeof name, "message %u", exchange->message->header.request);
    if (exchange->at >= 0)
        g_snprintf(at, sizeof at,
                   rule->descriptors == FDS_ONE_A_REGION ? "region %d: " : "ring %d: ", exchange->at);
    vblk_log(&exchange->session->log, VBLK_LOG_WARNING, "%s refused: %s%s%s", rule ? rule->name : name, at,
             exchange->reason ? exchange->reason : g_strerror(-error),
             exchange->is_fatal ? "; connection closed" : "");
}

int vhost_user_dispatch_co(struct vhost_user_session *session, struct vhost_user_message *message,
                           struct vhost_user_reply *reply_out)
{
    const struct rule *rule = find_rule(message->header.request);
    enum answer answer = rule ? rule->answer : ANSWER_ACK;
    struct exchange exchange = { .session = session, .message = message, .reply = reply_out, .at = -1 };
    unsigned fd_count = message->fd_count;

    int result = check(&exchange, rule);
    if (!result)
        result = rule->handle_co(&exchange);

    if (result && answer == ANSWER_ALWAYS)
        exchange.is_fatal = true;
    lttng_ust_tracepoint(vhost_user, message, session->device_id, message->header.request,
                         message->header.size_bytes, fd_count, result);
    if (result)
        report_refused(&exchange, rule, result);
    if (answer == ANSWER_OR_EMPTY)
        reply_out->is_empty = result != 0;
    if (answer == ANSWER_ACK && message->header.flags & VHOST_USER_NEED_REPLY &&
        session->protocol_features >> VHOST_USER_PROTOCOL_F_REPLY_ACK & 1)
        (void)reply_u64(&exchange, result != 0);
    return exchange.is_fatal ? result : 0;
}
