/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Built without _FILE_OFFSET_BITS=64, which the others have from meson: there fcntl is called fcntl64,
 * preadv2 is preadv64v2, sendfile is sendfile64.
 */

#include <sys/sendfile.h>
#include <sys/uio.h>

#include "harness.h"

PAIR(small_fcntl, 0);

SERVER(small_fcntl)
{
	char b[16];
	R(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
	R(recv(fd, b, sizeof(b), 0));
	R(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK));
	int twin = fcntl(fd, F_DUPFD_CLOEXEC, 70);
	say("twin %d", twin);
	R(fcntl(twin, F_GETFD));
	post(0);
	R(recv(twin, b, sizeof(b), 0));
	struct pollfd p = { .fd = twin, .events = POLLIN };
	R(ppoll(&p, 1, &(struct timespec){ .tv_nsec = 20000000 }, NULL));
	R(close(fd));
	R(send(twin, "back", 4, 0));
	R(close(twin));
}

CLIENT(small_fcntl)
{
	char b[16];
	await(0);
	nap(20);
	send_all(fd, "abc", 3);
	R(recv(fd, b, sizeof(b), MSG_WAITALL));
}

PAIR(small_offsets, 0);

SERVER(small_offsets)
{
	char b[16] = "";
	struct iovec v[2] = { { b, 2 }, { b + 2, 2 } };
	await(0);
	R(preadv2(fd, v, 2, -1, 0));
	R(preadv2(fd, v, 2, 0, 0));
	say("got %.4s", b);
	R(pread(fd, b, 1, 0));
	say("intact %d", pattern_recv(fd, 1, 0, 5000, 1000));
}

CLIENT(small_offsets)
{
	char b[5000] = "abcd";
	struct iovec v[2] = { { b, 2 }, { b + 2, 2 } };
	int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
	R(pwritev2(fd, v, 2, -1, 0));
	R(pwritev2(fd, v, 2, 0, 0));
	post(0);
	pattern_fill(b, 1, 0, sizeof(b));
	MUST(write(file, b, sizeof(b)) == sizeof(b));
	off_t at = 0;
	R(sendfile(fd, file, &at, 5000));
	say("offset %ld", (long)at);
}
