/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_PRELOAD_SERVICE_INTERNAL_H
#define SMC_PRELOAD_SERVICE_INTERNAL_H

#include "core/diag.h"
#include "core/rendezvous.h"
#include "preload/link.h"
#include "preload/service.h"

/*
 * Shared by the files of the service thread (service.c, meet.c, attach.c, link.c, diag_socket.c). Unless said
 * otherwise, functions run in that thread with the service lock held.
 */

/* ---- links ---- */

enum link_state { LINK_FREE, LINK_WELCOMED, LINK_UP, LINK_DEAD };

struct link {
	_Atomic uint32_t state;	/* enum link_state */
	_Atomic uint32_t users;	/* attached connections of this process; the socket of a live link counts too */
	int sock;		/* SEQPACKET, internal; -1 */
	int peer_bell;		/* the other process' eventfd, internal; -1 */
	unsigned side;		/* 0: made the page */
	bool self;		/* both ends are this process */
	uint32_t uid;		/* of the other process, by the kernel's word */
	uint8_t token[RV_TOKEN];
	struct shm_link_page *page;	    /* at a fixed address per object: a stale reader never faults */
	const struct shm_status *peer_status;
	struct shm_pool ours, theirs;	    /* segments this side, the other side made */
	struct smc_stats_addr served;	    /* server address of the last connection: a hint where to offer */
	uint32_t next_slot;
	uint32_t offered;	/* offers of ours not answered yet */
	_Atomic(struct conn *) *conns;	    /* by slot */
	struct link *next_free;
};

/* The bell of this process, made if need be. NULL: *reason says why not. */
struct shm_bell *link_own_bell(enum smc_reason *reason);
/* Adopts sock, page and (unless self) the peer's fds. The page's memfd stays the caller's. NULL: no memory. */
struct link *link_make(int sock, unsigned side, uint32_t uid, const uint8_t token[RV_TOKEN], int page_fd);
/* Takes the peer's doorbell and status page (fds consumed). False: not what they should be. */
bool link_join(struct link *l, int bell_fd, int status_fd);
void link_up(struct link *l);
void link_kill(struct link *l);
struct link *link_self(enum smc_reason *reason);
struct link *link_by_token(const uint8_t token[RV_TOKEN]);
/* The only live link whose other end served this address, or NULL if there is none or there are several. */
struct link *link_serving(const struct smc_stats_addr *server);
/* A free slot of ours (two neighbours for a link to ourselves); false: none. */
bool link_take_slot(struct link *l, uint32_t *slot);
/* Which connection has the slot; with a reference. NULL: none. */
struct conn *link_conn(struct link *l, uint32_t slot);
/* Enters an attached connection. */
void link_enter(struct link *l, uint32_t slot, struct conn *c);
struct shm_peer_bell link_bell_for(struct link *l, uint32_t slot);
void link_each(void (*visit)(struct link *l));

/* ---- messages over unix sockets ---- */

/* Sends one message with n descriptors; 0 or -errno. Any thread. */
int rv_send(int sock, const struct rv_msg *m, const int *fds, unsigned n);
/* Receives one; descriptors go to fds (internal, n of them). -EAGAIN none there, -EPIPE closed, -EPROTO garbage
 * (counted as refused; descriptors closed). */
int rv_recv(int sock, struct rv_msg *m, int fds[RV_MAX_FDS], unsigned *n);
void rv_close_fds(const int *fds, unsigned n);

/* ---- who holds the other end of a connection ---- */

/* Asks the kernel for the socket with these addresses; 0 or -errno as diag_answer. */
int diag_find(const struct smc_stats_addr *local, const struct smc_stats_addr *remote, struct diag_socket *found);
void diag_close(void);

/* ---- the thread ---- */

/* What an event of the service epoll is about: the kind in the low bits of the pointer. */
enum watch_kind { WATCH_QUEUE, WATCH_NAME, WATCH_CALL, WATCH_GUEST, WATCH_LINK, WATCH_CONN };

/* 0 or -errno */
int service_watch(int fd, uint32_t events, enum watch_kind kind, void *object);
void service_unwatch(int fd);
const uint8_t *service_token(void);

/* ---- meeting by name (meet.c) ---- */

struct task;
/* The connection's way to an upgrade: starts, goes on when something happened, ends. */
void meet_begin(struct conn *c);
void meet_name_event(struct task *t);
void meet_call_event(struct task *t);
struct guest;
void meet_guest_event(struct guest *g);
void meet_link_event(struct link *l);
/* Does what is due; returns milliseconds to the next thing, -1 = none. */
int meet_timers(uint64_t now);
void meet_forked(void);
/* The task of a connection, or NULL. */
struct task *meet_task(struct conn *c);
/* The task whose offer over the link has this slot, or NULL. */
struct task *meet_offered(struct link *l, uint32_t slot);
/* Its offer was declined. */
void meet_declined(struct task *t, enum smc_reason reason);
/* How it ended: NONE = attached; a reason that may pass makes it a candidate again, others are final. */
void meet_end(struct task *t, enum smc_reason reason);

/* ---- attaching over a link (attach.c) ---- */

enum { OFFERS_MAX = 64 }; /* unanswered, per link */

/* Offers the connection of a task over the link, or lets it wait (TASK_LINKING) while many offers are under way: a
 * unix socket holds only so many messages. NONE, or why not. */
enum smc_reason attach_offer(struct task *t, struct link *l);
/* Messages of a link. */
/* False: the answer could not be sent, the link is broken. */
bool attach_offered(struct link *l, const struct rv_msg *m, int fd);
void attach_answered(struct link *l, const struct rv_msg *m);
void attach_left(struct link *l, const struct rv_msg *m);
/* Both ends are in this process. */
enum smc_reason attach_self(struct task *t, struct conn *connector, struct conn *acceptor);

enum task_state {
	TASK_OFFERED,  /* connector: over a link, waiting for the answer */
	TASK_NAMED,    /* connector: listens at the connection's name */
	TASK_LINKING,  /* connector: waits for the link, or for its turn on it */
	TASK_CALLING,  /* acceptor: tries to connect to the name */
	TASK_GREETED,  /* acceptor: HELLO sent */
	TASK_EXPECTING /* acceptor: waits for the offer over the link */
};

struct task {
	struct conn *c; /* with a reference */
	enum task_state state;
	bool connector;
	bool by_name; /* was offered over a known link first, and declined */
	struct smc_stats_addr client, server;
	uint64_t cookie, peer_cookie;
	uint32_t peer_uid;
	int sock;	   /* TASK_NAMED: listener; CALLING, GREETED: connection; internal; -1 */
	uint64_t deadline; /* of the state, ns */
	uint64_t give_up;  /* of the whole */
	uint32_t backoff_ms;
	struct link *link;
	uint32_t slot;
	struct shm_segment *segment; /* OFFERED */
	struct conn *mirror; /* while looking for the other end in this process */
	struct task *next;
};

#endif
