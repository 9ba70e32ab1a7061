/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/epset.h"
#include "preload/latch.h"
#include "preload/process.h"
#include "preload/raw.h"

/*
 * The kernel judges every call first, by doing it: a registration of ours is what it accepted, and if it
 * answers that there is none (ENOENT), or makes a new one where we thought there was one, ours was of a
 * descriptor closed behind our back.
 */

SMC_EXPORT int epoll_create(int size)
{
	int fd = real.epoll_create(size);

	if (fd >= 0 && process_is_own())
		epoll_new(fd);
	return fd;
}

SMC_EXPORT int epoll_create1(int flags)
{
	int fd = real.epoll_create1(flags);

	if (fd >= 0 && process_is_own())
		epoll_new(fd);
	return fd;
}

struct ctl {
	int epfd, op, fd;
	struct epoll_event *event;
	struct conn *conn;
	struct epset *set;
};

/* ---- what the kernel gets to see ---- */

/* With EPOLLEXCLUSIVE only few other flags go, and only when adding. */
#define EXCLUSIVE_OK (EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE)

static bool exclusive_fault(const struct ctl *k, const struct epreg *reg)
{
	uint32_t events = k->event->events;

	if (k->op == EPOLL_CTL_MOD)
		return (events & EPOLLEXCLUSIVE) || (reg && (reg->events & EPOLLEXCLUSIVE));
	return (events & EPOLLEXCLUSIVE) && (events & ~EXCLUSIVE_OK);
}

static int real_ctl(const struct ctl *k, const struct epreg *reg, bool ours)
{
	struct epoll_event e = *k->event;

	if (ours) {
		/* these faults do not show in what the kernel is given instead */
		if (exclusive_fault(k, reg)) {
			errno = EINVAL;
			return -1;
		}
		e.events = epreg_kernel_events(k->conn, e.events);
	}
	if (ours || epreg_tagged_early(e.events))
		e.data.u64 = epreg_tag(reg);
	return real.epoll_ctl(k->epfd, k->op, k->fd, &e);
}

/* With set->lock: as just told to the kernel. */
static void take_over(const struct ctl *k, struct epreg *reg, bool ours)
{
	struct epset *set = k->set;

	reg->events = k->event->events;
	reg->data = k->event->data.u64;
	reg->changes++;
	reg->disarmed = false;
	if (!ours) {
		epset_unlist(set, reg);
		set->nours -= reg->ours;
		reg->ours = false;
		return;
	}
	reg->kernel = epreg_kernel_events(k->conn, reg->events);
	if (!reg->ours) {
		reg->ours = true;
		reg->attached = atomic_load(&set->attached);
		set->nours++;
	}
	epset_put_bells(set);
	epset_list(set, reg, PLACE_READY);
	epset_show_level(set);
}

/* ---- the three operations, with conn->lock ----
 * The real call is made with set->lock as well, so that an event which it lets out finds the registration as
 * it is in the kernel. */

/* Adds, or changes what is in the kernel's set without our having seen it added. */
static int ctl_new(const struct ctl *k, bool ours)
{
	struct epreg *stale = epreg_find(k->conn, k->set, k->fd);
	struct epreg *reg = epreg_new(k->set, k->conn, k->fd, k->event);

	if (!reg) {
		errno = ENOMEM;
		return -1;
	}
	smc_lock(&k->set->lock);
	int r = real_ctl(k, reg, ours), error = errno;
	if (!r) {
		epreg_link(reg);
		take_over(k, reg, ours);
	}
	smc_unlock(&k->set->lock);
	if (r)
		epreg_free(reg);
	else if (stale)
		epreg_drop(stale);
	errno = error;
	return r;
}

static int ctl_mod(const struct ctl *k, bool ours)
{
	struct epreg *reg = epreg_find(k->conn, k->set, k->fd);

	if (!reg)
		return ctl_new(k, ours);
	smc_lock(&k->set->lock);
	ours = ours && reg->ours;
	/* With a new tag an event that is already on its way out to some thread is dropped; else it would count as
	 * the one event of the registration armed now, which reports again all that is ready. */
	uint32_t generation = reg->generation;
	if (!ours)
		reg->generation = generation + 1;
	int r = real_ctl(k, reg, ours), error = errno;
	if (!r)
		take_over(k, reg, ours);
	else
		reg->generation = generation;
	smc_unlock(&k->set->lock);
	if (r && error == ENOENT)
		epreg_drop(reg);
	errno = error;
	return r;
}

static int ctl_del(const struct ctl *k)
{
	struct epreg *reg = epreg_find(k->conn, k->set, k->fd);
	int r = real.epoll_ctl(k->epfd, k->op, k->fd, k->event), error = errno;

	if (reg && (!r || error == ENOENT))
		epreg_drop(reg);
	errno = error;
	return r;
}

static int ctl_conn(struct ctl *k)
{
	struct conn *c = k->conn;
	bool ours, first;
	int r;

	smc_lock(&c->lock);
	first = !atomic_load(&k->set->nours);
	ours = epreg_ours(c);
	switch (k->op) {
	case EPOLL_CTL_ADD:
		r = ctl_new(k, ours);
		break;
	case EPOLL_CTL_MOD:
		r = ctl_mod(k, ours);
		break;
	case EPOLL_CTL_DEL:
		r = ctl_del(k);
		break;
	default:
		r = real.epoll_ctl(k->epfd, k->op, k->fd, k->event);
	}
	smc_unlock(&c->lock);
	if (!r)
		epset_changed(k->set);
	if (!r && k->op != EPOLL_CTL_DEL && ours) {
		epset_wake(k->set);
		if (first)
			epset_fetch(k->set);
	}
	return r;
}

/* ---- which are ours ---- */

/* A set that came from elsewhere (a program before exec, a raw system call) is met when the kernel takes
 * something into it. */
static int ctl_unknown_set(struct ctl *k)
{
	static struct smc_lock meeting;
	int r = real.epoll_ctl(k->epfd, k->op, k->fd, k->event);

	if (r || k->op == EPOLL_CTL_DEL || !process_is_own())
		return r;
	smc_lock(&meeting);
	if (!fdtable_get(k->epfd))
		epoll_new(k->epfd);
	smc_unlock(&meeting);
	if (!(k->set = epset_get(k->epfd)))
		return r;
	k->op = EPOLL_CTL_MOD; /* the same once more, now as ours */
	r = k->event->events & EPOLLEXCLUSIVE ? 0 : ctl_conn(k);
	epset_put(k->set);
	return r;
}

static int ctl_set(int epfd, int op, int fd, struct epoll_event *event)
{
	int r = real.epoll_ctl(epfd, op, fd, event), error = errno;
	struct epset *outer, *inner;

	if (r || op == EPOLL_CTL_MOD || !(outer = epset_get(epfd)))
		return r;
	if ((inner = epset_get(fd))) {
		if (op == EPOLL_CTL_ADD)
			epset_nest(inner, outer);
		else
			epset_unnest(inner, outer);
		epset_put(inner);
	}
	epset_put(outer);
	errno = error;
	return r;
}

/* Was the number closed behind our back and is another file by now? Asked where it would do harm: an entry of
 * ours would never tell of what that file does. */
static bool is_stale(struct conn *c, int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	if (!epreg_ours(c) || !c->cookie)
		return false;
	if (raw_call5(SYS_getsockopt, fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) >= 0 && cookie == c->cookie)
		return false;
	if (fdtable_get(fd) == &c->object) {
		fdtable_set(fd, NULL, NULL);
		conn_stale(&c->object, fd);
	}
	return true;
}

/* Does the connection stay on TCP for good, and always has? */
static bool plain_for_good(struct conn *c)
{
	return atomic_load_explicit(&c->state, memory_order_acquire) == CONN_PLAIN && !conn_attached(c) && !c->regs;
}

SMC_EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct fd_object *o = fdtable_get(fd);
	struct ctl k = { epfd, op, fd, event, NULL, NULL };
	int r, saved = errno;

	if ((o && o->type == FD_INTERNAL) || fdtable_is_internal(epfd)) {
		errno = EBADF;
		return -1;
	}
	if (!o || (op != EPOLL_CTL_DEL && (uintptr_t)event < 4096))
		return real.epoll_ctl(epfd, op, fd, event);
	if (o->type == FD_EPOLL)
		return ctl_set(epfd, op, fd, event);
	if (!(k.conn = conn_get(fd)))
		return real.epoll_ctl(epfd, op, fd, event);
	if (plain_for_good(k.conn) || (op == EPOLL_CTL_ADD && is_stale(k.conn, fd))) {
		r = real.epoll_ctl(epfd, op, fd, event);
	} else if ((k.set = epset_get(epfd))) {
		r = ctl_conn(&k);
		epset_put(k.set);
	} else {
		r = ctl_unknown_set(&k);
	}
	if (!r)
		errno = saved;
	int error = errno;
	conn_put(k.conn);
	errno = error;
	return r;
}
