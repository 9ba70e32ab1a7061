/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_BITSET_H
#define SMC_PRELOAD_BITSET_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * select's sets as the kernel sees them: arrays of long, as many as hold n bits, whatever FD_SETSIZE says; a
 * NULL set is empty.
 */
enum { BITSET_WORD = 8 * sizeof(long) };

static inline size_t bitset_words(int n)
{
	return ((size_t)n + BITSET_WORD - 1) / BITSET_WORD;
}

static inline bool bitset_has(const unsigned long *set, int fd)
{
	return set && (set[fd / BITSET_WORD] >> fd % BITSET_WORD & 1);
}

static inline void bitset_add(unsigned long *set, int fd)
{
	set[fd / BITSET_WORD] |= 1ul << fd % BITSET_WORD;
}

static inline unsigned long bitset_word(const unsigned long *set, size_t word)
{
	return set ? set[word] : 0;
}

/* The bits of word `word` that are in any of the sets and below n. */
static inline unsigned long bitset_any(unsigned long *const sets[3], size_t word, int n)
{
	unsigned long any = bitset_word(sets[0], word) | bitset_word(sets[1], word) | bitset_word(sets[2], word);
	size_t left = (size_t)n - word * BITSET_WORD;

	return left >= BITSET_WORD ? any : any & ((1ul << left) - 1);
}

/* What a descriptor is in, as poll events: POLLIN the first set, POLLOUT the second, POLLPRI the third. */
static inline short bitset_events(unsigned long *const sets[3], int fd)
{
	return (short)((bitset_has(sets[0], fd) ? POLLIN : 0) | (bitset_has(sets[1], fd) ? POLLOUT : 0) |
		       (bitset_has(sets[2], fd) ? POLLPRI : 0));
}

/* All sets as a list for poll, in the order of numbers; NULL: only counts. */
static inline nfds_t bitset_to_poll(unsigned long *const sets[3], int n, struct pollfd *fds)
{
	nfds_t count = 0;

	for (size_t word = 0; word < bitset_words(n); word++) {
		for (unsigned long bits = bitset_any(sets, word, n); bits; bits &= bits - 1) {
			int fd = (int)(word * BITSET_WORD) + __builtin_ctzl(bits);
			if (fds)
				fds[count] = (struct pollfd){ .fd = fd, .events = bitset_events(sets, fd) };
			count++;
		}
	}
	return count;
}

/* The result of poll, already reduced to what select counts (pollset_select_mask), into the sets. Returns the
 * number of bits set. */
static inline int bitset_from_poll(unsigned long *const sets[3], int n, const struct pollfd *fds, nfds_t count,
				   const short masks[3])
{
	static const short events[3] = { POLLIN, POLLOUT, POLLPRI };
	int found = 0;

	for (int s = 0; s < 3; s++) {
		if (!sets[s])
			continue;
		memset(sets[s], 0, bitset_words(n) * sizeof(long));
		for (nfds_t i = 0; i < count; i++) {
			if (!(fds[i].events & events[s]) || !(fds[i].revents & masks[s]))
				continue;
			bitset_add(sets[s], fds[i].fd);
			found++;
		}
	}
	return found;
}

#endif
