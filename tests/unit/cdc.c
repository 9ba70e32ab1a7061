/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/cdc.h"
#include "core/clc.h"
#include "tests/unit/messages.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct smc_cdc cdc_of(const struct message *m)
{
	struct smc_cdc c;

	cr_assert_eq(smc_cdc_decode(m->bytes, m->n, &c), SMC_WIRE_OK, "%s", message_name(m));
	return c;
}

static bool at(struct smc_cdc_cursor cursor, uint16_t wrap, uint32_t count)
{
	return cursor.wrap == wrap && cursor.count == count;
}

Test(cdc, recorded_data_and_its_answer)
{
	struct smc_cdc c = cdc_of(message_recorded(19));

	cr_assert(c.sequence == 1 && c.token == 1 && c.producer_flags == 0 && c.state_flags == 0);
	cr_assert(at(c.producer, 0, 1) && at(c.consumer, 0, 0));
	c = cdc_of(message_recorded(23));
	cr_assert(at(c.producer, 0, 1) && at(c.consumer, 0, 1));
}

Test(cdc, a_recorded_window_is_full_at_the_next_round)
{
	struct smc_cdc c = cdc_of(message_recorded(159));

	cr_assert(at(c.producer, 1, 0) && c.producer_flags == SMC_CDC_WRITE_BLOCKED);
	c = cdc_of(message_recorded(162));
	cr_assert(at(c.producer, 0, 0) && at(c.consumer, 1, 0));
}

Test(cdc, a_recorded_urgent_byte)
{
	struct smc_cdc c = cdc_of(message_recorded(128));

	cr_assert_eq(c.producer_flags, SMC_CDC_URGENT_PENDING | SMC_CDC_URGENT_PRESENT);
	cr_assert(at(c.producer, 0, 7));
}

Test(cdc, recorded_closes)
{
	struct smc_cdc c = cdc_of(message_recorded(270));

	cr_assert(c.state_flags == SMC_CDC_DONE_WRITING &&
		  c.producer_flags == SMC_CDC_WRITE_BLOCKED);
	cr_assert_eq(cdc_of(message_recorded(280)).state_flags,
		     SMC_CDC_DONE_WRITING | SMC_CDC_CLOSED);
	cr_assert_eq(cdc_of(message_recorded(278)).state_flags, SMC_CDC_CLOSED);
}

/* In the whole recording: numbers count up from 1, cursors go on, and tokens are those that CLC agreed on. */
Test(cdc, the_recorded_connections_are_consistent)
{
	enum { CONNECTIONS = 5, SENDERS = SERVER + 1, RMBE = 64 * 1024 };
	struct smc_cdc last[SENDERS][CONNECTIONS] = { 0 };
	bool told[SENDERS][CONNECTIONS] = { 0 };

	for (const struct message *m = messages(); m->n && m->sender != MADE_BY_HAND; m++) {
		enum message_sender peer = m->sender == CLIENT ? SERVER : CLIENT;
		struct smc_clc_answer a;
		struct smc_cdc c, *before;

		if (smc_clc_decode_answer(m->bytes, m->n, &a) == SMC_WIRE_OK) {
			cr_assert_lt(a.r.token, CONNECTIONS);
			told[m->sender][a.r.token] = true;
		}
		if (m->kind != RECODE_CDC)
			continue;
		c = cdc_of(m);
		cr_assert(c.token < CONNECTIONS && told[peer][c.token], "%s", message_name(m));
		before = &last[m->sender][c.token];
		cr_assert_eq(c.sequence, before->sequence + 1, "%s", message_name(m));
		cr_assert_geq(c.producer.wrap * RMBE + c.producer.count,
			      before->producer.wrap * RMBE + before->producer.count);
		cr_assert_geq(c.consumer.wrap * RMBE + c.consumer.count,
			      before->consumer.wrap * RMBE + before->consumer.count);
		*before = c;
	}
	for (unsigned token = 1; token < CONNECTIONS; token++)
		for (unsigned sender = CLIENT; sender <= SERVER; sender++)
			cr_assert(last[sender][token].state_flags & SMC_CDC_CLOSED, "%u of %u",
				  token, sender);
}

Test(cdc, all_fields)
{
	struct smc_cdc c = cdc_of(message_made("all_fields"));

	cr_assert(c.sequence == 0x0102 && c.token == 0x11121314);
	cr_assert(at(c.producer, 0x2122, 0x31323334) && at(c.consumer, 0x4142, 0x51525354));
	cr_assert(c.producer_flags == SMC_CDC_PRODUCER_FLAGS &&
		  c.state_flags == SMC_CDC_STATE_FLAGS);
	cr_assert_eq(cdc_of(message_made("failover")).producer_flags, SMC_CDC_FAILOVER);
}

Test(cdc, what_is_not_a_cdc_message)
{
	uint8_t bytes[SMC_CDC_SIZE] = { SMC_CDC_TYPE, SMC_CDC_SIZE };
	struct smc_cdc c;

	cr_assert_eq(smc_cdc_decode(bytes, sizeof(bytes), &c), SMC_WIRE_OK);
	bytes[1]--;
	cr_assert_eq(smc_cdc_decode(bytes, sizeof(bytes), &c), SMC_WIRE_LENGTH);
	bytes[0] = 0x26;
	cr_assert_eq(smc_cdc_decode(bytes, sizeof(bytes), &c), SMC_WIRE_TYPE);
}

Test(cdc, bits_without_a_meaning_are_not_passed_on)
{
	uint8_t bytes[SMC_CDC_SIZE], again[SMC_CDC_SIZE];
	struct smc_cdc c;

	memset(bytes, 0xff, sizeof(bytes));
	bytes[0] = SMC_CDC_TYPE;
	bytes[1] = SMC_CDC_SIZE;
	cr_assert_eq(smc_cdc_decode(bytes, sizeof(bytes), &c), SMC_WIRE_OK);
	cr_assert(c.producer_flags == SMC_CDC_PRODUCER_FLAGS &&
		  c.state_flags == SMC_CDC_STATE_FLAGS);
	c.producer_flags = c.state_flags = 0xff;
	cr_assert_eq(smc_cdc_encode(&c, again, sizeof(again)), SMC_CDC_SIZE);
	cr_assert(again[24] == 0xf8 && again[25] == 0xe0 && again[26] == 0 && again[8] == 0);
}

static struct smc_cdc random_cdc(void)
{
	return (struct smc_cdc){
		.producer = { (uint16_t)random_bits(16), (uint32_t)random_bits(32) },
		.consumer = { (uint16_t)random_bits(16), (uint32_t)random_bits(32) },
		.producer_flags = (uint8_t)random_bits(8) & SMC_CDC_PRODUCER_FLAGS,
		.state_flags = (uint8_t)random_bits(8) & SMC_CDC_STATE_FLAGS,
	};
}

static void assert_same(const struct smc_cdc *a, const struct smc_cdc *b, unsigned seed)
{
	cr_assert(a->sequence == b->sequence && a->token == b->token, "seed %u", seed);
	cr_assert(at(a->producer, b->producer.wrap, b->producer.count), "seed %u", seed);
	cr_assert(at(a->consumer, b->consumer.wrap, b->consumer.count), "seed %u", seed);
	cr_assert_eq(a->producer_flags, b->producer_flags, "seed %u", seed);
	cr_assert_eq(a->state_flags, b->state_flags, "seed %u", seed);
}

static void one_message(unsigned seed)
{
	struct smc_cdc a = random_cdc(), b;
	uint8_t bytes[SMC_CDC_SIZE];

	a.sequence = (uint16_t)random_bits(16);
	a.token = (uint32_t)random_bits(32);
	cr_assert_eq(smc_cdc_encode(&a, bytes, sizeof(bytes) - 1), 0);
	cr_assert_eq(smc_cdc_encode(&a, bytes, sizeof(bytes)), sizeof(bytes));
	cr_assert_eq(smc_cdc_decode(bytes, sizeof(bytes), &b), SMC_WIRE_OK, "seed %u", seed);
	assert_same(&a, &b, seed);
}

Test(cdc, random_messages_are_understood_as_they_were_meant)
{
	for_seeds(20000, one_message);
}

/* ---- SMC-D ---- */

static void one_dmbe(unsigned seed)
{
	_Atomic uint64_t *dmbe = malloc(SMC_CDC_DMBE_SIZE);
	struct smc_cdc a = random_cdc(), b;

	random_bytes((void *)dmbe, SMC_CDC_DMBE_SIZE);
	smc_cdc_dmbe_store(dmbe, &a);
	smc_cdc_dmbe_load(dmbe, &b);
	assert_same(&a, &b, seed);
	free((void *)dmbe);
}

Test(cdc, a_dmbe_keeps_what_is_stored)
{
	for_seeds(20000, one_dmbe);
}

Test(cdc, a_dmbe_begins_as_a_connection_does)
{
	_Atomic uint64_t dmbe[SMC_CDC_DMBE_WORDS] = { 0 };
	struct smc_cdc c;

	smc_cdc_dmbe_load(dmbe, &c);
	cr_assert(at(c.producer, 0, 0) && at(c.consumer, 0, 0) && c.producer_flags == 0 &&
		  c.state_flags == 0);
}

/* Numbers are the host's; so each is compared where it lies. */
Test(cdc, the_layout_of_a_dmbe)
{
	_Atomic uint64_t dmbe[SMC_CDC_DMBE_WORDS];
	struct smc_cdc c = { 0, 0, { 1, 2 }, { 3, 4 }, SMC_CDC_WRITE_BLOCKED, SMC_CDC_CLOSED };
	uint8_t bytes[SMC_CDC_DMBE_SIZE];
	uint16_t wrap[2];
	uint32_t count[2];

	memset((void *)dmbe, 0xff, sizeof(dmbe));
	smc_cdc_dmbe_store(dmbe, &c);
	memcpy(bytes, (void *)dmbe, sizeof(bytes));
	memcpy(&wrap[0], bytes + 8, 2);
	memcpy(&count[0], bytes + 10, 4);
	memcpy(&wrap[1], bytes + 16, 2);
	memcpy(&count[1], bytes + 18, 4);
	cr_assert(wrap[0] == 1 && count[0] == 2 && wrap[1] == 3 && count[1] == 4);
	cr_assert(bytes[14] == 0 && bytes[15] == 0, "flags are with the consumer cursor alone");
	cr_assert(bytes[22] == SMC_CDC_WRITE_BLOCKED && bytes[23] == SMC_CDC_CLOSED);
	cr_assert_eq(bytes[0], SMC_CDC_TYPE);
	for (unsigned i = 1; i < 8; i++)
		cr_assert(bytes[i] == 0 && bytes[24 + i] == 0 && bytes[24] == 0);
}
