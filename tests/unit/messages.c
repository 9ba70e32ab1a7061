/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/messages.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct source {
	enum recode_kind kind;
	enum message_sender sender;
	unsigned frame;
	const char *name, *hex;
} sources[] = {
#define RECORDED(kind, frame, sender, hex) { RECODE_##kind, sender, frame, NULL, hex },
#include "tests/vectors/linux-6.12-smcr-v2.def"
#undef RECORDED
#define MADE(kind, name, hex) { RECODE_##kind, MADE_BY_HAND, 0, #name, hex },
#include "tests/vectors/made-by-hand.def"
#undef MADE
};

#define N_SOURCES (sizeof(sources) / sizeof(sources[0]))

static void parse(const struct source *from, struct message *to)
{
	*to = (struct message){ from->kind, from->sender, from->frame, from->name, 0, { 0 } };
	for (const char *c = from->hex; *c;) {
		unsigned byte, times = 1;
		int used;

		if (*c == ' ') {
			c++;
			continue;
		}
		cr_assert_eq(sscanf(c, "%2x%n", &byte, &used), 1, "%s: %s", message_name(to), c);
		c += used;
		if (*c == '*') {
			cr_assert_eq(sscanf(c, "*%u%n", &times, &used), 1, "%s: %s",
				     message_name(to), c);
			c += used;
		}
		cr_assert_leq(to->n + times, MESSAGE_MAX);
		memset(to->bytes + to->n, (int)byte, times);
		to->n += times;
	}
}

const struct message *messages(void)
{
	static struct message all[N_SOURCES + 1];

	if (all[0].n == 0)
		for (size_t i = 0; i < N_SOURCES; i++)
			parse(&sources[i], &all[i]);
	return all;
}

const struct message *message_recorded(unsigned frame)
{
	for (const struct message *m = messages(); m->n; m++)
		if (m->sender != MADE_BY_HAND && m->frame == frame)
			return m;
	cr_assert_fail("no frame %u", frame);
	return NULL;
}

const struct message *message_made(const char *name)
{
	for (const struct message *m = messages(); m->n; m++)
		if (m->sender == MADE_BY_HAND && !strcmp(m->name, name))
			return m;
	cr_assert_fail("no message %s", name);
	return NULL;
}

const char *message_name(const struct message *m)
{
	static char name[32];

	if (m->sender == MADE_BY_HAND)
		return m->name;
	snprintf(name, sizeof(name), "frame %u", m->frame);
	return name;
}

uint8_t *exact_copy(const uint8_t *bytes, size_t n)
{
	uint8_t *copy = malloc(n);

	cr_assert(copy || n == 0);
	if (n)
		memcpy(copy, bytes, n);
	return copy;
}

void for_seeds(unsigned seeds, void (*run)(unsigned seed))
{
	const char *replay = getenv("SMC_TEST_SEED");
	unsigned first = replay ? (unsigned)strtoul(replay, NULL, 10) : 1;
	unsigned last = replay ? first : seeds;

	for (unsigned seed = first; seed <= last; seed++) {
		srand(seed);
		run(seed);
	}
}

void random_bytes(void *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] = (uint8_t)(rand() >> 8);
}

uint64_t random_bits(unsigned bits)
{
	uint64_t value;

	random_bytes(&value, sizeof(value));
	return bits < 64 ? value & ((UINT64_C(1) << bits) - 1) : value;
}
