/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clc_wire.h"

#include <string.h>

/*
 * Proposal (RFC A.2.2; from byte 40 on SMC-D and v2): four parts, found by offsets, that follow a
 * fixed body.
 *
 *   8   8  peer id
 *  16  16  GID
 *  32   6  MAC
 *  38   2  distance from 40 to the IP area, 0..40
 *
 *  40      ISM area: in every message of version 2, and where the IP area's distance is 40
 *  40   8  GID of the ISM device, v1
 *  48   2  its CHID
 *  50   2  distance from 52 to the v2 extension, 1..172
 *  52   3  vendor OUI, v2.1
 *  55   5  vendor's options, v2.1
 *  60  20  reserved
 */
enum {
	PEER_ID = 8,
	GID = 16,
	MAC = 32,
	IP_OFFSET = 38,
	ISM = 40,
	EXT_OFFSET = 50,
	VENDOR_OUI = 52,
	VENDOR_OPTIONS = 55,
	BODY_SIZE = 40,
	ISM_SIZE = 40,
	IP_OFFSET_FROM = 40,
	IP_OFFSET_MAX = 40,
	EXT_OFFSET_FROM = 52,
	EXT_OFFSET_MAX = 172,
};

/*
 * IP area; unless v1 is NONE:
 *
 *   0   4  IPv4 subnet
 *   4   1  its length in bits
 *   5   2  reserved
 *   7   1  number of IPv6 prefixes, 0..8
 *   8  17  each: prefix, its length in bits
 */
enum {
	IP_SUBNET_BITS = 4,
	IP_COUNT = 7,
	IP_SIZE = 8,
	PREFIX_SIZE = 17,
};

/*
 * v2 extension; unless v2 is NONE:
 *
 *   0   1  number of EIDs, 0..8
 *   1   1  number of ISM devices, 0..8
 *   2   1  reserved
 *   3   1  release (high 4 bits); bit 0: system EID offered
 *   4   2  reserved
 *   6   2  distance from 8 (of the extension) to the SMC-Dv2 extension, 1..288; 0 = none
 *   8  16  RoCEv2 GID
 *  24   1  most connections per link group, v2.1
 *  25   1  most links per link group, v2.1
 *  26   2  features, v2.1
 *  28  12  reserved
 *  40  32  each EID
 */
enum {
	EXT_EIDS = 0,
	EXT_ISMS = 1,
	EXT_FLAGS = 3,
	EXT_SEID = 0x01,
	EXT_SMCD_OFFSET = 6,
	EXT_GID = 8,
	EXT_MAX_CONNS = 24,
	EXT_MAX_LINKS = 25,
	EXT_FEATURES = 26,
	EXT_SIZE = 40,
	SMCD_OFFSET_FROM = 8,
	SMCD_OFFSET_MAX = 288,
};

/*
 * SMC-Dv2 extension; if v2 has D:
 *
 *   0  32  system EID, zero if not offered
 *  32  16  reserved
 *  48  10  each ISM device: GID, CHID
 */
enum {
	SMCD_SIZE = 48,
	ISM_ENTRY_SIZE = 10,
};

/* Where the parts of a message are, 0 for one that is not there, and how many items they have. */
struct places {
	size_t ip, ext, smcd;
	uint8_t prefixes, eids, isms;
	size_t end; /* without the trailer, if everything is packed as it must be */
};

static size_t ip_size(const struct places *at)
{
	return IP_SIZE + (size_t)PREFIX_SIZE * at->prefixes;
}

static size_t ext_size(const struct places *at)
{
	return EXT_SIZE + (size_t)SMC_CLC_EID_SIZE * at->eids;
}

static size_t smcd_size(const struct places *at)
{
	return SMCD_SIZE + (size_t)ISM_ENTRY_SIZE * at->isms;
}

/*
 * Linux counts the IPv6 prefixes even where there is no IP area, and so takes byte 47, of the ISM
 * GID, for the count when the distance is 0. Here nothing is read from an area that is not there.
 */
static enum smc_wire_result find_ip(const struct clc_frame *f, const struct smc_clc_proposal *p,
				    struct places *at)
{
	uint16_t offset = wire_get16(f->bytes + IP_OFFSET);

	if (offset > IP_OFFSET_MAX || (smc_clc_has_d(p->v1) && offset != IP_OFFSET_MAX))
		return SMC_WIRE_OFFSET;
	at->end = BODY_SIZE + (p->version > 1 ? ISM_SIZE : offset);
	if (at->end > f->end)
		return SMC_WIRE_LENGTH;
	if (p->v1 == SMC_CLC_NONE)
		return SMC_WIRE_OK;
	at->ip = IP_OFFSET_FROM + offset;
	if (at->ip + IP_SIZE > f->end)
		return SMC_WIRE_OFFSET;
	at->prefixes = f->bytes[at->ip + IP_COUNT];
	if (at->prefixes > SMC_CLC_MAX_PREFIXES || at->ip + ip_size(at) > f->end)
		return SMC_WIRE_COUNT;
	at->end += ip_size(at);
	return SMC_WIRE_OK;
}

/* The number of ISM devices counts for the length even if the distance says that their extension is not there. */
static enum smc_wire_result find_smcd(const struct clc_frame *f, struct places *at)
{
	const uint8_t *ext = f->bytes + at->ext;
	uint16_t offset = wire_get16(ext + EXT_SMCD_OFFSET);

	at->isms = ext[EXT_ISMS];
	if (at->isms > SMC_CLC_MAX_ISM)
		return SMC_WIRE_COUNT;
	at->end += smcd_size(at);
	if (offset == 0)
		return SMC_WIRE_OK;
	at->smcd = at->ext + SMCD_OFFSET_FROM + offset;
	if (offset > SMCD_OFFSET_MAX || at->smcd + smcd_size(at) > f->end)
		return SMC_WIRE_OFFSET;
	return SMC_WIRE_OK;
}

static enum smc_wire_result find_ext(const struct clc_frame *f, const struct smc_clc_proposal *p,
				     struct places *at)
{
	uint16_t offset;

	if (p->v2 == SMC_CLC_NONE)
		return SMC_WIRE_OK;
	offset = wire_get16(f->bytes + EXT_OFFSET);
	at->ext = EXT_OFFSET_FROM + (size_t)offset;
	if (offset == 0 || offset > EXT_OFFSET_MAX || at->ext + EXT_SIZE > f->end)
		return SMC_WIRE_OFFSET;
	at->eids = f->bytes[at->ext + EXT_EIDS];
	if (at->eids > SMC_CLC_MAX_EIDS || at->ext + ext_size(at) > f->end)
		return SMC_WIRE_COUNT;
	at->end += ext_size(at);
	return smc_clc_has_d(p->v2) ? find_smcd(f, at) : SMC_WIRE_OK;
}

static void get_ism(const uint8_t *from, struct smc_clc_ism *ism)
{
	ism->gid = wire_get64(from);
	ism->chid = wire_get16(from + 8);
}

static void get_body(const uint8_t *from, struct smc_clc_proposal *p)
{
	memcpy(p->peer_id, from + PEER_ID, sizeof(p->peer_id));
	memcpy(p->gid, from + GID, sizeof(p->gid));
	memcpy(p->mac, from + MAC, sizeof(p->mac));
	if (smc_clc_has_d(p->v1))
		get_ism(from + ISM, &p->ism);
}

static void get_ip(const uint8_t *from, struct smc_clc_proposal *p)
{
	p->subnet = wire_get32(from);
	p->subnet_bits = from[IP_SUBNET_BITS];
	p->n_prefixes = from[IP_COUNT];
	for (size_t i = 0; i < p->n_prefixes; i++) {
		const uint8_t *prefix = from + IP_SIZE + PREFIX_SIZE * i;

		memcpy(p->prefixes[i].address, prefix, sizeof(p->prefixes[i].address));
		p->prefixes[i].bits = prefix[sizeof(p->prefixes[i].address)];
	}
}

static void get_ext(const uint8_t *message, const uint8_t *from, struct smc_clc_proposal *p)
{
	p->n_eids = from[EXT_EIDS];
	memcpy(p->eids, from + EXT_SIZE, (size_t)SMC_CLC_EID_SIZE * p->n_eids);
	memcpy(p->roce2_gid, from + EXT_GID, sizeof(p->roce2_gid));
	p->seid_offered = from[EXT_FLAGS] & EXT_SEID;
	p->release = from[EXT_FLAGS] >> 4;
	if (p->release == 0)
		return;
	p->max_conns = from[EXT_MAX_CONNS];
	p->max_links = from[EXT_MAX_LINKS];
	p->features = wire_get16(from + EXT_FEATURES);
	memcpy(p->vendor_oui, message + VENDOR_OUI, sizeof(p->vendor_oui));
	memcpy(p->vendor_options, message + VENDOR_OPTIONS, sizeof(p->vendor_options));
}

static void get_smcd(const uint8_t *from, uint8_t isms, struct smc_clc_proposal *p)
{
	p->smcd2 = true;
	memcpy(p->seid, from, sizeof(p->seid));
	p->n_isms = isms;
	for (size_t i = 0; i < isms; i++)
		get_ism(from + SMCD_SIZE + ISM_ENTRY_SIZE * i, &p->isms[i]);
}

static enum smc_wire_result find(const struct clc_frame *f, const struct smc_clc_proposal *p,
				 struct places *at)
{
	enum smc_wire_result result;

	memset(at, 0, sizeof(*at));
	if (f->end < BODY_SIZE)
		return SMC_WIRE_LENGTH;
	if (p->version == 1 && p->v1 == SMC_CLC_NONE)
		return SMC_WIRE_MODE;
	result = find_ip(f, p, at);
	if (result == SMC_WIRE_OK)
		result = find_ext(f, p, at);
	if (result == SMC_WIRE_OK && at->end + CLC_TRAILER_SIZE != f->head.length)
		result = SMC_WIRE_LENGTH;
	return result;
}

enum smc_wire_result smc_clc_decode_proposal(const uint8_t *bytes, size_t n,
					     struct smc_clc_proposal *proposal)
{
	struct smc_clc_proposal p;
	struct clc_frame f;
	struct places at;
	enum smc_wire_result result = clc_open(bytes, n, 1u << SMC_CLC_PROPOSAL, &f);

	if (result != SMC_WIRE_OK)
		return result;
	memset(&p, 0, sizeof(p));
	p.version = f.head.version;
	p.v1 = f.head.paths & CLC_PATHS_V1;
	p.v2 = p.version == 1 ? SMC_CLC_NONE : f.head.paths >> CLC_PATHS_V2_SHIFT;
	result = find(&f, &p, &at);
	if (result != SMC_WIRE_OK)
		return result;
	get_body(bytes, &p);
	if (at.ip)
		get_ip(bytes + at.ip, &p);
	if (at.ext)
		get_ext(bytes, bytes + at.ext, &p);
	if (at.smcd)
		get_smcd(bytes + at.smcd, at.isms, &p);
	*proposal = p;
	return SMC_WIRE_OK;
}

/* The places of what is to be sent: packed, in order. */
static void plan(const struct smc_clc_proposal *p, struct places *at)
{
	*at = (struct places){ .prefixes = p->n_prefixes,
			       .eids = p->n_eids,
			       .isms = p->smcd2 ? p->n_isms : 0 };
	at->end = BODY_SIZE + (p->version > 1 || smc_clc_has_d(p->v1) ? ISM_SIZE : 0);
	if (p->v1 != SMC_CLC_NONE) {
		at->ip = at->end;
		at->end += ip_size(at);
	}
	if (p->v2 != SMC_CLC_NONE) {
		at->ext = at->end;
		at->end += ext_size(at);
	}
	if (smc_clc_has_d(p->v2)) {
		at->smcd = at->end;
		at->end += smcd_size(at);
	}
}

static void put_ism(uint8_t *to, const struct smc_clc_ism *ism)
{
	wire_put64(to, ism->gid);
	wire_put16(to + 8, ism->chid);
}

static void put_body(uint8_t *to, const struct smc_clc_proposal *p, const struct places *at)
{
	memcpy(to + PEER_ID, p->peer_id, sizeof(p->peer_id));
	memcpy(to + GID, p->gid, sizeof(p->gid));
	memcpy(to + MAC, p->mac, sizeof(p->mac));
	if (at->ip)
		wire_put16(to + IP_OFFSET, (uint16_t)(at->ip - IP_OFFSET_FROM));
	if (at->ext)
		wire_put16(to + EXT_OFFSET, (uint16_t)(at->ext - EXT_OFFSET_FROM));
	if (smc_clc_has_d(p->v1))
		put_ism(to + ISM, &p->ism);
}

static void put_ip(uint8_t *to, const struct smc_clc_proposal *p)
{
	wire_put32(to, p->subnet);
	to[IP_SUBNET_BITS] = p->subnet_bits;
	to[IP_COUNT] = p->n_prefixes;
	for (size_t i = 0; i < p->n_prefixes; i++) {
		uint8_t *prefix = to + IP_SIZE + PREFIX_SIZE * i;

		memcpy(prefix, p->prefixes[i].address, sizeof(p->prefixes[i].address));
		prefix[sizeof(p->prefixes[i].address)] = p->prefixes[i].bits;
	}
}

static void put_ext(uint8_t *message, uint8_t *to, const struct smc_clc_proposal *p,
		    const struct places *at)
{
	to[EXT_EIDS] = p->n_eids;
	memcpy(to + EXT_SIZE, p->eids, (size_t)SMC_CLC_EID_SIZE * p->n_eids);
	memcpy(to + EXT_GID, p->roce2_gid, sizeof(p->roce2_gid));
	to[EXT_FLAGS] = (uint8_t)(p->release << 4 | (p->seid_offered ? EXT_SEID : 0));
	if (at->smcd && p->smcd2) {
		to[EXT_ISMS] = at->isms;
		wire_put16(to + EXT_SMCD_OFFSET, (uint16_t)(at->smcd - at->ext - SMCD_OFFSET_FROM));
	}
	if (p->release == 0)
		return;
	to[EXT_MAX_CONNS] = p->max_conns;
	to[EXT_MAX_LINKS] = p->max_links;
	wire_put16(to + EXT_FEATURES, p->features);
	memcpy(message + VENDOR_OUI, p->vendor_oui, sizeof(p->vendor_oui));
	memcpy(message + VENDOR_OPTIONS, p->vendor_options, sizeof(p->vendor_options));
}

static void put_smcd(uint8_t *to, const struct smc_clc_proposal *p)
{
	memcpy(to, p->seid, sizeof(p->seid));
	for (size_t i = 0; i < p->n_isms; i++)
		put_ism(to + SMCD_SIZE + ISM_ENTRY_SIZE * i, &p->isms[i]);
}

static bool can_be_said(const struct smc_clc_proposal *p)
{
	if (p->v1 > SMC_CLC_BOTH || p->v2 > SMC_CLC_BOTH || p->release > 15)
		return false;
	if (p->version == 1 && (p->v1 == SMC_CLC_NONE || p->v2 != SMC_CLC_NONE))
		return false;
	return p->n_prefixes <= SMC_CLC_MAX_PREFIXES && p->n_eids <= SMC_CLC_MAX_EIDS &&
	       p->n_isms <= SMC_CLC_MAX_ISM;
}

size_t smc_clc_encode_proposal(const struct smc_clc_proposal *proposal, uint8_t *to, size_t room)
{
	const struct smc_clc_proposal *p = proposal;
	struct smc_clc_head head = { .type = SMC_CLC_PROPOSAL, .version = p->version };
	struct places at;

	if (!can_be_said(p))
		return 0;
	plan(p, &at);
	head.length = (uint16_t)(at.end + CLC_TRAILER_SIZE);
	/* a message of version 1 has nothing, not even NONE, where v2 is */
	head.paths = (uint8_t)(p->v1 | (p->version > 1 ? p->v2 << CLC_PATHS_V2_SHIFT : 0));
	if (!clc_begin(to, room, &head, false))
		return 0;
	put_body(to, p, &at);
	if (at.ip)
		put_ip(to + at.ip, p);
	if (at.ext)
		put_ext(to, to + at.ext, p, &at);
	if (at.smcd && p->smcd2)
		put_smcd(to + at.smcd, p);
	return head.length;
}
