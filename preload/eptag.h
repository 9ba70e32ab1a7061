/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_EPTAG_H
#define SMC_PRELOAD_EPTAG_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What the library puts into epoll_data of its own entries in the application's set, so that they can be told
 * from the application's among the events that come out:
 *
 *     63..32 prefix   random per process (forked children keep it, they share sets with their parent); its top
 *                     16 bits are neither 0x0000 nor 0xffff, so no pointer and no small number looks like it
 *     31..22 generation of the registration, so that a late event of a gone one is known
 *     21..0  index in the table of registrations, or EPTAG_BELL
 */
enum {
	EPTAG_INDEX_BITS = 22,
	EPTAG_GENERATION_BITS = 10,
	EPTAG_BELL = (1 << EPTAG_INDEX_BITS) - 1, /* a doorbell */
};

extern uint64_t eptag_prefix; /* the low half is zero; 0: no tag was ever given out */

/* Makes the prefix out of 32 random bits. */
static inline uint64_t eptag_prefix_from(uint32_t random)
{
	uint32_t top = random >> 16;

	if (top == 0)
		top = 0x5a5a;
	else if (top == 0xffff)
		top = 0xa5a5;
	return (uint64_t)(top << 16 | (random & 0xffff)) << 32;
}

static inline uint64_t eptag_make(uint32_t index, uint32_t generation)
{
	return eptag_prefix | (uint64_t)(generation & ((1u << EPTAG_GENERATION_BITS) - 1)) << EPTAG_INDEX_BITS | index;
}

static inline bool eptag_is(uint64_t data)
{
	return eptag_prefix && data >> 32 == eptag_prefix >> 32;
}

static inline uint32_t eptag_index(uint64_t data)
{
	return (uint32_t)data & ((1u << EPTAG_INDEX_BITS) - 1);
}

/* Is it a tag of this generation of the registration? */
static inline bool eptag_current(uint64_t data, uint32_t generation)
{
	return ((uint32_t)data >> EPTAG_INDEX_BITS) == (generation & ((1u << EPTAG_GENERATION_BITS) - 1));
}

#endif
