/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clc.h"
#include "tests/unit/messages.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Any CLC message that can be said is understood as it was meant. */

#define SEEDS 20000

/* Writes to a block of exactly the message's length; one byte less must not do. */
#define encoded(encode, what, bytes, n)                                                            \
	do {                                                                                       \
		uint8_t room[RECODE_MAX];                                                          \
		(n) = encode(what, room, sizeof(room));                                            \
		cr_assert_gt(n, 0, "seed %u", seed);                                               \
		(bytes) = malloc(n);                                                               \
		cr_assert_eq(encode(what, bytes, (n)-1), 0, "seed %u", seed);                      \
		cr_assert_eq(encode(what, bytes, n), n, "seed %u", seed);                          \
		cr_assert(!memcmp(bytes, room, n), "seed %u", seed);                               \
	} while (0)

#define same(a, b, field)                                                                          \
	cr_assert(!memcmp(&(a).field, &(b).field, sizeof((a).field)),                              \
		  "seed %u: " #field " differs", seed)

static uint8_t random_byte(void)
{
	return (uint8_t)random_bits(8);
}

static void random_ism(struct smc_clc_ism *ism)
{
	ism->gid = random_bits(64);
	ism->chid = (uint16_t)random_bits(16);
}

static void random_ip(struct smc_clc_proposal *p)
{
	p->subnet = (uint32_t)random_bits(32);
	p->subnet_bits = random_byte();
	p->n_prefixes = (uint8_t)(rand() % (SMC_CLC_MAX_PREFIXES + 1));
	random_bytes(p->prefixes, p->n_prefixes * sizeof(p->prefixes[0]));
}

static void random_ext(struct smc_clc_proposal *p)
{
	p->n_eids = (uint8_t)(rand() % (SMC_CLC_MAX_EIDS + 1));
	random_bytes(p->eids, (size_t)p->n_eids * SMC_CLC_EID_SIZE);
	random_bytes(p->roce2_gid, sizeof(p->roce2_gid));
	p->seid_offered = rand() % 2;
	p->release = (uint8_t)random_bits(rand() % 2 ? 4 : 0);
	if (p->release) {
		p->max_conns = random_byte();
		p->max_links = random_byte();
		p->features = (uint16_t)random_bits(16);
		random_bytes(p->vendor_oui, sizeof(p->vendor_oui));
		random_bytes(p->vendor_options, sizeof(p->vendor_options));
	}
	p->smcd2 = smc_clc_has_d(p->v2) && rand() % 8;
	if (p->smcd2) {
		random_bytes(p->seid, sizeof(p->seid));
		p->n_isms = (uint8_t)(rand() % (SMC_CLC_MAX_ISM + 1));
		for (unsigned i = 0; i < p->n_isms; i++)
			random_ism(&p->isms[i]);
	}
}

static struct smc_clc_proposal random_proposal(void)
{
	struct smc_clc_proposal p = { .version = (uint8_t)(1 + rand() % 3), .v2 = SMC_CLC_NONE };

	p.v1 = rand() % 4;
	if (p.version > 1)
		p.v2 = rand() % 4;
	else if (p.v1 == SMC_CLC_NONE)
		p.v1 = SMC_CLC_R;
	random_bytes(p.peer_id, sizeof(p.peer_id));
	random_bytes(p.gid, sizeof(p.gid));
	random_bytes(p.mac, sizeof(p.mac));
	if (smc_clc_has_d(p.v1))
		random_ism(&p.ism);
	if (p.v1 != SMC_CLC_NONE)
		random_ip(&p);
	if (p.v2 != SMC_CLC_NONE)
		random_ext(&p);
	return p;
}

static void one_proposal(unsigned seed)
{
	struct smc_clc_proposal a = random_proposal(), b;
	uint8_t *bytes;
	size_t n;

	encoded(smc_clc_encode_proposal, &a, bytes, n);
	cr_assert_eq(smc_clc_decode_proposal(bytes, n, &b), SMC_WIRE_OK, "seed %u", seed);
	same(a, b, version);
	same(a, b, v1);
	same(a, b, v2);
	same(a, b, peer_id);
	same(a, b, gid);
	same(a, b, mac);
	same(a, b, ism.gid);
	same(a, b, ism.chid);
	same(a, b, subnet);
	same(a, b, subnet_bits);
	same(a, b, n_prefixes);
	same(a, b, prefixes);
	same(a, b, n_eids);
	same(a, b, eids);
	same(a, b, roce2_gid);
	same(a, b, seid_offered);
	same(a, b, release);
	same(a, b, max_conns);
	same(a, b, max_links);
	same(a, b, features);
	same(a, b, vendor_oui);
	same(a, b, vendor_options);
	same(a, b, smcd2);
	same(a, b, seid);
	same(a, b, n_isms);
	for (unsigned i = 0; i < SMC_CLC_MAX_ISM; i++) {
		same(a, b, isms[i].gid);
		same(a, b, isms[i].chid);
	}
	free(bytes);
}

Test(clc_random, proposals)
{
	for_seeds(SEEDS, one_proposal);
}

static void random_r_end(struct smc_clc_r_end *r)
{
	random_bytes(r->peer_id, sizeof(r->peer_id));
	random_bytes(r->gid, sizeof(r->gid));
	random_bytes(r->mac, sizeof(r->mac));
	r->qpn = (uint32_t)random_bits(24);
	r->psn = (uint32_t)random_bits(24);
	r->rkey = (uint32_t)random_bits(32);
	r->address = random_bits(64);
	r->token = (uint32_t)random_bits(32);
	r->rmbe_size = 16384u << rand() % 16;
	r->rmbe_index = random_byte();
	r->mtu = (uint8_t)random_bits(4);
}

static void random_d_end(struct smc_clc_d_end *d, uint8_t version)
{
	d->gid = random_bits(64);
	d->token = random_bits(64);
	d->dmbe_size = 16384u << rand() % 16;
	d->dmbe_index = random_byte();
	random_bytes(d->link_id, sizeof(d->link_id));
	if (version > 1) {
		d->chid = (uint16_t)random_bits(16);
		d->gid_extension = random_bits(64);
	}
}

static void random_first(struct smc_clc_first_contact *f, bool is_r, bool confirm)
{
	f->direct = is_r && rand() % 2;
	f->os = (uint8_t)random_bits(4);
	f->release = (uint8_t)random_bits(rand() % 2 ? 4 : 0);
	random_bytes(f->host_name, sizeof(f->host_name));
	if (f->release) {
		f->max_conns = random_byte();
		f->max_links = random_byte();
		f->features = (uint16_t)random_bits(16);
		f->vendor_options = (uint32_t)random_bits(32);
	}
	if (is_r && confirm) {
		f->n_gids = (uint8_t)(rand() % (SMC_CLC_MAX_GIDS + 1));
		random_bytes(f->gids, (size_t)f->n_gids * SMC_CLC_GID_SIZE);
	}
}

static struct smc_clc_answer random_answer(void)
{
	struct smc_clc_answer a = {
		.type = rand() % 2 ? SMC_CLC_ACCEPT : SMC_CLC_CONFIRM,
		.version = (uint8_t)(1 + rand() % 3),
		.mode = rand() % 2 ? SMC_CLC_R : SMC_CLC_D,
		.first_contact = rand() % 2,
	};

	if (a.mode == SMC_CLC_R)
		random_r_end(&a.r);
	else
		random_d_end(&a.d, a.version);
	if (a.version > 1) {
		random_bytes(a.eid, sizeof(a.eid));
		if (a.first_contact)
			random_first(&a.first, a.mode == SMC_CLC_R, a.type == SMC_CLC_CONFIRM);
	}
	return a;
}

static void same_r_end(unsigned seed, const struct smc_clc_r_end *a, const struct smc_clc_r_end *b)
{
	same(*a, *b, peer_id);
	same(*a, *b, gid);
	same(*a, *b, mac);
	same(*a, *b, qpn);
	same(*a, *b, psn);
	same(*a, *b, rkey);
	same(*a, *b, address);
	same(*a, *b, token);
	same(*a, *b, rmbe_size);
	same(*a, *b, rmbe_index);
	same(*a, *b, mtu);
}

static void same_d_end(unsigned seed, const struct smc_clc_d_end *a, const struct smc_clc_d_end *b)
{
	same(*a, *b, gid);
	same(*a, *b, gid_extension);
	same(*a, *b, token);
	same(*a, *b, dmbe_size);
	same(*a, *b, dmbe_index);
	same(*a, *b, link_id);
	same(*a, *b, chid);
}

static void same_first(unsigned seed, const struct smc_clc_first_contact *a,
		       const struct smc_clc_first_contact *b)
{
	same(*a, *b, direct);
	same(*a, *b, os);
	same(*a, *b, release);
	same(*a, *b, host_name);
	same(*a, *b, max_conns);
	same(*a, *b, max_links);
	same(*a, *b, features);
	same(*a, *b, vendor_options);
	same(*a, *b, n_gids);
	same(*a, *b, gids);
}

static void one_answer(unsigned seed)
{
	struct smc_clc_answer a = random_answer(), b;
	uint8_t *bytes;
	size_t n;

	encoded(smc_clc_encode_answer, &a, bytes, n);
	cr_assert_eq(smc_clc_decode_answer(bytes, n, &b), SMC_WIRE_OK, "seed %u", seed);
	same(a, b, type);
	same(a, b, version);
	same(a, b, mode);
	same(a, b, first_contact);
	same(a, b, eid);
	same_r_end(seed, &a.r, &b.r);
	same_d_end(seed, &a.d, &b.d);
	same_first(seed, &a.first, &b.first);
	free(bytes);
}

Test(clc_random, answers)
{
	for_seeds(SEEDS, one_answer);
}

static void one_decline(unsigned seed)
{
	struct smc_clc_decline a = { .version = (uint8_t)(1 + rand() % 3),
				     .out_of_sync = rand() % 2 },
			       b;
	uint8_t *bytes;
	size_t n;

	random_bytes(a.peer_id, sizeof(a.peer_id));
	a.diagnosis = (uint32_t)random_bits(32);
	if (a.version > 1) {
		a.os = (uint8_t)random_bits(4);
		random_bytes(a.more, sizeof(a.more));
	}
	encoded(smc_clc_encode_decline, &a, bytes, n);
	cr_assert_eq(smc_clc_decode_decline(bytes, n, &b), SMC_WIRE_OK, "seed %u", seed);
	same(a, b, version);
	same(a, b, out_of_sync);
	same(a, b, peer_id);
	same(a, b, diagnosis);
	same(a, b, os);
	same(a, b, more);
	free(bytes);
}

Test(clc_random, declines)
{
	for_seeds(SEEDS, one_decline);
}
