/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/wait.h"
#include "core/fence.h"
#include "preload/epset.h"
#include "preload/latch.h"
#include "preload/raw.h"
#include "preload/service.h"

/*
 * The ready list: registrations that are ready or have not been looked at since something happened to their
 * connection. Everything that happens lists; only a look that has armed the peer first and then found nothing
 * takes out. So what is not listed is either not ready with the peer bound to ring, or an edge already told.
 *
 *   level-triggered  stays listed while it is ready, as in the kernel
 *   edge-triggered   told once for each thing that happened. To hear of every arrival, not only of the first
 *                    after it was found empty, the reader's bell is armed before each look, ready or not; for
 *                    room to write the stream arms it when a send comes back short, as the kernel does
 *   warm             keeps its place for some calls without arming: a busy connection then needs no bell, and
 *                    a look at it is a look at memory
 *
 * Nobody sleeps while something warm is unarmed: before sleeping everything listed is looked at armed, and
 * nothing is left warm while another thread sleeps on the set.
 */

__thread struct epset *epset_asleep_in __attribute__((tls_model("initial-exec")));

enum { BATCH = 32 };

#define READ_EVENTS (EPOLLIN | EPOLLRDNORM)

/* ---- the list ---- */

static void count_place(struct epset *set, enum epreg_place place, int by)
{
	_Atomic uint32_t *n = place == PLACE_READY ? &set->nready : &set->nwarm;

	/* under the lock; read without it */
	atomic_store_explicit(n, *n + (uint32_t)by, memory_order_relaxed);
	atomic_store_explicit(&set->nlisted, set->nlisted + (uint32_t)by, memory_order_relaxed);
}

void epset_unlist(struct epset *set, struct epreg *reg)
{
	if (reg->place == PLACE_NONE)
		return;
	if (reg->ready_prev)
		reg->ready_prev->ready_next = reg->ready_next;
	else
		set->head = reg->ready_next;
	if (reg->ready_next)
		reg->ready_next->ready_prev = reg->ready_prev;
	else
		set->tail = reg->ready_prev;
	count_place(set, reg->place, -1);
	reg->place = PLACE_NONE;
}

void epset_list(struct epset *set, struct epreg *reg, enum epreg_place place)
{
	if (reg->dead || !reg->ours || reg->disarmed)
		return;
	if (reg->busy) {
		reg->again = true;
		return;
	}
	if (reg->place >= place)
		return;
	if (reg->place == PLACE_NONE) {
		reg->ready_next = NULL;
		reg->ready_prev = set->tail;
		if (set->tail)
			set->tail->ready_next = reg;
		else
			set->head = reg;
		set->tail = reg;
	} else {
		count_place(set, reg->place, -1);
	}
	reg->place = place;
	count_place(set, place, 1);
}

/*
 * No wake-up is lost between a thread that lists (A) and one that goes to sleep (B):
 *
 *   A: lists (set->lock)       B: counts itself in set->waiting
 *      fence                      fence (in link_asleep and the lock)
 *      reads set->waiting         looks at the list (set->lock), then sleeps on the bells
 *
 * Either A sees B's count and rings, or B's look comes after A's listing. A ring after B's look is an edge that
 * B's sleep finds. The same holds for peers with the sleepers' count of the process in place of set->waiting
 * (transport/shm/bell.h), except that they set attention bits, which B harvests after counting itself.
 */
static bool others_asleep(const struct epset *set)
{
	return atomic_load(&set->waiting) > (epset_asleep_in == set);
}

void epset_wake(struct epset *set)
{
	smc_full_fence();
	if (others_asleep(set))
		latch_ring();
}

static void list_all(struct conn *c, bool all)
{
	enum { MANY = 8 };
	struct epset *sets[MANY];
	unsigned n = 0;

	smc_lock(&c->lock);
	for (struct epreg *reg = c->regs; reg; reg = reg->conn_next) {
		struct epset *set = reg->set;
		if (!all && !c->inherited && !set->forked)
			continue;
		smc_lock(&set->lock);
		epset_list(set, reg, PLACE_READY);
		epset_show_level(set);
		smc_unlock(&set->lock);
		if (n < MANY)
			sets[n++] = set;
		else
			epset_wake(set);
	}
	smc_unlock(&c->lock);
	for (unsigned i = 0; i < n; i++) /* type-stable: at worst a set in its next life is woken */
		epset_wake(sets[i]);
}

void epoll_conn_activity(struct conn *c)
{
	list_all(c, true);
}

void epoll_conn_tcp_event(struct conn *c)
{
	list_all(c, false);
}

/* ---- looking ---- */

struct look {
	struct epreg *reg;
	uint32_t events, changes;
	uint64_t data;
	bool asked; /* something happened: an edge, if ready */
	bool warm;  /* may stay warm, so it need not be armed */
	bool armed; /* was armed */
	short bits;
};

static bool may_stay_warm(const struct epset *set, const struct epreg *reg, enum epset_look kind)
{
	return kind <= LOOK_SPIN && !set->nested && !(reg->events & EPOLLONESHOT) && reg->looks < EPSET_WARM_LOOKS &&
	       set->nwarm < EPSET_WARM_MAX && !others_asleep(set);
}

/* Moves a registration to the end of the list, as if looked at. */
static void pass_over(struct epset *set, struct epreg *reg, uint32_t stamp)
{
	enum epreg_place place = reg->place;

	epset_unlist(set, reg);
	reg->stamp = stamp;
	epset_list(set, reg, place);
}

/* Takes registrations off the head of the list for looking at; each once per call (`stamp`). */
static int take(struct epset *set, struct look *looks, int max, enum epset_look kind, uint32_t stamp, const uint32_t *attached)
{
	int n = 0;

	smc_lock(&set->lock);
	while (n < max && set->head && set->head->stamp != stamp) {
		struct epreg *reg = set->head;
		if (__builtin_expect(attached && (int32_t)(reg->attached - *attached) > 0, 0)) {
			pass_over(set, reg, stamp);
			continue;
		}
		looks[n++] = (struct look){
			.reg = reg,
			.events = reg->events,
			.changes = reg->changes,
			.data = reg->data,
			.asked = reg->place == PLACE_READY,
			.warm = may_stay_warm(set, reg, kind),
		};
		epset_unlist(set, reg);
		reg->stamp = stamp;
		reg->busy = true;
	}
	smc_unlock(&set->lock);
	return n;
}

/* A number that changes whenever bytes arrive; for connections inherited over fork, whose peers ring for
 * another process, also when room appears. */
static uint64_t position(const struct conn *c)
{
	uint64_t rx = atomic_load_explicit(&c->channel.rx->prod, memory_order_relaxed);

	return c->inherited ? rx + (atomic_load_explicit(&c->channel.tx->cons, memory_order_relaxed) << 20) : rx;
}

static void look_at_edge(struct look *l, struct conn *c)
{
	struct epreg *reg = l->reg;
	struct smc_stream *s = &c->stream;
	short want = (short)l->events;

	if (l->armed && (l->events & READ_EVENTS))
		atomic_fetch_or(&s->channel->rx_wait->flags, SMC_WAIT_BELL);
	uint64_t at = position(c);
	short bits = smc_stream_poll(s, want, l->armed);
	bool fresh = l->asked || at != reg->seen || (bits & ~reg->last);
	reg->seen = at;
	reg->last = bits;
	l->bits = fresh ? bits : 0;
}

static void look_at_level(struct look *l, struct conn *c)
{
	short want = (short)l->events;

	l->bits = smc_stream_poll(&c->stream, want, false);
	if (!l->bits && l->armed)
		l->bits = smc_stream_poll(&c->stream, want, true);
}

/* With no lock. */
static void look_at(struct look *l)
{
	struct epreg *reg = l->reg;
	struct conn *c = reg->conn;

	if (__builtin_expect(!epreg_ours(c), 0)) {
		/* Being attached this very moment, by the holder of the lock (if not, that failed); or it is the
		 * kernel's again, and so are its events. */
		smc_lock(&c->lock);
		bool ours = epreg_ours(c);
		if (!ours)
			epreg_give_back(reg);
		smc_unlock(&c->lock);
		if (!ours)
			return;
	}
	if (__builtin_expect(c->inherited && !reg->adopted, 0)) {
		reg->adopted = true;
		service_adopt(c);
	}
	/* what a peer that left did not take goes out as the socket takes it */
	if (__builtin_expect(c->stream.end->tx_mode == SMC_TX_RESEND, 0))
		smc_stream_progress(&c->stream);
	epreg_sync(reg, l->events);
	l->armed = !l->warm || c->inherited;
	if (l->events & EPOLLET)
		look_at_edge(l, c);
	else
		look_at_level(l, c);
}

/* ---- after looking ---- */

/* With set->lock: where the registration goes. True if it is ready (and to be told, if somebody asks). */
static bool settle(struct epset *set, struct look *l, enum epset_look kind)
{
	struct epreg *reg = l->reg;
	bool again = reg->again, ready = l->bits != 0;

	reg->again = false;
	if (l->changes != reg->changes || !reg->ours) { /* void */
		epset_list(set, reg, PLACE_READY);
		return false;
	}
	if (ready && kind >= LOOK_PEEK) {
		epset_list(set, reg, PLACE_READY);
		return true;
	}
	if (ready) {
		reg->looks = 0;
		reg->disarmed = (reg->events & EPOLLONESHOT) != 0;
	} else if (kind == LOOK_CALL && reg->looks < UINT8_MAX) {
		reg->looks++;
	}
	if (again || (ready && !(reg->events & EPOLLET)))
		epset_list(set, reg, PLACE_READY);
	else if (!l->armed || reg->conn->inherited) /* nobody else would list it */
		epset_list(set, reg, PLACE_WARM);
	return ready;
}

/* How many are ready. *uncovered: something was left unarmed, and another thread went to sleep meanwhile. */
static int finish(struct epset *set, struct look *looks, int n, struct epoll_event *events, enum epset_look kind,
		  bool *uncovered)
{
	struct epreg *gone[BATCH];
	int ngone = 0, found = 0;

	smc_lock(&set->lock);
	for (int i = 0; i < n; i++) {
		struct epreg *reg = looks[i].reg;
		reg->busy = false;
		if (reg->dead) {
			gone[ngone++] = reg;
			continue;
		}
		if (settle(set, &looks[i], kind)) {
			if (kind < LOOK_PEEK)
				events[found] = (struct epoll_event){ .events = (uint16_t)looks[i].bits,
								      .data.u64 = looks[i].data };
			found++;
		}
		*uncovered |= !looks[i].armed && others_asleep(set);
	}
	epset_show_level(set);
	smc_unlock(&set->lock);
	for (int i = 0; i < ngone; i++)
		epreg_free(gone[i]);
	return found;
}

/* For choosing whether to spin: where the other end of what was busy last runs. */
static void note_peer(struct epset *set, const struct look *looks, int n)
{
	for (int i = 0; i < n; i++) {
		if (!looks[i].bits)
			continue;
		struct smc_channel *ch = &looks[i].reg->conn->channel.base;
		if (conn_attached(looks[i].reg->conn))
			atomic_store_explicit(&set->peer_cpu, ch->peer_cpu(ch), memory_order_relaxed);
		return;
	}
}

static int collect(struct epset *set, struct epoll_event *events, int max, enum epset_look kind, const uint32_t *attached)
{
	struct look looks[BATCH];
	bool uncovered = false;
	int n, found = 0;

	if (!atomic_load_explicit(&set->nlisted, memory_order_relaxed))
		return 0;
	smc_lock(&set->lock);
	uint32_t stamp = ++set->stamp;
	smc_unlock(&set->lock);
	do {
		n = take(set, looks, max - found < BATCH ? max - found : BATCH, kind, stamp, attached);
		for (int i = 0; i < n; i++)
			look_at(&looks[i]);
		note_peer(set, looks, n);
		if (n)
			found += finish(set, looks, n, events + (kind < LOOK_PEEK ? found : 0), kind, &uncovered);
	} while (n && found < max && !(kind == LOOK_PEEK && found));
	if (__builtin_expect(uncovered, 0))
		epset_collect(set, NULL, INT_MAX, LOOK_SWEEP);
	/* as the kernel: what is left ready is for the next sleeper */
	if (atomic_load_explicit(&set->nready, memory_order_relaxed))
		epset_wake(set);
	return found;
}

int epset_collect(struct epset *set, struct epoll_event *events, int max, enum epset_look kind)
{
	return collect(set, events, max, kind, NULL);
}

int epset_collect_known(struct epset *set, struct epoll_event *events, int max, const uint32_t *attached)
{
	return collect(set, events, max, LOOK_CALL, attached);
}
