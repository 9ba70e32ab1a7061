/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/llc.h"
#include "core/clc.h"
#include "tests/unit/messages.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The LLC messages, field by field, and what is refused of them. */

static struct smc_llc llc_of(const struct message *m)
{
	struct smc_llc l;

	cr_assert_eq(smc_llc_decode(m->bytes, m->n, &l), SMC_WIRE_OK, "%s", message_name(m));
	return l;
}

static struct smc_llc made(const char *name, unsigned version, enum smc_llc_type type,
			   bool response)
{
	struct smc_llc l = llc_of(message_made(name));

	cr_assert(l.version == version && l.type == type && l.response == response, "%s", name);
	return l;
}

static struct smc_llc recorded(unsigned frame, enum smc_llc_type type, bool response)
{
	struct smc_llc l = llc_of(message_recorded(frame));

	cr_assert(l.version == 2 && l.type == type && l.response == response, "frame %u", frame);
	return l;
}

/* ---- as recorded ---- */

Test(llc, recorded_confirm_link)
{
	struct smc_llc request = recorded(10, SMC_LLC_CONFIRM_LINK, false);
	struct smc_llc response = recorded(12, SMC_LLC_CONFIRM_LINK, true);
	const struct smc_llc_confirm_link *c = &request.confirm_link;

	cr_assert(c->no_eyecatcher == 3 && c->user_id == 0x101 && c->max_links == 2 &&
		  c->max_conns == 255);
	cr_assert(c->end.link == 1 && c->end.qpn == 0x11 &&
		  wire_get32(c->end.gid + 12) == 0x0a090001);
	cr_assert(!memcmp(c->end.mac, "\x52\x54\0\0\0\x01", 6));
	cr_assert(response.confirm_link.no_eyecatcher == 3 && response.confirm_link.end.link == 1);
	cr_assert_eq(response.confirm_link.end.mac[5], 2);
}

Test(llc, recorded_add_link_and_its_reject)
{
	struct smc_llc request = recorded(14, SMC_LLC_ADD_LINK, false),
		       response = recorded(16, SMC_LLC_ADD_LINK, true);
	const struct smc_llc_add_link *a = &request.add_link;

	cr_assert(a->end.qpn == 0x12 && a->end.link == 2 && a->mtu == 3 && a->psn == 0x29b33e &&
		  a->direct);
	cr_assert(!memcmp(a->target_gid, a->end.gid, sizeof(a->target_gid)), "Linux's own GID");
	cr_assert(a->n_rkeys == 1 && a->rkeys[0].known == 0x3c1 && a->rkeys[0].new_key == 0x57f);
	cr_assert_eq(a->rkeys[0].new_address, 0xff3c950fc4520000);
	cr_assert(!a->reject && response.add_link.reject && response.add_link.n_rkeys == 0);
	cr_assert_eq(response.add_link.psn, a->psn);
}

/* Each subsequent contact confirms the key of its RMB before the Accept or Confirm that has it too. */
Test(llc, recorded_confirm_rkeys_are_those_of_clc)
{
	static const struct {
		unsigned request, response, clc;
	} flows[] = { { 107, 109, 111 }, { 113, 115, 117 }, { 145, 147, 149 },
		      { 151, 153, 155 }, { 297, 299, 301 }, { 303, 305, 307 } };

	for (size_t i = 0; i < sizeof(flows) / sizeof(flows[0]); i++) {
		struct smc_llc request = recorded(flows[i].request, SMC_LLC_CONFIRM_RKEY, false);
		struct smc_llc response = recorded(flows[i].response, SMC_LLC_CONFIRM_RKEY, true);
		const struct message *m = message_recorded(flows[i].clc);
		const struct smc_llc_token *token = &request.confirm_rkey.tokens[0];
		struct smc_clc_answer a;

		cr_assert_eq(smc_clc_decode_answer(m->bytes, m->n, &a), SMC_WIRE_OK);
		cr_assert(token->rkey == a.r.rkey && token->address == a.r.address &&
			  token->link == 0);
		cr_assert(request.confirm_rkey.n_more == 0 && !response.confirm_rkey.negative);
		cr_assert_eq(response.confirm_rkey.tokens[0].rkey, token->rkey);
	}
}

Test(llc, recorded_delete_rkey)
{
	struct smc_llc request = recorded(282, SMC_LLC_DELETE_RKEY, false);
	struct smc_llc response = recorded(284, SMC_LLC_DELETE_RKEY, true);

	cr_assert(request.delete_rkey.n_rkeys == 1 && request.delete_rkey.rkeys[0] == 0x703);
	cr_assert(response.delete_rkey.n_rkeys == 1 && response.delete_rkey.rkeys[0] == 0);
	cr_assert(!response.delete_rkey.negative && response.delete_rkey.errors == 0);
}

/* ---- as written by hand ---- */

Test(llc, links_of_version_1)
{
	struct smc_llc l = made("v1_confirm_link", 1, SMC_LLC_CONFIRM_LINK, false);

	cr_assert(l.confirm_link.end.qpn == 0xabcdef && l.confirm_link.user_id == 0x0a0b0c0d);
	l = made("v1_add_link", 1, SMC_LLC_ADD_LINK, false);
	cr_assert(!l.add_link.reject && l.add_link.mtu == 3 && l.add_link.psn == 0xfedcba);
	l = made("v1_add_link_rejected", 1, SMC_LLC_ADD_LINK, true);
	cr_assert(l.add_link.reject && l.add_link.reject_reason == 1);
	l = made("v1_add_link_cont", 1, SMC_LLC_ADD_LINK_CONT, true);
	cr_assert(l.add_link_cont.link == 2 && l.add_link_cont.n_left == 5);
	cr_assert(l.add_link_cont.rkeys[1].known == 0x31323334 &&
		  l.add_link_cont.rkeys[1].new_key == 0x41424344);
	l = made("v1_delete_link", 1, SMC_LLC_DELETE_LINK, false);
	cr_assert(l.delete_link.orderly && !l.delete_link.all && l.delete_link.link == 2);
	cr_assert_eq(l.delete_link.reason, SMC_LLC_DELETE_ASYMMETRIC);
}

Test(llc, keys_of_version_1)
{
	struct smc_llc l = made("v1_confirm_rkey", 1, SMC_LLC_CONFIRM_RKEY, false);
	const struct smc_llc_token *t = l.confirm_rkey.tokens;

	cr_assert(l.confirm_rkey.n_more == 2 && t[0].rkey == 0x01020304 && t[1].link == 2 &&
		  t[2].link == 3);
	cr_assert(t[0].address == 0x1112131415161718 && t[2].address == 0x5152535455565758);
	l = made("v1_confirm_rkey_refused", 1, SMC_LLC_CONFIRM_RKEY, true);
	cr_assert(l.confirm_rkey.negative && l.confirm_rkey.retry);
	l = made("v1_confirm_rkey_cont", 1, SMC_LLC_CONFIRM_RKEY_CONT, false);
	cr_assert(l.confirm_rkey.n_more == 4 && l.confirm_rkey.tokens[0].link == 1);
	cr_assert_eq(l.confirm_rkey.tokens[2].address, 0x5152535455565758);
	l = made("v1_delete_rkey", 1, SMC_LLC_DELETE_RKEY, false);
	cr_assert(l.delete_rkey.n_rkeys == 8 && l.delete_rkey.rkeys[7] == 8);
	l = made("v1_delete_rkey_unknown", 1, SMC_LLC_DELETE_RKEY, true);
	cr_assert(l.delete_rkey.negative && l.delete_rkey.errors == 0x80 &&
		  l.delete_rkey.rkeys[0] == 0x01020304);
	l = made("v1_test_link", 1, SMC_LLC_TEST_LINK, true);
	cr_assert_eq(wire_get64(l.test_link.user_data + 8), 0x08090a0b0c0d0e0f);
}

Test(llc, version_2)
{
	struct smc_llc l = made("v2_add_link_two_keys", 2, SMC_LLC_ADD_LINK, false);

	cr_assert(l.add_link.n_rkeys == 2 && l.add_link.rkeys[1].new_address == 0x5152535455565758);
	cr_assert(!l.add_link.direct && wire_get32(l.add_link.target_gid + 12) == 0x0a090002);
	l = made("v2_delete_link_all", 2, SMC_LLC_DELETE_LINK, false);
	cr_assert(l.delete_link.all && l.delete_link.orderly &&
		  l.delete_link.reason == SMC_LLC_DELETE_PROGRAM);
	l = made("v2_delete_link_unknown", 2, SMC_LLC_DELETE_LINK, true);
	cr_assert(!l.delete_link.all && l.delete_link.link == 7 &&
		  l.delete_link.reason == SMC_LLC_DELETE_NO_LINK);
	l = made("v2_req_add_link", 2, SMC_LLC_REQ_ADD_LINK, false);
	cr_assert(l.req_add_link.n_gids == 2 &&
		  wire_get32(l.req_add_link.gids[1] + 12) == 0x0a090102);
	made("v2_req_add_link_response", 2, SMC_LLC_REQ_ADD_LINK, true);
	l = made("v2_delete_rkey_ten", 2, SMC_LLC_DELETE_RKEY, false);
	cr_assert(l.delete_rkey.n_rkeys == 10 && l.delete_rkey.rkeys[9] == 10);
	l = made("v2_delete_rkey_ten_response", 2, SMC_LLC_DELETE_RKEY, true);
	cr_assert(l.delete_rkey.n_rkeys == 10 && l.delete_rkey.negative &&
		  l.delete_rkey.errors == 2);
}

/* ---- what is refused, and what is not ---- */

static enum smc_wire_result changed(const char *name, size_t at, uint8_t byte)
{
	const struct message *m = message_made(name);
	uint8_t *copy = exact_copy(m->bytes, m->n);
	struct smc_llc l;
	enum smc_wire_result result;

	copy[at] = byte;
	result = smc_llc_decode(copy, m->n, &l);
	free(copy);
	return result;
}

Test(llc, a_type_belongs_to_its_version)
{
	static const uint8_t types[] = { 0x01, 0x02, 0x03, 0x04, 0x06, 0x07, 0x08, 0x09,
					 0x21, 0x22, 0x24, 0x25, 0x26, 0x27, 0x29 };

	for (unsigned type = 0; type < 256; type++) {
		uint8_t bytes[72] = { (uint8_t)type, SMC_LLC_SIZE };
		bool known = memchr(types, (int)type, sizeof(types));
		struct smc_llc l;

		bytes[24] = 1; /* one GID, of a type that must have one */
		cr_assert_eq(smc_llc_decode(bytes, sizeof(bytes), &l),
			     known ? SMC_WIRE_OK : SMC_WIRE_TYPE, "%02x", type);
	}
}

Test(llc, the_length_counts_in_version_1_alone)
{
	cr_assert_eq(changed("v1_test_link", 1, 43), SMC_WIRE_LENGTH);
	cr_assert_eq(changed("v1_test_link", 1, 45), SMC_WIRE_LENGTH);
	cr_assert_eq(changed("v2_test_link", 1, 0), SMC_WIRE_OK);
	cr_assert_eq(changed("v2_test_link", 2, 0x2c), SMC_WIRE_OK);
}

Test(llc, the_number_of_keys_is_read_in_either_byte_order)
{
	struct message m = *message_made("v2_add_link_two_keys");

	m.bytes[70] = 0;
	m.bytes[71] = 2;
	cr_assert_eq(llc_of(&m).add_link.n_rkeys, 2);
	cr_assert_eq(changed("v2_add_link_two_keys", 71, 2), SMC_WIRE_COUNT);
}

Test(llc, counts_are_of_what_is_there)
{
	cr_assert_eq(changed("v2_add_link_two_keys", 70, 1), SMC_WIRE_OK);
	cr_assert_eq(changed("v2_add_link_two_keys", 70, 3), SMC_WIRE_COUNT);
	cr_assert_eq(changed("v2_req_add_link", 24, 0), SMC_WIRE_COUNT);
	cr_assert_eq(changed("v2_req_add_link", 24, 3), SMC_WIRE_COUNT);
	cr_assert_eq(changed("v2_delete_rkey_ten", 4, 11), SMC_WIRE_COUNT);
	cr_assert_eq(changed("v1_delete_rkey", 4, 9), SMC_WIRE_COUNT);
	cr_assert_eq(changed("v1_delete_rkey_unknown", 4, 9), SMC_WIRE_COUNT);
	cr_assert_eq(changed("v1_confirm_rkey", 4, 4), SMC_WIRE_COUNT);
	cr_assert_eq(changed("v1_confirm_rkey", 4, 3), SMC_WIRE_OK);
}

/* Only a reject may go without the extension. */
Test(llc, a_short_add_link_of_version_2_rejects)
{
	const struct message *reject = message_recorded(16);
	uint8_t bytes[SMC_LLC_SIZE];
	struct smc_llc l;

	memcpy(bytes, reject->bytes, sizeof(bytes));
	cr_assert_eq(smc_llc_decode(bytes, sizeof(bytes), &l), SMC_WIRE_OK);
	bytes[3] = 0x80;
	cr_assert_eq(smc_llc_decode(bytes, sizeof(bytes), &l), SMC_WIRE_SHORT);
	bytes[3] = 0x40;
	cr_assert_eq(smc_llc_decode(bytes, sizeof(bytes), &l), SMC_WIRE_SHORT);
}

Test(llc, nothing_is_written_that_the_wire_cannot_say)
{
	static struct smc_llc bad[] = {
		{ .version = 0, .type = SMC_LLC_TEST_LINK },
		{ .version = 3, .type = SMC_LLC_TEST_LINK },
		{ .version = 1, .type = 0 },
		{ .version = 1, .type = SMC_LLC_TYPES },
		{ .version = 1, .type = SMC_LLC_REQ_ADD_LINK, .req_add_link.n_gids = 1 },
		{ .version = 2, .type = SMC_LLC_ADD_LINK_CONT },
		{ .version = 2, .type = SMC_LLC_CONFIRM_RKEY_CONT },
		{ .version = 2, .type = SMC_LLC_REQ_ADD_LINK },
		{ .version = 1, .type = SMC_LLC_CONFIRM_LINK, .confirm_link.end.qpn = 0x1000000 },
		{ .version = 1, .type = SMC_LLC_CONFIRM_LINK, .confirm_link.no_eyecatcher = 4 },
		{ .version = 1, .type = SMC_LLC_ADD_LINK, .add_link.psn = 0x1000000 },
		{ .version = 1, .type = SMC_LLC_ADD_LINK, .add_link.mtu = 16 },
		{ .version = 1, .type = SMC_LLC_CONFIRM_RKEY, .confirm_rkey.n_more = 4 },
		{ .version = 1, .type = SMC_LLC_DELETE_RKEY, .delete_rkey.n_rkeys = 9 },
	};
	uint8_t to[RECODE_MAX];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(smc_llc_encode(&bad[i], to, sizeof(to)), 0, "%zu", i);
}

Test(llc, the_largest_values)
{
	struct smc_llc l = { .version = 1, .type = SMC_LLC_ADD_LINK }, back;
	uint8_t to[SMC_LLC_SIZE];

	l.add_link.end.qpn = l.add_link.psn = SMC_WIRE_24BIT;
	l.add_link.mtu = l.add_link.reject_reason = 15;
	cr_assert_eq(smc_llc_encode(&l, to, sizeof(to)), SMC_LLC_SIZE);
	cr_assert_eq(smc_llc_decode(to, sizeof(to), &back), SMC_WIRE_OK);
	cr_assert(back.add_link.psn == SMC_WIRE_24BIT && back.add_link.mtu == 15);
}

Test(llc, the_longest_message)
{
	static struct smc_llc l = { .version = 2,
				    .type = SMC_LLC_ADD_LINK,
				    .add_link.n_rkeys = SMC_LLC_MAX_ITEMS };
	uint8_t to[SMC_LLC_MAX_SIZE];

	cr_assert_eq(smc_llc_encode(&l, to, sizeof(to)), SMC_LLC_MAX_SIZE);
	cr_assert_eq(smc_llc_decode(to, sizeof(to), &l), SMC_WIRE_OK);
	cr_assert_eq(l.add_link.n_rkeys, SMC_LLC_MAX_ITEMS);
}
