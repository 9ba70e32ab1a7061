/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/addr.h"
#include "preload/call.h"
#include "preload/process.h"

#include <netinet/in.h>

/* The life of a socket up to its being connected, and shutdown. bind and listen need nothing but to be in the
 * list: the rendezvous starts from the connection, never from the listener. */

static bool is_tcp(int domain, int type, int protocol)
{
	return (domain == AF_INET || domain == AF_INET6) && (type & 0xf) == SOCK_STREAM &&
	       (protocol == 0 || protocol == IPPROTO_TCP);
}

SMC_EXPORT int socket(int domain, int type, int protocol)
{
	int fd = real.socket(domain, type, protocol);

	if (fd >= 0 && is_tcp(domain, type, protocol) && process_is_own())
		conn_new(fd);
	return fd;
}

SMC_EXPORT int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	return real.bind(fd, addr, len);
}

SMC_EXPORT int listen(int fd, int backlog)
{
	return real.listen(fd, backlog);
}

SMC_EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct conn *c = conn_get(fd);
	int r, saved;

	if (!c)
		return real.connect(fd, addr, len);
	if (addr && len >= sizeof(sa_family_t) && addr->sa_family == AF_UNSPEC)
		conn_keep_tcp(c, SMC_REASON_KERNEL_CALL); /* disconnects: the stream starts anew */
	r = real.connect(fd, addr, len);
	saved = errno;
	if (!r || saved == EINPROGRESS || saved == EINTR)
		conn_connecting(c, addr, len);
	conn_put(c);
	errno = saved;
	return r;
}

/* A listener may have come from another program (socket activation): then the new socket itself is asked. */
static bool accepted_is_tcp(int fd, const struct sockaddr *addr, socklen_t len)
{
	int protocol = 0;
	socklen_t n = sizeof(protocol);

	if (len < sizeof(sa_family_t) || (addr->sa_family != AF_INET && addr->sa_family != AF_INET6))
		return false;
	return !raw_call5(SYS_getsockopt, fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &n) && protocol == IPPROTO_TCP;
}

static void accepted(int listener, int fd, const struct sockaddr *addr, socklen_t len)
{
	int saved = errno;

	if ((conn_of(fdtable_get(listener)) || accepted_is_tcp(fd, addr, len)) && process_is_own())
		conn_accepted(fd, addr, len);
	errno = saved;
}

/* The address is wanted by us too, so the kernel writes it where both can read it. */
#define ACCEPT(fd, addr, len, call)                                                                \
	do {                                                                                       \
		struct sockaddr_storage own;                                                       \
		socklen_t own_len = sizeof(own), size = (addr) && (len) ? *(len) : 0;              \
		struct sockaddr *a = (addr);                                                       \
		socklen_t *l = (len);                                                              \
		if (!a || size < sizeof(struct sockaddr_in6)) {                                    \
			if (a) { /* too short for us, or odd: the application's business */        \
				int r = (call);                                                    \
				if (r >= 0)                                                        \
					accepted(fd, r, NULL, 0);                                  \
				return r;                                                          \
			}                                                                          \
			a = (struct sockaddr *)&own;                                               \
			l = &own_len;                                                              \
		}                                                                                  \
		int r = (call);                                                                    \
		if (r >= 0)                                                                        \
			accepted(fd, r, a, *l);                                                    \
		return r;                                                                          \
	} while (0)

SMC_EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	ACCEPT(fd, addr, len, real.accept(fd, a, l));
}

SMC_EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	ACCEPT(fd, addr, len, real.accept4(fd, a, l, flags));
}

SMC_EXPORT int shutdown(int fd, int how)
{
	struct conn *c = conn_get(fd);
	int r;

	if (!c)
		return real.shutdown(fd, how);
	if (how == SHUT_RD || how == SHUT_WR || how == SHUT_RDWR) {
		conn_not_begun(c, SMC_REASON_SHUTDOWN);
		smc_stream_shutdown(&c->stream, how);
	}
	r = real.shutdown(fd, how);
	if (conn_attached(c)) {
		int saved = errno;
		smc_stream_tcp_event(&c->stream); /* who sleeps on the channel must look too */
		errno = saved;
	}
	conn_put(c);
	return r;
}
