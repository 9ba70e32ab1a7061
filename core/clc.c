/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clc_wire.h"

#include <string.h>

/*
 * The frame of every CLC message, and the Decline.
 *
 * Head (RFC A.2.2 and following; v2 gave the former flag bits of byte 7 a meaning):
 *
 *   0  4  eyecatcher, EBCDIC "SMCR" or "SMCD"
 *   4  1  type
 *   5  2  length of the whole message
 *   7  1  version (4 bits), paths (4 bits)
 *
 * Trailer: the last 4 bytes, an eyecatcher again. Linux writes the same at both ends and accepts
 * either at either; it checks no trailer of a Decline, nor of a message that is longer than its
 * buffer.
 */
enum { TYPE = 4, LENGTH = 5, VERSION = 7 };

static const uint8_t eyecatcher_r[4] = { 0xe2, 0xd4, 0xc3, 0xd9 };
static const uint8_t eyecatcher_d[4] = { 0xe2, 0xd4, 0xc3, 0xc4 };

static bool is_eyecatcher(const uint8_t *bytes)
{
	return !memcmp(bytes, eyecatcher_r, sizeof(eyecatcher_r)) ||
	       !memcmp(bytes, eyecatcher_d, sizeof(eyecatcher_d));
}

enum smc_wire_result smc_clc_decode_head(const uint8_t *bytes, size_t n, struct smc_clc_head *head)
{
	struct smc_clc_head h;

	if (n < SMC_CLC_HEAD_SIZE)
		return SMC_WIRE_SHORT;
	if (!is_eyecatcher(bytes))
		return SMC_WIRE_EYECATCHER;
	h.version = bytes[VERSION] >> 4;
	h.paths = bytes[VERSION] & 0xf;
	h.type = bytes[TYPE];
	h.length = wire_get16(bytes + LENGTH);
	if (h.version == 0)
		return SMC_WIRE_VERSION;
	if (h.type < SMC_CLC_PROPOSAL || h.type > SMC_CLC_DECLINE)
		return SMC_WIRE_TYPE;
	if (h.length < SMC_CLC_HEAD_SIZE + CLC_TRAILER_SIZE)
		return SMC_WIRE_LENGTH;
	*head = h;
	return SMC_WIRE_OK;
}

enum smc_wire_result clc_open(const uint8_t *bytes, size_t n, unsigned types,
			      struct clc_frame *frame)
{
	enum smc_wire_result result = smc_clc_decode_head(bytes, n, &frame->head);
	size_t length;

	if (result != SMC_WIRE_OK)
		return result;
	if (!(types & 1u << frame->head.type))
		return SMC_WIRE_TYPE;
	length = frame->head.length;
	frame->bytes = bytes;
	if (length > n) {
		frame->end = n;
		return n < SMC_CLC_BUFFER ? SMC_WIRE_SHORT : SMC_WIRE_OK;
	}
	frame->end = length - CLC_TRAILER_SIZE;
	if (frame->head.type != SMC_CLC_DECLINE && !is_eyecatcher(bytes + frame->end))
		return SMC_WIRE_TRAILER;
	return SMC_WIRE_OK;
}

bool clc_begin(uint8_t *to, size_t room, const struct smc_clc_head *head, bool smcd)
{
	const uint8_t *eyecatcher = smcd ? eyecatcher_d : eyecatcher_r;

	if (head->length > room || head->version < 1 || head->version > 15)
		return false;
	memset(to, 0, head->length);
	memcpy(to, eyecatcher, sizeof(eyecatcher_r));
	to[TYPE] = head->type;
	wire_put16(to + LENGTH, head->length);
	to[VERSION] = (uint8_t)(head->version << 4 | head->paths);
	memcpy(to + head->length - CLC_TRAILER_SIZE, eyecatcher, sizeof(eyecatcher_r));
	return true;
}

/*
 * Decline (RFC A.2.5):
 *
 *   8   8  peer id; Linux leaves it zero without an RNIC
 *  16   4  diagnosis
 *  20   1  OS type (high 4 bits), v2
 *  21   3  reserved
 *  24  16  four further diagnoses, v2
 *
 * Linux insists on the exact length.
 */
enum {
	PEER_ID = 8,
	DIAGNOSIS = 16,
	OS = 20,
	MORE = 24,
	DECLINE_V1_LENGTH = 28,
	DECLINE_V2_LENGTH = 44,
};

static uint16_t decline_length(uint8_t version)
{
	return version == 1 ? DECLINE_V1_LENGTH : DECLINE_V2_LENGTH;
}

enum smc_wire_result smc_clc_decode_decline(const uint8_t *bytes, size_t n,
					    struct smc_clc_decline *decline)
{
	struct smc_clc_decline d;
	struct clc_frame f;
	enum smc_wire_result result = clc_open(bytes, n, 1u << SMC_CLC_DECLINE, &f);

	if (result != SMC_WIRE_OK)
		return result;
	if (f.head.length != decline_length(f.head.version))
		return SMC_WIRE_LENGTH;
	memset(&d, 0, sizeof(d));
	d.version = f.head.version;
	d.out_of_sync = f.head.paths & CLC_OUT_OF_SYNC;
	memcpy(d.peer_id, bytes + PEER_ID, sizeof(d.peer_id));
	d.diagnosis = wire_get32(bytes + DIAGNOSIS);
	if (d.version > 1) {
		d.os = bytes[OS] >> 4;
		for (int i = 0; i < 4; i++)
			d.more[i] = wire_get32(bytes + MORE + 4 * i);
	}
	*decline = d;
	return SMC_WIRE_OK;
}

size_t smc_clc_encode_decline(const struct smc_clc_decline *decline, uint8_t *to, size_t room)
{
	const struct smc_clc_head head = {
		.type = SMC_CLC_DECLINE,
		.version = decline->version,
		.paths = decline->out_of_sync ? CLC_OUT_OF_SYNC : 0,
		.length = decline_length(decline->version),
	};

	if (decline->os > 15 || !clc_begin(to, room, &head, false))
		return 0;
	memcpy(to + PEER_ID, decline->peer_id, sizeof(decline->peer_id));
	wire_put32(to + DIAGNOSIS, decline->diagnosis);
	if (decline->version > 1) {
		to[OS] = (uint8_t)(decline->os << 4);
		for (int i = 0; i < 4; i++)
			wire_put32(to + MORE + 4 * i, decline->more[i]);
	}
	return head.length;
}
