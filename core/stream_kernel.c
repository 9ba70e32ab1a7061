/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/stream_internal.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>

/* What the kernel says of the TCP connection. */

/* tcpi_state, kernel ABI (include/net/tcp_states.h); netinet/tcp.h has them but clashes with linux/tcp.h */
enum { TCP_ESTABLISHED = 1, TCP_TIME_WAIT = 6, TCP_CLOSE = 7, TCP_CLOSE_WAIT = 8, TCP_LAST_ACK = 9, TCP_CLOSING = 11 };

int smc_stream_option(int fd, int level, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);

	return smc_sys.getsockopt(fd, level, name, &value, &len) < 0 ? 0 : value;
}

static int tcp_info(int fd, struct tcp_info *info)
{
	socklen_t len = sizeof(*info);
	int r = smc_sys.getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len);

	if (r < 0)
		return r;
	/* the counters came with Linux 4.1 and 4.6 */
	return len >= offsetof(struct tcp_info, tcpi_notsent_bytes) + sizeof(info->tcpi_notsent_bytes) ? 0 : -ENOSYS;
}

int smc_stream_tcp_written(const struct smc_stream *s, uint64_t *offset, bool *held_back)
{
	struct tcp_info before, after = { 0 };
	int queued, r;

	/* acknowledged + still queued; the acknowledgements must not move between the two questions */
	r = tcp_info(s->fd, &before);
	for (int i = 0; i < 16 && !r; i++) {
		if ((r = smc_sys.ioctl(s->fd, SIOCOUTQ, &queued)) < 0 || (r = tcp_info(s->fd, &after)) < 0)
			break;
		if (before.tcpi_bytes_acked == after.tcpi_bytes_acked) {
			if (after.tcpi_state != TCP_ESTABLISHED)
				return -ENOTCONN;
			*offset = after.tcpi_bytes_acked + (uint64_t)queued - s->connector;
			*held_back = after.tcpi_notsent_bytes != 0;
			return 0;
		}
		before = after;
	}
	return r < 0 ? r : -EAGAIN;
}

int smc_stream_tcp_read(int fd, uint64_t *offset)
{
	struct tcp_info before, after = { 0 };
	int queued, r;

	r = tcp_info(fd, &before);
	for (int i = 0; i < 16 && !r; i++) {
		if ((r = smc_sys.ioctl(fd, SIOCINQ, &queued)) < 0 || (r = tcp_info(fd, &after)) < 0)
			break;
		if (before.tcpi_bytes_received == after.tcpi_bytes_received) {
			/* a FIN would be counted too */
			if (after.tcpi_state != TCP_ESTABLISHED)
				return -ENOTCONN;
			*offset = after.tcpi_bytes_received - (uint64_t)queued;
			return 0;
		}
		before = after;
	}
	return r < 0 ? r : -EAGAIN;
}

bool smc_stream_fin(struct smc_stream *s)
{
	struct tcp_info info;

	if (tcp_info(s->fd, &info))
		return true;
	switch (info.tcpi_state) {
	case TCP_CLOSE:
	case TCP_CLOSE_WAIT:
	case TCP_CLOSING:
	case TCP_LAST_ACK:
	case TCP_TIME_WAIT:
		return true;
	}
	return false;
}
