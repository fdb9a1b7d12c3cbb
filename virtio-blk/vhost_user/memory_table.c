/*
 * The messages that say what guest memory is: all of it at once (SET_MEM_TABLE), or a region more or less. Front ends keep
 * to one way; both may be mixed here, since each makes a whole new map.
 *
 * Source: vhost-user specification, VHOST_USER_SET_MEM_TABLE, GET_MAX_MEM_SLOTS, ADD_MEM_REG, REM_MEM_REG.
 */
#include "vhost_user/exchange.h"

/* The device keeps its own reference of what it takes, which is what makes session->map usable later. */
static int hand_over_co(struct exchange *exchange, struct vhost_user_memory_map *map, bool keeps_old)
{
    struct vhost_user_session *session = exchange->session;
    int error = session->ops->set_memory_co(session->opaque, map, keeps_old);
    if (!error)
        session->map = map;
    vhost_user_memory_map_unref(map);
    return error;
}

int vhost_user_set_mem_table_co(struct exchange *exchange)
{
    const struct vhost_user_memory_table *table = &exchange->message->payload.memory;
    struct vhost_user_memory_map *map;
    unsigned region;
    int error = vhost_user_memory_map_create(table->regions, exchange->message->fds, table->count, &map,
                                             &exchange->reason, &region);
    if (error) {
        exchange->at = table->count ? (int)region : -1;
        return error;
    }
    return hand_over_co(exchange, map, false);
}

int vhost_user_get_max_mem_slots(struct exchange *exchange)
{
    return reply_u64(exchange, VHOST_USER_REGIONS_MAX);
}

int vhost_user_add_mem_reg_co(struct exchange *exchange)
{
    const struct vhost_user_message *message = exchange->message;
    struct vhost_user_memory_map *map;
    int error = vhost_user_memory_map_add(exchange->session->map, &message->payload.slot.region, message->fds[0],
                                          &map, &exchange->reason);
    return error ? error : hand_over_co(exchange, map, true);
}

/* A descriptor that came along, as some front ends send one, is closed with the message. */
int vhost_user_rem_mem_reg_co(struct exchange *exchange)
{
    struct vhost_user_memory_map *map;
    int error = vhost_user_memory_map_remove(exchange->session->map, &exchange->message->payload.slot.region, &map,
                                             &exchange->reason);
    return error ? error : hand_over_co(exchange, map, false);
}
