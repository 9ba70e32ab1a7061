/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/log.h"
#include "preload/epset.h"
#include "preload/latch.h"
#include "preload/raw.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

/* ---- the table of registrations: what a tag's index names ---- */

enum { TABLE_CHUNK = 256, TABLE_MAX = 1 << EPTAG_INDEX_BITS };

uint64_t eptag_prefix;

static struct smc_lock table_lock; /* a leaf */
static struct epreg *chunks[TABLE_MAX / TABLE_CHUNK];
static unsigned chunk_count;
/* First freed, first used again: so a generation comes back as late as can be. */
static struct epreg *free_head, *free_tail;

static void make_prefix(void)
{
	uint32_t random = 0;

	if (raw_call3(SYS_getrandom, &random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint32_t)(smc_now_ns() * 2654435761u) ^ (uint32_t)(uintptr_t)&random;
	__atomic_store_n(&eptag_prefix, eptag_prefix_from(random), __ATOMIC_RELEASE);
}

static void append_free(struct epreg *reg)
{
	reg->next = NULL;
	if (free_tail)
		free_tail->next = reg;
	else
		free_head = reg;
	free_tail = reg;
}

static bool grow(void)
{
	/* the very last index is EPTAG_BELL's */
	if (chunk_count == TABLE_MAX / TABLE_CHUNK - 1)
		return false;
	struct epreg *chunk =
		mmap(NULL, TABLE_CHUNK * sizeof(*chunk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (chunk == MAP_FAILED)
		return false;
	if (!eptag_prefix)
		make_prefix();
	for (unsigned i = 0; i < TABLE_CHUNK; i++) {
		chunk[i].index = chunk_count * TABLE_CHUNK + i;
		chunk[i].dead = true;
		append_free(&chunk[i]);
	}
	__atomic_store_n(&chunks[chunk_count], chunk, __ATOMIC_RELEASE);
	chunk_count++;
	return true;
}

static struct epreg *take_free(void)
{
	struct epreg *reg = NULL;

	smc_lock(&table_lock);
	if (free_head || grow()) {
		reg = free_head;
		free_head = reg->next;
		if (!free_head)
			free_tail = NULL;
	}
	smc_unlock(&table_lock);
	return reg;
}

struct epreg *epreg_new(struct epset *set, struct conn *c, int fd, const struct epoll_event *event)
{
	struct epreg *reg = take_free();

	if (!reg)
		return NULL;
	conn_ref(c);
	/* A late tag may still lead somebody here: what epreg_by_tag looks at stays true throughout. */
	reg->set = set;
	memset(&reg->conn, 0, sizeof(*reg) - offsetof(struct epreg, conn));
	reg->conn = c;
	reg->fd = fd;
	reg->events = event->events;
	reg->data = event->data.u64;
	return reg;
}

void epreg_free(struct epreg *reg)
{
	struct conn *c = reg->conn;

	reg->dead = true;
	atomic_fetch_add(&reg->generation, 1);
	smc_lock(&table_lock);
	append_free(reg);
	smc_unlock(&table_lock);
	conn_put(c);
}

struct epreg *epreg_by_tag(uint64_t data)
{
	uint32_t index = eptag_index(data);
	struct epreg *chunk = __atomic_load_n(&chunks[index / TABLE_CHUNK], __ATOMIC_ACQUIRE);

	if (!chunk)
		return NULL;
	struct epreg *reg = &chunk[index % TABLE_CHUNK];
	struct epset *set = reg->set;
	if (!set || !eptag_current(data, reg->generation))
		return NULL;
	smc_lock(&set->lock);
	if (reg->set == set && !reg->dead && eptag_current(data, reg->generation))
		return reg;
	smc_unlock(&set->lock);
	return NULL;
}

/* ---- in the lists of connection and set ---- */

void epreg_link(struct epreg *reg)
{
	struct epset *set = reg->set;

	reg->conn_next = reg->conn->regs;
	reg->conn->regs = reg;
	reg->next = set->regs;
	if (set->regs)
		set->regs->prev = reg;
	set->regs = reg;
	set->touched = true;
}

struct epreg *epreg_find(struct conn *c, struct epset *set, int fd)
{
	struct epreg *reg = c->regs;

	while (reg && (reg->set != set || reg->fd != fd))
		reg = reg->conn_next;
	return reg;
}

static void unlink_from_conn(struct epreg *reg)
{
	struct epreg **at = &reg->conn->regs;

	while (*at != reg)
		at = &(*at)->conn_next;
	*at = reg->conn_next;
}

static void unlink_from_set(struct epreg *reg)
{
	struct epset *set = reg->set;

	if (reg->prev)
		reg->prev->next = reg->next;
	else
		set->regs = reg->next;
	if (reg->next)
		reg->next->prev = reg->prev;
}

bool epreg_drop(struct epreg *reg)
{
	struct epset *set = reg->set;

	smc_lock(&set->lock);
	unlink_from_conn(reg);
	unlink_from_set(reg);
	epset_unlist(set, reg);
	if (reg->ours)
		set->nours--;
	bool busy = reg->busy;
	reg->dead = true;
	epset_show_level(set);
	smc_unlock(&set->lock);
	if (!busy)
		epreg_free(reg);
	return busy;
}

/* ---- what the kernel is told ---- */

#define READ_EVENTS (EPOLLIN | EPOLLRDNORM)
#define WRITE_EVENTS (EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND)

uint32_t epreg_kernel_events(const struct conn *c, uint32_t events)
{
	uint32_t mask = EPOLLRDHUP | EPOLLET; /* and what is always told */

	mask |= events & (READ_EVENTS | EPOLLPRI | EPOLLRDBAND | EPOLLMSG);
	/* A TCP socket nobody writes to is always writable: only where the bytes go by TCP (or wait to) */
	if ((events & WRITE_EVENTS) && atomic_load_explicit(&c->stream.end->tx_mode, memory_order_relaxed) != SMC_TX_FAST)
		mask |= EPOLLOUT;
	return mask;
}

/* With set->lock */
static long tell_kernel(struct epreg *reg, uint32_t events, uint64_t data)
{
	struct epoll_event e = { .events = events, .data.u64 = data };

	/* The number may be another socket by now, while a dup keeps this one open: its entry is not ours. */
	if (fdtable_get(reg->fd) != &reg->conn->object)
		return -EBADF;
	return raw_call4(SYS_epoll_ctl, reg->set->fd, EPOLL_CTL_MOD, reg->fd, &e);
}

void epreg_sync(struct epreg *reg, uint32_t events)
{
	struct epset *set = reg->set;

	if (__builtin_expect(reg->kernel == epreg_kernel_events(reg->conn, events), 1))
		return;
	/* If it fails, the entry is gone or out of reach (its descriptor is closed, but a dup of it is not):
	 * what is left then is the service thread, which watches the socket as well. */
	smc_lock(&set->lock);
	if (!reg->dead && reg->ours) {
		reg->kernel = epreg_kernel_events(reg->conn, reg->events);
		tell_kernel(reg, reg->kernel, epreg_tag(reg));
	}
	smc_unlock(&set->lock);
}

bool epreg_in_kernel(struct epreg *reg)
{
	return tell_kernel(reg, reg->kernel, epreg_tag(reg)) != -ENOENT;
}

/* With set->lock */
static void to_kernel(struct epreg *reg)
{
	bool tagged = epreg_tagged_early(reg->events);

	/* what is disarmed stays so: the kernel can't be told to watch for nothing at all */
	if (!reg->ours || reg->disarmed)
		return;
	epset_unlist(reg->set, reg);
	reg->ours = false;
	reg->set->nours--;
	reg->generation++; /* what our entry still told is void */
	tell_kernel(reg, reg->events, tagged ? epreg_tag(reg) : reg->data);
	epset_show_level(reg->set);
}

void epreg_give_back(struct epreg *reg)
{
	struct epset *set = reg->set;

	smc_lock(&set->lock);
	if (!reg->dead)
		to_kernel(reg);
	smc_unlock(&set->lock);
}

/* ---- attaching ---- */

/* 0, or -errno: -ENOENT = the kernel has no such entry. */
static long attach_one(struct epreg *reg)
{
	struct epset *set = reg->set;

	if (reg->events & EPOLLEXCLUSIVE)
		return -EINVAL;
	smc_lock(&set->lock);
	uint32_t mask = epreg_kernel_events(reg->conn, reg->events);
	/* -EBADF for an entry whose own descriptor is closed while a dup is open: only the kernel can serve it. */
	long r = tell_kernel(reg, mask, epreg_tag(reg));
	if (r >= 0) {
		reg->kernel = mask;
		reg->ours = true;
		set->nours++;
		reg->attached = atomic_fetch_add(&set->attached, 1) + 1;
		epset_put_bells(set);
		epset_list(set, reg, PLACE_READY);
		epset_show_level(set);
	}
	smc_unlock(&set->lock);
	return r;
}

bool epoll_conn_attach(struct conn *c)
{
	/* there may be doorbells that nobody has heard of yet */
	latch_bells_changed();
	for (struct epreg *reg = c->regs, *next; reg; reg = next) {
		next = reg->conn_next;
		long r = attach_one(reg);
		if (r >= 0)
			continue;
		if (r == -ENOENT) { /* deleted without our seeing it */
			epreg_drop(reg);
			continue;
		}
		smc_log(1, "epoll fd=%d stays with the kernel", reg->fd);
		for (struct epreg *undo = c->regs; undo != reg; undo = undo->conn_next)
			epreg_give_back(undo);
		return false;
	}
	/* sleepers who are counted hear of the listing; those who are not, of the bells that were just put there */
	for (struct epreg *reg = c->regs; reg; reg = reg->conn_next) {
		epset_wake(reg->set);
		epset_fetch(reg->set);
	}
	return true;
}

/* ---- the end of a connection ---- */

/* A thread may be looking at the connection through a registration that was just dropped; it is done within
 * microseconds. Not waited for without end: it may be what a signal handler of ours interrupted. */
static void wait_for_look(const struct epreg *reg, uint32_t generation)
{
	uint64_t end = smc_now_ns() + 20 * 1000 * 1000;

	while (reg->generation == generation && smc_now_ns() < end)
		sched_yield();
}

void epoll_conn_closing(struct conn *c, int fd, bool last)
{
	struct epreg *reg;

	(void)fd; /* as in the kernel: a registration lives as long as any descriptor of the socket */
	if (!last)
		return;
	for (;;) {
		smc_lock(&c->lock);
		uint32_t generation = (reg = c->regs) ? reg->generation : 0;
		bool busy = reg && epreg_drop(reg);
		smc_unlock(&c->lock);
		if (!reg)
			return;
		if (busy)
			wait_for_look(reg, generation);
	}
}

/* ---- fork ---- */

void epreg_fork_prepare(void)
{
	smc_lock(&table_lock);
}

void epreg_fork_parent(void)
{
	smc_unlock(&table_lock);
}

void epreg_fork_child(void)
{
	smc_lock_reset(&table_lock);
}
