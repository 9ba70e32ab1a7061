/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/bitset.h"
#include "preload/pollset.h"
#include "preload/until.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/select.h>

/* select's sets to a list for poll and back; and the arithmetic of time limits. */

static fd_set r, w, x;
static unsigned long *const sets[3] = { (unsigned long *)(void *)&r, (unsigned long *)(void *)&w, (unsigned long *)(void *)&x };
static const short masks[3] = { POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR, POLLPRI };

Test(bitset, lists_each_descriptor_once_in_order)
{
	struct pollfd fds[8];

	FD_SET(3, &r);
	FD_SET(3, &w);
	FD_SET(64, &x);
	FD_SET(63, &w);
	FD_SET(0, &r);
	cr_assert_eq(bitset_to_poll(sets, 65, NULL), 4);
	cr_assert_eq(bitset_to_poll(sets, 65, fds), 4);
	const int numbers[] = { 0, 3, 63, 64 };
	const short events[] = { POLLIN, POLLIN | POLLOUT, POLLOUT, POLLPRI };
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(fds[i].fd, numbers[i]);
		cr_assert_eq(fds[i].events, events[i]);
	}
}

Test(bitset, looks_no_further_than_n)
{
	FD_SET(10, &r);
	FD_SET(11, &r);
	FD_SET(64, &r);
	cr_assert_eq(bitset_to_poll(sets, 0, NULL), 0);
	cr_assert_eq(bitset_to_poll(sets, 10, NULL), 0);
	cr_assert_eq(bitset_to_poll(sets, 11, NULL), 1);
	cr_assert_eq(bitset_to_poll(sets, 64, NULL), 2);
	cr_assert_eq(bitset_to_poll(sets, 65, NULL), 3);
}

Test(bitset, takes_null_sets)
{
	unsigned long *const none[3] = { NULL, sets[1], NULL };
	struct pollfd fds[1];

	FD_SET(7, &w);
	cr_assert_eq(bitset_to_poll(none, 8, fds), 1);
	fds[0].revents = POLLOUT;
	cr_assert_eq(bitset_from_poll(none, 8, fds, 1, masks), 1);
	cr_assert(FD_ISSET(7, &w));
}

Test(bitset, writes_results_as_the_kernel_does)
{
	struct pollfd fds[3] = {
		{ .fd = 5, .events = POLLIN | POLLOUT, .revents = POLLIN | POLLOUT },
		{ .fd = 6, .events = POLLOUT | POLLPRI, .revents = POLLERR },
		{ .fd = 7, .events = POLLPRI, .revents = 0 },
	};

	FD_SET(1, &r); /* not ready: cleared */
	FD_SET(900, &r); /* beyond n: left alone */
	cr_assert_eq(bitset_from_poll(sets, 8, fds, 3, masks), 3);
	cr_assert(FD_ISSET(5, &r) && FD_ISSET(5, &w) && FD_ISSET(6, &w));
	cr_assert(!FD_ISSET(1, &r) && !FD_ISSET(6, &x) && !FD_ISSET(7, &x));
	cr_assert(FD_ISSET(900, &r));
}

Test(bitset, sets_larger_than_fd_setsize)
{
	unsigned long *big = calloc(100, sizeof(long));
	unsigned long *const big_sets[3] = { big, NULL, NULL };
	struct pollfd fds[1];

	bitset_add(big, 5000);
	cr_assert_eq(bitset_to_poll(big_sets, 5001, fds), 1);
	cr_assert_eq(fds[0].fd, 5000);
	free(big);
}

Test(pollset, what_select_counts)
{
	cr_assert_eq(pollset_select_mask(POLLPRI) & (POLLHUP | POLLERR | POLLIN), 0);
	cr_assert(pollset_select_mask(POLLIN) & POLLHUP);
	cr_assert(pollset_select_mask(POLLIN) & POLLERR);
	cr_assert(!(pollset_select_mask(POLLOUT) & POLLHUP));
	cr_assert(pollset_select_mask(POLLOUT) & POLLERR);
}

Test(until, limits)
{
	struct timespec t = { 0, 0 }, space;

	cr_assert_eq(until_ms(-1, false), UNTIL_FOREVER);
	cr_assert_eq(until_ms(0, false), 0);
	cr_assert_eq(until_timespec(NULL, false), UNTIL_FOREVER);
	cr_assert_eq(until_timespec(&t, false), 0);
	t.tv_sec = INT64_MAX;
	cr_assert_eq(until_timespec(&t, false), UNTIL_FOREVER);
	cr_assert_null(until_timeout(UNTIL_FOREVER, &space));
	cr_assert_eq(until_timeout_ms(UNTIL_FOREVER), -1);
	cr_assert(until_over(0));
	cr_assert(!until_over(UNTIL_FOREVER));
	t = (struct timespec){ 0, 1500000 };
	until_t soon = until_timespec(&t, false);
	cr_assert_leq(until_left_ns(soon), 1500000);
	cr_assert_leq(until_timeout_ms(soon), 2);
	cr_assert(!until_valid(&(struct timespec){ 0, 1000000000 }));
	cr_assert(!until_valid(&(struct timespec){ -1, 0 }));
	cr_assert(until_valid(NULL));
}
