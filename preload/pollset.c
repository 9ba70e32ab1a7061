/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/pollset.h"
#include "core/wait.h"
#include "preload/epset.h"
#include "preload/latch.h"
#include "preload/link.h"
#include "preload/raw.h"
#include "preload/service.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>

/*
 * One poll: descriptors whose readiness the library works out (FAST), epoll sets that hold such (SET), and the
 * rest, which is the kernel's. The structure is that of epoll_wait.c: look, spin, sleep. A sleeper arms each
 * connection itself and sleeps in ppoll with a latch; the kernel watches the TCP sockets of FAST ones for what
 * only it can tell.
 *
 * A connection that is not attached is the kernel's for the whole of this call (COUNTED): should it attach
 * meanwhile, no byte takes the channel before the call is over, for the promise to look there waits for it.
 */
enum kind { KIND_KERNEL, KIND_COUNTED, KIND_FAST, KIND_SET };

struct entry {
	struct fd_object *object; /* with a reference; NULL for KIND_KERNEL */
	enum kind kind;
	bool muted; /* says something that select does not count, and would say so for ever */
};

enum {
	ON_STACK = 64,
	SPIN_MOST = 64,
	ASK_CALLS = 16,
	ASK_NS = 2000,
	ASK_NS_LONG = 20000,
	ASK_IN_VAIN = 64
};
enum { ASK_NS_SPINNING = 5000 };

struct pollset {
	struct pollfd *fds; /* the application's */
	nfds_t n;
	bool select;
	until_t until;
	const sigset_t *mask;
	struct pollfd *kernel; /* n + 1 */
	struct entry *entries;
	void *memory;
	unsigned nfast, nsets;
	nfds_t nkernel; /* all that are not FAST, but for numbers below zero */
	bool closed;	/* (select) one of them is not open */
};

#define READ_EVENTS  (POLLIN | POLLRDNORM)
#define WRITE_EVENTS (POLLOUT | POLLWRNORM | POLLWRBAND)

/* Per thread: when the kernel was asked last and how often it had nothing (as in epoll_wait.c), and whether
 * spinning pays. */
static __thread struct {
	uint64_t asked;
	uint32_t skipped, in_vain;
	struct smc_spin_place spin;
} mine __attribute__((tls_model("initial-exec")));

/* ---- is it ours? ---- */

static bool concerns(int fd)
{
	struct fd_object *o = fdtable_get(fd);

	if (__builtin_expect(!o, 1))
		return false;
	if (o->type == FD_EPOLL)
		return epset_special((struct epset *)o);
	if (o->type == FD_CONN)
		return epreg_ours((struct conn *)o) ||
		       atomic_load_explicit(&((struct conn *)o)->state, memory_order_acquire) <
			       CONN_ATTACHED;
	return true;
}

/* More than the kernel would look at? It says so before it touches the array. */
static bool too_many(nfds_t n)
{
	struct rlimit limit;

	return n > ON_STACK && raw_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) >= 0 &&
	       n > limit.rlim_cur;
}

bool pollset_concerns(struct pollfd *fds, nfds_t n)
{
	if ((uintptr_t)fds < 4096 || too_many(n))
		return false;
	for (nfds_t i = 0; i < n; i++)
		if (concerns(fds[i].fd))
			return true;
	return false;
}

/* ---- setting up ---- */

static struct conn *conn_at(const struct pollset *p, nfds_t i)
{
	return (struct conn *)p->entries[i].object;
}

static void count_call(struct conn *c, short events, uint32_t by)
{
	if (events & READ_EVENTS)
		atomic_fetch_add(&c->stream.rx_calls, by);
	if (events & WRITE_EVENTS)
		atomic_fetch_add(&c->stream.tx_calls, by);
}

/* First counted, then looked at; who attaches does it the other way round (smc_stream_attach). */
static enum kind kind_of(struct conn *c, short events, bool waits)
{
	if (conn_attached(c))
		return epreg_ours(c) ? KIND_FAST : KIND_KERNEL;
	if (!waits)
		return KIND_KERNEL;
	count_call(c, events, 1);
	if (!__atomic_load_n(&c->stream.channel, __ATOMIC_SEQ_CST))
		return KIND_COUNTED;
	count_call(c, events, -1u);
	smc_stream_promise(&c->stream, false); /* our count may have kept who attached from it */
	return KIND_FAST;
}

static void classify(struct pollset *p, nfds_t i)
{
	struct fd_object *o = fdtable_get(p->fds[i].fd);
	struct entry *e = &p->entries[i];
	struct conn *c;
	struct epset *set;

	*e = (struct entry){ 0 };
	if (!o)
		return;
	if (o->type == FD_CONN && (c = conn_get(p->fds[i].fd))) {
		e->kind = kind_of(c, p->fds[i].events, p->until != 0);
		if (e->kind == KIND_KERNEL)
			conn_put(c);
		else
			e->object = &c->object;
	} else if (o->type == FD_EPOLL && (set = epset_get(p->fds[i].fd))) {
		if (epset_special(set)) {
			e->kind = KIND_SET;
			e->object = &set->object;
		} else {
			epset_put(set);
		}
	}
}

static bool set_up(struct pollset *p, struct pollfd *kernel, struct entry *entries)
{
	p->kernel = kernel;
	p->entries = entries;
	if (p->n > ON_STACK) {
		p->memory = malloc((p->n + 1) * (sizeof(*kernel) + sizeof(*entries)));
		if (!p->memory) {
			p->n = 0;
			return false;
		}
		p->entries = p->memory;
		p->kernel = (struct pollfd *)(p->entries + p->n + 1);
	}
	for (nfds_t i = 0; i < p->n; i++) {
		classify(p, i);
		enum kind kind = p->entries[i].kind;
		p->nfast += kind == KIND_FAST;
		p->nsets += kind == KIND_SET;
		p->nkernel += kind != KIND_FAST && p->fds[i].fd >= 0;
		p->fds[i].revents = 0;
		p->kernel[i].events = p->fds[i].events;
		p->kernel[i].fd = kind == KIND_FAST ? -1 : p->fds[i].fd;
		/* the library's own is not open to the application: a number that never is */
		if (fdtable_is_internal(p->fds[i].fd))
			p->kernel[i].fd = INT_MAX;
	}
	return true;
}

/* Also when the thread is cancelled in the kernel. */
static void tear_down(struct pollset *p)
{
	for (nfds_t i = 0; i < p->n; i++) {
		struct entry *e = &p->entries[i];
		struct conn *c = conn_at(p, i);

		if (e->kind == KIND_SET)
			epset_put((struct epset *)e->object);
		if (e->kind == KIND_COUNTED) {
			count_call(c, p->fds[i].events, -1u);
			smc_stream_promise(&c->stream, false);
		}
		if (e->kind == KIND_COUNTED || e->kind == KIND_FAST)
			conn_put(c);
	}
	free(p->memory);
}

/* ---- looking ---- */

/* Takes down what was found out about an entry; 1 if it is something to return with. */
static int note(struct pollset *p, nfds_t i, short bits)
{
	if (p->select && bits) {
		p->closed |= (bits & POLLNVAL) != 0;
		if (!(bits & pollset_select_mask(p->fds[i].events)))
			p->entries[i].muted = true;
		bits &= pollset_select_mask(p->fds[i].events);
	}
	p->fds[i].revents = bits;
	return bits != 0;
}

static short look_at(struct conn *c, short events, bool arm)
{
	if (arm && c->inherited)
		service_adopt(c);
	/* what a peer that left did not take goes out as the socket takes it */
	if (__builtin_expect(c->stream.end->tx_mode == SMC_TX_RESEND, 0))
		smc_stream_progress(&c->stream);
	return smc_stream_poll(&c->stream, events, arm);
}

static int look_at_fast(struct pollset *p, bool arm)
{
	int found = 0;

	for (nfds_t i = 0; p->nfast && i < p->n; i++)
		if (p->entries[i].kind == KIND_FAST)
			found += note(p, i, look_at(conn_at(p, i), p->fds[i].events, arm));
	return found;
}

static void settle_sets(struct pollset *p)
{
	if (__builtin_expect(!p->nsets, 1))
		return;
	if (link_attention())
		link_harvest();
	for (nfds_t i = 0; i < p->n; i++)
		if (p->entries[i].kind == KIND_SET)
			epset_settle((struct epset *)p->entries[i].object, EPSET_NEST_DEPTH);
}

/* What the kernel is to watch for on the TCP socket of a FAST one: nothing that look_at would not report. */
static short kernel_events(const struct conn *c, short events)
{
	short watch = events & (READ_EVENTS | POLLPRI | POLLRDBAND | POLLRDHUP | POLLMSG);

	if ((events & WRITE_EVENTS) && c->stream.end->tx_mode != SMC_TX_FAST)
		watch |= POLLOUT;
	return watch;
}

static void show_fast(struct pollset *p, bool show)
{
	for (nfds_t i = 0; i < p->n; i++) {
		if (p->entries[i].kind == KIND_FAST) {
			p->kernel[i].fd = show && !p->entries[i].muted ? p->fds[i].fd : -1;
			p->kernel[i].events =
				show ? kernel_events(conn_at(p, i), p->fds[i].events) : 0;
		} else if (p->entries[i].muted) {
			p->kernel[i].fd = -1;
		}
	}
}

/* The kernel's results are in p->kernel. */
static int take_results(struct pollset *p, bool fast)
{
	int found = 0;

	for (nfds_t i = 0; i < p->n; i++) {
		if (p->entries[i].kind != KIND_FAST)
			found += note(p, i, p->kernel[i].fd == -1 ? 0 : p->kernel[i].revents);
		else if (fast && p->kernel[i].fd != -1 && p->kernel[i].revents)
			smc_stream_tcp_event(&conn_at(p, i)->stream);
	}
	return found;
}

/* Those that are the kernel's; with `fast`, news of the TCP sockets of the others too. */
static int ask_kernel(struct pollset *p, bool fast)
{
	mine.asked = smc_now_ns();
	mine.skipped = 0;
	settle_sets(p);
	show_fast(p, fast);
	int r = real.poll(p->kernel, p->n, 0);
	mine.in_vain = r ? 0 : mine.in_vain + (mine.in_vain < ASK_IN_VAIN);
	return r < 0 ? r : take_results(p, fast);
}

static bool ask_due(void)
{
	bool in_vain = mine.in_vain == ASK_IN_VAIN;

	if (++mine.skipped >= ASK_CALLS)
		return true;
	if (in_vain && mine.skipped % 4) /* spares most of them the clock */
		return false;
	return smc_now_ns() - mine.asked >= (in_vain ? ASK_NS_LONG : ASK_NS);
}

/* The kernel is also asked about the sockets of FAST ones: what only it knows (the peer's end) is told by the
 * service thread too, but a little later. */
static int look(struct pollset *p)
{
	int found = look_at_fast(p, false), r;
	bool ask = found ? ask_due() : !p->until && (p->nkernel || ask_due());

	if (!ask)
		return found;
	if ((r = ask_kernel(p, true)) < 0)
		return r;
	return r + look_at_fast(p, false);
}

/* ---- spinning and sleeping ---- */

static unsigned peer_cpu(struct pollset *p)
{
	for (nfds_t i = 0; i < p->n; i++) {
		if (p->entries[i].kind == KIND_FAST) {
			struct smc_channel *ch = conn_at(p, i)->stream.channel;
			return ch->peer_cpu(ch);
		}
	}
	return ~0u;
}

static int spin(struct pollset *p)
{
	struct smc_spin spin;
	int found;

	if (!p->nfast || p->nfast > SPIN_MOST ||
	    !smc_spin_begin(&spin, &mine.spin, peer_cpu(p), until_left_ns(p->until)))
		return 0;
	do {
		found = look_at_fast(p, false);
		if (!found && p->nkernel && (int64_t)(spin.last - mine.asked) >= ASK_NS_SPINNING)
			found = ask_kernel(p, false);
	} while (!found && smc_spin_on(&spin));
	smc_spin_end(&spin, found > 0);
	return found;
}

static void wake_up(bool *asleep)
{
	if (*asleep)
		link_awake();
}

/* Counted asleep first, then the last look, armed: a peer that does something after it rings the latch. */
static int sleep_on(struct pollset *p)
{
	__attribute__((cleanup(wake_up), unused)) bool asleep = true;
	int r;

	link_asleep();
	if ((r = look_at_fast(p, true)))
		return r;
	settle_sets(p);
	show_fast(p, true);
	r = latch_sleep(p->kernel, p->n, p->until, p->mask);
	if (r <= 0)
		return r;
	/* something of the kernel's: then also all that the others have */
	r = take_results(p, true);
	return r ? r + look_at_fast(p, false) : 0;
}

static int wait_for_events(struct pollset *p)
{
	int found;

	/* all the kernel's, but nobody may switch a counted one over meanwhile */
	if (!p->nfast && !p->nsets) {
		struct timespec space;
		return real.ppoll(p->kernel, p->n, until_timeout(p->until, &space), p->mask) < 0
			       ? -1
			       : take_results(p, false);
	}
	for (;;) {
		if ((found = look(p)) || until_over(p->until))
			return found;
		if ((found = spin(p)))
			return found;
		if ((found = sleep_on(p)))
			return found;
	}
}

int pollset_wait(struct pollfd *fds, nfds_t n, until_t until, const sigset_t *mask, bool select)
{
	struct pollfd kernel[ON_STACK + 1];
	struct entry entries[ON_STACK];
	__attribute__((cleanup(tear_down))) struct pollset p = {
		.fds = fds, .n = n, .select = select, .until = until, .mask = mask
	};
	int saved = errno;

	if (!set_up(&p, kernel, entries)) {
		errno = ENOMEM;
		return -1;
	}
	int found = wait_for_events(&p);
	if (p.closed) {
		errno = EBADF;
		return -1;
	}
	if (found >= 0)
		errno = saved;
	return found;
}
