/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/call.h"
#include "core/sys.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>

/* Socket options and ioctls: the kernel serves all; what the stream must know is told to it, and the few
 * answers that depend on where bytes are are corrected. */

#ifndef TCP_ULP
#define TCP_ULP 31
#endif
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#endif

#ifndef TCP_INQ
#define TCP_INQ 36
#endif

static uint64_t timeval_ns(const void *value, socklen_t len)
{
	struct timeval t = { 0 };

	memcpy(&t, value, len < sizeof(t) ? len : sizeof(t));
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

static int int_value(const void *value, socklen_t len)
{
	int v = 0;

	memcpy(&v, value, len < sizeof(v) ? len : sizeof(v));
	return v;
}

static void socket_option(struct conn *c, int name, const void *value, socklen_t len)
{
	struct smc_end *end = c->stream.end;
	int v = int_value(value, len);

	switch (name) {
	case SO_SNDBUF:
	case SO_SNDBUFFORCE:
		c->want_sndbuf = v > 0 ? (uint32_t)v : 0;
		break;
	case SO_RCVBUF:
	case SO_RCVBUFFORCE:
		c->want_rcvbuf = v > 0 ? (uint32_t)v : 0;
		break;
	case SO_RCVTIMEO:
		if (end)
			atomic_store(&end->rcvtimeo_ns, timeval_ns(value, len));
		break;
	case SO_SNDTIMEO:
		if (end)
			atomic_store(&end->sndtimeo_ns, timeval_ns(value, len));
		break;
	case SO_RCVLOWAT:
		if (end)
			atomic_store(&end->rcvlowat, v < 0 ? INT32_MAX : (uint32_t)v);
		break;
	case SO_PEEK_OFF:
		if (v >= 0)
			conn_keep_tcp(c, SMC_REASON_SOCKOPT);
		break;
	case SO_OOBINLINE:
	case SO_ZEROCOPY:
	case SO_TIMESTAMP:
	case SO_TIMESTAMPNS:
	case SO_TIMESTAMPING:
		if (v)
			conn_keep_tcp(c, SMC_REASON_SOCKOPT);
		break;
	}
}

static void tcp_option(struct conn *c, int name, const void *value, socklen_t len)
{
	switch (name) {
	case TCP_CORK:
		if (c->stream.end)
			atomic_store(&c->stream.end->corked, int_value(value, len) != 0);
		break;
	case TCP_INQ:
	case TCP_REPAIR:
	case TCP_ULP:
	case TCP_MD5SIG:
		conn_keep_tcp(c, SMC_REASON_SOCKOPT);
		break;
	}
}

SMC_EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	struct conn *c = conn_get(fd);
	int r;

	if (!c)
		return real.setsockopt(fd, level, name, value, len);
	/* before: the kernel must have all bytes when it takes over */
	if (level == IPPROTO_TCP && value && name != TCP_CORK)
		tcp_option(c, name, value, len);
	r = real.setsockopt(fd, level, name, value, len);
	int saved = errno;
	if (!r && level == SOL_SOCKET && value)
		socket_option(c, name, value, len);
	else if (!r && level == IPPROTO_TCP && name == TCP_CORK && value)
		tcp_option(c, name, value, len);
	errno = saved;
	conn_put(c);
	return r;
}

SMC_EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	return real.getsockopt(fd, level, name, value, len);
}

static int queue_length(struct conn *c, unsigned long request, int r, int *value)
{
	if (r < 0 || !conn_attached(c) || !value)
		return r;
	if (request == FIONREAD)
		*value = (int)smc_stream_unread(&c->stream);
	else if (request == SIOCOUTQ)
		*value = (int)smc_stream_unsent(&c->stream);
	return r;
}

SMC_EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	struct conn *c;
	int r;

	va_start(args, request);
	void *arg = va_arg(args, void *);
	va_end(args);
	if (__builtin_expect(!(c = conn_get(fd)), 1))
		return real.ioctl(fd, request, arg);
	r = real.ioctl(fd, request, arg);
	int saved = errno;
	if (request == FIONREAD || request == SIOCOUTQ)
		r = queue_length(c, request, r, arg);
	else if (!r && request == FIONBIO && c->stream.end)
		atomic_store(&c->stream.end->nonblock, *(int *)arg != 0);
	else if (!r && request == FIOASYNC && *(int *)arg)
		conn_keep_tcp(c, SMC_REASON_ASYNC);
	errno = saved;
	conn_put(c);
	return r;
}
