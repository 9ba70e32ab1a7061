/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clc_wire.h"

#include <string.h>

/*
 * Accept and Confirm (RFC A.2.3, A.2.4; v2). Of SMC-R:
 *
 *   8   8  peer id
 *  16  16  GID
 *  32   6  MAC
 *  38   3  QP number
 *  41   4  rkey of the RMB
 *  45   1  index of the RMBE, from 1
 *  46   4  alert token
 *  50   1  size of the RMBE (high 4 bits), MTU (low 4 bits), both codes
 *  51   1  reserved
 *  52   8  address of the RMB
 *  60   1  reserved
 *  61   3  first PSN
 *          end in v1
 *  64  32  EID agreed on
 *  96   8  reserved
 * 104      first contact extension
 */
enum {
	R_PEER_ID = 8,
	R_GID = 16,
	R_MAC = 32,
	R_QPN = 38,
	R_RKEY = 41,
	R_INDEX = 45,
	R_TOKEN = 46,
	R_SIZE_MTU = 50,
	R_ADDRESS = 52,
	R_PSN = 61,
	R_EID = 64,
	R_END_V1 = 64,
	R_END_V2 = 104,
};

/*
 * Of SMC-D. GID and token are big-endian now; Linux before that fix wrote them as its host has
 * them, which was the same on the only machines with ISM devices.
 *
 *   8   8  GID of the ISM device
 *  16   8  token of the DMB
 *  24   1  index of the DMBE, from 0
 *  25   1  size of the DMBE (high 4 bits), a code
 *  26   2  reserved
 *  28   4  link group id, opaque
 *  32  12  reserved, end in v1
 *
 *  32   2  CHID, v2
 *  34  32  EID agreed on
 *  66   8  GID extension, v2.1
 *  74      first contact extension
 */
enum {
	D_GID = 8,
	D_TOKEN = 16,
	D_INDEX = 24,
	D_SIZE = 25,
	D_LINK_ID = 28,
	D_CHID = 32,
	D_EID = 34,
	D_GID_EXTENSION = 66,
	D_END_V1 = 44,
	D_END_V2 = 74,
};

/*
 * First contact extension, v2:
 *
 *   0   1  bit 7: direct
 *   1   1  OS type (high 4 bits), release (low 4 bits)
 *   2   2  reserved
 *   4  32  host name
 *          end for SMC-D with release 0
 *  36   1  most connections per link group, v2.1
 *  37   1  most links per link group, v2.1
 *  38   2  features, v2.1
 *  40   4  vendor's options, v2.1
 *  44   8  reserved
 *          end, but for a Confirm of SMC-R
 *  52   1  number of GIDs
 *  53   3  reserved
 *  56  16  each GID of the client's
 */
enum {
	FIRST_DIRECT = 0x80,
	FIRST_OS_RELEASE = 1,
	FIRST_HOST_NAME = 4,
	FIRST_MAX_CONNS = 36,
	FIRST_MAX_LINKS = 37,
	FIRST_FEATURES = 38,
	FIRST_VENDOR_OPTIONS = 40,
	FIRST_END_V20 = 36,
	FIRST_END_V21 = 52,
	FIRST_GID_COUNT = 52,
	FIRST_GIDS = 56,
};

enum { SMALLEST_BUFFER = 16 * 1024, LARGEST_SIZE_CODE = 15 };

static uint32_t size_of_code(uint8_t code)
{
	return UINT32_C(1) * SMALLEST_BUFFER << code;
}

/* The code of a buffer size; above LARGEST_SIZE_CODE if it has none. */
static uint8_t code_of_size(uint32_t size)
{
	uint8_t code = 0;

	while (code <= LARGEST_SIZE_CODE && size_of_code(code) != size)
		code++;
	return code;
}

static size_t end_of_fixed(uint8_t version, enum smc_clc_mode mode)
{
	if (mode == SMC_CLC_R)
		return version == 1 ? R_END_V1 : R_END_V2;
	return version == 1 ? D_END_V1 : D_END_V2;
}

static void get_r(const uint8_t *from, struct smc_clc_r_end *r)
{
	memcpy(r->peer_id, from + R_PEER_ID, sizeof(r->peer_id));
	memcpy(r->gid, from + R_GID, sizeof(r->gid));
	memcpy(r->mac, from + R_MAC, sizeof(r->mac));
	r->qpn = wire_get24(from + R_QPN);
	r->psn = wire_get24(from + R_PSN);
	r->rkey = wire_get32(from + R_RKEY);
	r->address = wire_get64(from + R_ADDRESS);
	r->token = wire_get32(from + R_TOKEN);
	r->rmbe_size = size_of_code(from[R_SIZE_MTU] >> 4);
	r->rmbe_index = from[R_INDEX];
	r->mtu = from[R_SIZE_MTU] & 0xf;
}

static void put_r(uint8_t *to, const struct smc_clc_r_end *r)
{
	memcpy(to + R_PEER_ID, r->peer_id, sizeof(r->peer_id));
	memcpy(to + R_GID, r->gid, sizeof(r->gid));
	memcpy(to + R_MAC, r->mac, sizeof(r->mac));
	wire_put24(to + R_QPN, r->qpn);
	wire_put24(to + R_PSN, r->psn);
	wire_put32(to + R_RKEY, r->rkey);
	wire_put64(to + R_ADDRESS, r->address);
	wire_put32(to + R_TOKEN, r->token);
	to[R_SIZE_MTU] = (uint8_t)(code_of_size(r->rmbe_size) << 4 | r->mtu);
	to[R_INDEX] = r->rmbe_index;
}

static void get_d(const uint8_t *from, uint8_t version, struct smc_clc_d_end *d)
{
	d->gid = wire_get64(from + D_GID);
	d->token = wire_get64(from + D_TOKEN);
	d->dmbe_index = from[D_INDEX];
	d->dmbe_size = size_of_code(from[D_SIZE] >> 4);
	memcpy(d->link_id, from + D_LINK_ID, sizeof(d->link_id));
	if (version > 1) {
		d->chid = wire_get16(from + D_CHID);
		d->gid_extension = wire_get64(from + D_GID_EXTENSION);
	}
}

static void put_d(uint8_t *to, uint8_t version, const struct smc_clc_d_end *d)
{
	wire_put64(to + D_GID, d->gid);
	wire_put64(to + D_TOKEN, d->token);
	to[D_INDEX] = d->dmbe_index;
	to[D_SIZE] = (uint8_t)(code_of_size(d->dmbe_size) << 4);
	memcpy(to + D_LINK_ID, d->link_id, sizeof(d->link_id));
	if (version > 1) {
		wire_put16(to + D_CHID, d->chid);
		wire_put64(to + D_GID_EXTENSION, d->gid_extension);
	}
}

static bool has_gids(const struct smc_clc_answer *a)
{
	return a->mode == SMC_CLC_R && a->type == SMC_CLC_CONFIRM;
}

/*
 * The client's GIDs. Nobody says how many there may be: a longer list is cut, and a message that
 * ends before the list has none. The first ones of a list are always within SMC_CLC_BUFFER.
 */
static enum smc_wire_result get_gids(const struct clc_frame *f, size_t at,
				     struct smc_clc_first_contact *first)
{
	_Static_assert(R_END_V2 + FIRST_GIDS + SMC_CLC_MAX_GIDS * SMC_CLC_GID_SIZE <=
			       SMC_CLC_BUFFER,
		       "SMC_CLC_MAX_GIDS GIDs are within what is kept of a message");
	size_t count;

	if (at + FIRST_GIDS > f->end)
		return SMC_WIRE_OK;
	count = f->bytes[at + FIRST_GID_COUNT];
	if (at + FIRST_GIDS + count * SMC_CLC_GID_SIZE + CLC_TRAILER_SIZE > f->head.length)
		return SMC_WIRE_COUNT;
	first->n_gids = (uint8_t)(count < SMC_CLC_MAX_GIDS ? count : SMC_CLC_MAX_GIDS);
	memcpy(first->gids, f->bytes + at + FIRST_GIDS, (size_t)first->n_gids * SMC_CLC_GID_SIZE);
	return SMC_WIRE_OK;
}

/* Linux only checks that the part before it is there; here nothing is read that is not. */
static enum smc_wire_result get_first(const struct clc_frame *f, size_t at,
				      struct smc_clc_answer *a)
{
	const uint8_t *from = f->bytes + at;
	struct smc_clc_first_contact *first = &a->first;

	if (at + FIRST_END_V20 > f->end)
		return SMC_WIRE_LENGTH;
	first->direct = a->mode == SMC_CLC_R && from[0] & FIRST_DIRECT;
	first->os = from[FIRST_OS_RELEASE] >> 4;
	first->release = from[FIRST_OS_RELEASE] & 0xf;
	memcpy(first->host_name, from + FIRST_HOST_NAME, sizeof(first->host_name));
	if (first->release > 0) {
		if (at + FIRST_END_V21 > f->end)
			return SMC_WIRE_LENGTH;
		first->max_conns = from[FIRST_MAX_CONNS];
		first->max_links = from[FIRST_MAX_LINKS];
		first->features = wire_get16(from + FIRST_FEATURES);
		first->vendor_options = wire_get32(from + FIRST_VENDOR_OPTIONS);
	}
	return has_gids(a) ? get_gids(f, at, first) : SMC_WIRE_OK;
}

static enum smc_wire_result get_contents(const struct clc_frame *f, struct smc_clc_answer *a)
{
	size_t fixed = end_of_fixed(a->version, a->mode);

	/* v1 exactly so long; v2 at least, for what is added to it one day */
	if (f->end < fixed || (a->version == 1 && f->end != fixed))
		return SMC_WIRE_LENGTH;
	if (a->mode == SMC_CLC_R)
		get_r(f->bytes, &a->r);
	else
		get_d(f->bytes, a->version, &a->d);
	if (a->version == 1)
		return SMC_WIRE_OK;
	memcpy(a->eid, f->bytes + (a->mode == SMC_CLC_R ? R_EID : D_EID), sizeof(a->eid));
	return a->first_contact ? get_first(f, fixed, a) : SMC_WIRE_OK;
}

enum smc_wire_result smc_clc_decode_answer(const uint8_t *bytes, size_t n,
					   struct smc_clc_answer *answer)
{
	struct smc_clc_answer a;
	struct clc_frame f;
	enum smc_wire_result result =
		clc_open(bytes, n, 1u << SMC_CLC_ACCEPT | 1u << SMC_CLC_CONFIRM, &f);

	if (result != SMC_WIRE_OK)
		return result;
	memset(&a, 0, sizeof(a));
	a.type = f.head.type;
	a.version = f.head.version;
	a.mode = f.head.paths & CLC_PATHS_V1;
	a.first_contact = f.head.paths & CLC_FIRST_CONTACT;
	if (a.mode != SMC_CLC_R && a.mode != SMC_CLC_D)
		return SMC_WIRE_MODE;
	result = get_contents(&f, &a);
	if (result == SMC_WIRE_OK)
		*answer = a;
	return result;
}

/* What Linux sends: SMC-R always all of the extension, SMC-D the part of v2.1 only with it. */
static size_t first_size(const struct smc_clc_answer *a)
{
	if (a->version == 1 || !a->first_contact)
		return 0;
	if (has_gids(a))
		return FIRST_GIDS + (size_t)a->first.n_gids * SMC_CLC_GID_SIZE;
	return a->mode == SMC_CLC_R || a->first.release > 0 ? FIRST_END_V21 : FIRST_END_V20;
}

static void put_first(uint8_t *to, const struct smc_clc_answer *a)
{
	const struct smc_clc_first_contact *first = &a->first;

	to[0] = a->mode == SMC_CLC_R && first->direct ? FIRST_DIRECT : 0;
	to[FIRST_OS_RELEASE] = (uint8_t)(first->os << 4 | first->release);
	memcpy(to + FIRST_HOST_NAME, first->host_name, sizeof(first->host_name));
	if (first->release > 0) {
		to[FIRST_MAX_CONNS] = first->max_conns;
		to[FIRST_MAX_LINKS] = first->max_links;
		wire_put16(to + FIRST_FEATURES, first->features);
		wire_put32(to + FIRST_VENDOR_OPTIONS, first->vendor_options);
	}
	if (has_gids(a)) {
		to[FIRST_GID_COUNT] = first->n_gids;
		memcpy(to + FIRST_GIDS, first->gids, (size_t)first->n_gids * SMC_CLC_GID_SIZE);
	}
}

static bool can_be_said(const struct smc_clc_answer *a)
{
	if (a->type != SMC_CLC_ACCEPT && a->type != SMC_CLC_CONFIRM)
		return false;
	if (a->first.os > 15 || a->first.release > 15 || a->first.n_gids > SMC_CLC_MAX_GIDS)
		return false;
	if (a->mode == SMC_CLC_R)
		return a->r.qpn <= SMC_WIRE_24BIT && a->r.psn <= SMC_WIRE_24BIT && a->r.mtu <= 15 &&
		       code_of_size(a->r.rmbe_size) <= LARGEST_SIZE_CODE;
	return a->mode == SMC_CLC_D && code_of_size(a->d.dmbe_size) <= LARGEST_SIZE_CODE;
}

size_t smc_clc_encode_answer(const struct smc_clc_answer *answer, uint8_t *to, size_t room)
{
	const struct smc_clc_answer *a = answer;
	size_t fixed = end_of_fixed(a->version, a->mode);
	const struct smc_clc_head head = {
		.type = (uint8_t)a->type,
		.version = a->version,
		.paths = (uint8_t)(a->mode | (a->first_contact ? CLC_FIRST_CONTACT : 0)),
		.length = (uint16_t)(fixed + first_size(a) + CLC_TRAILER_SIZE),
	};

	if (!can_be_said(a) || !clc_begin(to, room, &head, a->mode == SMC_CLC_D))
		return 0;
	if (a->mode == SMC_CLC_R)
		put_r(to, &a->r);
	else
		put_d(to, a->version, &a->d);
	if (a->version == 1)
		return head.length;
	memcpy(to + (a->mode == SMC_CLC_R ? R_EID : D_EID), a->eid, sizeof(a->eid));
	if (a->first_contact)
		put_first(to + fixed, a);
	return head.length;
}
