/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_EPSET_H
#define SMC_PRELOAD_EPSET_H

#include "core/lock.h"
#include "preload/conn.h"
#include "preload/epoll.h"
#include "preload/eptag.h"
#include "preload/until.h"

#include <sys/epoll.h>

/*
 * Shared by the files of epoll: nothing here is for others, but epset_get, epset_nest, epset_settle and
 * epset_special, which poll and select need for a set they are asked to wait for.
 *
 * Locks: conn->lock, then set->lock (core/lock.h). A registration is made, changed and dropped with both held;
 * what the ready list needs (place, busy, ...) is under set->lock alone. Neither is held while a connection is
 * looked at, nor over a call that may sleep. A signal handler that calls epoll functions on a set may find its
 * own thread inside one of these sections, and hangs then: they are short, and that is a known limit.
 */

/* ---- registrations ---- */

enum epreg_place {
	PLACE_NONE,  /* not in the ready list: the kernel's entry or the peer's bell will tell */
	PLACE_WARM,  /* in it, though the last look found nothing: the peer was not asked to ring yet */
	PLACE_READY, /* in it: ready at the last look, or not looked at since something happened */
};

struct epreg {
	uint32_t index;		     /* in the table of registrations */
	_Atomic uint32_t generation; /* changes when it is freed */
	struct epset *_Atomic set;
	struct conn *conn; /* with a reference; first of what is cleared for a new one */
	struct epreg *conn_next;
	struct epreg *prev, *next;	       /* all of the set */
	struct epreg *ready_prev, *ready_next; /* the ready list */
	int fd;
	uint32_t events; /* as the application said, flags included */
	uint64_t data;
	_Atomic uint32_t kernel; /* events of the kernel's entry, while `ours`; read without the lock, as a hint */
	uint32_t changes; /* counts what the application changes: a look that began before is void */
	enum epreg_place place;
	bool ours;     /* readiness is worked out here, the kernel's entry has our tag and watches TCP only */
	bool disarmed; /* EPOLLONESHOT: reported, until EPOLL_CTL_MOD */
	bool busy;     /* a thread is looking at it, outside the lock */
	bool again;    /* something happened meanwhile */
	bool dead;     /* dropped meanwhile: who looks frees it */
	bool adopted;  /* inherited over fork, and the service thread watches it here */
	uint8_t looks; /* calls in a row that found nothing, while warm */
	uint32_t stamp;	  /* of the call that looked last */
	uint32_t attached; /* the set's count when it became ours */
	uint32_t checked; /* see epset_fork.c */
	/* edge-triggered, for looks that nobody asked for: what was there at the last one */
	uint64_t seen;
	short last;
};

struct epreg *epreg_new(struct epset *set, struct conn *c, int fd, const struct epoll_event *event);
/* Linked in both lists; c->lock and set->lock are held. */
void epreg_link(struct epreg *reg);
/* Takes it out of everything and frees it. True: a thread is looking at it and frees it when done. c->lock is
 * held, set->lock is not, and somebody else has a reference to the connection. */
bool epreg_drop(struct epreg *reg);
void epreg_free(struct epreg *reg);
/* c->lock is held. */
struct epreg *epreg_find(struct conn *c, struct epset *set, int fd);
/* NULL: gone. The set it belongs to is locked on return. */
struct epreg *epreg_by_tag(uint64_t data);
static inline uint64_t epreg_tag(const struct epreg *reg)
{
	return eptag_make(reg->index, reg->generation);
}

/* Is readiness worked out here? Not before attaching, and not once the kernel serves every call again. */
static inline bool epreg_ours(const struct conn *c)
{
	return conn_attached(c) && !(smc_stream_rx_plain(&c->stream) && smc_stream_tx_plain(&c->stream));
}

/* Is the application's entry in the kernel under our tag already before attaching? */
static inline bool epreg_tagged_early(uint32_t events)
{
	return events & EPOLLONESHOT;
}

/* What the kernel is to watch for while readiness is worked out here. */
uint32_t epreg_kernel_events(const struct conn *c, uint32_t events);
/* Makes the kernel's entry what it should be for `events` that were just asked for, if the carrier changed. No
 * lock is held. */
void epreg_sync(struct epreg *reg, uint32_t events);
/* With set->lock: is it still in the kernel's set? */
bool epreg_in_kernel(struct epreg *reg);
/* Both directions are back on TCP for good, or attaching failed after epoll_conn_attach: the registration is the
 * kernel's again. c->lock is held. */
void epreg_give_back(struct epreg *reg);

void epreg_fork_prepare(void);
void epreg_fork_parent(void);
void epreg_fork_child(void);

/* ---- sets ---- */

enum { EPSET_WARM_MAX = 32, EPSET_WARM_LOOKS = 32, EPSET_NEST_DEPTH = 5 };

struct epset {
	struct fd_object object; /* FD_EPOLL; first member */
	_Atomic uint32_t refs;	 /* one per descriptor, one per call in progress, one per set it is in */
	struct epset *next;	 /* list of free ones */
	struct epset *all;	 /* list of all ever made */

	struct smc_lock lock;
	_Atomic int fd; /* one of its descriptors, -1 = closed */
	uint32_t nfds;
	struct epreg *regs;
	_Atomic uint32_t nours; /* ... with `ours` */
	_Atomic bool touched;	/* ever had one */
	struct epreg *head, *tail; /* the ready list */
	_Atomic uint32_t nlisted, nready, nwarm;
	uint32_t stamp; /* counts calls that look */
	_Atomic uint32_t attached; /* counts registrations that became ours by attaching */

	_Atomic uint32_t waiting; /* threads that sleep, having armed everything */
	_Atomic uint32_t to_fetch; /* threads that may sleep in it in the plain way, and must be fetched (epset_fetch) */
	bool bells;		   /* the doorbells are in the kernel's set ... */
	unsigned bell_generation; /* ... those of this list */

	/* Others look at the same kernel set (forked) or at its being readable (nested): edges in it may be
	 * taken by them, so sleepers hear the bells by a latch. Nested sets hold no bells at all. */
	_Atomic bool forked, nested;
	bool stale;		     /* copied by fork: the ready list must be made anew */
	struct epset_shared *shared; /* with the other processes, once forked (epset_fork.c) */
	uint32_t changes_seen;
	bool raised;	 /* nest_fd is readable */
	int nest_fd;	 /* eventfd in the kernel's set, readable while the ready list says so; -1 */
	struct epset_inner *inner; /* sets inside this one (epoll_nest.c) */
	_Atomic unsigned ninner;

	/* merging and spinning: hints, races do not matter */
	_Atomic uint64_t asked; /* when the kernel was asked last */
	_Atomic uint32_t skipped; /* calls since */
	_Atomic uint32_t in_vain; /* times in a row that it had nothing */
	_Atomic uint32_t turn;	  /* whose turn it is to fill the result first */
	struct smc_spin_place spin;
	_Atomic uint32_t peer_cpu;
};

void epset_ref(struct epset *set);
void epset_put_last(struct epset *set);
void epset_rebuild(struct epset *set);

static inline void epset_put(struct epset *set)
{
	if (atomic_fetch_sub(&set->refs, 1) == 1)
		epset_put_last(set);
}

/* The set behind a descriptor, with a reference; NULL. */
static inline struct epset *epset_get(int fd)
{
	struct fd_object *o;

	while ((o = fdtable_get(fd)) && o->type == FD_EPOLL) {
		struct epset *set = (struct epset *)o;
		atomic_fetch_add(&set->refs, 1);
		if (__builtin_expect(fdtable_get(fd) == o, 1)) {
			if (__builtin_expect(set->stale, 0))
				epset_rebuild(set);
			return set;
		}
		epset_put(set);
	}
	return NULL;
}

/* Must a wait look at more than what the kernel says? */
bool epset_special(struct epset *set);

extern struct epset *epset_all;
extern struct smc_lock epset_pool_lock; /* of the list of all; before any set->lock */

/* Sets shared over fork: this process changed what is in the kernel's set; the others may have. */
void epset_changed(struct epset *set);
void epset_see_changes(struct epset *set);
void epset_drop_shared(struct epset *set);

/* With set->lock: puts a registration into the ready list, if it can be ready at all. */
void epset_list(struct epset *set, struct epreg *reg, enum epreg_place place);
void epset_unlist(struct epset *set, struct epreg *reg);
/* With set->lock: puts the doorbells into the kernel's set. False: they are not there, sleep on a latch. */
bool epset_put_bells(struct epset *set);
/* Without the lock: takes them out again, unless the set needs them. */
void epset_remove_bells(struct epset *set);
/* With set->lock: whoever looks at the set from outside sees what the ready list says. */
void epset_show_level(struct epset *set);

/* After listing something, without the lock: wakes sleepers of the set that are not this thread. */
void epset_wake(struct epset *set);
/* After the first became ours (or any), without the lock: threads that sleep in the kernel's set in the plain way
 * come out one after the other, by the doorbells that are in it now. */
void epset_fetch(struct epset *set);
/* One of them came out. */
void epset_fetched(struct epset *set);
extern __thread struct epset *epset_asleep_in __attribute__((tls_model("initial-exec")));

enum epset_look {
	LOOK_CALL, /* once per call */
	LOOK_SPIN, /* ... again while spinning */
	LOOK_ARM,  /* before sleeping: what is not ready is armed */
	LOOK_PEEK,  /* is anything ready? arms, reports nothing and keeps what is ready listed; stops at the first */
	LOOK_SWEEP, /* ... for all that is listed */
};

/* Looks at the ready list: up to `max` events. */
int epset_collect(struct epset *set, struct epoll_event *events, int max, enum epset_look look);
/* The same for LOOK_CALL, when the kernel has told something already in this call, asked after `attached` was read from
 * the set (NULL: it has not): what became ours since then may be among that, and is left for the next call. */
int epset_collect_known(struct epset *set, struct epoll_event *events, int max, const uint32_t *attached);
/* Tags among what the kernel gave are taken out and acted upon; returns how many events remain. */
int epset_translate(struct epset *set, struct epoll_event *events, int n, bool *tags);

/* ---- sets inside sets ---- */

/* `inner` is looked at from outside from now on (in `outer`, or NULL: in poll). */
void epset_nest(struct epset *inner, struct epset *outer);
void epset_unnest(struct epset *inner, struct epset *outer);
/* Brings what a set inside something else shows up to date; epset_settle_inner those inside this one. */
void epset_settle(struct epset *set, unsigned depth);
void epset_settle_inner(struct epset *set, unsigned depth);
void epset_drop_inner(struct epset *set);
/* Is one of those inside special? */
bool epset_inner_special(struct epset *set, unsigned depth);
void epset_nest_fork_prepare(void);
void epset_nest_fork_parent(void);
void epset_nest_fork_child(void);

#endif
