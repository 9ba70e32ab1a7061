/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/call.h"
#include "preload/passing.h"

#include <stdlib.h>
#include <string.h>

/* The calls that move bytes. Each is: one lookup; libc's call if the descriptor is nothing of ours or its
 * bytes go by TCP; the stream otherwise. */

void __chk_fail(void) __attribute__((noreturn));

/* ---- receiving ---- */

/* Of what a call returned, the bytes it took out of the stream. */
static ssize_t taken(ssize_t n, int flags)
{
	return flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE) ? 0 : n;
}

static ssize_t stream_recv(struct conn *c, struct iovec *iov, size_t n, int flags)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n };

	return raw_result(smc_stream_recv(&c->stream, &msg, flags));
}

#define RECEIVE(fd, flags, plain, fast)                                                            \
	do {                                                                                       \
		struct conn *c = conn_get(fd);                                                     \
		if (__builtin_expect(!c, 1))                                                       \
			return plain;                                                              \
		ssize_t r;                                                                         \
		if (call_enter_rx(c)) {                                                            \
			r = plain;                                                                 \
			call_leave_rx(c, taken(r, flags));                                         \
		} else {                                                                           \
			r = fast;                                                                  \
			if (__builtin_expect(r < 0 && errno == ENOTSOCK, 0) && conn_not_socket(c, fd)) \
				r = plain;                                                         \
		}                                                                                  \
		conn_put(c);                                                                       \
		return r;                                                                          \
	} while (0)

SMC_EXPORT ssize_t recv(int fd, void *buf, size_t n, int flags)
{
	struct iovec iov = { buf, n };

	RECEIVE(fd, flags, real.recv(fd, buf, n, flags), stream_recv(c, &iov, 1, flags));
}

SMC_EXPORT ssize_t __recv_chk(int fd, void *buf, size_t n, size_t size, int flags)
{
	if (n > size)
		__chk_fail();
	return recv(fd, buf, n, flags);
}

SMC_EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	struct iovec iov = { buf, n };

	RECEIVE(fd, 0, real.read(fd, buf, n), stream_recv(c, &iov, 1, 0));
}

SMC_EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
	if (n > size)
		__chk_fail();
	return read(fd, buf, n);
}

/* readv and writev differ from recvmsg and sendmsg in what they say of a bad list */
static ssize_t bad_list(int n)
{
	if (n >= 0 && n <= 1024)
		return 0;
	errno = EINVAL;
	return -1;
}

SMC_EXPORT ssize_t readv(int fd, const struct iovec *iov, int n)
{
	RECEIVE(fd, 0, real.readv(fd, iov, n), bad_list(n) ? -1 : stream_recv(c, (struct iovec *)iov, (size_t)n, 0));
}

static ssize_t recv_from(struct conn *c, void *buf, size_t n, int flags, socklen_t *len)
{
	struct iovec iov = { buf, n };
	ssize_t r = stream_recv(c, &iov, 1, flags);

	if (r >= 0 && len)
		*len = 0; /* as TCP: no address */
	return r;
}

SMC_EXPORT ssize_t recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr, socklen_t *len)
{
	RECEIVE(fd, flags, real.recvfrom(fd, buf, n, flags, addr, len), recv_from(c, buf, n, flags, addr ? len : NULL));
}

SMC_EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t size, int flags, struct sockaddr *addr, socklen_t *len)
{
	if (n > size)
		__chk_fail();
	return recvfrom(fd, buf, n, flags, addr, len);
}

static ssize_t recv_msg(struct conn *c, struct msghdr *msg, int flags)
{
	if (smc_bad_pointer(msg)) {
		errno = EFAULT;
		return -1;
	}
	return raw_result(smc_stream_recv(&c->stream, msg, flags));
}

SMC_EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	RECEIVE(fd, flags, real.recvmsg(fd, msg, flags), recv_msg(c, msg, flags));
}

/* As the kernel: the error of a message after the first is kept for the next call there; here it is simply
 * found again. */
static int recv_many(struct conn *c, struct mmsghdr *msgs, unsigned int n, int flags, struct timespec *timeout)
{
	struct timespec now, end = { 0 };
	unsigned int done = 0;

	if (n && smc_bad_pointer(msgs)) {
		errno = EFAULT;
		return -1;
	}

	if (timeout) {
		clock_gettime(CLOCK_MONOTONIC, &end);
		end.tv_sec += timeout->tv_sec;
		end.tv_nsec += timeout->tv_nsec;
		if (end.tv_nsec >= 1000000000) {
			end.tv_sec++;
			end.tv_nsec -= 1000000000;
		}
	}
	while (done < n) {
		ssize_t r = smc_stream_recv(&c->stream, &msgs[done].msg_hdr, flags & ~MSG_WAITFORONE);
		if (r < 0)
			return done ? (int)done : (int)raw_result(r);
		msgs[done++].msg_len = (unsigned int)r;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (timeout) {
			clock_gettime(CLOCK_MONOTONIC, &now);
			if (now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec))
				break;
		}
	}
	return (int)done;
}

static ssize_t bytes_of(const struct mmsghdr *msgs, int n)
{
	ssize_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += msgs[i].msg_len;
	return sum;
}

SMC_EXPORT int recvmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags, struct timespec *timeout)
{
	struct conn *c = conn_get(fd);
	int r;

	if (!c)
		return real.recvmmsg(fd, msgs, n, flags, timeout);
	if (call_enter_rx(c)) {
		r = real.recvmmsg(fd, msgs, n, flags, timeout);
		call_leave_rx(c, taken(bytes_of(msgs, r), flags));
	} else {
		r = recv_many(c, msgs, n, flags, timeout);
	}
	conn_put(c);
	return r;
}

/* Only offset -1 ("the current one") is legal on a socket; RWF_NOWAIT is the one flag with a meaning there. */
static bool positioned(off64_t offset, int flags)
{
	return offset != -1 || (flags & ~RWF_NOWAIT);
}

SMC_EXPORT ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t offset, int flags)
{
	if (positioned(offset, flags))
		return real.preadv64v2(fd, iov, n, offset, flags);
	RECEIVE(fd, 0, real.preadv64v2(fd, iov, n, offset, flags),
		bad_list(n) ? -1 : stream_recv(c, (struct iovec *)iov, (size_t)n, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0));
}

SMC_EXPORT ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	return preadv64v2(fd, iov, n, offset, flags);
}

/* ---- sending ---- */

static ssize_t stream_send(struct conn *c, const void *iov, size_t n, int flags)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };

	return raw_result(smc_stream_send(&c->stream, &msg, flags));
}

/* Calls only the kernel can serve are known by their flags before anything is sent. */
#define KERNEL_FLAGS (MSG_OOB | MSG_FASTOPEN | MSG_ZEROCOPY)

#define SEND(fd, plain, fast)                                                                      \
	do {                                                                                       \
		struct conn *c = conn_get(fd);                                                     \
		if (__builtin_expect(!c, 1))                                                       \
			return plain;                                                              \
		ssize_t r;                                                                         \
		if (call_enter_tx(c)) {                                                            \
			r = plain;                                                                 \
			call_leave_tx(c, r);                                                       \
		} else {                                                                           \
			r = fast;                                                                  \
			if (__builtin_expect(r < 0 && errno == ENOTSOCK, 0) && conn_not_socket(c, fd)) \
				r = plain;                                                         \
		}                                                                                  \
		conn_put(c);                                                                       \
		return r;                                                                          \
	} while (0)

static void look_at_flags(int fd, int flags)
{
	struct conn *c;

	if (__builtin_expect(!(flags & KERNEL_FLAGS), 1) || !(c = conn_get(fd)))
		return;
	conn_keep_tcp(c, flags & MSG_OOB ? SMC_REASON_OOB : SMC_REASON_KERNEL_CALL);
	conn_put(c);
}

SMC_EXPORT ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	struct iovec iov = { (void *)buf, n };

	look_at_flags(fd, flags);
	SEND(fd, real.send(fd, buf, n, flags), stream_send(c, &iov, 1, flags));
}

SMC_EXPORT ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr, socklen_t len)
{
	struct iovec iov = { (void *)buf, n };

	look_at_flags(fd, flags);
	SEND(fd, real.sendto(fd, buf, n, flags, addr, len), stream_send(c, &iov, 1, flags));
}

SMC_EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	struct iovec iov = { (void *)buf, n };

	SEND(fd, real.write(fd, buf, n), stream_send(c, &iov, 1, 0));
}

SMC_EXPORT ssize_t writev(int fd, const struct iovec *iov, int n)
{
	SEND(fd, real.writev(fd, iov, n), bad_list(n) ? -1 : stream_send(c, iov, (size_t)n, 0));
}

SMC_EXPORT ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t offset, int flags)
{
	if (positioned(offset, flags))
		return real.pwritev64v2(fd, iov, n, offset, flags);
	SEND(fd, real.pwritev64v2(fd, iov, n, offset, flags),
	     bad_list(n) ? -1 : stream_send(c, iov, (size_t)n, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0));
}

SMC_EXPORT ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	return pwritev64v2(fd, iov, n, offset, flags);
}

static ssize_t send_msg(struct conn *c, const struct msghdr *msg, int flags)
{
	if (smc_bad_pointer(msg)) {
		errno = EFAULT;
		return -1;
	}
	return raw_result(smc_stream_send(&c->stream, msg, flags));
}

SMC_EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	look_at_flags(fd, flags);
	if (!smc_bad_pointer(msg) && msg->msg_control && msg->msg_controllen)
		passing_look(msg);
	SEND(fd, real.sendmsg(fd, msg, flags), send_msg(c, msg, flags));
}

static int send_many(struct conn *c, struct mmsghdr *msgs, unsigned int n, int flags)
{
	unsigned int done = 0;

	if (n && smc_bad_pointer(msgs)) {
		errno = EFAULT;
		return -1;
	}
	for (; done < n && done < 1024; done++) {
		ssize_t r = smc_stream_send(&c->stream, &msgs[done].msg_hdr, flags);
		if (r < 0)
			return done ? (int)done : (int)raw_result(r);
		msgs[done].msg_len = (unsigned int)r;
	}
	return (int)done;
}

SMC_EXPORT int sendmmsg(int fd, struct mmsghdr *msgs, unsigned int n, int flags)
{
	struct conn *c;
	int r;

	look_at_flags(fd, flags);
	for (unsigned int i = 0; !smc_bad_pointer(msgs) && i < n && i < 1024; i++)
		if (msgs[i].msg_hdr.msg_control && msgs[i].msg_hdr.msg_controllen)
			passing_look(&msgs[i].msg_hdr);
	if (!(c = conn_get(fd)))
		return real.sendmmsg(fd, msgs, n, flags);
	if (call_enter_tx(c)) {
		r = real.sendmmsg(fd, msgs, n, flags);
		call_leave_tx(c, bytes_of(msgs, r));
	} else {
		r = send_many(c, msgs, n, flags);
	}
	conn_put(c);
	return r;
}
