/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clock.h"
#include "core/config.h"
#include "core/log.h"
#include "core/sys.h"
#include "preload/addr.h"
#include "preload/epoll.h"
#include "preload/process.h"
#include "preload/raw.h"
#include "preload/service_internal.h"

#include <netinet/in.h>

/*
 * Attaching: both ends of a connection set up the same segment. The connecting end offers, over a link or to
 * itself; the accepting end checks by its own means that it holds the other end, sets up, and accepts.
 */

static int cookie_of(int fd, uint64_t *cookie)
{
	socklen_t len = sizeof(*cookie);

	return smc_sys.getsockopt(fd, SOL_SOCKET, SO_COOKIE, cookie, &len);
}

/* With c->lock: everything that must hold for a connection of this process to attach. */
static enum smc_reason may_attach(struct conn *c, uint64_t cookie)
{
	uint64_t own;

	if (!c->nfds || (c->state != CONN_ASKED && c->state != CONN_CANDIDATE))
		return SMC_REASON_SHUTDOWN;
	if (cookie_of(c->stream.fd, &own) < 0 || own != cookie)
		return SMC_REASON_NOT_TCP; /* the number is another socket by now */
	if (c->stream.end->foreign)
		return (enum smc_reason)c->stream.end->foreign;
	if (c->stream.end->holders != 1)
		return SMC_REASON_SHARED;
	conn_fill_addresses(c);
	if (!c->stream.connector && addr_redirected(c->stream.fd, &c->local))
		return SMC_REASON_NOT_LOCAL;
	return SMC_REASON_NONE;
}

/* Sets up the connection of this end. On failure it keeps its state, and the segment is not taken over. */
static enum smc_reason attach(struct conn *c, uint64_t cookie, struct link *l, uint32_t slot, uint32_t bell_slot,
			      struct shm_segment *segment, unsigned side)
{
	struct shm_peer_bell bell = link_bell_for(l, bell_slot);

	smc_lock(&c->lock);
	enum smc_reason reason = may_attach(c, cookie);
	if (reason == SMC_REASON_NONE) {
		shm_channel_init(&c->channel, segment, side, &bell);
		link_enter(l, slot, c);
		/* whoever waits for the connection hears the bell before its bytes stop coming by TCP */
		if (!epoll_conn_attach(c))
			reason = SMC_REASON_EPOLL_EXCLUSIVE;
		else if (conn_attach(c))
			reason = SMC_REASON_NOT_TCP;
		if (reason != SMC_REASON_NONE)
			link_detach(c);
	}
	if (reason == SMC_REASON_NONE)
		service_watch(c->stream.fd, EPOLLIN | EPOLLRDHUP | EPOLLET, WATCH_CONN, c);
	smc_unlock(&c->lock);
	return reason;
}

static void log_attached(struct conn *c, const char *how)
{
	char local[SMC_ADDR_TEXT], remote[SMC_ADDR_TEXT];

	if (!smc_log_level)
		return;
	addr_text(&c->local, local);
	addr_text(&c->remote, remote);
	smc_log(1, "attached fd=%d local=%s remote=%s by=%s slot=%u", c->stream.fd, local, remote, how, c->slot);
}

static uint32_t ring_for(uint32_t wish, uint32_t configured)
{
	return wish ? smc_config_ring_size(wish) : configured;
}

/* ---- the one who offers ---- */

static enum smc_reason no_segment(int error)
{
	switch (-error) {
	case EMFILE:
	case ENFILE:
		return SMC_REASON_NO_FDS;
	case ENOMEM:
	case ENOSPC:
		return SMC_REASON_NO_MEMORY;
	}
	return SMC_REASON_NO_MEMFD;
}

enum smc_reason attach_offer(struct task *t, struct link *l)
{
	struct rv_msg m = rv_make(RV_OFFER);
	int fd;

	t->link = l;
	t->deadline = smc_now_ns() + UINT64_C(2000000000);
	if (l->offered >= OFFERS_MAX) {
		t->state = TASK_LINKING;
		return SMC_REASON_NONE;
	}
	m.client = t->client;
	m.server = t->server;
	m.client_cookie = t->cookie;
	m.server_cookie = t->peer_cookie;
	m.ring_out = ring_for(t->c->want_sndbuf, smc_config.sndbuf);
	m.ring_in = ring_for(t->c->want_rcvbuf, smc_config.rcvbuf);
	if (!link_take_slot(l, &m.slot))
		return SMC_REASON_LINK_FULL;
	t->segment = shm_segment_get(&l->ours, m.ring_out, m.ring_in, &fd);
	if (!t->segment)
		return no_segment(fd);
	m.segment = t->segment->id;
	int r = rv_send(l->sock, &m, &fd, fd >= 0);
	if (fd >= 0)
		smc_sys.close(fd);
	l->offered++;
	t->slot = m.slot;
	t->state = TASK_OFFERED;
	if (r) /* the link is broken: overdue at once, which ends it and all that waits on it */
		t->deadline = 0;
	return SMC_REASON_NONE;
}

void attach_answered(struct link *l, const struct rv_msg *m)
{
	struct task *t = meet_offered(l, m->slot);

	if (t)
		l->offered--;
	if (!t)
		return; /* the connection ended meanwhile */
	if (m->type == RV_DECLINE) {
		if (m->reason != SMC_REASON_NO_MEMORY) /* else the other end does not have it: it is not offered again */
			shm_segment_cancel(t->segment);
		meet_declined(t, (enum smc_reason)m->reason);
		return;
	}
	enum smc_reason reason = attach(t->c, t->cookie, l, t->slot, t->slot, t->segment, 0);
	if (reason == SMC_REASON_NONE) {
		l->served = t->server;
		log_attached(t->c, "offer");
	} else {
		shm_segment_release(t->segment, 0); /* the other end has it until it closes */
	}
	meet_end(t, reason);
}

/* ---- the one who is offered ---- */

struct search {
	const struct rv_msg *m;
	struct conn *found;
};

static void compare(void *context, struct conn *c)
{
	struct search *s = context;

	if (s->found)
		return;
	smc_lock(&c->lock);
	bool candidate = c->nfds && c->stream.end && !c->stream.connector && rv_same_addr(&c->remote, &s->m->client);
	if (candidate)
		conn_fill_addresses(c);
	if (candidate && rv_same_addr(&c->local, &s->m->server)) {
		conn_ref(c);
		s->found = c;
	}
	smc_unlock(&c->lock);
}

static enum smc_reason take_offer(struct link *l, const struct rv_msg *m, struct shm_segment *segment, struct conn *c)
{
	struct diag_socket peer;

	if (diag_find(&m->client, &m->server, &peer))
		return SMC_REASON_NOT_LOCAL;
	if (peer.uid != l->uid)
		return SMC_REASON_PEER_UID;
	if (peer.cookie != m->client_cookie)
		return SMC_REASON_PEER_PROTOCOL;
	/* its half of the slots, and free here too */
	if (m->slot >= SHM_LINK_SLOTS || (m->slot & 1) == l->side || atomic_load(&l->conns[m->slot]))
		return SMC_REASON_LINK_FULL;
	return attach(c, m->server_cookie, l, m->slot, m->slot, segment, 1);
}

bool attach_offered(struct link *l, const struct rv_msg *m, int fd)
{
	struct search s = { m, NULL };
	struct rv_msg answer = rv_make(RV_ACCEPT);
	enum smc_reason reason = SMC_REASON_PEER_DECLINED;

	/* whatever becomes of the offer, the segment is known from now on: the next one may name it without sending it */
	struct shm_segment *segment = shm_segment_adopt(&l->theirs, m->segment, m->ring_out, m->ring_in, fd);
	if (!segment)
		reason = SMC_REASON_NO_MEMORY;
	else
		conn_each(compare, &s);
	if (s.found)
		reason = take_offer(l, m, segment, s.found);
	answer.slot = m->slot;
	if (reason != SMC_REASON_NONE) {
		answer.type = RV_DECLINE;
		answer.reason = reason;
	}
	bool sent = !rv_send(l->sock, &answer, NULL, 0);
	if (!s.found) {
		smc_log(1, "offer slot=%u declined reason=%u: no such connection, or no memory", m->slot, reason);
		return sent;
	}
	if (reason == SMC_REASON_NONE) {
		log_attached(s.found, "offered");
		struct task *t = meet_task(s.found);
		if (t)
			meet_end(t, SMC_REASON_NONE);
	} else {
		smc_log(1, "offer slot=%u declined reason=%u", m->slot, reason);
	}
	conn_put(s.found);
	return sent;
}

void attach_left(struct link *l, const struct rv_msg *m)
{
	struct conn *c = link_conn(l, m->slot);

	if (!c)
		return;
	service_owes(c);
	conn_put(c);
}

/* ---- both ends in this process ---- */

enum smc_reason attach_self(struct task *t, struct conn *connector, struct conn *acceptor)
{
	uint64_t cookie = t->connector ? t->cookie : t->peer_cookie, other_cookie = t->connector ? t->peer_cookie : t->cookie;
	enum smc_reason reason = SMC_REASON_NONE;
	struct link *l = link_self(&reason);
	uint32_t slot;
	int fd;

	if (!l)
		return reason;
	if (!link_take_slot(l, &slot))
		return SMC_REASON_LINK_FULL;
	struct shm_segment *segment = shm_segment_get(&l->ours, ring_for(connector->want_sndbuf, smc_config.sndbuf),
						      ring_for(connector->want_rcvbuf, smc_config.rcvbuf), &fd);
	if (!segment)
		return no_segment(fd);
	if (fd >= 0)
		smc_sys.close(fd);
	/* each rings the bit of the other's slot */
	reason = attach(acceptor, other_cookie, l, slot + 1, slot, segment, 1);
	if (reason != SMC_REASON_NONE) {
		shm_segment_cancel(segment);
		return reason;
	}
	log_attached(acceptor, "self");
	reason = attach(connector, cookie, l, slot, slot + 1, segment, 0);
	if (reason != SMC_REASON_NONE)
		shm_segment_release(segment, 0);
	else
		log_attached(connector, "self");
	return reason;
}
