/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/service.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/sys.h"
#include "preload/epoll.h"
#include "preload/process.h"
#include "preload/raw.h"
#include "preload/service_internal.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>

/*
 * One thread, one epoll. It holds the service lock while it works and not while it waits, so a fork (which
 * takes the lock) finds everything between two pieces of work.
 */

static struct smc_lock service_lock;
static int epoll_fd = -1, wake_fd = -1;
static _Atomic bool running;
static uint8_t token[RV_TOKEN];

/* Connections that want something: a list that any thread pushes to. */
static _Atomic(struct conn *) queue;
/* Set once and for all when this process can't do it. */
static _Atomic uint32_t impossible;

const uint8_t *service_token(void)
{
	return token;
}

/* ---- the service epoll ---- */

int service_watch(int fd, uint32_t events, enum watch_kind kind, void *object)
{
	struct epoll_event e = { .events = events, .data.u64 = (uint64_t)(uintptr_t)object | kind };
	long r = raw_call4(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_ADD, fd, &e);

	if (r == -EEXIST)
		r = raw_call4(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_MOD, fd, &e);
	return (int)r;
}

void service_unwatch(int fd)
{
	raw_call4(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- attached connections: their TCP sockets ---- */

#define WATCH_TCP (EPOLLIN | EPOLLRDHUP | EPOLLET)

static void owes(struct conn *c)
{
	bool more = smc_stream_progress(&c->stream);

	if (c->stream.fd >= 0)
		service_watch(c->stream.fd, WATCH_TCP | (more ? EPOLLOUT : 0), WATCH_CONN, c);
	smc_stream_tcp_event(&c->stream);
	epoll_conn_activity(c);
}

static void conn_event(struct conn *c, uint32_t events)
{
	if (!conn_try_ref(c))
		return;
	if (conn_attached(c) && !c->finished) {
		smc_stream_tcp_event(&c->stream);
		epoll_conn_tcp_event(c);
		if ((events & EPOLLOUT) || smc_stream_progress(&c->stream))
			owes(c);
	}
	conn_put(c);
}

/* ---- the queue ---- */

static void push(struct conn *c)
{
	struct conn *head = atomic_load(&queue);

	do
		c->queue_next = head;
	while (!atomic_compare_exchange_weak(&queue, &head, c));
}

static void drain_queue(void)
{
	uint64_t n;

	raw_call3(SYS_read, wake_fd, &n, sizeof(n));
	struct conn *c = atomic_exchange(&queue, NULL), *next;
	for (; c; c = next) {
		next = c->queue_next;
		uint32_t asked = atomic_exchange(&c->queued, 0);
		if (asked & SERVICE_WATCH && conn_attached(c) && c->nfds)
			service_watch(c->stream.fd, WATCH_TCP, WATCH_CONN, c);
		if (asked & SERVICE_OWES && conn_attached(c) && c->nfds)
			owes(c);
		if (asked & SERVICE_UPGRADE)
			meet_begin(c); /* takes over a reference */
		conn_put(c);
	}
}

/* ---- the thread ---- */

static void dispatch(const struct epoll_event *e)
{
	void *object = (void *)(uintptr_t)(e->data.u64 & ~UINT64_C(7));

	switch ((enum watch_kind)(e->data.u64 & 7)) {
	case WATCH_QUEUE:
		drain_queue();
		break;
	case WATCH_NAME:
		meet_name_event(object);
		break;
	case WATCH_CALL:
		meet_call_event(object);
		break;
	case WATCH_GUEST:
		meet_guest_event(object);
		break;
	case WATCH_LINK:
		meet_link_event(object);
		break;
	case WATCH_CONN:
		conn_event(object, e->events);
		break;
	}
}

static void *service(void *unused)
{
	struct epoll_event events[64];
	int timeout = 0;

	(void)unused;
	for (;;) {
		long n = raw_call6(SYS_epoll_pwait, epoll_fd, (long)events, 64, timeout, 0, 0);
		smc_lock(&service_lock);
		for (long i = 0; i < n; i++)
			dispatch(&events[i]);
		timeout = meet_timers(smc_now_ns());
		smc_unlock(&service_lock);
	}
	return NULL;
}

static enum smc_reason make_fds(void)
{
	int fd;

	if (epoll_fd < 0) {
		fd = (int)raw_call3(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0);
		if (fd < 0 || (fd = fdtable_make_internal(fd)) < 0)
			return SMC_REASON_NO_FDS;
		epoll_fd = fd;
	}
	if (wake_fd < 0) {
		fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (fd < 0 || (fd = fdtable_make_internal(fd)) < 0)
			return SMC_REASON_NO_FDS;
		wake_fd = fd;
		service_watch(wake_fd, EPOLLIN, WATCH_QUEUE, NULL);
	}
	return getrandom(token, sizeof(token), 0) == sizeof(token) ? SMC_REASON_NONE : SMC_REASON_NO_RENDEZVOUS;
}

/* With the service lock. */
static enum smc_reason start_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	enum smc_reason reason = make_fds();

	if (reason != SMC_REASON_NONE)
		return reason;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&thread, &attr, service, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (r)
		return SMC_REASON_NO_THREAD;
	atomic_store(&running, true);
	return SMC_REASON_NONE;
}

static enum smc_reason ensure_thread(void)
{
	enum smc_reason reason = (enum smc_reason)atomic_load(&impossible);

	if (atomic_load(&running) || reason != SMC_REASON_NONE)
		return reason;
	smc_lock(&service_lock);
	if (!running)
		reason = start_thread();
	smc_unlock(&service_lock);
	if (reason != SMC_REASON_NONE && reason != SMC_REASON_NO_FDS)
		atomic_store(&impossible, reason);
	return reason;
}

/* Asks the thread for something; the queue holds a reference. */
static enum smc_reason ask(struct conn *c, uint32_t what)
{
	enum smc_reason reason = ensure_thread();
	const uint64_t one = 1;

	if (reason != SMC_REASON_NONE)
		return reason;
	if (atomic_fetch_or(&c->queued, what))
		return SMC_REASON_NONE;
	conn_ref(c);
	push(c);
	smc_sys.write(wake_fd, &one, sizeof(one));
	return SMC_REASON_NONE;
}

void service_want(struct conn *c)
{
	enum smc_reason reason = ask(c, SERVICE_UPGRADE);

	if (reason == SMC_REASON_NONE)
		return;
	conn_not_begun(c, reason);
	conn_put(c);
}

void service_adopt(struct conn *c)
{
	if (!atomic_exchange(&c->adopted, 1))
		ask(c, SERVICE_WATCH);
}

void service_owes(struct conn *c)
{
	ask(c, SERVICE_OWES);
}

void service_forget(struct conn *c)
{
	/* The kernel takes a watch away with the file. A forked process may keep the file open: then it would go on. */
	if (c->stream.end && atomic_load(&c->stream.end->holders) > 1 && running)
		service_unwatch(c->stream.fd);
}

/* ---- fork ---- */

void service_fork_prepare(void)
{
	smc_lock(&service_lock);
}

void service_fork_parent(void)
{
	smc_unlock(&service_lock);
}

void service_fork_child(void)
{
	smc_lock_reset(&service_lock);
	fdtable_close_internal(epoll_fd);
	fdtable_close_internal(wake_fd);
	epoll_fd = wake_fd = -1;
	running = false;
	queue = NULL;
	diag_close();
	meet_forked();
}
