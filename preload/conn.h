/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_CONN_H
#define SMC_PRELOAD_CONN_H

#include "core/stream.h"
#include "preload/fdtable.h"
#include "transport/shm/channel.h"

#include <netinet/in.h>

/*
 * A TCP socket of this process: what the wrappers find behind its descriptors.
 *
 *   IDLE       a TCP socket, not connected (may listen)
 *   CANDIDATE  connected, on TCP; calls are counted until an upgrade is worth trying
 *   ASKED      the service thread works on it
 *   ATTACHED   the stream has a channel (each direction then goes up by itself)
 *   PLAIN      stays on TCP; stats->reason says why
 *
 * References: one per descriptor in the table, one per call in progress, one while the service thread works
 * on it, one per epoll registration. The object goes back to the free list with the last.
 *
 * Locks: `lock` guards the list of descriptors, the registrations and the change of state. See core/lock.h for the order.
 */
enum { SERVICE_UPGRADE = 1, SERVICE_WATCH = 2, SERVICE_OWES = 4 };

enum conn_state { CONN_IDLE, CONN_CANDIDATE, CONN_ASKED, CONN_ATTACHED, CONN_PLAIN };

struct link;
struct epreg;

struct conn {
	struct fd_object object; /* FD_CONN; first member */
	_Atomic uint32_t refs;
	bool living;		/* begun and not finished: under life_lock (conn.c), not reset with the rest */
	_Atomic uint32_t state;	 /* enum conn_state */
	struct smc_stream stream; /* stream.end and stream.stats are valid from CANDIDATE on */
	struct shm_channel channel;

	_Atomic int32_t countdown_calls;
	_Atomic int64_t countdown_bytes;
	uint32_t tries;		/* upgrades asked for so far */

	struct smc_lock lock;
	uint32_t keep_tcp;	/* IDLE: a reason to stay on TCP once connected, 0 = none */
	bool last_holder;	/* once finished: no other process has the socket */
	_Atomic bool finished;		/* does not count as a holder any more */
	_Atomic uint32_t nfds;	/* descriptors of this process */
	struct epreg *regs;	/* epoll registrations (preload/epoll.c) */
	_Atomic bool addressed;	/* both addresses are known */
	struct smc_stats_addr local, remote; /* under `lock`; valid from CANDIDATE on (local: from ASKED on) */
	uint32_t want_sndbuf, want_rcvbuf; /* set by the application in bytes (SO_SNDBUF, SO_RCVBUF), 0 = not */
	int parked;		/* the library's own descriptor, for calls that outlive the application's; -1 */
	struct smc_stats_slot own_slot; /* stream.stats when the page has none left */
	bool inherited;		/* attached by the parent process before fork: its link is not ours to use */
	struct link *link;	/* once attached (preload/link.c) */
	uint32_t slot;		/* in the link */
	uint64_t cookie, peer_cookie; /* SO_COOKIE of both sockets (service thread) */
	struct conn *queue_next;	/* in the service queue, while queued */
	_Atomic uint32_t queued;	/* SERVICE_*: what it is queued for */
	_Atomic uint32_t adopted;	/* inherited, and watched by this process' service thread */
	struct conn *next;	/* list of all, or free list */
};

static inline struct conn *conn_of(struct fd_object *o)
{
	return o && o->type == FD_CONN ? (struct conn *)o : NULL;
}

static inline struct conn *conn_of_stream(struct smc_stream *s)
{
	return (struct conn *)((char *)s - offsetof(struct conn, stream));
}

/* The connection behind a descriptor, with a reference; NULL when it is not a TCP socket. */
struct conn *conn_get(int fd);
void conn_ref(struct conn *c);
/* For pointers that may be stale: false if the object is not in use. */
bool conn_try_ref(struct conn *c);
void conn_put(struct conn *c);

/* A new TCP socket `fd` (from socket, or unknown before). */
void conn_new(int fd);
/* fd is being connected (by the application's connect), or was accepted: becomes a CANDIDATE. remote may be NULL. */
void conn_connecting(struct conn *c, const struct sockaddr *remote, socklen_t len);
void conn_accepted(int fd, const struct sockaddr *remote, socklen_t len);
/* Another descriptor of the same socket. */
void conn_dup(struct conn *c, int newfd);
/* Before the real close of `fd`, which is out of the table already; the caller holds a reference besides that
 * of the table, which it lets go of after the real close. */
void conn_closing(struct conn *c, int fd);

/* Stays on TCP (or is handed back to it) for `reason`. */
void conn_keep_tcp(struct conn *c, enum smc_reason reason);
/* If it has not gone up yet, it never will. */
void conn_not_begun(struct conn *c, enum smc_reason reason);
/* A process that may not have the library holds the socket from now on. */
void conn_make_foreign(struct conn *c, enum smc_reason reason);

/* Attaches: channel is initialised by the caller in c->channel, link and slot are set. Called by the service
 * thread with c->lock held. 0 or -errno. */
int conn_attach(struct conn *c);

static inline bool conn_attached(const struct conn *c)
{
	return __atomic_load_n(&c->stream.channel, __ATOMIC_ACQUIRE) != NULL;
}

/* Asks the kernel for addresses not known yet, and shows them in the stats. c->lock is held. */
void conn_fill_addresses(struct conn *c);

/* All connections of this process, for the service thread: calls visit with a reference held. */
void conn_each(void (*visit)(void *context, struct conn *c), void *context);

/* Counts what a call moved over TCP without the stream; the call that makes the connection worth an upgrade
 * asks for it. */
void conn_count(struct conn *c, bool tx, ssize_t n);

/* What the table gave for a number that now is another file: drops the table's reference. NULL is fine. */
void conn_stale(struct fd_object *stale, int fd);
/* The kernel said ENOTSOCK of `fd`, behind which we took `c` to be: was the connection closed where we could not see
 * it, and is the number another file by now? Then it is out of the table. */
bool conn_not_socket(struct conn *c, int fd);
/* Back to CANDIDATE, to be asked for again after four times the use of the last try. c->lock is held. */
void conn_postpone(struct conn *c);
/* At the end of the process: the debug log hears of what is still open. */
void conn_log_open(void);

/* Before an exec (true), and after one that failed (false): this process does not hold its connections any more. */
void conn_all_dropped(bool dropped);
/* Writes to TCP what peers that froze did not take; waits. */
void conn_flush_owed(void);

/* fork: see preload/process.c */
void conn_fork_prepare(void);
void conn_fork_parent(void);
void conn_fork_failed(void); /* after conn_fork_parent, when there is no child */
void conn_fork_child(void);

#endif
