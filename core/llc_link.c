/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/llc_wire.h"

#include <string.h>

/* LLC messages about links. */

static void get_end(const uint8_t *mac, const uint8_t *gid, const uint8_t *qpn,
		    struct smc_llc_end *end)
{
	memcpy(end->mac, mac, sizeof(end->mac));
	memcpy(end->gid, gid, sizeof(end->gid));
	end->qpn = wire_get24(qpn);
	end->link = qpn[3];
}

static void put_end(uint8_t *mac, uint8_t *gid, uint8_t *qpn, const struct smc_llc_end *end)
{
	memcpy(mac, end->mac, sizeof(end->mac));
	memcpy(gid, end->gid, sizeof(end->gid));
	wire_put24(qpn, end->qpn);
	qpn[3] = end->link;
}

/*
 * CONFIRM LINK (RFC A.3.1):
 *
 *   3   1  flags: 0x03 = no eyecatchers in RMBEs
 *   4   6  MAC
 *  10  16  GID
 *  26   3  QP number
 *  29   1  link number
 *  30   4  link user id
 *  34   1  most links
 *  35   1  most connections, v2.1
 *  36   8  reserved
 */
enum {
	CONFIRM_NO_EYECATCHER = 0x03,
	CONFIRM_MAC = 4,
	CONFIRM_GID = 10,
	CONFIRM_QPN = 26,
	CONFIRM_USER_ID = 30,
	CONFIRM_MAX_LINKS = 34,
	CONFIRM_MAX_CONNS = 35,
};

enum smc_wire_result llc_get_confirm_link(const uint8_t *from, size_t n, struct smc_llc *message)
{
	struct smc_llc_confirm_link *c = &message->confirm_link;

	(void)n;
	c->no_eyecatcher = from[LLC_FLAGS] & CONFIRM_NO_EYECATCHER;
	get_end(from + CONFIRM_MAC, from + CONFIRM_GID, from + CONFIRM_QPN, &c->end);
	c->user_id = wire_get32(from + CONFIRM_USER_ID);
	c->max_links = from[CONFIRM_MAX_LINKS];
	c->max_conns = from[CONFIRM_MAX_CONNS];
	return SMC_WIRE_OK;
}

size_t llc_size_confirm_link(const struct smc_llc *message)
{
	const struct smc_llc_confirm_link *c = &message->confirm_link;

	return c->end.qpn <= SMC_WIRE_24BIT && c->no_eyecatcher <= CONFIRM_NO_EYECATCHER
		       ? SMC_LLC_SIZE
		       : 0;
}

void llc_put_confirm_link(const struct smc_llc *message, uint8_t *to)
{
	const struct smc_llc_confirm_link *c = &message->confirm_link;

	to[LLC_FLAGS] |= c->no_eyecatcher;
	put_end(to + CONFIRM_MAC, to + CONFIRM_GID, to + CONFIRM_QPN, &c->end);
	wire_put32(to + CONFIRM_USER_ID, c->user_id);
	to[CONFIRM_MAX_LINKS] = c->max_links;
	to[CONFIRM_MAX_CONNS] = c->max_conns;
}

/*
 * ADD LINK (RFC A.3.2; v2 from byte 44 on):
 *
 *   2   1  reject reason (low 4 bits), v1
 *   3   1  flags: 0x40 = reject
 *   4   6  MAC
 *  10   2  reserved
 *  12  16  GID
 *  28   3  QP number
 *  31   1  link number
 *  32   1  MTU (low 4 bits), a code
 *  33   3  first PSN
 *  36   8  reserved
 *
 *  44   1  bit 7: direct
 *  45   1  reserved
 *  46  16  client's target GID; Linux writes the sender's own
 *  62   8  reserved
 *  70   2  number of keys, 0..255
 *  72  16  each: known key (4), new key (4), new address (8)
 *
 * A response that rejects is 44 bytes, in v2 too, and so has no reason there.
 *
 * Linux has the number of keys in its host's byte order, Wireshark in the network's. As it is below
 * 256, one of its bytes is zero and it can be read in either; it is written as Linux does.
 */
enum {
	ADD_REASON = 2,
	ADD_REJECT = 0x40,
	ADD_MAC = 4,
	ADD_GID = 12,
	ADD_QPN = 28,
	ADD_MTU = 32,
	ADD_PSN = 33,
	ADD_DIRECT_AT = 44,
	ADD_DIRECT = 0x80,
	ADD_TARGET_GID = 46,
	ADD_COUNT = 70,
	ADD_RKEYS = 72,
};

_Static_assert(SMC_LLC_MAX_SIZE == ADD_RKEYS + SMC_LLC_MAX_ITEMS * LLC_RKEY_SIZE,
	       "SMC_LLC_MAX_SIZE is an ADD LINK with all keys");

static void get_rkey(const uint8_t *from, struct smc_llc_rkey *key)
{
	key->known = wire_get32(from);
	key->new_key = wire_get32(from + 4);
	key->new_address = wire_get64(from + 8);
}

static void put_rkey(uint8_t *to, const struct smc_llc_rkey *key)
{
	wire_put32(to, key->known);
	wire_put32(to + 4, key->new_key);
	wire_put64(to + 8, key->new_address);
}

static bool has_extension(const struct smc_llc *message)
{
	return message->version == 2 && !(message->response && message->add_link.reject);
}

static enum smc_wire_result get_add_extension(const uint8_t *from, size_t n,
					      struct smc_llc_add_link *a)
{
	uint16_t count;

	if (n < ADD_RKEYS)
		return SMC_WIRE_SHORT;
	if (from[ADD_COUNT] && from[ADD_COUNT + 1])
		return SMC_WIRE_COUNT;
	count = from[ADD_COUNT] | from[ADD_COUNT + 1];
	if (ADD_RKEYS + (size_t)count * LLC_RKEY_SIZE > n)
		return SMC_WIRE_COUNT;
	a->direct = from[ADD_DIRECT_AT] & ADD_DIRECT;
	memcpy(a->target_gid, from + ADD_TARGET_GID, sizeof(a->target_gid));
	a->n_rkeys = (uint8_t)count;
	for (size_t i = 0; i < count; i++)
		get_rkey(from + ADD_RKEYS + i * LLC_RKEY_SIZE, &a->rkeys[i]);
	return SMC_WIRE_OK;
}

enum smc_wire_result llc_get_add_link(const uint8_t *from, size_t n, struct smc_llc *message)
{
	struct smc_llc_add_link *a = &message->add_link;

	a->reject = from[LLC_FLAGS] & ADD_REJECT;
	if (message->version == 1)
		a->reject_reason = from[ADD_REASON] & 0xf;
	get_end(from + ADD_MAC, from + ADD_GID, from + ADD_QPN, &a->end);
	a->mtu = from[ADD_MTU] & 0xf;
	a->psn = wire_get24(from + ADD_PSN);
	return has_extension(message) ? get_add_extension(from, n, a) : SMC_WIRE_OK;
}

size_t llc_size_add_link(const struct smc_llc *message)
{
	const struct smc_llc_add_link *a = &message->add_link;

	if (a->end.qpn > SMC_WIRE_24BIT || a->psn > SMC_WIRE_24BIT || a->mtu > 15 ||
	    a->reject_reason > 15)
		return 0;
	return has_extension(message) ? ADD_RKEYS + (size_t)a->n_rkeys * LLC_RKEY_SIZE
				      : SMC_LLC_SIZE;
}

void llc_put_add_link(const struct smc_llc *message, uint8_t *to)
{
	const struct smc_llc_add_link *a = &message->add_link;
	const uint16_t count = a->n_rkeys;

	if (a->reject)
		to[LLC_FLAGS] |= ADD_REJECT;
	if (message->version == 1)
		to[ADD_REASON] = a->reject_reason;
	put_end(to + ADD_MAC, to + ADD_GID, to + ADD_QPN, &a->end);
	to[ADD_MTU] = a->mtu;
	wire_put24(to + ADD_PSN, a->psn);
	if (!has_extension(message))
		return;
	to[ADD_DIRECT_AT] = a->direct ? ADD_DIRECT : 0;
	memcpy(to + ADD_TARGET_GID, a->target_gid, sizeof(a->target_gid));
	memcpy(to + ADD_COUNT, &count, sizeof(count));
	for (size_t i = 0; i < count; i++)
		put_rkey(to + ADD_RKEYS + i * LLC_RKEY_SIZE, &a->rkeys[i]);
}

/*
 * ADD LINK CONTINUATION (RFC A.3.3), v1:
 *
 *   4   1  link number of the new link
 *   5   1  keys still to come, these included
 *   6   2  reserved
 *   8  16  two keys, as in ADD LINK
 *  40   4  reserved
 */
enum {
	CONT_LINK = 4,
	CONT_LEFT = 5,
	CONT_RKEYS = 8,
};

static size_t keys_in(const struct smc_llc_add_link_cont *c)
{
	return c->n_left < SMC_LLC_CONT_KEYS ? c->n_left : SMC_LLC_CONT_KEYS;
}

enum smc_wire_result llc_get_add_link_cont(const uint8_t *from, size_t n, struct smc_llc *message)
{
	struct smc_llc_add_link_cont *c = &message->add_link_cont;

	(void)n;
	c->link = from[CONT_LINK];
	c->n_left = from[CONT_LEFT];
	for (size_t i = 0; i < keys_in(c); i++)
		get_rkey(from + CONT_RKEYS + i * LLC_RKEY_SIZE, &c->rkeys[i]);
	return SMC_WIRE_OK;
}

void llc_put_add_link_cont(const struct smc_llc *message, uint8_t *to)
{
	const struct smc_llc_add_link_cont *c = &message->add_link_cont;

	to[CONT_LINK] = c->link;
	to[CONT_LEFT] = c->n_left;
	for (size_t i = 0; i < keys_in(c); i++)
		put_rkey(to + CONT_RKEYS + i * LLC_RKEY_SIZE, &c->rkeys[i]);
}

/*
 * DELETE LINK (RFC A.3.4):
 *
 *   3   1  flags: 0x40 = all links, 0x20 = orderly
 *   4   1  link number
 *   5   4  reason
 *   9  35  reserved
 */
enum {
	DELETE_ALL = 0x40,
	DELETE_ORDERLY = 0x20,
	DELETE_LINK = 4,
	DELETE_REASON = 5,
};

enum smc_wire_result llc_get_delete_link(const uint8_t *from, size_t n, struct smc_llc *message)
{
	struct smc_llc_delete_link *d = &message->delete_link;

	(void)n;
	d->all = from[LLC_FLAGS] & DELETE_ALL;
	d->orderly = from[LLC_FLAGS] & DELETE_ORDERLY;
	d->link = from[DELETE_LINK];
	d->reason = wire_get32(from + DELETE_REASON);
	return SMC_WIRE_OK;
}

void llc_put_delete_link(const struct smc_llc *message, uint8_t *to)
{
	const struct smc_llc_delete_link *d = &message->delete_link;

	to[LLC_FLAGS] |= (uint8_t)((d->all ? DELETE_ALL : 0) | (d->orderly ? DELETE_ORDERLY : 0));
	to[DELETE_LINK] = d->link;
	wire_put32(to + DELETE_REASON, d->reason);
}

/*
 * REQUEST ADD LINK, v2:
 *
 *   4  20  reserved
 *  24   1  number of GIDs
 *  25   3  reserved
 *  28  16  each GID of the client's
 *
 * A response, which says that no link can be added, has none.
 */
enum {
	REQ_COUNT = 24,
	REQ_GIDS = 28,
};

enum smc_wire_result llc_get_req_add_link(const uint8_t *from, size_t n, struct smc_llc *message)
{
	struct smc_llc_req_add_link *r = &message->req_add_link;
	size_t count = from[REQ_COUNT];

	if (message->response)
		return SMC_WIRE_OK;
	if (count == 0 || REQ_GIDS + count * SMC_LLC_GID_SIZE > n)
		return SMC_WIRE_COUNT;
	r->n_gids = (uint8_t)count;
	memcpy(r->gids, from + REQ_GIDS, count * SMC_LLC_GID_SIZE);
	return SMC_WIRE_OK;
}

size_t llc_size_req_add_link(const struct smc_llc *message)
{
	size_t count = message->req_add_link.n_gids;

	if (message->response)
		return SMC_LLC_SIZE;
	return count == 0 ? 0 : REQ_GIDS + count * SMC_LLC_GID_SIZE;
}

void llc_put_req_add_link(const struct smc_llc *message, uint8_t *to)
{
	const struct smc_llc_req_add_link *r = &message->req_add_link;

	if (message->response)
		return;
	to[REQ_COUNT] = r->n_gids;
	memcpy(to + REQ_GIDS, r->gids, (size_t)r->n_gids * SMC_LLC_GID_SIZE);
}
