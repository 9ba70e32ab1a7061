/* SPDX-License-Identifier: BSD-2-Clause */
#undef NDEBUG /* its asserts are the test */
#include "tests/unit/desk.h"
#include "core/sys.h"
#include "preload/epoll.h"
#include "preload/link.h"
#include "preload/process.h"
#include "preload/raw.h"
#include "preload/service.h"
#include "preload/start.h"
#include "transport/shm/segment.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { PAIRS = 512, RING = 16384 };

struct desk_pair {
	struct conn end[2];
	struct smc_end shared[2];
	struct smc_stats_slot stats[2];
	struct shm_segment *segment;
};

static struct desk_pair *pairs;
static unsigned count;
static struct shm_pool pool;
static struct shm_attention *attention;
static struct shm_status *status;
static int bell = -1;

static void open_desk(void)
{
	if (pairs)
		return;
	start_once();
	pairs = aligned_alloc(SHM_LINE, PAIRS * ((sizeof(*pairs) + SHM_LINE - 1) / SHM_LINE * SHM_LINE));
	attention = aligned_alloc(SHM_LINE, sizeof(*attention));
	status = aligned_alloc(SHM_LINE, sizeof(*status));
	assert(pairs && attention && status);
	memset(pairs, 0, PAIRS * sizeof(*pairs));
	memset(attention, 0, sizeof(*attention));
	memset(status, 0, sizeof(*status));
	bell = fdtable_make_internal(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	assert(bell >= 0);
}

static void connect_ends(int fd[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	assert(!bind(listener, (struct sockaddr *)&a, len) && !getsockname(listener, (struct sockaddr *)&a, &len));
	assert(!listen(listener, 1));
	fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert(connect(fd[0], (struct sockaddr *)&a, len) == 0 || errno == EINPROGRESS);
	fd[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	assert(fd[0] >= 0 && fd[1] >= 0);
	close(listener);
}

void desk_pair(struct conn *ends[2])
{
	int fd[2], memfd;

	open_desk();
	assert(count < PAIRS);
	struct desk_pair *p = &pairs[count];
	connect_ends(fd);
	p->segment = shm_segment_get(&pool, RING, RING, &memfd);
	assert(p->segment);
	if (memfd >= 0)
		close(memfd);
	for (unsigned i = 0; i < 2; i++) {
		struct conn *c = &p->end[i];
		*c = (struct conn){ .object.type = FD_CONN, .refs = 1, .nfds = 1, .state = CONN_ASKED };
		c->stream.fd = fd[i];
		c->stream.end = &p->shared[i];
		c->stream.stats = &p->stats[i];
		c->stream.connector = i == 0;
		p->shared[i].holders = 1;
		/* rings for the other end: in the same process, so in the same page of attention bits */
		struct shm_peer_bell peer = { attention, status, bell, count * 2 + !i };
		shm_channel_init(&c->channel, p->segment, i, &peer);
		fdtable_set(fd[i], &c->object, NULL);
		ends[i] = c;
	}
	count++;
}

bool desk_attach(struct conn *c)
{
	smc_lock(&c->lock);
	bool may = epoll_conn_attach(c);
	if (may) {
		assert(!smc_stream_attach(&c->stream, &c->channel.base));
		smc_stream_promise(&c->stream, true); /* as at the end of a read */
		c->state = CONN_ATTACHED;
	} else {
		c->state = CONN_PLAIN;
	}
	smc_unlock(&c->lock);
	return may;
}

ssize_t desk_put(struct conn *c, const void *data, size_t n)
{
	struct iovec iov = { (void *)(uintptr_t)data, n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (!conn_attached(c)) {
		ssize_t r = write(c->stream.fd, data, n);
		if (r > 0)
			c->stream.end->tcp_written += (uint64_t)r;
		return r;
	}
	return raw_result(smc_stream_send(&c->stream, &msg, MSG_NOSIGNAL));
}

ssize_t desk_get(struct conn *c, void *data, size_t n)
{
	struct iovec iov = { data, n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (!conn_attached(c))
		return read(c->stream.fd, data, n);
	return raw_result(smc_stream_recv(&c->stream, &msg, 0));
}

void desk_up(struct conn *ends[2])
{
	char byte;

	assert(desk_attach(ends[0]) && desk_attach(ends[1]));
	for (int i = 0; i < 2; i++) {
		assert(desk_put(ends[i], "u", 1) == 1);
		while (desk_get(ends[!i], &byte, 1) != 1)
			;
		assert(ends[i]->stream.end->tx_mode == SMC_TX_FAST && ends[!i]->stream.end->rx_mode == SMC_RX_FAST);
	}
}

void desk_close(struct conn *c)
{
	int fd = c->stream.fd;

	fdtable_set(fd, NULL, NULL);
	conn_ref(c);
	epoll_conn_closing(c, fd, true);
	if (conn_attached(c))
		smc_stream_close(&c->stream);
	close(fd);
	conn_put(c);
	conn_put(c);
}

/* ---- what preload/conn.c, link.c, service.c and process.c are for the code under test ---- */

struct conn *conn_get(int fd)
{
	struct conn *c = conn_of(fdtable_get(fd));

	if (c)
		conn_ref(c);
	return c;
}

void conn_ref(struct conn *c)
{
	atomic_fetch_add(&c->refs, 1);
}

void conn_put(struct conn *c)
{
	assert(atomic_fetch_sub(&c->refs, 1) > 0);
}

void conn_stale(struct fd_object *stale, int fd)
{
	(void)stale;
	(void)fd;
}

void link_asleep(void)
{
	atomic_fetch_add(&status->asleep, 1);
}

void link_awake(void)
{
	atomic_fetch_sub(&status->asleep, 1);
}

unsigned link_bell_fds(int fds[LINK_BELLS], unsigned *generation)
{
	*generation = bell >= 0;
	fds[0] = bell;
	return bell >= 0;
}

bool link_attention(void)
{
	return attention && shm_attention_any(attention);
}

static void found(void *context, uint32_t slot)
{
	(void)context;
	if (conn_attached(&pairs[slot / 2].end[slot % 2]))
		epoll_conn_activity(&pairs[slot / 2].end[slot % 2]);
}

void link_harvest(void)
{
	shm_attention_harvest(attention, found, NULL);
}

void service_adopt(struct conn *c)
{
	(void)c;
}

void start_once(void)
{
	raw_fill_sys();
}

bool process_is_own(void)
{
	return true;
}
