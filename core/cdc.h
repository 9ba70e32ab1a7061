/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_CDC_H
#define SMC_CORE_CDC_H

#include "core/wire.h"

#include <stddef.h>
#include <stdint.h>

/*
 * CDC: how an end of a connection tells the other where it writes and reads (RFC A.4). With SMC-R a
 * message on the queue pair; with SMC-D the first 32 bytes of the receive buffer (DMBE), which the
 * peer writes.
 *
 * A cursor is a position in a buffer and how often the writer or reader went round it. The codec
 * does not know the buffers' sizes: that a position is below its size is for the connection to
 * check.
 */
struct smc_cdc_cursor {
	uint16_t wrap;
	uint32_t count;
};

enum smc_cdc_producer_flags {
	SMC_CDC_WRITE_BLOCKED = 0x80, /* all free space was filled: tell when some is free again */
	SMC_CDC_URGENT_PENDING = 0x40,
	SMC_CDC_URGENT_PRESENT = 0x20,	 /* the byte before the producer cursor is urgent */
	SMC_CDC_UPDATE_REQUESTED = 0x10, /* send me your consumer cursor */
	SMC_CDC_FAILOVER = 0x08, /* validation after a change of link; the cursors say nothing */
	SMC_CDC_PRODUCER_FLAGS = 0xf8,
};

enum smc_cdc_state_flags {
	SMC_CDC_DONE_WRITING = 0x80,
	SMC_CDC_CLOSED = 0x40,
	SMC_CDC_ABORT = 0x20,
	SMC_CDC_STATE_FLAGS = 0xe0,
};

struct smc_cdc {
	uint16_t sequence; /* SMC-R; per connection and direction, the first is 1 */
	uint32_t token;	   /* SMC-R; the one that the receiver told in its Accept or Confirm */
	struct smc_cdc_cursor producer; /* in the receiver's buffer */
	struct smc_cdc_cursor consumer; /* in the sender's buffer */
	uint8_t producer_flags, state_flags;
};

enum {
	SMC_CDC_TYPE = 0xfe, /* the first byte, no LLC message has it */
	SMC_CDC_SIZE = 44,
	SMC_CDC_DMBE_SIZE = 32, /* the payload begins behind it */
	SMC_CDC_DMBE_WORDS = SMC_CDC_DMBE_SIZE / 8,
};

/* `n`: what the completion says was received. */
enum smc_wire_result smc_cdc_decode(const uint8_t *bytes, size_t n, struct smc_cdc *cdc);

size_t smc_cdc_encode(const struct smc_cdc *cdc, uint8_t *to, size_t room);

/*
 * The same of SMC-D, from and to memory that both ends see. A reader that finds the flags of a
 * store, or its consumer cursor, also finds its producer cursor and the data written before.
 */
void smc_cdc_dmbe_load(const _Atomic uint64_t dmbe[SMC_CDC_DMBE_WORDS], struct smc_cdc *cdc);
void smc_cdc_dmbe_store(_Atomic uint64_t dmbe[SMC_CDC_DMBE_WORDS], const struct smc_cdc *cdc);

#endif
