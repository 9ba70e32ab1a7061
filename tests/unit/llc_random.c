/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/llc.h"
#include "tests/unit/messages.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Any LLC message that can be said is understood as it was meant. */

#define same(a, b, field)                                                                          \
	cr_assert(!memcmp(&(a)->field, &(b)->field, sizeof((a)->field)),                           \
		  "seed %u: " #field " differs", seed)

/* Few items mostly, at times as many as there may be. */
static uint8_t random_count(uint8_t most)
{
	return (uint8_t)(rand() % ((rand() % 8 ? (most < 12 ? most : 12) : most) + 1));
}

static void random_end(struct smc_llc_end *end)
{
	random_bytes(end->mac, sizeof(end->mac));
	random_bytes(end->gid, sizeof(end->gid));
	end->qpn = (uint32_t)random_bits(24);
	end->link = (uint8_t)random_bits(8);
}

static void random_add_link(struct smc_llc *l)
{
	struct smc_llc_add_link *a = &l->add_link;

	random_end(&a->end);
	a->reject = rand() % 2;
	a->mtu = (uint8_t)random_bits(4);
	a->psn = (uint32_t)random_bits(24);
	if (l->version == 1)
		a->reject_reason = (uint8_t)random_bits(4);
	else if (!l->response || !a->reject) {
		a->direct = rand() % 2;
		random_bytes(a->target_gid, sizeof(a->target_gid));
		a->n_rkeys = random_count(SMC_LLC_MAX_ITEMS);
		random_bytes(a->rkeys, a->n_rkeys * sizeof(a->rkeys[0]));
	}
}

static void random_confirm_rkey(struct smc_llc *l)
{
	struct smc_llc_confirm_rkey *c = &l->confirm_rkey;
	bool cont = l->type == SMC_LLC_CONFIRM_RKEY_CONT;
	unsigned n;

	c->negative = l->response && rand() % 2;
	c->retry = l->response && rand() % 2;
	c->n_more = cont ? (uint8_t)random_bits(8) : (uint8_t)random_bits(2);
	n = c->n_more + !cont;
	for (unsigned i = 0; i < n && i < SMC_LLC_MAX_TOKENS; i++)
		c->tokens[i] = (struct smc_llc_token){ (uint8_t)random_bits(8),
						       (uint32_t)random_bits(32), random_bits(64) };
	if (!cont)
		c->tokens[0].link = 0;
}

static void random_delete_rkey(struct smc_llc *l)
{
	struct smc_llc_delete_rkey *d = &l->delete_rkey;

	d->n_rkeys = random_count(l->version == 1 ? SMC_LLC_V1_DELETE_RKEYS : SMC_LLC_MAX_ITEMS);
	if (l->response) {
		d->negative = rand() % 2;
		d->errors = (uint8_t)random_bits(8);
	}
	if (l->version == 1 || !l->response)
		random_bytes(d->rkeys, d->n_rkeys * sizeof(d->rkeys[0]));
}

static void random_contents(struct smc_llc *l)
{
	switch (l->type) {
	case SMC_LLC_CONFIRM_LINK:
		random_end(&l->confirm_link.end);
		l->confirm_link.no_eyecatcher = (uint8_t)random_bits(2);
		l->confirm_link.user_id = (uint32_t)random_bits(32);
		l->confirm_link.max_links = (uint8_t)random_bits(8);
		l->confirm_link.max_conns = (uint8_t)random_bits(8);
		break;
	case SMC_LLC_ADD_LINK:
		random_add_link(l);
		break;
	case SMC_LLC_ADD_LINK_CONT:
		l->add_link_cont.link = (uint8_t)random_bits(8);
		l->add_link_cont.n_left = (uint8_t)random_bits(rand() % 2 ? 8 : 1);
		random_bytes(l->add_link_cont.rkeys,
			     (l->add_link_cont.n_left < 2 ? l->add_link_cont.n_left : 2u) * 16);
		break;
	case SMC_LLC_DELETE_LINK:
		l->delete_link = (struct smc_llc_delete_link){ rand() % 2, rand() % 2,
							       (uint8_t)random_bits(8),
							       (uint32_t)random_bits(32) };
		break;
	case SMC_LLC_REQ_ADD_LINK:
		if (!l->response) {
			l->req_add_link.n_gids = (uint8_t)(1 + random_count(SMC_LLC_MAX_ITEMS - 1));
			random_bytes(l->req_add_link.gids, l->req_add_link.n_gids * 16u);
		}
		break;
	case SMC_LLC_CONFIRM_RKEY:
	case SMC_LLC_CONFIRM_RKEY_CONT:
		random_confirm_rkey(l);
		break;
	case SMC_LLC_TEST_LINK:
		random_bytes(l->test_link.user_data, sizeof(l->test_link.user_data));
		break;
	case SMC_LLC_DELETE_RKEY:
		random_delete_rkey(l);
		break;
	case SMC_LLC_TYPES:
		break;
	}
}

static void same_end(unsigned seed, const struct smc_llc_end *a, const struct smc_llc_end *b)
{
	same(a, b, mac);
	same(a, b, gid);
	same(a, b, qpn);
	same(a, b, link);
}

static void same_contents(unsigned seed, const struct smc_llc *a, const struct smc_llc *b)
{
	switch (a->type) {
	case SMC_LLC_CONFIRM_LINK:
		same_end(seed, &a->confirm_link.end, &b->confirm_link.end);
		same(a, b, confirm_link.no_eyecatcher);
		same(a, b, confirm_link.user_id);
		same(a, b, confirm_link.max_links);
		same(a, b, confirm_link.max_conns);
		break;
	case SMC_LLC_ADD_LINK:
		same_end(seed, &a->add_link.end, &b->add_link.end);
		same(a, b, add_link.reject);
		same(a, b, add_link.reject_reason);
		same(a, b, add_link.mtu);
		same(a, b, add_link.psn);
		same(a, b, add_link.direct);
		same(a, b, add_link.target_gid);
		same(a, b, add_link.n_rkeys);
		same(a, b, add_link.rkeys);
		break;
	case SMC_LLC_ADD_LINK_CONT:
		same(a, b, add_link_cont.link);
		same(a, b, add_link_cont.n_left);
		same(a, b, add_link_cont.rkeys);
		break;
	case SMC_LLC_DELETE_LINK:
		same(a, b, delete_link.all);
		same(a, b, delete_link.orderly);
		same(a, b, delete_link.link);
		same(a, b, delete_link.reason);
		break;
	case SMC_LLC_REQ_ADD_LINK:
		same(a, b, req_add_link.n_gids);
		same(a, b, req_add_link.gids);
		break;
	case SMC_LLC_CONFIRM_RKEY:
	case SMC_LLC_CONFIRM_RKEY_CONT:
		same(a, b, confirm_rkey.negative);
		same(a, b, confirm_rkey.retry);
		same(a, b, confirm_rkey.n_more);
		for (unsigned i = 0; i < SMC_LLC_MAX_TOKENS; i++) {
			same(a, b, confirm_rkey.tokens[i].link);
			same(a, b, confirm_rkey.tokens[i].rkey);
			same(a, b, confirm_rkey.tokens[i].address);
		}
		break;
	case SMC_LLC_TEST_LINK:
		same(a, b, test_link.user_data);
		break;
	case SMC_LLC_DELETE_RKEY:
		same(a, b, delete_rkey.negative);
		same(a, b, delete_rkey.errors);
		same(a, b, delete_rkey.n_rkeys);
		same(a, b, delete_rkey.rkeys);
		break;
	case SMC_LLC_TYPES:
		break;
	}
}

static void one_message(unsigned version, enum smc_llc_type type, unsigned seed)
{
	static struct smc_llc a, b;
	uint8_t room[RECODE_MAX], *bytes;
	size_t n;

	memset(&a, 0, sizeof(a));
	a.version = (uint8_t)version;
	a.type = type;
	a.response = rand() % 2;
	random_contents(&a);
	n = smc_llc_encode(&a, room, sizeof(room));
	cr_assert_geq(n, SMC_LLC_SIZE, "seed %u", seed);
	bytes = malloc(n);
	cr_assert_eq(smc_llc_encode(&a, bytes, n - 1), 0, "seed %u", seed);
	cr_assert_eq(smc_llc_encode(&a, bytes, n), n, "seed %u", seed);
	cr_assert_eq(smc_llc_decode(bytes, n, &b), SMC_WIRE_OK, "seed %u", seed);
	same(&a, &b, version);
	same(&a, &b, type);
	same(&a, &b, response);
	same_contents(seed, &a, &b);
	free(bytes);
}

static void one_of_each(unsigned seed)
{
	static const enum smc_llc_type v1[] = {
		SMC_LLC_CONFIRM_LINK,	   SMC_LLC_ADD_LINK,	 SMC_LLC_ADD_LINK_CONT,
		SMC_LLC_DELETE_LINK,	   SMC_LLC_CONFIRM_RKEY, SMC_LLC_TEST_LINK,
		SMC_LLC_CONFIRM_RKEY_CONT, SMC_LLC_DELETE_RKEY,
	};
	static const enum smc_llc_type v2[] = {
		SMC_LLC_CONFIRM_LINK, SMC_LLC_ADD_LINK,	 SMC_LLC_DELETE_LINK, SMC_LLC_REQ_ADD_LINK,
		SMC_LLC_CONFIRM_RKEY, SMC_LLC_TEST_LINK, SMC_LLC_DELETE_RKEY,
	};

	for (size_t i = 0; i < sizeof(v1) / sizeof(v1[0]); i++)
		one_message(1, v1[i], seed);
	for (size_t i = 0; i < sizeof(v2) / sizeof(v2[0]); i++)
		one_message(2, v2[i], seed);
}

Test(llc_random, every_type)
{
	for_seeds(5000, one_of_each);
}
