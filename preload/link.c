/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/link.h"
#include "core/fence.h"
#include "core/log.h"
#include "core/sys.h"
#include "preload/epoll.h"
#include "preload/raw.h"
#include "preload/service_internal.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/*
 * Links are looked at by every waiting thread without a lock, so their memory is never unmapped: a dead link's
 * object, and the addresses its pages were mapped at, are kept for the next link.
 */

enum { LINKS_MAX = 1024, PAGE_MAP = 8192, STATUS_MAP = 4096 };
_Static_assert(sizeof(struct shm_link_page) <= PAGE_MAP, "the mapping of a link page");
_Static_assert(sizeof(struct shm_status) <= STATUS_MAP, "the mapping of a status page");

static struct link *links[LINKS_MAX]; /* those in use or kept; grows only */
static _Atomic unsigned link_count;

static struct smc_lock bell_lock;
static struct shm_bell own_bell;
static _Atomic bool have_bell;
static struct shm_bell inherited[LINK_BELLS - 1]; /* of the processes we were forked from */
static unsigned inherited_count, bell_generation;

/* ---- bells ---- */

struct shm_bell *link_own_bell(enum smc_reason *reason)
{
	smc_lock(&bell_lock);
	if (!have_bell) {
		struct shm_bell b;
		int r = shm_bell_make(&b);
		if (!r && (b.fd = fdtable_make_internal(b.fd)) >= 0 && (b.status_fd = fdtable_make_internal(b.status_fd)) >= 0) {
			own_bell = b;
			bell_generation++;
			atomic_store_explicit(&have_bell, true, memory_order_release);
		} else {
			*reason = r == -EMFILE || r == 0 ? SMC_REASON_NO_FDS : r == -ENOMEM ? SMC_REASON_NO_MEMORY : SMC_REASON_NO_MEMFD;
		}
	}
	smc_unlock(&bell_lock);
	return have_bell ? &own_bell : NULL;
}

/* What this thread counted itself asleep for: a bell may be made while it sleeps. (A thread that sleeps
 * without one is woken when a connection it waits for attaches, see epoll_conn_attach.) */
static __thread struct {
	bool own;
	unsigned inherited;
} counted __attribute__((tls_model("initial-exec")));

void link_asleep(void)
{
	counted.own = atomic_load_explicit(&have_bell, memory_order_acquire);
	counted.inherited = inherited_count;
	if (counted.own)
		shm_bell_asleep(&own_bell);
	for (unsigned i = 0; i < counted.inherited; i++)
		shm_bell_asleep(&inherited[i]);
	smc_full_fence();
}

void link_awake(void)
{
	if (counted.own)
		shm_bell_awake(&own_bell);
	for (unsigned i = 0; i < counted.inherited; i++)
		shm_bell_awake(&inherited[i]);
}

unsigned link_bell_fds(int fds[LINK_BELLS], unsigned *generation)
{
	unsigned n = 0;

	smc_lock(&bell_lock);
	if (have_bell)
		fds[n++] = own_bell.fd;
	for (unsigned i = 0; i < inherited_count; i++)
		fds[n++] = inherited[i].fd;
	*generation = bell_generation;
	smc_unlock(&bell_lock);
	return n;
}

/* ---- attention ---- */

static struct shm_attention *ours(struct link *l)
{
	return &l->page->side[l->self ? 0 : l->side];
}

static bool listens(struct link *l)
{
	uint32_t state = atomic_load_explicit(&l->state, memory_order_acquire);

	return state == LINK_UP || state == LINK_DEAD;
}

bool link_attention(void)
{
	unsigned n = atomic_load_explicit(&link_count, memory_order_acquire);

	for (unsigned i = 0; i < n; i++)
		if (listens(links[i]) && shm_attention_any(ours(links[i])))
			return true;
	return false;
}

struct conn *link_conn(struct link *l, uint32_t slot)
{
	struct conn *c;

	if (slot >= SHM_LINK_SLOTS || !(c = atomic_load(&l->conns[slot])))
		return NULL;
	if (!conn_try_ref(c))
		return NULL;
	if (atomic_load(&l->conns[slot]) == c)
		return c;
	conn_put(c);
	return NULL;
}

static void wants_attention(void *context, uint32_t slot)
{
	struct conn *c = link_conn(context, slot);

	if (!c)
		return;
	epoll_conn_activity(c);
	conn_put(c);
}

void link_harvest(void)
{
	unsigned n = atomic_load_explicit(&link_count, memory_order_acquire);

	for (unsigned i = 0; i < n; i++)
		if (listens(links[i]) && shm_attention_any(ours(links[i])))
			shm_attention_harvest(ours(links[i]), wants_attention, links[i]);
}

/* ---- making and ending ---- */

static void *reserve(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static struct link *allocate(void)
{
	unsigned n = link_count;

	for (unsigned i = 0; i < n; i++)
		if (links[i]->state == LINK_FREE)
			return links[i];
	if (n == LINKS_MAX)
		return NULL;
	struct link *l = reserve(sizeof(*l));
	if (!l || !(l->page = reserve(PAGE_MAP)) || !(l->peer_status = reserve(STATUS_MAP)) ||
	    !(l->conns = reserve(SHM_LINK_SLOTS * sizeof(l->conns[0]))))
		return NULL; /* a few pages of address space, once */
	links[n] = l;
	atomic_store_explicit(&link_count, n + 1, memory_order_release);
	return l;
}

/* Puts another process' page at the address kept for it, in one step. */
static bool map_at(const void *address, int fd, size_t size, bool writable)
{
	void *map = shm_map_page(fd, size, writable);

	return map && mremap(map, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, address) != MAP_FAILED;
}

struct link *link_make(int sock, unsigned side, uint32_t uid, const uint8_t token[RV_TOKEN], int page_fd)
{
	struct link *l = allocate();

	if (!l || !map_at(l->page, page_fd, sizeof(struct shm_link_page), true))
		return NULL;
	l->sock = sock;
	l->peer_bell = -1;
	l->side = side;
	l->self = false;
	l->uid = uid;
	memcpy(l->token, token, RV_TOKEN);
	l->served = (struct smc_stats_addr){ 0 };
	l->next_slot = side;
	l->offered = 0;
	atomic_store(&l->users, 1);
	atomic_store_explicit(&l->state, LINK_WELCOMED, memory_order_release);
	return l;
}

/* An eventfd, as far as can be seen: of the same anonymous file system as ours, and writing to it never waits. */
static bool is_bell(int fd)
{
	struct stat st, own;
	long flags = raw_call3(SYS_fcntl, fd, F_GETFL, 0);

	return flags >= 0 && (flags & O_NONBLOCK) && (flags & O_ACCMODE) == O_RDWR && !fstat(fd, &st) &&
	       !fstat(own_bell.fd, &own) && st.st_dev == own.st_dev && st.st_ino == own.st_ino;
}

bool link_join(struct link *l, int bell_fd, int status_fd)
{
	bool ok = is_bell(bell_fd) && map_at(l->peer_status, status_fd, sizeof(struct shm_status), false);

	fdtable_close_internal(status_fd);
	if (!ok) {
		fdtable_close_internal(bell_fd);
		return false;
	}
	l->peer_bell = bell_fd;
	return true;
}

void link_up(struct link *l)
{
	atomic_store_explicit(&l->state, LINK_UP, memory_order_release);
	smc_log(1, "link up side=%u uid=%u", l->side, l->uid);
}

struct link *link_self(enum smc_reason *reason)
{
	static const uint8_t none[RV_TOKEN];
	struct shm_bell *bell = link_own_bell(reason);
	int page_fd, bell_fd, status_fd;

	for (unsigned i = 0; i < link_count; i++)
		if (links[i]->self && links[i]->state == LINK_UP)
			return links[i];
	if (!bell)
		return NULL;
	void *page = shm_make_page("smc_preload_link", sizeof(struct shm_link_page), &page_fd);
	*reason = page ? SMC_REASON_NO_FDS : SMC_REASON_NO_MEMFD;
	if (!page)
		return NULL;
	munmap(page, sizeof(struct shm_link_page));
	struct link *l = link_make(-1, 0, 0, none, page_fd);
	smc_sys.close(page_fd);
	bell_fd = (int)raw_call3(SYS_fcntl, bell->fd, F_DUPFD_CLOEXEC, 0);
	status_fd = (int)raw_call3(SYS_fcntl, bell->status_fd, F_DUPFD_CLOEXEC, 0);
	bell_fd = bell_fd < 0 ? bell_fd : fdtable_make_internal(bell_fd);
	status_fd = status_fd < 0 ? status_fd : fdtable_make_internal(status_fd);
	if (!l || !link_join(l, bell_fd, status_fd)) {
		if (l)
			link_kill(l);
		return NULL;
	}
	l->self = true;
	link_up(l);
	return l;
}

/* With the last user gone nobody looks at its memory but readers that take no notice. */
static void let_go(struct link *l)
{
	if (atomic_fetch_sub(&l->users, 1) != 1)
		return;
	shm_pool_destroy(&l->ours);
	shm_pool_destroy(&l->theirs);
	fdtable_close_internal(l->peer_bell);
	l->peer_bell = -1;
	l->self = false;
	atomic_store(&l->state, LINK_FREE);
}

void link_kill(struct link *l)
{
	uint32_t state = atomic_load(&l->state);

	if (state != LINK_WELCOMED && state != LINK_UP)
		return;
	atomic_store(&l->state, LINK_DEAD);
	fdtable_close_internal(l->sock);
	l->sock = -1;
	smc_log(1, "link down side=%u uid=%u", l->side, l->uid);
	let_go(l);
}

/* ---- finding ---- */

struct link *link_by_token(const uint8_t token[RV_TOKEN])
{
	for (unsigned i = 0; i < link_count; i++)
		if ((links[i]->state == LINK_UP || links[i]->state == LINK_WELCOMED) && !links[i]->self &&
		    !memcmp(links[i]->token, token, RV_TOKEN))
			return links[i];
	return NULL;
}

struct link *link_serving(const struct smc_stats_addr *server)
{
	struct link *found = NULL;

	for (unsigned i = 0; i < link_count; i++) {
		if (links[i]->state != LINK_UP || links[i]->self || !rv_same_addr(&links[i]->served, server))
			continue;
		if (found)
			return NULL;
		found = links[i];
	}
	return found;
}

void link_each(void (*visit)(struct link *l))
{
	for (unsigned i = 0; i < link_count; i++)
		if (links[i]->state != LINK_FREE)
			visit(links[i]);
}

/* ---- connections on a link ---- */

bool link_take_slot(struct link *l, uint32_t *slot)
{
	/* each side gives out its own half, round and round: the other end may be a little behind in giving back */
	for (uint32_t i = 0; i < SHM_LINK_SLOTS / 2; i++) {
		uint32_t s = l->next_slot;
		l->next_slot = (s + 2) % SHM_LINK_SLOTS;
		if (atomic_load(&l->conns[s]) || (l->self && atomic_load(&l->conns[s + 1])))
			continue;
		*slot = s;
		return true;
	}
	return false;
}

void link_enter(struct link *l, uint32_t slot, struct conn *c)
{
	atomic_fetch_add(&l->users, 1);
	c->link = l;
	c->slot = slot;
	atomic_store(&l->conns[slot], c);
}

void link_detach(struct conn *c)
{
	struct link *l = c->link;

	c->link = NULL;
	atomic_store(&l->conns[c->slot], NULL);
	let_go(l);
}

struct shm_peer_bell link_bell_for(struct link *l, uint32_t slot)
{
	return (struct shm_peer_bell){
		.attention = &l->page->side[l->self ? 0 : !l->side],
		.status = l->peer_status,
		.fd = l->peer_bell,
		.slot = slot,
	};
}

void link_tell_frozen(struct smc_stream *s)
{
	struct conn *c = conn_of_stream(s);
	struct link *l = c->link;

	if (!l)
		return;
	if (l->self) { /* the other end is in the neighbouring slot */
		struct conn *other = link_conn(l, c->slot ^ 1);
		if (!other)
			return;
		service_owes(other);
		conn_put(other);
		return;
	}
	struct rv_msg m = rv_make(RV_LEFT);
	m.slot = c->slot;
	rv_send(l->sock, &m, NULL, 0);
}

/* ---- fork ---- */

void link_fork_prepare(void)
{
	smc_lock(&bell_lock);
}

void link_fork_parent(void)
{
	smc_unlock(&bell_lock);
}

void link_fork_child(void)
{
	smc_lock_reset(&bell_lock);
	if (have_bell && inherited_count < LINK_BELLS - 1)
		inherited[inherited_count++] = own_bell;
	have_bell = false;
	bell_generation++;
	/* The parent's links are not ours: their attention bits are for it. Inherited connections keep pointers to
	 * them; for the rest of this process they are not there. */
	link_count = 0;
}
