/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/messages.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* What holds of every message that tests/vectors has. */

static enum smc_wire_result try(const struct message *m, const uint8_t *bytes, size_t n)
{
	uint8_t again[RECODE_MAX];
	size_t length;

	return recode(m->kind, bytes, n, again, &length);
}

Test(wire, numbers_are_big_endian)
{
	static const uint8_t bytes[8] = { 1, 2, 3, 4, 5, 6, 7, 0xf8 };
	uint8_t to[8];

	cr_assert_eq(wire_get16(bytes), 0x0102);
	cr_assert_eq(wire_get24(bytes), 0x010203);
	cr_assert_eq(wire_get32(bytes + 4), 0x050607f8);
	cr_assert_eq(wire_get64(bytes), UINT64_C(0x01020304050607f8));
	wire_put64(to, UINT64_C(0x01020304050607f8));
	cr_assert(!memcmp(to, bytes, 8));
	wire_put24(to, 0xa1b2c3);
	cr_assert(!memcmp(to, "\xa1\xb2\xc3\x04", 4));
}

Test(wire, every_result_has_a_text)
{
	for (unsigned result = SMC_WIRE_OK; result <= SMC_WIRE_COUNT; result++)
		cr_assert_str_neq(smc_wire_text(result), "unknown result");
	cr_assert_str_eq(smc_wire_text(SMC_WIRE_COUNT + 1), "unknown result");
}

Test(wire, the_recording_is_all_there)
{
	unsigned recorded[3] = { 0 }, made[3] = { 0 };

	for (const struct message *m = messages(); m->n; m++)
		(m->sender == MADE_BY_HAND ? made : recorded)[m->kind]++;
	cr_assert_eq(recorded[RECODE_CLC], 12);
	cr_assert_eq(recorded[RECODE_LLC], 32);
	cr_assert_eq(recorded[RECODE_CDC], 69);
	cr_assert_eq(made[RECODE_CLC] + made[RECODE_LLC] + made[RECODE_CDC], 36);
}

Test(wire, every_message_is_understood_and_written_again_as_it_was)
{
	for (const struct message *m = messages(); m->n; m++) {
		uint8_t *bytes = exact_copy(m->bytes, m->n), again[RECODE_MAX];
		size_t n;
		enum smc_wire_result result = recode(m->kind, bytes, m->n, again, &n);

		cr_assert_eq(result, SMC_WIRE_OK, "%s: %s", message_name(m), smc_wire_text(result));
		cr_assert_eq(n, m->n, "%s: %zu bytes", message_name(m), n);
		for (size_t i = 0; i < n; i++)
			cr_assert_eq(again[i], m->bytes[i], "%s: byte %zu is %02x", message_name(m),
				     i, again[i]);
		free(bytes);
	}
}

/* Of a CDC message Linux needs what is not reserved: the first 26 bytes. */
static bool is_enough(const struct message *m, size_t n)
{
	return m->kind == RECODE_CDC && n >= 26;
}

Test(wire, no_part_of_a_message_is_taken_for_one)
{
	for (const struct message *m = messages(); m->n; m++)
		for (size_t n = 0; n < m->n; n++) {
			uint8_t *bytes = exact_copy(m->bytes, n);
			enum smc_wire_result result = try(m, bytes, n);

			cr_assert_eq(result == SMC_WIRE_OK, is_enough(m, n), "%s, %zu bytes: %s",
				     message_name(m), n, smc_wire_text(result));
			if (m->kind == RECODE_CLC)
				cr_assert_eq(result, SMC_WIRE_SHORT, "%s, %zu bytes",
					     message_name(m), n);
			free(bytes);
		}
}

Test(wire, what_follows_a_message_does_not_matter)
{
	for (const struct message *m = messages(); m->n; m++) {
		uint8_t bytes[MESSAGE_MAX + 64], again[RECODE_MAX];
		size_t n;

		memcpy(bytes, m->bytes, m->n);
		memset(bytes + m->n, 0xff, 64);
		cr_assert_eq(recode(m->kind, bytes, m->n + 64, again, &n), SMC_WIRE_OK, "%s",
			     message_name(m));
		cr_assert(n == m->n && !memcmp(again, m->bytes, n), "%s", message_name(m));
	}
}

Test(wire, any_bit_may_be_wrong)
{
	for (const struct message *m = messages(); m->n; m++)
		for (size_t bit = 0; bit < 8 * m->n; bit++) {
			uint8_t *bytes = exact_copy(m->bytes, m->n);

			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			cr_assert(recode_is_stable(m->kind, bytes, m->n), "%s, bit %zu",
				  message_name(m), bit);
			free(bytes);
		}
}

Test(wire, any_byte_may_be_anything)
{
	static const uint8_t odd[] = { 0, 1, 8, 9, 0x7f, 0x80, 0xfe, 0xff };

	for (const struct message *m = messages(); m->n; m++)
		for (size_t i = 0; i < m->n * sizeof(odd); i++) {
			uint8_t *bytes = exact_copy(m->bytes, m->n);

			bytes[i / sizeof(odd)] = odd[i % sizeof(odd)];
			cr_assert(recode_is_stable(m->kind, bytes, m->n), "%s, byte %zu",
				  message_name(m), i / sizeof(odd));
			free(bytes);
		}
}

static void noise(unsigned seed)
{
	const struct message *m = messages();
	size_t all = 0, n = (size_t)rand() % (MESSAGE_MAX + 1);
	uint8_t *bytes = malloc(n);

	while (m[all].n)
		all++;
	m += (size_t)rand() % all;
	random_bytes(bytes, n);
	memcpy(bytes, m->bytes, n < 8 ? n : 8); /* a head gets the rest looked at */
	cr_assert(recode_is_stable(m->kind, bytes, n), "seed %u: %zu bytes after the head of %s",
		  seed, n, message_name(m));
	free(bytes);
}

Test(wire, noise_is_refused_or_understood)
{
	for_seeds(20000, noise);
}
