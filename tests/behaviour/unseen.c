/* SPDX-License-Identifier: BSD-2-Clause */

/* Bytes moved by calls that the library does not see: system calls made by the program itself, as io_uring's are. */

#include <sys/syscall.h>

#include "harness.h"
#include "preload/raw.h"

enum { ROUNDS = 3000 };

static void raw_out(int fd, char c)
{
	MUST(raw_call3(SYS_write, fd, &c, 1) == 1);
}

static char raw_in(int fd)
{
	char c = 0;
	long n;

	while ((n = raw_call3(SYS_read, fd, &c, 1)) == -EINTR)
		;
	MUST(n == 1);
	return c;
}

static void rounds(int fd, int n)
{
	for (int i = 0; i < n; i++) {
		char c = (char)i;
		send_all(fd, &c, 1);
		recv_all(fd, &c, 1);
		MUST(c == (char)i);
	}
	say("%d rounds", n);
}

PAIR(unseen_both_ways, COLD | MUST_BE_TCP);

SERVER(unseen_both_ways)
{
	for (int i = 0; i < ROUNDS; i++)
		raw_out(fd, raw_in(fd));
}

CLIENT(unseen_both_ways)
{
	rounds(fd, ROUNDS);
}

/* Only what is read unseen stays on TCP; what is written goes up, if it wants to. */
PAIR(unseen_reads, COLD | MAY_BE_TCP);

SERVER(unseen_reads)
{
	for (int i = 0; i < ROUNDS; i++) {
		char c = raw_in(fd);
		send_all(fd, &c, 1);
	}
}

CLIENT(unseen_reads)
{
	rounds(fd, ROUNDS);
}

PAIR(unseen_writes, COLD | MAY_BE_TCP);

SERVER(unseen_writes)
{
	for (int i = 0; i < ROUNDS; i++) {
		char c;
		recv_all(fd, &c, 1);
		raw_out(fd, c);
	}
}

CLIENT(unseen_writes)
{
	rounds(fd, ROUNDS);
}

/* Begun unseen, by a runtime's first bytes say, and gone on with in calls that are seen, and unseen in between. */
PAIR(unseen_at_first, COLD | MUST_BE_TCP);

SERVER(unseen_at_first)
{
	raw_out(fd, raw_in(fd));
	for (int i = 0; i < ROUNDS; i++) {
		char c;
		if (i % 7 == 6) {
			raw_out(fd, raw_in(fd));
		} else {
			recv_all(fd, &c, 1);
			send_all(fd, &c, 1);
		}
	}
}

CLIENT(unseen_at_first)
{
	rounds(fd, 1 + ROUNDS);
}
