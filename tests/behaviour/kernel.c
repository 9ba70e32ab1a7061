/* SPDX-License-Identifier: BSD-2-Clause */

/* Calls that only the kernel, or the inside of libc, can serve: stdio, sendfile, splice, raw calls. */

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "harness.h"

/* A line protocol by stdio on both sides of one FILE each. */
PAIR(kernel_stdio, 0);

SERVER(kernel_stdio)
{
	char line[64];
	FILE *f = fdopen(fd, "r+");
	MUST(f);
	setvbuf(f, NULL, _IONBF, 0);
	for (int i = 0; i < 50; i++) {
		if (!fgets(line, sizeof(line), f))
			say("no line %d", i);
		if (fprintf(f, "answer to %s", line) < 0)
			say("not written %d", i);
	}
	say("last %s", strtok(line, "\n"));
	R(fgets(line, sizeof(line), f) == NULL);
	R(feof(f) != 0);
	R(fclose(f));
	R(close(fd));
}

CLIENT(kernel_stdio)
{
	char line[64];
	FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
	MUST(in && out);
	for (int i = 0; i < 50; i++) {
		fprintf(out, "question %d\n", i);
		fflush(out);
		if (!fgets(line, sizeof(line), in))
			say("no answer %d", i);
	}
	say("last %s", strtok(line, "\n"));
	R(fclose(out));
	R(fclose(in));
}

/* Bytes of recv() and of stdio, of send() and of dprintf(), in their order. */
PAIR(kernel_stdio_after_recv, 0);

SERVER(kernel_stdio_after_recv)
{
	char b[16] = "", line[64] = "";
	recv_all(fd, b, 5);
	say("got %s", b);
	FILE *f = fdopen(dup(fd), "r");
	MUST(f && fgets(line, sizeof(line), f));
	say("line %s", strtok(line, "\n"));
	R(fclose(f));
	send_all(fd, "a", 1);
	R(dprintf(fd, "b%s", "c"));
	send_all(fd, "d", 1);
	R(dprintf(fd, "%s", "ef"));
	send_all(fd, "g", 1);
}

CLIENT(kernel_stdio_after_recv)
{
	char b[16] = "";
	send_all(fd, "helloline of text\n", 18);
	recv_all(fd, b, 7);
	say("got %s", b);
}

static int make_file(size_t size)
{
	int fd = open(getenv("TMPDIR") ?: "/tmp", O_TMPFILE | O_RDWR, 0600);
	char *b = malloc(size + 1);
	MUST(fd >= 0 && b);
	pattern_fill(b, 1, 0, size);
	MUST(write(fd, b, size) == (ssize_t)size);
	MUST(lseek(fd, 0, SEEK_SET) == 0);
	free(b);
	return fd;
}

PAIR(kernel_sendfile, 0);

SERVER(kernel_sendfile)
{
	char b[8] = "";
	say("intact %d", pattern_recv(fd, 2, 0, 5000, 5000));
	say("intact %d", pattern_recv(fd, 1, 0, 1 + 4095, 1000));
	say("intact %d", pattern_recv(fd, 1, 100, 10000, 10000));
	say("intact %d", pattern_recv(fd, 1, 0, 8 << 20, 100000));
	recv_all(fd, b, 3);
	say("got %s", b);
}

CLIENT(kernel_sendfile)
{
	size_t size = 8 << 20;
	int file = make_file(size), pipes[2];
	off_t at = 100;
	MUST(!pipe(pipes));
	pattern_send(fd, 2, 0, 5000, 5000);
	R(sendfile(fd, file, NULL, 0));
	R(sendfile(fd, file, NULL, 1));
	R(sendfile(fd, file, NULL, 4095));
	R(sendfile(fd, file, &at, 10000));
	say("offset %ld, position %ld", (long)at, (long)lseek(file, 0, SEEK_CUR));
	at = 0;
	while (at < (off_t)size)
		MUST(sendfile(fd, file, &at, size - (size_t)at) > 0);
	at = (off_t)size;
	R(sendfile(fd, file, &at, 10));
	R(sendfile(fd, pipes[0], NULL, 10));
	R(sendfile(fd, -1, NULL, 10));
	R(sendfile(file, fd, NULL, 10));
	R(send(fd, "end", 3, 0));
}

PAIR(kernel_splice_in, 0);

SERVER(kernel_splice_in)
{
	pattern_send(fd, 1, 0, 100000, 10000);
	shutdown(fd, SHUT_WR);
}

CLIENT(kernel_splice_in)
{
	int pipes[2];
	char b[65536];
	MUST(!pipe(pipes));
	say("before intact %d", pattern_recv(fd, 1, 0, 1000, 1000));
	size_t at = 1000;
	bool ok = true;
	for (;;) {
		ssize_t n = splice(fd, NULL, pipes[1], NULL, sizeof(b), 0);
		if (n <= 0) {
			report("splice in the end", n);
			break;
		}
		for (ssize_t left = n; left > 0;) {
			ssize_t r = read(pipes[0], b, (size_t)left);
			MUST(r > 0);
			ok = ok && pattern_check(b, 1, at, (size_t)r);
			at += (size_t)r;
			left -= r;
		}
	}
	say("spliced to %zu intact %d", at, ok);
}

PAIR(kernel_splice_out, 0);

SERVER(kernel_splice_out)
{
	say("intact %d", pattern_recv(fd, 1, 0, 210000, 5000));
}

CLIENT(kernel_splice_out)
{
	int pipes[2];
	char b[10000];
	MUST(!pipe(pipes));
	pattern_send(fd, 1, 0, 10000, 1000);
	for (size_t at = 10000; at < 210000; at += sizeof(b)) {
		pattern_fill(b, 1, at, sizeof(b));
		if (at / sizeof(b) % 4 == 3) {
			/* In between by an ordinary call. */
			send_all(fd, b, sizeof(b));
			continue;
		}
		MUST(write(pipes[1], b, sizeof(b)) == sizeof(b));
		for (size_t left = sizeof(b); left;) {
			ssize_t n = splice(pipes[0], NULL, fd, NULL, left, SPLICE_F_MOVE);
			MUST(n > 0);
			left -= (size_t)n;
		}
	}
	say("sent");
}

/* sendfile and splice on descriptors that are none of ours. */
SOLO(kernel_plain_descriptors, MUST_BE_TCP)
{
	int file = make_file(10000), out = make_file(0), pipes[2], sv[2];
	char b[16];
	MUST(!pipe(pipes) && !socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	R(sendfile(out, file, NULL, 10000));
	R(splice(file, &(off_t){ 10 }, pipes[1], NULL, 100, 0));
	R(read(pipes[0], b, sizeof(b)));
	say("intact %d", pattern_check(b, 1, 10, sizeof(b)));
	R(sendfile(sv[0], file, &(off_t){ 0 }, 10));
	R(recv(sv[1], b, sizeof(b), 0));
	R(tee(pipes[0], pipes[1], 1, SPLICE_F_NONBLOCK));
	/* Datagrams and unix streams keep their own ways. */
	uint16_t port;
	struct sockaddr_storage a;
	int udp = socket(AF_INET, SOCK_DGRAM, 0), udp2 = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t size = loopback(&a, AF_INET, 0);
	MUST(!bind(udp, (struct sockaddr *)&a, size));
	port = port_of(udp);
	size = loopback(&a, AF_INET, port);
	R(sendto(udp2, "abc", 3, 0, (struct sockaddr *)&a, size));
	R(sendto(udp2, "", 0, 0, (struct sockaddr *)&a, size));
	R(connect(udp2, (struct sockaddr *)&a, size));
	R(send(udp2, "defgh", 5, 0));
	R(recv(udp, b, sizeof(b), 0));
	R(recv(udp, b, sizeof(b), 0));
	R(recv(udp, b, 2, MSG_TRUNC));
	R(recv(udp, b, 2, MSG_DONTWAIT));
	R(send(sv[0], "x", 1, MSG_OOB));
	R(shutdown(sv[0], SHUT_WR));
	int seq[2];
	MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, seq));
	R(send(seq[0], "abc", 3, 0));
	R(send(seq[0], "de", 2, 0));
	R(recv(seq[1], b, 2, 0));
	R(recv(seq[1], b, sizeof(b), 0));
}

/* Programs that make system calls by number, through libc's syscall(). */
PAIR(kernel_by_number, 0);

SERVER(kernel_by_number)
{
	char a[4] = "", b[8] = "";
	struct iovec v[2] = { { a, 3 }, { b, 5 } };
	struct mmsghdr mm[2] = { { .msg_hdr = { .msg_iov = v, .msg_iovlen = 2 } } };
	int n = -1, ep = (int)syscall(SYS_epoll_create1, 0);
	struct epoll_event e = { .events = EPOLLIN };
	struct timespec soon = { .tv_sec = 5 };
	fd_set set;
	R(syscall(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, fd, &e));
	for (int i = 0; i < 5; i++) {
		post(0);
		MUST(wait_queued(fd, 8));
		R(syscall(SYS_epoll_pwait2, ep, &e, 1, &soon, NULL, 8));
		R(syscall(SYS_ioctl, fd, FIONREAD, &n));
		say("queued %d", n);
		switch (i) {
		case 0:
			R(syscall(SYS_readv, fd, v, 2));
			break;
		case 1:
			R(syscall(SYS_preadv2, fd, v, 2, -1L, -1L, 0));
			break;
		case 2:
			R(syscall(SYS_recvmmsg, fd, mm, 1, 0, NULL));
			break;
		case 3:
			R(syscall(SYS_read, fd, a, 3));
			R(syscall(SYS_recvfrom, fd, b, 5, 0, NULL, NULL));
			break;
		case 4:
			FD_ZERO(&set);
			FD_SET(fd, &set);
			R(syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, NULL, NULL));
			R(syscall(SYS_recvmsg, fd, &mm[0].msg_hdr, 0));
		}
		say("%.3s%.5s", a, b);
	}
	int twin = (int)syscall(SYS_dup, fd), high = (int)syscall(SYS_dup3, fd, 77, O_CLOEXEC);
	say("flags %ld", syscall(SYS_fcntl, high, F_GETFD, 0));
	R(syscall(SYS_close, fd));
	R(syscall(SYS_write, twin, "twin", 4));
	R(syscall(SYS_close, twin));
	R(syscall(SYS_sendto, high, "high", 4, 0, NULL, 0));
	R(syscall(SYS_shutdown, high, SHUT_WR));
	R(recv(high, a, 1, 0));
	R(syscall(SYS_close, high));
}

CLIENT(kernel_by_number)
{
	char one[] = "one", two[] = "-two.";
	struct iovec v[2] = { { one, 3 }, { two, 5 } };
	struct mmsghdr mm = { .msg_hdr = { .msg_iov = v, .msg_iovlen = 2 } };
	char b[16] = "";
	for (int i = 0; i < 5; i++) {
		await_n(0, i + 1);
		switch (i) {
		case 0:
			R(syscall(SYS_writev, fd, v, 2));
			break;
		case 1:
			R(syscall(SYS_pwritev2, fd, v, 2, -1L, -1L, 0));
			break;
		case 2:
			R(syscall(SYS_sendmmsg, fd, &mm, 1, 0));
			break;
		case 3:
			R(syscall(SYS_sendmsg, fd, &mm.msg_hdr, 0));
			break;
		case 4:
			R(syscall(SYS_write, fd, "one-two.", 8));
		}
	}
	recv_all(fd, b, 8);
	say("%s", b);
	R(recv(fd, b, 1, 0));
	R(syscall(SYS_shutdown, fd, SHUT_RDWR));
}
