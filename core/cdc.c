/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/cdc.h"

#include <stdatomic.h>
#include <string.h>

/*
 * CDC message of SMC-R (RFC A.4):
 *
 *   0   1  type, 0xfe
 *   1   1  length, 44
 *   2   2  sequence number
 *   4   4  alert token
 *   8   2  reserved
 *  10   2  producer cursor: wrap
 *  12   4  producer cursor: count
 *  16   2  reserved
 *  18   2  consumer cursor: wrap
 *  20   4  consumer cursor: count
 *  24   1  producer flags
 *  25   1  connection state flags
 *  26  18  reserved
 *
 * Linux takes it when all that is not reserved is there.
 */
enum {
	LENGTH = 1,
	SEQUENCE = 2,
	TOKEN = 4,
	PRODUCER_WRAP = 10,
	PRODUCER_COUNT = 12,
	CONSUMER_WRAP = 18,
	CONSUMER_COUNT = 20,
	PRODUCER_FLAGS = 24,
	STATE_FLAGS = 25,
	RESERVED = 26,
};

enum smc_wire_result smc_cdc_decode(const uint8_t *bytes, size_t n, struct smc_cdc *cdc)
{
	if (n < RESERVED)
		return SMC_WIRE_SHORT;
	if (bytes[0] != SMC_CDC_TYPE)
		return SMC_WIRE_TYPE;
	if (bytes[LENGTH] != SMC_CDC_SIZE)
		return SMC_WIRE_LENGTH;
	*cdc = (struct smc_cdc){
		.sequence = wire_get16(bytes + SEQUENCE),
		.token = wire_get32(bytes + TOKEN),
		.producer = { wire_get16(bytes + PRODUCER_WRAP),
			      wire_get32(bytes + PRODUCER_COUNT) },
		.consumer = { wire_get16(bytes + CONSUMER_WRAP),
			      wire_get32(bytes + CONSUMER_COUNT) },
		.producer_flags = bytes[PRODUCER_FLAGS] & SMC_CDC_PRODUCER_FLAGS,
		.state_flags = bytes[STATE_FLAGS] & SMC_CDC_STATE_FLAGS,
	};
	return SMC_WIRE_OK;
}

size_t smc_cdc_encode(const struct smc_cdc *cdc, uint8_t *to, size_t room)
{
	if (room < SMC_CDC_SIZE)
		return 0;
	memset(to, 0, SMC_CDC_SIZE);
	to[0] = SMC_CDC_TYPE;
	to[LENGTH] = SMC_CDC_SIZE;
	wire_put16(to + SEQUENCE, cdc->sequence);
	wire_put32(to + TOKEN, cdc->token);
	wire_put16(to + PRODUCER_WRAP, cdc->producer.wrap);
	wire_put32(to + PRODUCER_COUNT, cdc->producer.count);
	wire_put16(to + CONSUMER_WRAP, cdc->consumer.wrap);
	wire_put32(to + CONSUMER_COUNT, cdc->consumer.count);
	to[PRODUCER_FLAGS] = cdc->producer_flags & SMC_CDC_PRODUCER_FLAGS;
	to[STATE_FLAGS] = cdc->state_flags & SMC_CDC_STATE_FLAGS;
	return SMC_CDC_SIZE;
}

/*
 * SMC-D, at the start of a DMBE, four words of 8 bytes:
 *
 *   0   1  type, 0xfe
 *   1   7  reserved
 *   8   8  producer cursor
 *  16   8  consumer cursor, and the flags of both
 *  24   8  reserved
 *
 * A cursor, in the byte order of the host (both ends have the same memory):
 *
 *   0   2  wrap
 *   2   4  count
 *   6   1  producer flags; zero in the producer cursor
 *   7   1  connection state flags; the same
 *
 * Each cursor is one word, so it is never seen half written. The type is not looked at: a DMBE that
 * the peer has not yet written is all zero, which are the cursors and flags that a connection
 * starts with.
 */
enum { WORD_HEAD, WORD_PRODUCER, WORD_CONSUMER, WORD_RESERVED };

static uint64_t cursor_word(const struct smc_cdc_cursor *cursor, uint8_t producer_flags,
			    uint8_t state_flags)
{
	uint8_t bytes[8];
	uint64_t word;

	memcpy(bytes, &cursor->wrap, 2);
	memcpy(bytes + 2, &cursor->count, 4);
	bytes[6] = producer_flags & SMC_CDC_PRODUCER_FLAGS;
	bytes[7] = state_flags & SMC_CDC_STATE_FLAGS;
	memcpy(&word, bytes, sizeof(word));
	return word;
}

static void word_cursor(uint64_t word, struct smc_cdc_cursor *cursor, uint8_t flags[2])
{
	uint8_t bytes[8];

	memcpy(bytes, &word, sizeof(bytes));
	memcpy(&cursor->wrap, bytes, 2);
	memcpy(&cursor->count, bytes + 2, 4);
	memcpy(flags, bytes + 6, 2);
}

void smc_cdc_dmbe_load(const _Atomic uint64_t dmbe[SMC_CDC_DMBE_WORDS], struct smc_cdc *cdc)
{
	/* in this order: a flag like "closed" is about a producer cursor that was stored before it */
	uint64_t consumer = atomic_load_explicit(&dmbe[WORD_CONSUMER], memory_order_acquire);
	uint64_t producer = atomic_load_explicit(&dmbe[WORD_PRODUCER], memory_order_acquire);
	struct smc_cdc c = { .sequence = 0 };
	uint8_t flags[2];

	word_cursor(producer, &c.producer, flags);
	word_cursor(consumer, &c.consumer, flags);
	c.producer_flags = flags[0] & SMC_CDC_PRODUCER_FLAGS;
	c.state_flags = flags[1] & SMC_CDC_STATE_FLAGS;
	*cdc = c;
}

void smc_cdc_dmbe_store(_Atomic uint64_t dmbe[SMC_CDC_DMBE_WORDS], const struct smc_cdc *cdc)
{
	static const uint8_t head_bytes[8] = { SMC_CDC_TYPE };
	uint64_t head;

	memcpy(&head, head_bytes, sizeof(head));
	atomic_store_explicit(&dmbe[WORD_HEAD], head, memory_order_relaxed);
	atomic_store_explicit(&dmbe[WORD_RESERVED], 0, memory_order_relaxed);
	/* release: the data is there before the cursor that tells of it, and that before the flags */
	atomic_store_explicit(&dmbe[WORD_PRODUCER], cursor_word(&cdc->producer, 0, 0),
			      memory_order_release);
	atomic_store_explicit(&dmbe[WORD_CONSUMER],
			      cursor_word(&cdc->consumer, cdc->producer_flags, cdc->state_flags),
			      memory_order_release);
}
