/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/eptag.h"

#include <criterion/criterion.h>

uint64_t eptag_prefix;

Test(eptag, nothing_is_a_tag_before_the_first_was_made)
{
	cr_assert(!eptag_is(0));
	cr_assert(!eptag_is(UINT64_MAX));
	cr_assert(!eptag_is(12345));
}

Test(eptag, prefix_never_looks_like_a_pointer_or_a_number)
{
	const uint32_t random[] = { 0, 1, 0xffff, 0x10000, 0xffff0000, 0xffffffff, 0x12345678 };

	for (unsigned i = 0; i < sizeof(random) / sizeof(random[0]); i++) {
		uint64_t prefix = eptag_prefix_from(random[i]);
		cr_assert_eq((uint32_t)prefix, 0);
		cr_assert_neq(prefix >> 48, 0);
		cr_assert_neq(prefix >> 48, 0xffff);
	}
	cr_assert_eq(eptag_prefix_from(0x12345678), UINT64_C(0x1234567800000000));
}

Test(eptag, says_which_registration_and_which_generation)
{
	eptag_prefix = eptag_prefix_from(0x7001beef);
	const uint32_t indices[] = { 0, 1, 4095, EPTAG_BELL - 1, EPTAG_BELL };
	for (unsigned i = 0; i < sizeof(indices) / sizeof(indices[0]); i++) {
		for (uint32_t generation = 0; generation < 5000; generation += 7) {
			uint64_t tag = eptag_make(indices[i], generation);
			cr_assert(eptag_is(tag));
			cr_assert_eq(eptag_index(tag), indices[i]);
			cr_assert(eptag_current(tag, generation));
			cr_assert(!eptag_current(tag, generation + 1));
			cr_assert(eptag_current(tag, generation + (1u << EPTAG_GENERATION_BITS)));
		}
	}
	cr_assert(!eptag_is((uint64_t)(uintptr_t)&eptag_prefix));
	cr_assert(!eptag_is(0x7001beef));
}
