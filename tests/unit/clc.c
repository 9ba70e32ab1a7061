/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clc.h"
#include "core/clc_diagnosis.h"
#include "tests/unit/messages.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The CLC messages, field by field, and what is refused of them: as Linux does. */

static struct smc_clc_proposal proposal_of(const struct message *m)
{
	struct smc_clc_proposal p;

	cr_assert_eq(smc_clc_decode_proposal(m->bytes, m->n, &p), SMC_WIRE_OK, "%s",
		     message_name(m));
	return p;
}

static struct smc_clc_answer answer_of(const struct message *m)
{
	struct smc_clc_answer a;

	cr_assert_eq(smc_clc_decode_answer(m->bytes, m->n, &a), SMC_WIRE_OK, "%s", message_name(m));
	return a;
}

static struct smc_clc_decline decline_of(const struct message *m)
{
	struct smc_clc_decline d;

	cr_assert_eq(smc_clc_decode_decline(m->bytes, m->n, &d), SMC_WIRE_OK, "%s",
		     message_name(m));
	return d;
}

/* Are the bytes `text`, followed by nothing but blanks? */
static bool padded(const uint8_t bytes[32], const char *text)
{
	size_t n = strlen(text);

	if (memcmp(bytes, text, n))
		return false;
	for (; n < 32; n++)
		if (bytes[n] != ' ')
			return false;
	return true;
}

static bool is_zero(const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const uint8_t *)bytes)[i])
			return false;
	return true;
}

static bool is_v4_gid(const uint8_t gid[16], uint32_t address)
{
	return is_zero(gid, 10) && wire_get16(gid + 10) == 0xffff &&
	       wire_get32(gid + 12) == address;
}

/* ---- as recorded ---- */

Test(clc, the_recorded_proposal)
{
	struct smc_clc_proposal p = proposal_of(message_recorded(4));

	cr_assert(p.version == 2 && p.v1 == SMC_CLC_NONE && p.v2 == SMC_CLC_R);
	cr_assert(is_zero(p.peer_id, 8) && is_zero(p.gid, 16) && is_zero(p.mac, 6));
	cr_assert_eq(p.n_eids, 1);
	cr_assert(padded(p.eids[0], "SMCV2-OUR-UEID"));
	cr_assert(is_v4_gid(p.roce2_gid, 0x0a090002));
	cr_assert(p.release == 1 && p.max_conns == 255 && p.max_links == 2);
	cr_assert_eq(p.features, SMC_CLC_FEATURE_EMULATED_ISM);
	cr_assert(!p.seid_offered && !p.smcd2 && p.n_isms == 0);
}

Test(clc, the_recorded_first_contact)
{
	struct smc_clc_answer a = answer_of(message_recorded(6));

	cr_assert(a.type == SMC_CLC_ACCEPT && a.version == 2 && a.mode == SMC_CLC_R &&
		  a.first_contact);
	cr_assert_eq(wire_get64(a.r.peer_id), 0xbaf4525400000001);
	cr_assert(is_v4_gid(a.r.gid, 0x0a090001));
	cr_assert(!memcmp(a.r.mac, "\x52\x54\0\0\0\x01", 6));
	cr_assert(a.r.qpn == 0x11 && a.r.psn == 9709546 && a.r.rkey == 0x3c1 && a.r.token == 1);
	cr_assert(a.r.address == 0xff3c950fc4520000 && a.r.rmbe_index == 1);
	cr_assert(a.r.rmbe_size == 64 * 1024 && a.r.mtu == 3);
	cr_assert(padded(a.eid, "SMCV2-OUR-UEID"));
	cr_assert(a.first.direct && a.first.os == SMC_CLC_OS_LINUX && a.first.release == 1);
	cr_assert(padded(a.first.host_name, "(none)"));
	cr_assert(a.first.max_conns == 255 && a.first.max_links == 2 && a.first.features == 1);
	cr_assert_eq(a.first.n_gids, 0);

	a = answer_of(message_recorded(8));
	cr_assert(a.type == SMC_CLC_CONFIRM && a.first_contact);
	cr_assert(a.r.qpn == 0x11 && a.r.psn == 4327469 && a.r.rkey == 0x384 && a.r.token == 1);
	cr_assert_eq(a.first.n_gids, 1);
	cr_assert(is_v4_gid(a.first.gids[0], 0x0a090002));
}

Test(clc, the_recorded_subsequent_contacts)
{
	static const unsigned accepts[] = { 111, 149, 301 }, confirms[] = { 117, 155, 307 };

	for (unsigned i = 0; i < 3; i++) {
		struct smc_clc_answer a = answer_of(message_recorded(accepts[i]));
		struct smc_clc_answer c = answer_of(message_recorded(confirms[i]));

		cr_assert(a.type == SMC_CLC_ACCEPT && c.type == SMC_CLC_CONFIRM);
		cr_assert(!a.first_contact && !c.first_contact);
		cr_assert(a.r.token == i + 2 && c.r.token == i + 2);
		cr_assert(a.r.qpn == 0x11 && a.r.psn == 9709546, "the link is the first contact's");
		cr_assert(!memcmp(a.eid, c.eid, sizeof(a.eid)));
		cr_assert(is_zero(&a.first, sizeof(a.first)));
	}
}

/* ---- as written by hand ---- */

Test(clc, proposal_of_version_1)
{
	struct smc_clc_proposal p = proposal_of(message_made("proposal_v1_r"));

	cr_assert(p.version == 1 && p.v1 == SMC_CLC_R && p.v2 == SMC_CLC_NONE);
	cr_assert(wire_get64(p.peer_id) == 0x0102030405060708 && p.mac[5] == 1 && p.gid[0] == 0xfe);
	cr_assert(p.subnet == 0xc0a80100 && p.subnet_bits == 24 && p.n_prefixes == 0);

	p = proposal_of(message_made("proposal_v1_both"));
	cr_assert_eq(p.v1, SMC_CLC_BOTH);
	cr_assert(p.ism.gid == 0x1122334455667788 && p.ism.chid == 0x0300);
	cr_assert(p.n_prefixes == 2 && p.prefixes[0].bits == 64 && p.prefixes[1].bits == 48);
	cr_assert_eq(wire_get64(p.prefixes[1].address), 0x20010db800020000);
}

Test(clc, proposal_of_version_2_with_everything)
{
	struct smc_clc_proposal p = proposal_of(message_made("proposal_v2_all"));

	cr_assert(p.version == 2 && p.v1 == SMC_CLC_BOTH && p.v2 == SMC_CLC_BOTH);
	cr_assert(p.ism.gid == 0x1122334455667788 && p.subnet == 0x0a090000 && p.n_prefixes == 1);
	cr_assert(p.n_eids == 2 && padded(p.eids[0], "UEID-A") && padded(p.eids[1], "UEID-B"));
	cr_assert(p.release == 1 && p.seid_offered && p.max_conns == 254 && p.max_links == 2);
	cr_assert(!memcmp(p.vendor_oui, "\xa1\xa2\xa3", 3) && p.vendor_options[4] == 0xb5);
	cr_assert(p.smcd2 && !memcmp(p.seid, "IBM-SYSZ-ISMSEID", 16));
	cr_assert(p.n_isms == 2 && p.isms[0].chid == 0xff01 && p.isms[1].gid == 0x1112131415161718);
}

Test(clc, proposal_of_release_0_has_no_limits)
{
	struct smc_clc_proposal p = proposal_of(message_made("proposal_v2_r"));

	cr_assert(p.release == 0 && p.max_conns == 0 && p.max_links == 0 && p.features == 0);
	cr_assert(padded(p.eids[0], "UEID-A"));
}

Test(clc, an_offer_of_d_may_lack_its_extension)
{
	struct smc_clc_proposal p = proposal_of(message_made("proposal_v2_d_without_extension"));

	cr_assert(p.v2 == SMC_CLC_D && !p.smcd2);
}

Test(clc, answers_of_version_1)
{
	struct smc_clc_answer a = answer_of(message_made("accept_v1_r"));

	cr_assert(a.type == SMC_CLC_ACCEPT && a.version == 1 && a.mode == SMC_CLC_R &&
		  a.first_contact);
	cr_assert(a.r.qpn == 0xabcdef && a.r.psn == 0xfedcba && a.r.rkey == 0x01020304 &&
		  a.r.token == 0x0a0b0c0d);
	cr_assert(a.r.rmbe_size == 128 * 1024 && a.r.mtu == 5 && a.r.address == 0x1122334455667788);

	a = answer_of(message_made("confirm_v1_d"));
	cr_assert(a.type == SMC_CLC_CONFIRM && a.mode == SMC_CLC_D && !a.first_contact);
	cr_assert(a.d.gid == 0x0102030405060708 && a.d.token == 0x1112131415161718 &&
		  a.d.dmbe_index == 2);
	cr_assert(a.d.dmbe_size == 1024 * 1024 && wire_get32(a.d.link_id) == 0xa1a2a3a4 &&
		  a.d.chid == 0);
}

Test(clc, answers_of_smcd_version_2)
{
	struct smc_clc_answer a = answer_of(message_made("accept_v2_d"));

	cr_assert(a.mode == SMC_CLC_D && !a.first_contact && padded(a.eid, "UEID-A"));
	cr_assert(a.d.chid == 0xff01 && a.d.gid_extension == 0x2122232425262728);

	a = answer_of(message_made("accept_v2_d_first_release_0"));
	cr_assert(a.first_contact && a.first.os == SMC_CLC_OS_LINUX && a.first.release == 0);
	cr_assert(padded(a.first.host_name, "host"));

	a = answer_of(message_made("confirm_v2_d_first_release_1"));
	cr_assert(a.first.release == 1 && a.first.features == 1 &&
		  a.first.vendor_options == 0xc1c2c3c4);
}

Test(clc, a_confirm_of_smcr_lists_gids)
{
	struct smc_clc_answer a = answer_of(message_made("confirm_v2_r_first_two_gids"));

	cr_assert(a.first.os == SMC_CLC_OS_AIX && a.first.release == 1 && !a.first.direct);
	cr_assert(a.r.rmbe_size == 512u * 1024 * 1024 && a.r.rmbe_index == 2);
	cr_assert(a.first.max_conns == 16 && a.first.max_links == 1 && a.first.features == 0x8001);
	cr_assert(a.first.n_gids == 2 && is_v4_gid(a.first.gids[1], 0x0a090102));
}

Test(clc, declines)
{
	struct smc_clc_decline d = decline_of(message_made("decline_v1"));

	cr_assert(d.version == 1 && !d.out_of_sync && d.diagnosis == SMC_CLC_DIAG_NO_DEVICE);
	cr_assert_eq(wire_get64(d.peer_id), 0x0102030405060708);
	d = decline_of(message_made("decline_v2_out_of_sync"));
	cr_assert(d.version == 2 && d.out_of_sync && d.diagnosis == SMC_CLC_DIAG_SYNC);
	cr_assert(d.os == SMC_CLC_OS_LINUX && d.more[0] == 1 && d.more[3] == 4);
}

Test(clc, a_diagnosis_has_a_text)
{
	cr_assert_str_eq(smc_clc_diagnosis_text(0x03030000), "no SMC device");
	cr_assert_str_eq(smc_clc_diagnosis_text(0x0303000b),
			 "no agreement on links per link group");
	cr_assert_str_eq(smc_clc_diagnosis_text(0x12345678), "unknown diagnosis");
}

/* ---- what is refused, and what is not ---- */

/* The message with some bytes changed, decoded as what it is. */
static enum smc_wire_result changed(const struct message *m, size_t at, const char *bytes, size_t n)
{
	uint8_t *copy = exact_copy(m->bytes, m->n), again[RECODE_MAX];
	enum smc_wire_result result;
	size_t length;

	memcpy(copy + at, bytes, n);
	result = recode(RECODE_CLC, copy, m->n, again, &length);
	free(copy);
	return result;
}

/* assert_changed(name of the message made by hand, offset, "bytes", expected result without its prefix) */
#define assert_changed(name, at, bytes, expected)                                                  \
	do {                                                                                       \
		enum smc_wire_result r =                                                           \
			changed(message_made(name), at, bytes, sizeof(bytes) - 1);                 \
		cr_assert_eq(r, SMC_WIRE_##expected, "%s", smc_wire_text(r));                      \
	} while (0)

#define SMCD "\xe2\xd4\xc3\xc4"

Test(clc, the_head_tells_type_and_length)
{
	uint8_t bytes[8] = { 0xe2, 0xd4, 0xc3, 0xd9, 2, 0x01, 0x23, 0x3a };
	struct smc_clc_head h;

	for (size_t n = 0; n < 8; n++)
		cr_assert_eq(smc_clc_decode_head(bytes, n, &h), SMC_WIRE_SHORT);
	cr_assert_eq(smc_clc_decode_head(bytes, 8, &h), SMC_WIRE_OK);
	cr_assert(h.type == SMC_CLC_ACCEPT && h.length == 0x123 && h.version == 3 &&
		  h.paths == 0xa);
}

Test(clc, heads_that_are_none)
{
	assert_changed("accept_v1_r", 0, "GET ", EYECATCHER);
	assert_changed("accept_v1_r", 4, "\0", TYPE);
	assert_changed("accept_v1_r", 4, "\5", TYPE);
	assert_changed("accept_v1_r", 7, "\x08", VERSION);
	assert_changed("accept_v1_r", 5, "\0\x0b", LENGTH);
	assert_changed("accept_v1_r", 5, "\0\x0c", TRAILER);
}

Test(clc, either_eyecatcher_will_do_at_either_end)
{
	assert_changed("accept_v1_r", 0, SMCD, OK);
	assert_changed("accept_v1_r", 64, SMCD, OK);
	assert_changed("proposal_v1_r", 48, SMCD, OK);
	assert_changed("proposal_v1_r", 48, "\xe2\xd4\xc3\xd8", TRAILER);
	assert_changed("accept_v1_r", 64, "\0\0\0\0", TRAILER);
	assert_changed("decline_v1", 24, "\0\0\0\0", OK);
}

Test(clc, a_decoder_takes_its_own_message_alone)
{
	const struct message *proposal = message_made("proposal_v1_r"),
			     *accept = message_made("accept_v1_r");
	struct smc_clc_proposal p;
	struct smc_clc_answer a;
	struct smc_clc_decline d;

	cr_assert_eq(smc_clc_decode_proposal(accept->bytes, accept->n, &p), SMC_WIRE_TYPE);
	cr_assert_eq(smc_clc_decode_answer(proposal->bytes, proposal->n, &a), SMC_WIRE_TYPE);
	cr_assert_eq(smc_clc_decode_decline(accept->bytes, accept->n, &d), SMC_WIRE_TYPE);
}

Test(clc, version_3_is_read_as_version_2)
{
	assert_changed("accept_v2_d", 7, "\x31", OK);
	assert_changed("proposal_v2_all", 7, "\x3f", OK);
	assert_changed("decline_v2_out_of_sync", 7, "\x38", OK);
}

Test(clc, a_decline_has_the_length_of_its_version)
{
	assert_changed("decline_v1", 7, "\x20", LENGTH);
	assert_changed("decline_v2_out_of_sync", 7, "\x10", LENGTH);
	assert_changed("decline_v2_out_of_sync", 6, "\x2b", LENGTH);
}

Test(clc, the_mode_of_an_answer_is_r_or_d)
{
	assert_changed("accept_v1_r", 7, "\x12", MODE);
	assert_changed("accept_v1_r", 7, "\x13", MODE);
	assert_changed("accept_v1_r", 7, "\x11", LENGTH);
	assert_changed("confirm_v1_d", 7, "\x10", LENGTH);
	assert_changed("accept_v2_d", 7, "\x20", LENGTH);
}

Test(clc, an_answer_of_version_2_may_be_longer)
{
	assert_changed("accept_v2_d_first_release_0", 7, "\x21", OK);
	assert_changed("accept_v2_r_first_release_0", 7, "\x20", OK);
	assert_changed("accept_v2_r_first_release_0", 7, "\x10", LENGTH);
}

Test(clc, a_first_contact_has_its_extension)
{
	assert_changed("accept_v2_d", 7, "\x29", LENGTH);
	assert_changed("accept_v2_d_first_release_0", 75, "\x21", LENGTH);
}

Test(clc, a_list_of_gids_is_in_the_message)
{
	struct message long_list = *message_made("confirm_v2_r_first_two_gids");
	struct smc_clc_answer a;

	assert_changed("confirm_v2_r_first_two_gids", 156, "\x01", OK);
	assert_changed("confirm_v2_r_first_two_gids", 156, "\x03", COUNT);
	assert_changed("confirm_v2_r_first_two_gids", 156, "\xff", COUNT);

	/* nine are more than are kept */
	wire_put16(long_list.bytes + 5, 164 + 9 * 16);
	long_list.bytes[156] = 9;
	memset(long_list.bytes + 160, 7, 9 * 16);
	memcpy(long_list.bytes + 160 + 9 * 16, SMCD, 4);
	long_list.n = 164 + 9 * 16;
	a = answer_of(&long_list);
	cr_assert(a.first.n_gids == SMC_CLC_MAX_GIDS && a.first.gids[7][15] == 7);
}

Test(clc, only_a_confirm_of_smcr_lists_gids)
{
	struct message m = *message_made("confirm_v2_r_first_two_gids");
	struct smc_clc_answer a;

	m.bytes[4] = SMC_CLC_ACCEPT;
	a = answer_of(&m);
	cr_assert(a.first.release == 1 && a.first.n_gids == 0);
}

Test(clc, of_a_longer_message_the_buffer_is_enough)
{
	uint8_t *bytes = calloc(1, SMC_CLC_BUFFER);
	const struct message *m = message_made("confirm_v2_r_first_two_gids");
	struct smc_clc_answer a;

	memcpy(bytes, m->bytes, m->n);
	wire_put16(bytes + 5, SMC_CLC_BUFFER + 1);
	cr_assert_eq(smc_clc_decode_answer(bytes, SMC_CLC_BUFFER - 1, &a), SMC_WIRE_SHORT);
	cr_assert_eq(smc_clc_decode_answer(bytes, SMC_CLC_BUFFER, &a), SMC_WIRE_OK);
	cr_assert_eq(a.first.n_gids, 2);
	wire_put16(bytes + 5, SMC_CLC_BUFFER); /* now it is whole, and has no trailer */
	cr_assert_eq(smc_clc_decode_answer(bytes, SMC_CLC_BUFFER, &a), SMC_WIRE_TRAILER);
	free(bytes);
}

Test(clc, the_longest_proposal_fills_the_buffer)
{
	struct smc_clc_proposal p = {
		.version = 2, .v1 = SMC_CLC_BOTH, .v2 = SMC_CLC_BOTH, .smcd2 = true
	};
	uint8_t to[SMC_CLC_BUFFER];

	p.n_prefixes = p.n_eids = p.n_isms = 8;
	cr_assert_eq(smc_clc_encode_proposal(&p, to, sizeof(to)), SMC_CLC_BUFFER);
	cr_assert_eq(smc_clc_decode_proposal(to, sizeof(to), &p), SMC_WIRE_OK);
	/* its v2 extension is as far away as one may be */
	cr_assert_eq(wire_get16(to + 50), 172);
	wire_put16(to + 50, 173);
	wire_put16(to + 231, 0); /* what would be the distance of the SMC-Dv2 extension now */
	cr_assert_eq(smc_clc_decode_proposal(to, sizeof(to), &p), SMC_WIRE_OFFSET);
}

Test(clc, a_proposal_of_version_1_offers_something)
{
	assert_changed("proposal_v1_r", 7, "\x12", MODE);
	assert_changed("proposal_v1_r", 7, "\x1c", OK); /* the bits of v2 do not count */
}

Test(clc, the_ip_area_of_a_proposal)
{
	assert_changed("proposal_v1_r", 38, "\0\1", OFFSET); /* would end in the trailer */
	assert_changed("proposal_v1_both", 38, "\0\x29", OFFSET);
	assert_changed("proposal_v1_both", 38, "\0\x27", OFFSET); /* D is at 40, so it must be 40 */
	assert_changed("proposal_v1_both", 87, "\x09", COUNT);
	assert_changed("proposal_v1_both", 87, "\x03", COUNT);
	assert_changed("proposal_v1_both", 87, "\x01", LENGTH);
}

Test(clc, the_ip_area_may_stand_off_in_version_1)
{
	struct message m = *message_made("proposal_v1_r");
	struct smc_clc_proposal p;

	/* 4 bytes that mean nothing, before the IP area */
	memmove(m.bytes + 44, m.bytes + 40, 12);
	m.n += 4;
	wire_put16(m.bytes + 5, (uint16_t)m.n);
	wire_put16(m.bytes + 38, 4);
	p = proposal_of(&m);
	cr_assert_eq(p.subnet, 0xc0a80100);
}

/* Linux would take byte 47 for the number of prefixes; without an IP area it is none of ours. */
Test(clc, without_an_ip_area_nothing_is_counted)
{
	assert_changed("proposal_v2_r", 47, "\xff", OK);
}

Test(clc, the_v2_extension_of_a_proposal)
{
	assert_changed("proposal_v2_r", 50, "\0\0", OFFSET);
	assert_changed("proposal_v2_r", 50, "\0\xad", OFFSET);
	assert_changed("proposal_v2_r", 50, "\0\xac", OFFSET);
	assert_changed("proposal_v2_r", 80, "\x09", COUNT);
	assert_changed("proposal_v2_r", 80, "\x02", COUNT);
	assert_changed("proposal_v2_r", 80, "\x00", LENGTH);
}

Test(clc, the_smcd_extension_of_a_proposal)
{
	assert_changed("proposal_v2_all", 111, "\0\x61", OFFSET); /* would end in the trailer */
	assert_changed("proposal_v2_all", 111, "\x01\x21", OFFSET);
	assert_changed("proposal_v2_all", 111, "\0\x5f", OK);
	assert_changed("proposal_v2_all", 106, "\x09", COUNT);
	assert_changed("proposal_v2_all", 106, "\x01", LENGTH);
	assert_changed("proposal_v2_all", 111, "\0\0", OK);
}

/* ---- what cannot be written ---- */

Test(clc, nothing_is_written_that_the_wire_cannot_say)
{
	const struct smc_clc_answer good = answer_of(message_made("confirm_v2_r_first_two_gids"));
	struct smc_clc_answer bad[12];
	uint8_t to[RECODE_MAX];

	for (size_t i = 0; i < 12; i++)
		bad[i] = good;
	bad[0].r.qpn = 0x1000000;
	bad[1].r.psn = 0x1000000;
	bad[2].r.rmbe_size = 65535;
	bad[3].r.rmbe_size = 0;
	bad[4].r.mtu = 16;
	bad[5].first.n_gids = SMC_CLC_MAX_GIDS + 1;
	bad[6].type = SMC_CLC_PROPOSAL;
	bad[7].mode = SMC_CLC_BOTH;
	bad[8].version = 0;
	bad[9].first.os = 16;
	bad[10].first.release = 16;
	bad[11].mode = SMC_CLC_D; /* and no size of a DMBE */
	cr_assert_eq(smc_clc_encode_answer(&good, to, sizeof(to)), 196);
	for (size_t i = 0; i < 12; i++)
		cr_assert_eq(smc_clc_encode_answer(&bad[i], to, sizeof(to)), 0, "%zu", i);
}

Test(clc, the_largest_values_of_an_answer)
{
	struct smc_clc_answer a = answer_of(message_made("confirm_v2_r_first_two_gids")), back;
	uint8_t to[RECODE_MAX];
	size_t n;

	a.version = a.r.mtu = a.first.os = a.first.release = 15;
	a.r.qpn = a.r.psn = SMC_WIRE_24BIT;
	n = smc_clc_encode_answer(&a, to, sizeof(to));
	cr_assert_eq(smc_clc_decode_answer(to, n, &back), SMC_WIRE_OK);
	cr_assert(back.version == 15 && back.r.mtu == 15 && back.first.os == 15 &&
		  back.first.release == 15);
	cr_assert(back.r.qpn == SMC_WIRE_24BIT && back.r.psn == SMC_WIRE_24BIT);
}

Test(clc, no_proposal_is_written_with_too_much)
{
	const struct smc_clc_proposal good = proposal_of(message_made("proposal_v2_all"));
	struct smc_clc_proposal bad[8];
	uint8_t to[RECODE_MAX];

	for (size_t i = 0; i < 8; i++)
		bad[i] = good;
	bad[0].n_eids = 9;
	bad[1].n_isms = 9;
	bad[2].n_prefixes = 9;
	bad[3].version = 16;
	bad[4].version = 1; /* which has nothing of v2 */
	bad[5].release = 16;
	bad[6].v1 = 4;
	bad[7].v2 = 4;
	for (size_t i = 0; i < 8; i++)
		cr_assert_eq(smc_clc_encode_proposal(&bad[i], to, sizeof(to)), 0, "%zu", i);
}

/* Fields of parts that the modes do not have may hold anything. */
Test(clc, only_the_parts_of_a_proposal_that_it_has_are_written)
{
	static const char *const names[] = { "proposal_v1_r", "proposal_v2_r",
					     "proposal_v2_d_without_extension" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct message *m = message_made(names[i]);
		struct smc_clc_proposal p = proposal_of(m);
		uint8_t to[RECODE_MAX];

		p.ism = (struct smc_clc_ism){ UINT64_MAX, 7 };
		p.n_isms = 3;
		memset(p.seid, 'x', sizeof(p.seid));
		p.smcd2 = !smc_clc_has_d(p.v2);
		if (p.v1 == SMC_CLC_NONE)
			p.n_prefixes = 3;
		if (p.v2 == SMC_CLC_NONE)
			p.n_eids = 3;
		if (p.release == 0)
			p.max_conns = p.vendor_oui[0] = 9;
		cr_assert_eq(smc_clc_encode_proposal(&p, to, sizeof(to)), m->n, "%s", names[i]);
		cr_assert(!memcmp(to, m->bytes, m->n), "%s", names[i]);
	}
}
