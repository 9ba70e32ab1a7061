/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/conn.h"
#include "core/arena.h"
#include "core/config.h"
#include "core/log.h"
#include "core/sys.h"
#include "preload/addr.h"
#include "preload/epoll.h"
#include "preload/link.h"
#include "preload/process.h"
#include "preload/raw.h"
#include "preload/service.h"
#include "preload/start.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

_Static_assert(sizeof(struct smc_end) <= SMC_ARENA_OBJECT, "make SMC_ARENA_OBJECT larger");

/* Objects are mapped in chunks and never unmapped: a stale pointer out of the descriptor table is harmless. */
enum { CONN_CHUNK = 64 };

static struct smc_lock pool_lock;
/* Held while a connection begins or ends in this process, and over fork: so a fork counts exactly the
 * connections that both processes will have. */
static struct smc_lock life_lock;
static struct conn *free_conns;
static struct conn *chunks[FDTABLE_MAX / CONN_CHUNK];
static _Atomic unsigned chunk_count;

static bool grow(void)
{
	unsigned n = chunk_count;

	if (n == sizeof(chunks) / sizeof(chunks[0]))
		return false;
	struct conn *chunk = mmap(NULL, CONN_CHUNK * sizeof(*chunk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (chunk == MAP_FAILED)
		return false;
	for (unsigned i = 0; i < CONN_CHUNK; i++) {
		chunk[i].object.type = FD_CONN;
		chunk[i].next = free_conns;
		free_conns = &chunk[i];
	}
	chunks[n] = chunk;
	atomic_store_explicit(&chunk_count, n + 1, memory_order_release);
	return true;
}

static struct conn *allocate(void)
{
	smc_lock(&pool_lock);
	if (!free_conns)
		grow();
	struct conn *c = free_conns;
	if (c)
		free_conns = c->next;
	smc_unlock(&pool_lock);
	return c;
}

static void set_state(struct conn *c, enum conn_state state)
{
	atomic_store_explicit(&c->state, state, memory_order_release);
}

static enum conn_state state_of(struct conn *c)
{
	return (enum conn_state)atomic_load_explicit(&c->state, memory_order_acquire);
}

/* A fresh object, which nobody else sees before it is published with one reference, that of the table. */
static struct conn *make(int fd)
{
	struct conn *c = allocate();

	if (!c)
		return NULL;
	/* all but the reference count, which a reader with a stale pointer may be counting up and down */
	memset((char *)c + offsetof(struct conn, state), 0, offsetof(struct conn, next) - offsetof(struct conn, state));
	c->parked = -1;
	c->nfds = 1;
	c->stream.fd = fd;
	c->stream.stats = &c->own_slot;
	c->stream.tell_frozen = link_tell_frozen;
	return c;
}

/* From here on others can find it. Returns what the table had for the number. */
static struct fd_object *publish(struct conn *c, int fd, bool *failed)
{
	atomic_store(&c->refs, 1);
	return fdtable_set(fd, &c->object, failed);
}

static void recycle(struct conn *c)
{
	smc_lock(&pool_lock);
	c->next = free_conns;
	free_conns = c;
	smc_unlock(&pool_lock);
}

/* ---- references ---- */

void conn_ref(struct conn *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
}

/* Zero is for good, until the object is made anew: so whoever gets a reference by this gets a living one. */
bool conn_try_ref(struct conn *c)
{
	uint32_t refs = atomic_load_explicit(&c->refs, memory_order_relaxed);

	while (refs)
		if (atomic_compare_exchange_weak(&c->refs, &refs, refs + 1))
			return true;
	return false;
}

struct conn *conn_get(int fd)
{
	struct fd_object *o;

	while ((o = fdtable_get(fd)) && o->type == FD_CONN) {
		struct conn *c = (struct conn *)o;
		if (!conn_try_ref(c))
			continue; /* being closed: the entry is about to change, or has */
		if (__builtin_expect(fdtable_get(fd) == o, 1))
			return c;
		conn_put(c);
	}
	return NULL;
}

/* ---- the end of a connection ---- */

static void log_end(struct conn *c, const char *event)
{
	const struct smc_stats_slot *s = c->stream.stats;
	char local[SMC_ADDR_TEXT], remote[SMC_ADDR_TEXT];
	uint64_t tx = s->tx[SMC_CARRIER_SHM] + s->tx[SMC_CARRIER_RDMA], rx = s->rx[SMC_CARRIER_SHM] + s->rx[SMC_CARRIER_RDMA];

	addr_text(&c->local, local);
	addr_text(&c->remote, remote);
	smc_log(1, "%s fd=%d local=%s remote=%s role=%s carrier=%s reason=%u tx_shm=%llu rx_shm=%llu tx_tcp=%llu rx_tcp=%llu", event,
		c->stream.fd, local, remote, c->stream.connector ? "connector" : "acceptor", tx + rx ? "shm" : "tcp",
		s->reason, (unsigned long long)s->tx[SMC_CARRIER_SHM], (unsigned long long)s->rx[SMC_CARRIER_SHM],
		(unsigned long long)s->tx[SMC_CARRIER_TCP], (unsigned long long)s->rx[SMC_CARRIER_TCP]);
}

/* The connection ends in this process, while a descriptor of it is still open. Its memory stays until the last
 * reference has gone: other threads may be looking at it. */
static void finish(struct conn *c)
{
	struct smc_stream *s = &c->stream;

	if (!s->end)
		return;
	smc_lock(&life_lock);
	c->last_holder = atomic_fetch_sub(&s->end->holders, 1) == 1;
	c->finished = true;
	c->living = false;
	smc_unlock(&life_lock);
	if (!c->last_holder)
		return;
	if (s->channel)
		smc_stream_close(s);
	if (smc_log_level) {
		conn_fill_addresses(c);
		log_end(c, "closed");
	}
}

/* Nobody looks any more. */
static void give_back(struct conn *c)
{
	struct smc_stream *s = &c->stream;

	if (c->parked >= 0) {
		finish(c);
		fdtable_close_internal(c->parked);
	}
	if (s->channel && c->last_holder)
		s->channel->ops->release(s->channel);
	if (c->link)
		link_detach(c);
	if (s->end && c->last_holder) {
		smc_stats_slot_drop(s->stats);
		smc_arena_free(s->end);
	}
	c->nfds = 0;
	s->end = NULL;
	s->channel = NULL;
	recycle(c);
}

void conn_put(struct conn *c)
{
	if (atomic_fetch_sub(&c->refs, 1) == 1)
		give_back(c);
}

struct other_fd {
	struct fd_object *object;
	int fd;
};

static void find_other(void *context, int fd, struct fd_object *object)
{
	struct other_fd *o = context;

	if (object == o->object)
		o->fd = fd;
}

/* Calls that sleep on the channel go on with a descriptor of our own, as they would in the kernel. */
static bool park(struct conn *c, int fd)
{
	int copy = (int)raw_call3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);

	if (copy < 0 || (copy = fdtable_make_internal(copy)) < 0)
		return false;
	c->parked = copy;
	c->stream.fd = copy;
	return true;
}

void conn_closing(struct conn *c, int fd)
{
	smc_lock(&c->lock);
	bool last = --c->nfds == 0;
	if (!last && c->stream.fd == fd) {
		struct other_fd other = { &c->object, -1 };
		fdtable_each(FD_CONN, find_other, &other);
		if (other.fd >= 0)
			c->stream.fd = other.fd;
	}
	enum conn_state state = state_of(c);
	if (last)
		set_state(c, CONN_PLAIN); /* nothing is begun any more */
	smc_unlock(&c->lock);
	epoll_conn_closing(c, fd, last);
	if (!last)
		return;
	if (state == CONN_ASKED || state == CONN_ATTACHED)
		service_forget(c);
	if (!atomic_load(&c->stream.sleepers) || !park(c, fd))
		finish(c);
}

/* ---- the beginning ---- */

void conn_new(int fd)
{
	struct conn *c;
	bool failed;

	start_once();
	if (!(c = make(fd)))
		return;
	struct fd_object *stale = publish(c, fd, &failed);
	if (failed)
		conn_put(c);
	conn_stale(stale, fd);
}

void conn_stale(struct fd_object *stale, int fd)
{
	struct conn *c = conn_of(stale);

	if (stale && stale->type == FD_EPOLL)
		epoll_closing(stale, fd);
	/* closed behind our back: the descriptor is another file by now, nothing may be done to it */
	if (!c)
		return;
	conn_ref(c);
	c->stream.fd = -1;
	smc_log(1, "stale fd=%d", fd);
	conn_closing(c, -1);
	conn_put(c); /* the table's */
	conn_put(c);
}

bool conn_not_socket(struct conn *c, int fd)
{
	int type;
	socklen_t len = sizeof(type);

	if (smc_sys.getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != -ENOTSOCK || !process_is_own())
		return false;
	if (fdtable_get(fd) == &c->object) {
		fdtable_set(fd, NULL, NULL);
		conn_stale(&c->object, fd);
	}
	return true;
}

/* Sets up what only connections have. Without it the socket stays IDLE, which is plain TCP. */
static bool begin(struct conn *c, bool connector)
{
	struct smc_end *end;

	start_stats();
	if (!(end = smc_arena_alloc()))
		return false;
	end->holders = 1;
	c->stream.connector = connector;
	struct smc_stats_slot *slot = smc_stats_slot_take();
	if (slot)
		c->stream.stats = slot;
	slot = c->stream.stats;
	slot->role = connector ? SMC_ROLE_CONNECTOR : SMC_ROLE_ACCEPTOR;
	slot->fd = c->stream.fd;
	slot->pid = process_pid();
	slot->remote = c->remote;
	uint32_t tcp = start_tcp_reason() != SMC_REASON_NONE ? start_tcp_reason() : c->keep_tcp;
	slot->reason = tcp ? tcp : SMC_REASON_NEW;
	c->countdown_calls = (int32_t)smc_config.upgrade_calls;
	c->countdown_bytes = (int64_t)smc_config.upgrade_bytes;
	smc_lock(&life_lock);
	c->stream.end = end;
	c->living = true;
	smc_unlock(&life_lock);
	set_state(c, tcp ? CONN_PLAIN : CONN_CANDIDATE);
	return true;
}

void conn_connecting(struct conn *c, const struct sockaddr *remote, socklen_t len)
{
	smc_lock(&c->lock);
	if (state_of(c) == CONN_IDLE && c->nfds) {
		addr_from_sockaddr(&c->remote, remote, len);
		begin(c, true);
	}
	smc_unlock(&c->lock);
}

void conn_accepted(int fd, const struct sockaddr *remote, socklen_t len)
{
	struct conn *c;
	bool failed;

	start_once();
	if (!(c = make(fd)))
		return;
	addr_from_sockaddr(&c->remote, remote, len);
	begin(c, false);
	struct fd_object *stale = publish(c, fd, &failed);
	if (failed) {
		finish(c);
		conn_put(c);
	}
	conn_stale(stale, fd);
}

void conn_dup(struct conn *c, int newfd)
{
	bool failed;

	smc_lock(&c->lock);
	c->nfds++;
	smc_unlock(&c->lock);
	conn_ref(c);
	struct fd_object *stale = fdtable_set(newfd, &c->object, &failed);
	if (failed) { /* cannot be followed: so it must be the kernel's */
		conn_make_foreign(c, SMC_REASON_TABLE_FULL);
		conn_put(c);
	}
	conn_stale(stale, newfd);
}

/* ---- staying on TCP, going up ---- */

void conn_not_begun(struct conn *c, enum smc_reason reason)
{
	smc_lock(&c->lock);
	enum conn_state state = state_of(c);
	if (state == CONN_CANDIDATE || state == CONN_ASKED) {
		set_state(c, CONN_PLAIN);
		atomic_store(&c->stream.stats->reason, reason);
	} else if (state == CONN_IDLE) {
		c->keep_tcp = reason;
	}
	smc_unlock(&c->lock);
}

void conn_keep_tcp(struct conn *c, enum smc_reason reason)
{
	conn_not_begun(c, reason);
	if (state_of(c) != CONN_ATTACHED)
		return;
	smc_stream_hand_back(&c->stream, reason);
	epoll_conn_activity(c);
}

void conn_make_foreign(struct conn *c, enum smc_reason reason)
{
	if (state_of(c) == CONN_IDLE || !c->stream.end)
		return;
	atomic_store(&c->stream.end->foreign, reason);
	conn_keep_tcp(c, reason);
}

int conn_attach(struct conn *c)
{
	if (state_of(c) != CONN_ASKED && state_of(c) != CONN_CANDIDATE)
		return -ECANCELED;
	int r = smc_stream_attach(&c->stream, &c->channel.base);
	if (!r)
		set_state(c, CONN_ATTACHED);
	return r;
}

void conn_fill_addresses(struct conn *c)
{
	struct smc_stats_slot *s = c->stream.stats;

	if (c->addressed)
		return;
	addr_of_socket(c->stream.fd, &c->local, &c->remote);
	atomic_fetch_add(&s->seq, 1);
	s->local = c->local;
	s->remote = c->remote;
	atomic_fetch_add(&s->seq, 1);
	c->addressed = c->local.family && c->remote.family;
}

/* The connection has been used enough. Decides what can be decided without the service thread. */
static void consider(struct conn *c)
{
	enum smc_reason reason = SMC_REASON_NONE;

	smc_lock(&c->lock);
	if (state_of(c) != CONN_CANDIDATE || !c->nfds) {
		smc_unlock(&c->lock);
		return;
	}
	conn_fill_addresses(c);
	uint32_t foreign = atomic_load(&c->stream.end->foreign);
	if (foreign)
		reason = (enum smc_reason)foreign;
	else if (!addr_same_host(&c->local, &c->remote))
		reason = SMC_REASON_NOT_LOCAL;
	if (reason == SMC_REASON_NONE && atomic_load(&c->stream.end->holders) > 1) {
		/* the other process (a forked parent, say) may close its copy yet */
		atomic_store(&c->stream.stats->reason, SMC_REASON_SHARED);
		conn_postpone(c);
		smc_unlock(&c->lock);
		return;
	}
	atomic_store(&c->stream.stats->reason, reason == SMC_REASON_NONE ? SMC_REASON_WAITING : reason);
	atomic_store(&c->stream.stats->pid, process_pid());
	set_state(c, reason == SMC_REASON_NONE ? CONN_ASKED : CONN_PLAIN);
	if (reason == SMC_REASON_NONE)
		conn_ref(c);
	smc_unlock(&c->lock);
	if (reason == SMC_REASON_NONE)
		service_want(c);
}

void conn_postpone(struct conn *c)
{
	uint32_t factor = c->tries < 8 ? 1u << (2 * c->tries) : 1u << 16;

	c->tries++;
	c->countdown_calls = (int32_t)(smc_config.upgrade_calls > INT32_MAX / factor ? INT32_MAX : smc_config.upgrade_calls * factor);
	c->countdown_bytes = (int64_t)(smc_config.upgrade_bytes > INT64_MAX / factor ? INT64_MAX : smc_config.upgrade_bytes * factor);
	set_state(c, CONN_CANDIDATE);
}

void conn_count(struct conn *c, bool tx, ssize_t n)
{
	struct smc_stats_slot *s = c->stream.stats;
	_Atomic uint64_t *counter = tx ? &s->tx[SMC_CARRIER_TCP] : &s->rx[SMC_CARRIER_TCP];
	struct smc_end *end = c->stream.end;

	if (n <= 0 || !end)
		return;
	if (__builtin_expect(!atomic_load_explicit(&c->addressed, memory_order_relaxed), 0)) { /* not at connect or accept: many connections end right after */
		smc_lock(&c->lock);
		conn_fill_addresses(c);
		smc_unlock(&c->lock);
	}
	atomic_fetch_add_explicit(tx ? &end->tcp_written : &end->tcp_read, (uint64_t)n, memory_order_relaxed);
	/* several threads may lose a count here; it is for people, and a locked add is not free */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + (uint64_t)n, memory_order_relaxed);
	if (atomic_load_explicit(&c->state, memory_order_relaxed) != CONN_CANDIDATE)
		return;
	int32_t calls = atomic_load_explicit(&c->countdown_calls, memory_order_relaxed) - 1;
	int64_t bytes = atomic_load_explicit(&c->countdown_bytes, memory_order_relaxed) - n;
	atomic_store_explicit(&c->countdown_calls, calls, memory_order_relaxed);
	atomic_store_explicit(&c->countdown_bytes, bytes, memory_order_relaxed);
	if (calls <= 0 || bytes <= 0) {
		int saved = errno;
		consider(c);
		errno = saved;
	}
}

/* ---- all of them ---- */

void conn_each(void (*visit)(void *context, struct conn *c), void *context)
{
	unsigned n = atomic_load_explicit(&chunk_count, memory_order_acquire);

	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < CONN_CHUNK; k++) {
			struct conn *c = &chunks[i][k];
			if (!conn_try_ref(c))
				continue;
			if (c->nfds)
				visit(context, c);
			conn_put(c);
		}
}

static void log_open(void *context, struct conn *c)
{
	(void)context;
	if (state_of(c) != CONN_IDLE && c->stream.end) {
		conn_fill_addresses(c);
		log_end(c, "open-at-exit");
	}
}

void conn_log_open(void)
{
	if (smc_log_level)
		conn_each(log_open, NULL);
}

/* ---- fork ---- */

/* With life_lock: every connection that has begun and not ended. */
static void each_living(void (*visit)(struct conn *c))
{
	for (unsigned i = 0; i < chunk_count; i++)
		for (unsigned k = 0; k < CONN_CHUNK; k++)
			if (chunks[i][k].living)
				visit(&chunks[i][k]);
}

static void add_holder(struct conn *c)
{
	atomic_fetch_add(&c->stream.end->holders, 1);
}

static void drop_holder(struct conn *c)
{
	atomic_fetch_sub(&c->stream.end->holders, 1);
}

static void in_child(struct conn *c)
{
	smc_lock_reset(&c->lock);
	c->stream.rx_calls = 0;
	c->stream.tx_calls = 0;
	c->stream.sleepers = 0;
	c->queued = 0;
	c->adopted = 0;
	if (conn_attached(c))
		c->inherited = true;
	else if (state_of(c) == CONN_ASKED)
		conn_postpone(c);
}

void conn_all_dropped(bool dropped)
{
	smc_lock(&life_lock);
	each_living(dropped ? drop_holder : add_holder);
	smc_unlock(&life_lock);
}

static void flush_owed(void *context, struct conn *c)
{
	(void)context;
	if (!conn_attached(c) || atomic_load(&c->stream.end->holders) > 1)
		return;
	while (smc_stream_progress(&c->stream)) {
		struct pollfd p = { .fd = c->stream.fd, .events = POLLOUT };
		smc_sys.poll(&p, 1, -1);
	}
}

void conn_flush_owed(void)
{
	conn_each(flush_owed, NULL);
}

void conn_fork_prepare(void)
{
	smc_lock(&life_lock);
	smc_lock(&pool_lock);
	each_living(add_holder);
}

void conn_fork_parent(void)
{
	smc_unlock(&pool_lock);
	smc_unlock(&life_lock);
}

void conn_fork_failed(void)
{
	smc_lock(&life_lock);
	each_living(drop_holder);
	smc_unlock(&life_lock);
}

void conn_fork_child(void)
{
	smc_lock_reset(&life_lock);
	smc_lock_reset(&pool_lock);
	each_living(in_child);
	smc_arena_forked();
}
