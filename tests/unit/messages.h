/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_UNIT_MESSAGES_H
#define SMC_UNIT_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

#include "tests/fuzz/recode.h"

/* The messages of tests/vectors, and what tests of the codecs do with messages. */

enum message_sender { MADE_BY_HAND, CLIENT, SERVER };

#define MESSAGE_MAX 512

struct message {
	enum recode_kind kind;
	enum message_sender sender;
	unsigned frame;	  /* of a recorded one */
	const char *name; /* of one made by hand */
	size_t n;
	uint8_t bytes[MESSAGE_MAX];
};

/* All of them, recorded ones first; ends with n = 0. */
const struct message *messages(void);

const struct message *message_recorded(unsigned frame);
const struct message *message_made(const char *name);

/* What to call it in a failure. */
const char *message_name(const struct message *m);

/* A copy in a heap block of exactly that size, so that AddressSanitizer sees the first byte read beyond it. */
uint8_t *exact_copy(const uint8_t *bytes, size_t n);

/*
 * Calls run(seed) for many seeds; for the one in SMC_TEST_SEED alone, if that is set, to see a
 * failure again. rand() is seeded.
 */
void for_seeds(unsigned seeds, void (*run)(unsigned seed));

void random_bytes(void *to, size_t n);
uint64_t random_bits(unsigned bits);

#endif
