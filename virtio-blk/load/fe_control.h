/*
 * What a front end says beside features, memory and rings: memory that comes and goes, device status, writes to the
 * configuration space, and the channel on which the server speaks first.
 *
 * Each needs its protocol feature, asked for with fe_options.protocol_wanted:
 *     options.protocol_wanted = 1ull << WIRE_P_CONFIGURE_MEM_SLOTS | 1ull << WIRE_P_STATUS;
 *
 * Errors and threads as in front_end.h.
 */
#ifndef LOAD_FE_CONTROL_H
#define LOAD_FE_CONTROL_H

#include "front_end.h"

/* CONFIGURE_MEM_SLOTS. A descriptor of -1 with remove: none comes along, as is usual. */
int fe_memory_slots(struct front_end *fe, uint64_t *count_out);
int fe_add_memory(struct front_end *fe, const struct wire_memory_region *region, int fd);
int fe_remove_memory(struct front_end *fe, const struct wire_memory_region *region, int fd);

/* STATUS: bits of enum wire_status; 0 resets the device. */
int fe_set_status(struct front_end *fe, uint64_t status);
int fe_get_status(struct front_end *fe, uint64_t *status_out);

/** RESET_DEVICE: rings stop and features are forgotten; memory and the connection stay. */
int fe_reset_device(struct front_end *fe);

/** Read the configuration space (again) into fe_info(). */
int fe_read_config(struct front_end *fe);
/** Write one byte of it. */
int fe_write_config(struct front_end *fe, uint32_t offset, uint8_t value, enum wire_config_writer writer);

/** BACKEND_REQ: make a channel and hand the server its end; an earlier one is closed. */
int fe_open_backend_channel(struct front_end *fe);
/** Our end, to be watched, read or closed by shutdown(); -1: there is none. */
int fe_backend_channel(const struct front_end *fe);

/**
 * Wait for the server's next message on the channel, and answer with @verdict if it asks for an answer.
 *
 * Returns: 0; -ETIMEDOUT after timeout_ms (0: only look); -ECONNRESET: the server has closed the channel; -EPROTO.
 */
int fe_backend_receive(struct front_end *fe, int timeout_ms, uint64_t verdict, struct wire_header *header_out);

#endif
