/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clock.h"
#include "core/log.h"
#include "core/sys.h"
#include "preload/addr.h"
#include "preload/process.h"
#include "preload/raw.h"
#include "preload/service_internal.h"
#include "transport/shm/bell.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/un.h>

/*
 * How the two ends of a connection meet: see core/rendezvous.h for the messages. A task is one connection on its
 * way; a guest is somebody who connected to a name of ours and has not said HELLO yet.
 */

#define MS UINT64_C(1000000)
#define WHOLE (5000 * MS)     /* for all of it: then the other end is silent */
#define ANSWER (2000 * MS)    /* for one answer */
enum { GUESTS_MAX = 64, BACKOFF_MAX_MS = 256 };

struct guest {
	int sock; /* -1: free */
	struct task *task;
	uint64_t deadline;
};

static struct task *tasks;
static struct guest guests[GUESTS_MAX];
static bool guests_ready;

static void count_refused(void)
{
	if (shm_totals)
		atomic_fetch_add_explicit(&shm_totals->refused, 1, memory_order_relaxed);
}

/* ---- tasks ---- */

static void close_socket(struct task *t)
{
	fdtable_close_internal(t->sock);
	t->sock = -1;
	for (int i = 0; i < GUESTS_MAX; i++)
		if (guests_ready && guests[i].task == t && guests[i].sock >= 0) {
			fdtable_close_internal(guests[i].sock);
			guests[i].sock = -1;
		}
}

/* May pass: the next use of the connection tries again. */
static bool may_pass(enum smc_reason reason)
{
	return reason == SMC_REASON_PEER_SILENT || reason == SMC_REASON_PEER_DECLINED || reason == SMC_REASON_SHARED ||
	       reason == SMC_REASON_NO_FDS || reason == SMC_REASON_NO_MEMORY || reason == SMC_REASON_LINK_FULL;
}

static void settle(struct conn *c, enum smc_reason reason)
{
	smc_lock(&c->lock);
	if (c->state == CONN_ASKED && c->nfds) {
		atomic_store(&c->stream.stats->reason, reason);
		if (may_pass(reason))
			conn_postpone(c);
		else
			atomic_store(&c->state, CONN_PLAIN);
	}
	smc_unlock(&c->lock);
}

void meet_end(struct task *t, enum smc_reason reason)
{
	close_socket(t);
	for (struct task **p = &tasks; *p; p = &(*p)->next)
		if (*p == t) {
			*p = t->next;
			break;
		}
	if (reason != SMC_REASON_NONE) {
		settle(t->c, reason);
		smc_log(1, "not attached fd=%d reason=%u", t->c->stream.fd, reason);
	}
	conn_put(t->c);
	free(t);
}

struct task *meet_task(struct conn *c)
{
	for (struct task *t = tasks; t; t = t->next)
		if (t->c == c)
			return t;
	return NULL;
}

/* An event may be about a task that an earlier event of the same batch ended. */
static bool is_task(const struct task *t)
{
	for (const struct task *k = tasks; k; k = k->next)
		if (k == t)
			return true;
	return false;
}

struct task *meet_offered(struct link *l, uint32_t slot)
{
	for (struct task *t = tasks; t; t = t->next)
		if (t->state == TASK_OFFERED && t->link == l && t->slot == slot)
			return t;
	return NULL;
}

/* ---- at the name ---- */

static socklen_t name_of(struct task *t, struct sockaddr_un *name)
{
	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + rv_name(&t->client, &t->server, name->sun_path + 1));
}

static int unix_socket(void)
{
	int fd = (int)raw_call3(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? fd : fdtable_make_internal(fd);
}

static enum smc_reason no_socket(int error)
{
	return error == -EMFILE || error == -ENFILE ? SMC_REASON_NO_FDS : SMC_REASON_NO_RENDEZVOUS;
}

static void listen_at_name(struct task *t)
{
	struct sockaddr_un name;
	socklen_t len = name_of(t, &name);

	t->by_name = true;
	t->state = TASK_NAMED;
	t->deadline = t->give_up;
	t->sock = unix_socket();
	if (t->sock < 0) {
		meet_end(t, no_socket(t->sock));
		return;
	}
	long r = raw_call3(SYS_bind, t->sock, &name, len);
	if (!r)
		r = raw_call3(SYS_listen, t->sock, 4, 0);
	if (!r)
		r = service_watch(t->sock, EPOLLIN, WATCH_NAME, t);
	if (r)
		meet_end(t, r == -EADDRINUSE ? SMC_REASON_PEER_PROTOCOL : SMC_REASON_NO_RENDEZVOUS);
}

static void call_name(struct task *t)
{
	struct sockaddr_un name;
	socklen_t len = name_of(t, &name);
	struct rv_msg hello = rv_make(RV_HELLO);
	struct ucred who;
	socklen_t size = sizeof(who);

	if (t->sock < 0 && (t->sock = unix_socket()) < 0) {
		meet_end(t, no_socket(t->sock));
		return;
	}
	if (raw_call3(SYS_connect, t->sock, &name, len)) {
		/* not there yet, or its queue is full */
		t->deadline = smc_now_ns() + t->backoff_ms * MS;
		t->backoff_ms = t->backoff_ms < BACKOFF_MAX_MS ? t->backoff_ms * 2 : BACKOFF_MAX_MS;
		return;
	}
	if (smc_sys.getsockopt(t->sock, SOL_SOCKET, SO_PEERCRED, &who, &size) || who.uid != t->peer_uid) {
		count_refused();
		meet_end(t, SMC_REASON_PEER_UID);
		return;
	}
	hello.client = t->client;
	hello.server = t->server;
	hello.client_cookie = t->peer_cookie;
	hello.server_cookie = t->cookie;
	memcpy(hello.token, service_token(), RV_TOKEN);
	if (rv_send(t->sock, &hello, NULL, 0) || service_watch(t->sock, EPOLLIN, WATCH_CALL, t)) {
		meet_end(t, SMC_REASON_PEER_SILENT);
		return;
	}
	t->state = TASK_GREETED;
	t->deadline = smc_now_ns() + ANSWER;
}

/* ---- connector: somebody came ---- */

void meet_name_event(struct task *t)
{
	if (!is_task(t) || t->state != TASK_NAMED)
		return;
	int fd = (int)raw_call4(SYS_accept4, t->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0 || (fd = fdtable_make_internal(fd)) < 0)
		return;
	if (!guests_ready) {
		for (int i = 0; i < GUESTS_MAX; i++)
			guests[i].sock = -1;
		guests_ready = true;
	}
	for (int i = 0; i < GUESTS_MAX; i++) {
		struct guest *g = &guests[i];
		if (g->sock >= 0)
			continue;
		*g = (struct guest){ .sock = fd, .task = t, .deadline = smc_now_ns() + ANSWER };
		if (!service_watch(fd, EPOLLIN, WATCH_GUEST, g))
			return;
		g->sock = -1;
		break;
	}
	fdtable_close_internal(fd);
}

/* Is it the process that holds the other end of the connection? Only the kernel is asked. */
static bool guest_is_right(struct guest *g, const struct rv_msg *hello, uint32_t *uid)
{
	struct task *t = g->task;
	struct diag_socket peer;
	struct ucred who;
	socklen_t size = sizeof(who);

	if (hello->type != RV_HELLO || !rv_same_addr(&hello->client, &t->client) || !rv_same_addr(&hello->server, &t->server) ||
	    hello->client_cookie != t->cookie || smc_sys.getsockopt(g->sock, SOL_SOCKET, SO_PEERCRED, &who, &size))
		return false;
	/* asked again: before it was accepted, nobody held it */
	if (diag_find(&t->server, &t->client, &peer))
		return false;
	t->peer_cookie = peer.cookie;
	t->peer_uid = peer.uid;
	*uid = who.uid;
	return hello->server_cookie == peer.cookie && who.uid == peer.uid;
}

static void offer(struct task *t, struct link *l)
{
	enum smc_reason reason = attach_offer(t, l);

	if (reason != SMC_REASON_NONE)
		meet_end(t, reason);
}

/* Makes a link of the guest's socket: page and our bell go to it. */
static bool welcome(struct guest *g, const struct rv_msg *hello, uint32_t uid)
{
	struct rv_msg m = rv_make(RV_WELCOME);
	enum smc_reason reason;
	struct shm_bell *bell = link_own_bell(&reason);
	int page_fd;

	memcpy(m.token, service_token(), RV_TOKEN);
	void *page = bell ? shm_make_page("smc_preload_link", sizeof(struct shm_link_page), &page_fd) : NULL;
	if (!page)
		return false;
	munmap(page, sizeof(struct shm_link_page));
	struct link *l = link_make(g->sock, 0, uid, hello->token, page_fd);
	if (l) {
		const int fds[3] = { page_fd, bell->fd, bell->status_fd };
		if (rv_send(g->sock, &m, fds, 3) || service_watch(g->sock, EPOLLIN, WATCH_LINK, l)) {
			link_kill(l); /* closes the socket */
			g->sock = -1;
			l = NULL;
		} else {
			g->sock = -1; /* the link's now */
			g->task->link = l;
			g->task->state = TASK_LINKING;
			g->task->deadline = smc_now_ns() + ANSWER;
		}
	}
	smc_sys.close(page_fd);
	return l != NULL;
}

void meet_guest_event(struct guest *g)
{
	struct rv_msg m;
	int fds[RV_MAX_FDS];
	unsigned n;
	uint32_t uid;
	struct task *t = g->task;

	if (g->sock < 0)
		return;
	int r = rv_recv(g->sock, &m, fds, &n);
	if (r == -EAGAIN)
		return;
	if (r || t->state != TASK_NAMED || !guest_is_right(g, &m, &uid)) {
		if (!r)
			count_refused();
		fdtable_close_internal(g->sock);
		g->sock = -1;
		return;
	}
	struct link *known = link_by_token(m.token);
	if (known) {
		struct rv_msg answer = rv_make(RV_WELCOME);
		memcpy(answer.token, service_token(), RV_TOKEN);
		answer.have = 1;
		rv_send(g->sock, &answer, NULL, 0);
	} else if (!welcome(g, &m, uid)) {
		meet_end(t, SMC_REASON_NO_MEMFD);
		return;
	}
	close_socket(t);
	if (known && known->state == LINK_UP) {
		offer(t, known);
	} else if (known) {
		t->link = known;
		t->state = TASK_LINKING;
		t->deadline = smc_now_ns() + ANSWER;
	}
}

/* ---- acceptor: the answer to HELLO ---- */

void meet_call_event(struct task *t)
{
	struct rv_msg m, join = rv_make(RV_JOIN);
	int fds[RV_MAX_FDS];
	unsigned n;
	enum smc_reason reason = SMC_REASON_PEER_PROTOCOL;

	if (!is_task(t) || t->state != TASK_GREETED)
		return;
	int r = rv_recv(t->sock, &m, fds, &n);
	if (r == -EAGAIN)
		return;
	if (r || m.type != RV_WELCOME) {
		if (!r) {
			rv_close_fds(fds, n);
			count_refused();
		}
		meet_end(t, r == -EPIPE ? SMC_REASON_PEER_SILENT : SMC_REASON_PEER_PROTOCOL);
		return;
	}
	t->state = TASK_EXPECTING;
	t->deadline = smc_now_ns() + ANSWER;
	if (m.have) {
		close_socket(t);
		return;
	}
	struct shm_bell *bell = link_own_bell(&reason);
	struct link *l = bell ? link_make(t->sock, 1, t->peer_uid, m.token, fds[0]) : NULL;
	fdtable_close_internal(fds[0]);
	if (!l) {
		rv_close_fds(fds + 1, 2);
		if (reason == SMC_REASON_PEER_PROTOCOL)
			count_refused();
		meet_end(t, reason);
		return;
	}
	const int mine[2] = { bell ? bell->fd : -1, bell ? bell->status_fd : -1 };
	int sock = t->sock;
	t->sock = -1; /* the link's now */
	if (!link_join(l, fds[1], fds[2]) || rv_send(sock, &join, mine, 2) || service_watch(sock, EPOLLIN, WATCH_LINK, l)) {
		count_refused();
		link_kill(l);
		meet_end(t, SMC_REASON_PEER_PROTOCOL);
		return;
	}
	link_up(l);
}

/* ---- links ---- */

/* Connections that waited for the link. */
static void offer_waiting(struct link *l)
{
	struct task *next;

	for (struct task *t = tasks; t && l->offered < OFFERS_MAX; t = next) {
		next = t->next;
		if (t->state == TASK_LINKING && t->link == l)
			offer(t, l);
	}
}

static void lost(struct link *l)
{
	struct task *next;

	link_kill(l);
	for (struct task *t = tasks; t; t = next) {
		next = t->next;
		if (t->link == l && (t->state == TASK_LINKING || t->state == TASK_OFFERED))
			meet_end(t, SMC_REASON_PEER_SILENT);
	}
	/* Its process is gone. A connection whose FIN came earlier will hear no more from the kernel: who writes to
	 * it must look. */
	uint64_t deadline = smc_now_ns() + 10 * MS; /* for all of them */
	for (uint32_t slot = 0; slot < SHM_LINK_SLOTS; slot++) {
		struct conn *c = link_conn(l, slot);
		if (!c)
			continue;
		smc_stream_peer_process_gone(&c->stream, deadline);
		service_owes(c);
		conn_put(c);
	}
}

static bool handle(struct link *l, const struct rv_msg *m, const int *fds, unsigned n)
{
	if (l->state == LINK_WELCOMED) {
		if (m->type != RV_JOIN || !link_join(l, fds[0], fds[1]))
			return false;
		link_up(l);
		offer_waiting(l);
		return true;
	}
	switch (m->type) {
	case RV_OFFER: {
		bool answered = attach_offered(l, m, n ? fds[0] : -1);
		rv_close_fds(fds, n);
		return answered;
	}
	case RV_ACCEPT:
	case RV_DECLINE:
		attach_answered(l, m);
		offer_waiting(l);
		return true;
	case RV_LEFT:
		attach_left(l, m);
		return true;
	}
	rv_close_fds(fds, n);
	return false;
}

void meet_link_event(struct link *l)
{
	struct rv_msg m;
	int fds[RV_MAX_FDS];
	unsigned n;

	/* several at once, but not for ever */
	for (int i = 0; i < 32 && (l->state == LINK_UP || l->state == LINK_WELCOMED); i++) {
		int r = rv_recv(l->sock, &m, fds, &n);
		if (r == -EAGAIN)
			return;
		bool taken = !r && handle(l, &m, fds, n);
		if (!taken) {
			if (!r)
				count_refused();
			lost(l);
			return;
		}
	}
}

/* ---- beginning, time ---- */

static void find_mirror(void *context, struct conn *c)
{
	struct task *t = context;

	if (c == t->c || t->mirror)
		return;
	smc_lock(&c->lock);
	bool match = c->nfds && c->stream.end && c->stream.connector != t->connector &&
		     rv_same_addr(&c->remote, t->connector ? &t->client : &t->server);
	if (match) {
		conn_fill_addresses(c);
		match = rv_same_addr(&c->local, t->connector ? &t->server : &t->client);
	}
	smc_unlock(&c->lock);
	if (match) {
		conn_ref(c);
		t->mirror = c;
	}
}

/* Both ends here. The accepting end waits for the connecting end to ask. */
static bool meet_self(struct task *t)
{
	conn_each(find_mirror, t);
	struct conn *other = t->mirror;
	if (!other)
		return false;
	t->mirror = NULL;
	struct conn *connector = t->connector ? t->c : other, *acceptor = t->connector ? other : t->c;
	enum smc_reason reason = attach_self(t, connector, acceptor);
	struct task *theirs = meet_task(other);
	if (theirs && theirs != t)
		meet_end(theirs, reason);
	else if (!theirs && reason != SMC_REASON_NONE)
		settle(other, reason);
	conn_put(other);
	meet_end(t, reason);
	return true;
}

static enum smc_reason ask_kernel(struct task *t)
{
	struct diag_socket peer;
	socklen_t len = sizeof(t->cookie);

	smc_lock(&t->c->lock);
	int r = t->c->nfds ? smc_sys.getsockopt(t->c->stream.fd, SOL_SOCKET, SO_COOKIE, &t->cookie, &len) : -EBADF;
	bool redirected = !r && !t->connector && addr_redirected(t->c->stream.fd, &t->server);
	smc_unlock(&t->c->lock);
	if (r)
		return SMC_REASON_NOT_TCP;
	if (redirected)
		return SMC_REASON_NOT_LOCAL;
	r = diag_find(t->connector ? &t->server : &t->client, t->connector ? &t->client : &t->server, &peer);
	if (r == -ENOENT)
		return SMC_REASON_NOT_LOCAL;
	if (r)
		return r == -EMFILE ? SMC_REASON_NO_FDS : SMC_REASON_NO_DIAG;
	t->peer_cookie = peer.cookie;
	t->peer_uid = peer.uid;
	return SMC_REASON_NONE;
}

void meet_begin(struct conn *c)
{
	struct task *t = calloc(1, sizeof(*t));
	uint64_t now = smc_now_ns();

	if (!t) {
		settle(c, SMC_REASON_NO_MEMORY);
		conn_put(c);
		return;
	}
	*t = (struct task){ .c = c, .connector = c->stream.connector, .sock = -1, .give_up = now + WHOLE, .backoff_ms = 1, .next = tasks };
	tasks = t;
	t->client = t->connector ? c->local : c->remote;
	t->server = t->connector ? c->remote : c->local;
	enum smc_reason reason = c->state == CONN_ASKED ? ask_kernel(t) : SMC_REASON_SHUTDOWN;
	if (c->state == CONN_ATTACHED)
		reason = SMC_REASON_NONE; /* offered by the other end meanwhile */
	if (reason != SMC_REASON_NONE || c->state == CONN_ATTACHED) {
		meet_end(t, reason);
		return;
	}
	if (meet_self(t))
		return;
	struct link *l = t->connector ? link_serving(&t->server) : NULL;
	if (l && attach_offer(t, l) == SMC_REASON_NONE)
		return;
	if (t->connector) {
		listen_at_name(t);
	} else {
		t->state = TASK_CALLING;
		call_name(t);
	}
}

void meet_declined(struct task *t, enum smc_reason reason)
{
	smc_log(1, "declined fd=%d reason=%u", t->c->stream.fd, reason);
	t->link = NULL;
	if (!t->by_name) /* the process at the other end of that link does not hold it: another one may */
		listen_at_name(t);
	else
		meet_end(t, may_pass(reason) ? reason : SMC_REASON_PEER_DECLINED);
}

static void overdue(struct task *t, uint64_t now)
{
	if (!t->c->nfds) {
		meet_end(t, SMC_REASON_SHUTDOWN);
	} else if (t->state == TASK_CALLING && now < t->give_up) {
		call_name(t);
	} else if (t->state == TASK_OFFERED || (t->state == TASK_LINKING && t->link->state != LINK_UP)) {
		lost(t->link); /* whether the other end uses the segment is unknown: nothing of this link is used again */
	} else {
		meet_end(t, SMC_REASON_PEER_SILENT);
	}
}

int meet_timers(uint64_t now)
{
	uint64_t first = UINT64_MAX;

again:
	for (struct task *t = tasks; t; t = t->next)
		if (t->deadline <= now || (!t->c->nfds && t->state != TASK_OFFERED)) {
			overdue(t, now);
			goto again; /* any task may be gone now */
		}
	for (int i = 0; guests_ready && i < GUESTS_MAX; i++) {
		if (guests[i].sock < 0)
			continue;
		if (guests[i].deadline <= now) {
			fdtable_close_internal(guests[i].sock);
			guests[i].sock = -1;
		} else if (guests[i].deadline < first) {
			first = guests[i].deadline;
		}
	}
	for (struct task *t = tasks; t; t = t->next)
		if (t->deadline < first)
			first = t->deadline;
	return first == UINT64_MAX ? -1 : (int)((first - now + MS - 1) / MS);
}

void meet_forked(void)
{
	struct task *next;

	for (struct task *t = tasks; t; t = next) {
		next = t->next;
		close_socket(t);
		free(t);
	}
	tasks = NULL;
}
