/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/epoll_merge.h"
#include "core/wait.h"
#include "preload/link.h"
#include "preload/raw.h"

/* The two sources of events, the ready list and the kernel's set, as one. */

/* While the ready list delivers, the kernel is asked after so long, or so many calls; the long time is for sets
 * where it had nothing to tell the last ASK_IN_VAIN times. */
enum {
	ASK_NS = 2000,
	ASK_NS_LONG = 20000,
	ASK_IN_VAIN = 64,
	ASK_CALLS = 16,
	ASK_NS_SPINNING = 5000
};
/* How often at once, when the answer is full of the library's own entries. */
enum { ASK_AGAIN = 16 };

/* ---- the kernel's side ---- */

/* Bells are in this set, but nothing of it is ours any more: it would be woken for nothing. */
static void heard_bell(struct epset *set)
{
	if (link_attention())
		link_harvest();
	if (!epset_special(set))
		epset_remove_bells(set);
}

int epset_translate(struct epset *set, struct epoll_event *events, int n, bool *tags)
{
	bool bell = false;
	int kept = 0;

	if (!__atomic_load_n(&eptag_prefix, __ATOMIC_ACQUIRE))
		return n;
	for (int i = 0; i < n; i++) {
		uint64_t data = events[i].data.u64;
		struct epreg *reg;

		if (__builtin_expect(!eptag_is(data), 1)) {
			events[kept++] = events[i];
			continue;
		}
		*tags = true;
		if (eptag_index(data) == EPTAG_BELL) {
			bell = true;
			continue;
		}
		if (!(reg = epreg_by_tag(data)))
			continue;
		if (reg->ours) {
			/* first the mark, then the list: a look in between must ask the kernel */
			smc_stream_tcp_event(&reg->conn->stream);
			epset_list(reg->set, reg, PLACE_READY);
			epset_show_level(reg->set);
		} else { /* EPOLLONESHOT before attaching: the kernel's word is final */
			reg->disarmed = (reg->events & EPOLLONESHOT) != 0;
			events[kept++] = (struct epoll_event){ .events = events[i].events,
							       .data.u64 = reg->data };
		}
		smc_unlock(&reg->set->lock);
	}
	if (bell)
		heard_bell(set);
	return kept;
}

/* What the kernel has now, after the first `have` entries. -1 and errno when it finds a fault. */
static int ask_kernel(struct epoll_call *k, int have, bool *tags)
{
	struct epset *set = k->set;
	int room = k->max - have, r = 0, kept = 0;

	atomic_store_explicit(&set->asked, smc_now_ns(), memory_order_relaxed);
	atomic_store_explicit(&set->skipped, 0, memory_order_relaxed);
	for (int i = 0; i < ASK_AGAIN; i++) {
		r = real.epoll_wait(k->epfd, k->events + have, room, 0);
		if (r <= 0)
			break;
		int n = epset_translate(set, k->events + have, r, tags);
		bool full = r == room;
		kept = n;
		/* not after some of the application's: level-triggered ones would come a second time */
		if (!full || kept)
			break;
	}
	uint32_t in_vain = atomic_load_explicit(&set->in_vain, memory_order_relaxed);
	atomic_store_explicit(&set->in_vain, kept ? 0 : in_vain + (in_vain < ASK_IN_VAIN),
			      memory_order_relaxed);
	return kept || r >= 0 ? kept : r;
}

static bool ask_due(struct epset *set)
{
	uint32_t skipped = atomic_load_explicit(&set->skipped, memory_order_relaxed) + 1;
	bool in_vain = atomic_load_explicit(&set->in_vain, memory_order_relaxed) == ASK_IN_VAIN;

	atomic_store_explicit(&set->skipped, skipped, memory_order_relaxed);
	if (skipped >= ASK_CALLS || set->ninner)
		return true;
	if (in_vain && skipped % 4) /* spares most of them the clock */
		return false;
	return smc_now_ns() - atomic_load_explicit(&set->asked, memory_order_relaxed) >=
	       (in_vain ? ASK_NS_LONG : ASK_NS);
}

/* ---- both sides ---- */

void epoll_look_around(struct epset *set)
{
	epset_see_changes(set);
	if (link_attention())
		link_harvest();
	if (__builtin_expect(set->ninner, 0))
		epset_settle_inner(set, EPSET_NEST_DEPTH);
}

/* When both sides have some they fill the result in turn, so that
 * neither starves the other however small it is. */
int epoll_gather(struct epoll_call *k)
{
	struct epset *set = k->set;
	bool tags = false, due, first;
	int n = 0, r;
	uint32_t attached = atomic_load(&set->attached);

	epoll_look_around(set);
	due = ask_due(set);
	first = due && atomic_load_explicit(&set->nready, memory_order_relaxed) &&
		(atomic_fetch_xor_explicit(&set->turn, 1, memory_order_relaxed) & 1);
	if (first && (n = ask_kernel(k, 0, &tags)) < 0)
		return n;
	if (n < k->max)
		n += epset_collect_known(set, k->events + n, k->max - n, n ? &attached : NULL);
	/* with nothing to report, spinning or sleeping asks the kernel anyway */
	if (first || n == k->max || !(n ? due : !k->until))
		return n;
	if ((r = ask_kernel(k, n, &tags)) < 0)
		return n ? n : r;
	if (!n && !r && tags)
		return epset_collect(set, k->events, k->max, LOOK_CALL);
	return n + r;
}

static int spin_look(struct epoll_call *k, uint64_t now)
{
	struct epset *set = k->set;
	bool tags = false;
	int n;

	if (link_attention())
		link_harvest();
	if ((n = epset_collect(set, k->events, k->max, LOOK_SPIN)))
		return n;
	/* `now` may be behind */
	if ((int64_t)(now - atomic_load_explicit(&set->asked, memory_order_relaxed)) <
	    ASK_NS_SPINNING)
		return 0;
	if (set->ninner)
		epset_settle_inner(set, EPSET_NEST_DEPTH);
	return ask_kernel(k, 0, &tags); /* tags listed: the next look finds them */
}

int epoll_spin(struct epoll_call *k)
{
	struct smc_spin spin;
	int n;

	if (!smc_spin_begin(&spin, &k->set->spin, k->set->peer_cpu, until_left_ns(k->until)))
		return 0;
	do
		n = spin_look(k, spin.last);
	while (!n && smc_spin_on(&spin));
	smc_spin_end(&spin, n > 0);
	return n;
}
