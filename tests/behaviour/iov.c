/* SPDX-License-Identifier: BSD-2-Clause */

/* Vectors, their limits, and pointers that lead nowhere. */

#include <limits.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "harness.h"

/* An address that no process has mapped, hidden from the compiler. */
static void *nowhere(void)
{
	static volatile uintptr_t address = 64;
	return (void *)address;
}

static volatile int minus_one = -1; /* the compiler would complain */

static void *nothing(void)
{
	static void *volatile null;
	return null;
}

PAIR(iov_many_pieces, 0);

SERVER(iov_many_pieces)
{
	static char b[IOV_MAX * 100];
	static struct iovec v[IOV_MAX];
	for (size_t i = 0; i < IOV_MAX; i++)
		v[i] = (struct iovec){ b + i * 100, i % 7 ? 100 : 0 };
	say("intact %d", pattern_recv(fd, 1, 0, IOV_MAX * 100, 4096));
	size_t want = 0, got = 0;
	for (size_t i = 0; i < IOV_MAX; i++)
		want += v[i].iov_len;
	post(0);
	MUST(wait_queued(fd, (int)want));
	got = (size_t)readv(fd, v, IOV_MAX);
	bool ok = true;
	for (size_t i = 0, at = 0; i < IOV_MAX; at += v[i].iov_len, i++)
		ok = ok && pattern_check(v[i].iov_base, 2, at, v[i].iov_len);
	say("read all %d intact %d", got == want, ok);
}

CLIENT(iov_many_pieces)
{
	static char b[IOV_MAX * 100];
	static struct iovec v[IOV_MAX];
	pattern_fill(b, 1, 0, sizeof(b));
	for (size_t i = 0; i < IOV_MAX; i++)
		v[i] = (struct iovec){ b + i * 100, 100 };
	R(writev(fd, v, IOV_MAX));
	await(0);
	pattern_send(fd, 2, 0, sizeof(b) - (IOV_MAX + 6) / 7 * 100, 10000);
}

PAIR(iov_limits, 0);

SERVER(iov_limits)
{
	char b[8] = "";
	struct iovec v[2] = { { b, SSIZE_MAX }, { b, SSIZE_MAX } };
	static struct iovec many[IOV_MAX + 1];
	struct msghdr m = { .msg_iov = many, .msg_iovlen = IOV_MAX + 1 };
	await(0);
	R(readv(fd, many, IOV_MAX + 1));
	R(readv(fd, many, minus_one));
	R(recvmsg(fd, &m, 0));
	R(preadv2(fd, many, IOV_MAX + 1, -1, 0));
	v[0].iov_len = (size_t)-1;
	R(readv(fd, v, 1));
	v[0] = (struct iovec){ b, 3 };
	v[1] = (struct iovec){ b, (size_t)-5 };
	R(readv(fd, v, 2));
	R(recv(fd, b, 8, 0));
	say("got %s", b);
}

CLIENT(iov_limits)
{
	char b[8] = "abc";
	struct iovec v[2] = { { b, 3 }, { b, (size_t)-1 } };
	static struct iovec many[IOV_MAX + 1];
	struct msghdr m = { .msg_iov = many, .msg_iovlen = IOV_MAX + 1 };
	R(writev(fd, many, IOV_MAX + 1));
	R(writev(fd, many, minus_one));
	R(sendmsg(fd, &m, 0));
	R(pwritev2(fd, many, IOV_MAX + 1, -1, 0));
	R(writev(fd, v, 2));
	R(writev(fd, v, 1));
	post(0);
}

PAIR(iov_offsets, 0);

SERVER(iov_offsets)
{
	char b[8];
	struct iovec v = { b, sizeof(b) };
	await(0);
	R(pread(fd, b, sizeof(b), 0));
	R(preadv(fd, &v, 1, 0));
	R(preadv2(fd, &v, 1, 0, 0));
	R(preadv2(fd, &v, 1, -1, 0x40000000));
	R(preadv2(fd, &v, 1, -1, 0));
	R(preadv2(fd, &v, 1, -1, RWF_NOWAIT));
	R(lseek(fd, 0, SEEK_CUR));
}

CLIENT(iov_offsets)
{
	char b[8] = "abc";
	struct iovec v = { b, 3 };
	R(pwrite(fd, b, 3, 0));
	R(pwritev(fd, &v, 1, 0));
	R(pwritev2(fd, &v, 1, 0, 0));
	R(pwritev2(fd, &v, 1, -1, 0x40000000));
	R(pwritev2(fd, &v, 1, -1, 0));
	post(0);
}

PAIR(iov_sendmmsg, 0);

SERVER(iov_sendmmsg)
{
	char b[64] = "";
	struct iovec v[3] = { { b, 4 }, { b + 8, 4 }, { b + 16, 40 } };
	struct mmsghdr mm[3] = { { .msg_hdr = { .msg_iov = &v[0], .msg_iovlen = 1 } },
				 { .msg_hdr = { .msg_iov = &v[1], .msg_iovlen = 1 } },
				 { .msg_hdr = { .msg_iov = &v[2], .msg_iovlen = 1 } } };
	await(0);
	R(recvmmsg(fd, mm, 3, 0, NULL));
	say("lengths %u %u %u text %.4s %.4s %.5s", mm[0].msg_len, mm[1].msg_len, mm[2].msg_len, b,
	    b + 8, b + 16);
	R(recvmmsg(fd, mm, 3, MSG_DONTWAIT, NULL));
	post(1);
	await(2);
	/* Only one message's worth is there. */
	R(recvmmsg(fd, mm, 3, MSG_WAITFORONE, NULL));
	say("length %u", mm[0].msg_len);
	struct timespec soon = { .tv_nsec = 20 * 1000 * 1000 };
	post(3);
	await(4);
	R(recvmmsg(fd, mm, 1, 0, &soon));
	R(recvmmsg(fd, mm, 0, MSG_DONTWAIT, NULL));
}

CLIENT(iov_sendmmsg)
{
	char b[] = "0123456789abc";
	struct iovec v[3] = { { b, 5 }, { b + 5, 4 }, { b + 9, 4 } };
	struct mmsghdr mm[3] = { { .msg_hdr = { .msg_iov = &v[0], .msg_iovlen = 1 } },
				 { .msg_hdr = { .msg_iov = &v[1], .msg_iovlen = 1 } },
				 { .msg_hdr = { .msg_iov = &v[2], .msg_iovlen = 1 } } };
	R(sendmmsg(fd, mm, 3, 0));
	say("lengths %u %u %u", mm[0].msg_len, mm[1].msg_len, mm[2].msg_len);
	post(0);
	await(1);
	R(sendmmsg(fd, mm, 1, 0));
	post(2);
	await(3);
	R(sendmmsg(fd, mm, 0, 0));
	R(sendmmsg(fd, mm, 1, 0));
	post(4);
}

PAIR(iov_efault_send, 0);

SERVER(iov_efault_send)
{
	char b[8] = "";
	R(recv(fd, b, 3, MSG_WAITALL));
	say("got %s", b);
}

CLIENT(iov_efault_send)
{
	struct iovec v = { nowhere(), 10 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct msghdr no_iov = { .msg_iov = nowhere(), .msg_iovlen = 1 };
	R(write(fd, nowhere(), 10));
	R(send(fd, nowhere(), 10, 0));
	R(send(fd, nothing(), 10, 0));
	R(send(fd, nowhere(), 0, 0));
	R(writev(fd, &v, 1));
	R(writev(fd, nowhere(), 1));
	R(sendmsg(fd, &m, 0));
	R(sendmsg(fd, &no_iov, 0));
	R(sendmsg(fd, nothing(), 0));
	R(sendmmsg(fd, nowhere(), 1, 0));
	R(send(fd, "abc", 3, 0));
}

PAIR(iov_efault_recv, 0);

SERVER(iov_efault_recv)
{
	char b[8] = "";
	struct iovec v = { nowhere(), 10 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct msghdr no_iov = { .msg_iov = nowhere(), .msg_iovlen = 1 };
	R(recv(fd, nowhere(), 10, MSG_DONTWAIT));
	post(0);
	await(1);
	R(read(fd, nowhere(), 10));
	R(recv(fd, nowhere(), 10, 0));
	R(recv(fd, nothing(), 10, 0));
	R(recv(fd, nowhere(), 10, MSG_PEEK));
	R(readv(fd, &v, 1));
	R(readv(fd, nowhere(), 1));
	R(recvmsg(fd, &m, 0));
	R(recvmsg(fd, &no_iov, 0));
	R(recvmsg(fd, nothing(), 0));
	R(recv(fd, b, 8, 0));
	say("got %s", b);
}

CLIENT(iov_efault_recv)
{
	await(0);
	send_all(fd, "abc", 3);
	post(1);
}

/* A buffer whose second half is not there: a fault, or the first half, but no crash and no garbage. */
PAIR(iov_half_mapped, DIFFERS);

static char *half_mapped(void)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(p != MAP_FAILED);
	MUST(!mprotect(p + 4096, 4096, PROT_NONE));
	return p;
}

SERVER(iov_half_mapped)
{
	char *p = half_mapped();
	await(0);
	long sent = shared_get(0);
	if (sent > 0)
		say("intact %d", pattern_recv(fd, 1, 0, (size_t)sent, 4096));
	else
		say("intact 1");
	post(1);
	MUST(wait_queued(fd, 100));
	ssize_t n = recv(fd, p + 4096 - 50, 100, 0);
	YES(n == 50 || (n < 0 && errno == EFAULT));
	say("intact %d", n < 0 || pattern_check(p + 4096 - 50, 2, 0, (size_t)n));
	post(2);
}

CLIENT(iov_half_mapped)
{
	char *p = half_mapped();
	pattern_fill(p, 1, 0, 4096);
	ssize_t n = send(fd, p, 8192, 0);
	YES((n > 0 && n <= 4096) || (n < 0 && errno == EFAULT));
	shared_set(0, n);
	post(0);
	await(1);
	pattern_send(fd, 2, 0, 100, 100);
	await(2);
}

/* Memory that is written by one thread's fault handler late is still memory: fresh pages, read-only pages. */
PAIR(iov_odd_memory, DIFFERS);

SERVER(iov_odd_memory)
{
	char *fresh =
		mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(fresh != MAP_FAILED);
	R(recv(fd, fresh, 1 << 20, MSG_WAITALL));
	say("zero %d", !fresh[0] && !memcmp(fresh, fresh + 1, (1 << 20) - 1));
	MUST(!mprotect(fresh, 4096, PROT_READ));
	MUST(wait_queued(fd, 3));
	R(recv(fd, fresh, 3, 0));
	R(recv(fd, fresh + 4096, 3, 0));
}

CLIENT(iov_odd_memory)
{
	char *fresh = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(fresh != MAP_FAILED);
	send_all(fd, fresh, 1 << 20);
	send_all(fd, "abc", 3);
}
