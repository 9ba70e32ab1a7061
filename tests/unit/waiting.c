/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/epset.h"
#include "tests/unit/desk.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Waiting for connections that go up while they are waited for. The calls are the library's own, in this
 * program (nothing is preloaded). */

static struct conn *a[2];
static int ep;

static void set_up(void)
{
	desk_pair(a);
	ep = epoll_create1(0);
}

TestSuite(waiting, .init = set_up, .timeout = 20);

static int fd_of(struct conn *c)
{
	return c->stream.fd;
}

static int ctl(int op, struct conn *c, uint32_t events, uint64_t data)
{
	struct epoll_event e = { .events = events, .data.u64 = data };

	return epoll_ctl(ep, op, fd_of(c), &e) ? -errno : 0;
}

/* The one event there is within `ms`: its mask. 0 = none. */
static uint32_t one(int ms, uint64_t data)
{
	struct epoll_event e[8];
	int n = epoll_wait(ep, e, 8, ms);

	if (!n)
		return 0;
	cr_assert_eq(n, 1, "%d events", n);
	cr_assert_eq(e[0].data.u64, data);
	return e[0].events;
}

static void drain(struct conn *c)
{
	char b[256];

	while (desk_get(c, b, sizeof(b)) > 0)
		;
}

Test(waiting, level_stays_until_drained)
{
	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN, 7);
	desk_up(a);
	cr_assert_eq(one(0, 7), 0);
	desk_put(a[0], "x", 1);
	cr_assert_eq(one(0, 7), EPOLLIN);
	cr_assert_eq(one(0, 7), EPOLLIN);
	drain(a[1]);
	cr_assert_eq(one(0, 7), 0);
	cr_assert_eq(one(20, 7), 0);
	desk_put(a[0], "x", 1);
	cr_assert_eq(one(1000, 7), EPOLLIN);
}

Test(waiting, edge_comes_once_per_arrival)
{
	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN | EPOLLET, 7);
	desk_up(a);
	one(0, 7);
	cr_assert_eq(one(5, 7), 0);
	for (int i = 0; i < 100; i++) {
		desk_put(a[0], "x", 1);
		cr_assert_eq(one(i % 2 * 1000, 7), EPOLLIN);
		cr_assert_eq(one(i % 3, 7), 0);
		if (i % 5 == 0)
			drain(a[1]);
	}
}

Test(waiting, both_bits_make_one_event)
{
	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN | EPOLLOUT | EPOLLRDHUP, 7);
	desk_up(a);
	cr_assert_eq(one(0, 7), EPOLLOUT);
	desk_put(a[0], "x", 1);
	cr_assert_eq(one(0, 7), EPOLLIN | EPOLLOUT);
}

Test(waiting, not_writable_while_the_ring_is_full)
{
	char block[4096] = { 0 };

	ctl(EPOLL_CTL_ADD, a[0], EPOLLOUT, 7);
	desk_up(a);
	while (desk_put(a[0], block, sizeof(block)) > 0)
		;
	cr_assert_eq(one(5, 7), 0);
	drain(a[1]);
	cr_assert_eq(one(1000, 7), EPOLLOUT);
}

Test(waiting, edge_for_room_after_a_short_send)
{
	char block[4096] = { 0 };

	ctl(EPOLL_CTL_ADD, a[0], EPOLLOUT | EPOLLET, 7);
	desk_up(a);
	one(0, 7);
	for (int i = 0; i < 20; i++) {
		while (desk_put(a[0], block, sizeof(block)) > 0)
			;
		drain(a[1]);
		cr_assert_eq(one(1000, 7), EPOLLOUT, "round %d", i);
	}
}

Test(waiting, oneshot_is_told_once_and_armed_again)
{
	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN | EPOLLONESHOT, 7);
	desk_put(a[0], "x", 1);
	cr_assert_eq(one(1000, 7), EPOLLIN); /* by the kernel */
	cr_assert_eq(desk_attach(a[0]) && desk_attach(a[1]), 1);
	cr_assert_eq(one(5, 7), 0);
	drain(a[1]);
	desk_put(a[0], "x", 1);
	cr_assert_eq(one(5, 7), 0);
	cr_assert_eq(ctl(EPOLL_CTL_MOD, a[1], EPOLLIN | EPOLLONESHOT, 8), 0);
	cr_assert_eq(one(1000, 8), EPOLLIN);
	cr_assert_eq(one(5, 8), 0);
	cr_assert_eq(ctl(EPOLL_CTL_MOD, a[1], EPOLLIN | EPOLLONESHOT, 9), 0);
	cr_assert_eq(one(0, 9), EPOLLIN);
}

Test(waiting, oneshot_armed_over_attaching)
{
	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN | EPOLLONESHOT, 7);
	desk_up(a);
	desk_put(a[0], "x", 1);
	cr_assert_eq(one(1000, 7), EPOLLIN);
	cr_assert_eq(one(5, 7), 0);
}

Test(waiting, faults_as_the_kernel)
{
	for (int round = 0; round < 2; round++) {
		cr_assert_eq(ctl(EPOLL_CTL_MOD, a[1], EPOLLIN, 1), -ENOENT);
		cr_assert_eq(ctl(EPOLL_CTL_DEL, a[1], 0, 0), -ENOENT);
		cr_assert_eq(ctl(EPOLL_CTL_ADD, a[1], EPOLLIN, 1), 0);
		cr_assert_eq(ctl(EPOLL_CTL_ADD, a[1], EPOLLIN, 1), -EEXIST);
		cr_assert_eq(ctl(EPOLL_CTL_MOD, a[1], EPOLLIN | EPOLLEXCLUSIVE, 1), -EINVAL);
		cr_assert_eq(ctl(77, a[1], 0, 0), -EINVAL);
		cr_assert_eq(ctl(EPOLL_CTL_DEL, a[1], 0, 0), 0);
		cr_assert_eq(ctl(EPOLL_CTL_DEL, a[1], 0, 0), -ENOENT);
		cr_assert_eq(ctl(EPOLL_CTL_ADD, a[1], EPOLLIN | EPOLLRDHUP | EPOLLEXCLUSIVE, 1), -EINVAL);
		cr_assert_eq(epoll_ctl(ep, EPOLL_CTL_ADD, fd_of(a[1]), NULL), -1);
		cr_assert_eq(errno, EFAULT);
		cr_assert_eq(epoll_ctl(987, EPOLL_CTL_ADD, fd_of(a[1]), &(struct epoll_event){ 0 }), -1);
		cr_assert_eq(errno, EBADF);
		if (!round)
			desk_up(a);
	}
	struct epoll_event e;
	cr_assert_eq(epoll_wait(ep, &e, 0, 0), -1);
	cr_assert_eq(errno, EINVAL);
}

Test(waiting, exclusive_keeps_it_on_tcp)
{
	int other = epoll_create1(0);

	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN | EPOLLEXCLUSIVE, 7);
	epoll_ctl(other, EPOLL_CTL_ADD, fd_of(a[1]), &(struct epoll_event){ EPOLLIN, { .u64 = 9 } });
	cr_assert_not(desk_attach(a[1]));
	desk_put(a[0], "x", 1);
	cr_assert_eq(one(1000, 7), EPOLLIN);
	struct epoll_event e;
	cr_assert_eq(epoll_wait(other, &e, 1, 1000), 1);
	cr_assert_eq(e.data.u64, 9);
}

Test(waiting, end_of_file_and_reset)
{
	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN | EPOLLRDHUP | EPOLLOUT, 7);
	desk_up(a);
	desk_close(a[0]);
	cr_assert_eq(one(1000, 7), EPOLLIN | EPOLLRDHUP | EPOLLOUT);
}

Test(waiting, no_tag_gets_out_after_deleting)
{
	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN, 7);
	desk_up(a);
	desk_put(a[0], "x", 1);
	ctl(EPOLL_CTL_DEL, a[1], 0, 0);
	cr_assert_eq(one(5, 0), 0);
	/* a copy of the descriptor keeps the kernel's entry alive when ours is gone */
	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN, 7);
	int copy = dup(fd_of(a[1]));
	desk_close(a[1]);
	shutdown(copy, SHUT_RDWR);
	cr_assert_eq(one(50, 0), 0);
}

Test(waiting, handed_back_is_the_kernels_again)
{
	const uint32_t modes[] = { EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT };

	for (unsigned i = 0; i < 3; i++) {
		struct conn *b[2];
		desk_pair(b);
		ctl(EPOLL_CTL_ADD, b[1], modes[i], i);
		desk_up(b);
		one(0, i);
		desk_put(b[0], "x", 1);
		smc_stream_hand_back(&b[1]->stream, SMC_REASON_KERNEL_CALL);
		epoll_conn_activity(b[1]);
		smc_stream_progress(&b[0]->stream); /* as its service thread would */
		cr_assert_eq(one(1000, i), EPOLLIN);
		drain(b[1]);
		cr_assert_eq(ctl(EPOLL_CTL_MOD, b[1], modes[i], i + 10), 0);
		cr_assert_eq(one(5, i + 10), 0);
		desk_put(b[0], "x", 1);
		cr_assert_eq(one(1000, i + 10), EPOLLIN);
		cr_assert_eq(ctl(EPOLL_CTL_DEL, b[1], 0, 0), 0);
		cr_assert_eq(ctl(EPOLL_CTL_ADD, b[1], modes[i], i + 20), 0);
		cr_assert_eq(one(1000, i + 20), EPOLLIN);
		drain(b[1]);
		ctl(EPOLL_CTL_DEL, b[1], 0, 0);
	}
}

/* ---- neither side starves ---- */

static void both_are_served(int max, int plain_fd)
{
	struct epoll_event e[8];
	int fast = 0, plain = 0;

	epoll_ctl(ep, EPOLL_CTL_ADD, plain_fd, &(struct epoll_event){ EPOLLIN, { .u64 = 1 } });
	desk_put(a[0], "x", 1);
	for (int i = 0; i < 400; i++) {
		int n = epoll_wait(ep, e, max, 0);
		cr_assert_geq(n, 1);
		for (int k = 0; k < n; k++)
			(e[k].data.u64 == 7 ? &fast : &plain)[0]++;
	}
	cr_assert_geq(fast, 20, "fast %d plain %d", fast, plain);
	cr_assert_geq(plain, 5, "fast %d plain %d", fast, plain);
}

Test(waiting, plain_descriptors_do_not_starve)
{
	int fd[2];

	cr_assert(!pipe(fd) && write(fd[1], "x", 1) == 1);
	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN, 7);
	desk_up(a);
	both_are_served(1, fd[0]);
}

Test(waiting, connections_take_turns)
{
	enum { MANY = 40 };
	struct conn *many[MANY][2];
	int told[MANY] = { 0 };
	struct epoll_event e;

	for (unsigned i = 0; i < MANY; i++) {
		desk_pair(many[i]);
		ctl(EPOLL_CTL_ADD, many[i][1], EPOLLIN, i);
		desk_up(many[i]);
		desk_put(many[i][0], "x", 1);
	}
	for (int i = 0; i < MANY * 3; i++) {
		cr_assert_eq(epoll_wait(ep, &e, 1, 0), 1);
		told[e.data.u64]++;
	}
	for (unsigned i = 0; i < MANY; i++)
		cr_assert_eq(told[i], 3, "%u told %d times", i, told[i]);
}

Test(waiting, each_once_in_a_call)
{
	enum { MANY = 100 };
	struct conn *many[MANY][2];
	struct epoll_event e[MANY * 2];
	bool told[MANY] = { false };

	for (unsigned i = 0; i < MANY; i++) {
		desk_pair(many[i]);
		ctl(EPOLL_CTL_ADD, many[i][1], EPOLLIN | (i % 2 ? EPOLLET : 0), i);
		desk_up(many[i]);
	}
	while (epoll_wait(ep, e, MANY * 2, 0) > 0)
		;
	for (unsigned i = 0; i < MANY; i++)
		desk_put(many[i][0], "x", 1);
	cr_assert_eq(epoll_wait(ep, e, MANY * 2, 0), MANY);
	for (int i = 0; i < MANY; i++) {
		cr_assert(!told[e[i].data.u64]);
		told[e[i].data.u64] = true;
	}
	cr_assert_eq(epoll_wait(ep, e, MANY * 2, 0), MANY / 2);
}

/* ---- sets inside sets, and sets inside poll ---- */

static int readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = poll(&p, 1, 0);

	return n == 1 ? p.revents : n;
}

Test(waiting, nested_set_is_readable_exactly_while_something_is_ready)
{
	int outer = epoll_create1(0);
	struct epoll_event e;

	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN, 7);
	cr_assert(!epoll_ctl(outer, EPOLL_CTL_ADD, ep, &(struct epoll_event){ EPOLLIN, { .u64 = 3 } }));
	desk_up(a);
	epoll_wait(outer, &e, 1, 0);
	for (int i = 0; i < 5; i++) {
		cr_assert_eq(epoll_wait(outer, &e, 1, 0), 0, "round %d", i);
		desk_put(a[0], "x", 1);
		cr_assert_eq(epoll_wait(outer, &e, 1, 1000), 1);
		cr_assert_eq(e.data.u64, 3);
		cr_assert_eq(one(0, 7), EPOLLIN);
		cr_assert_eq(epoll_wait(outer, &e, 1, 0), 1);
		drain(a[1]);
	}
}

Test(waiting, set_in_poll)
{
	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN, 7);
	desk_up(a);
	readable(ep);
	for (int i = 0; i < 5; i++) {
		cr_assert_eq(readable(ep), 0, "round %d", i);
		desk_put(a[0], "x", 1);
		cr_assert_eq(readable(ep), POLLIN);
		cr_assert_eq(one(0, 7), EPOLLIN);
		drain(a[1]);
	}
}

/* ---- poll and select ---- */

Test(waiting, poll_sees_connections_and_others)
{
	int fd[2];
	cr_assert(!pipe(fd));
	struct pollfd p[4] = { { .fd = fd[0], .events = POLLIN }, { .fd = fd_of(a[1]), .events = POLLIN | POLLOUT },
			       { .fd = -1, .events = POLLIN }, { .fd = 3999, .events = POLLIN } };

	desk_up(a);
	cr_assert_eq(poll(p, 3, 0), 1);
	cr_assert_eq(p[1].revents, POLLOUT);
	desk_put(a[0], "x", 1);
	cr_assert(write(fd[1], "x", 1) == 1);
	usleep(100);
	cr_assert_eq(poll(p, 4, 1000), 3);
	cr_assert_eq(p[0].revents, POLLIN);
	cr_assert_eq(p[1].revents, POLLIN | POLLOUT);
	cr_assert_eq(p[2].revents, 0);
	cr_assert_eq(p[3].revents, POLLNVAL);
}

Test(waiting, select_sees_connections_and_others)
{
	struct timeval t = { 0, 20000 };
	int fd = fd_of(a[1]);
	fd_set r, w;

	desk_up(a);
	FD_ZERO(&r);
	FD_SET(fd, &r);
	cr_assert_eq(select(fd + 1, &r, NULL, NULL, &t), 0);
	cr_assert(!FD_ISSET(fd, &r));
	cr_assert_eq(t.tv_sec * 1000000 + t.tv_usec, 0);
	t.tv_sec = 5;
	desk_put(a[0], "x", 1);
	FD_SET(fd, &r);
	FD_ZERO(&w);
	FD_SET(fd, &w);
	cr_assert_eq(select(fd + 1, &r, &w, NULL, &t), 2);
	cr_assert(FD_ISSET(fd, &r) && FD_ISSET(fd, &w));
	cr_assert_geq(t.tv_sec, 4);
	FD_ZERO(&r);
	FD_SET(1000, &r);
	cr_assert_eq(select(1001, &r, NULL, NULL, &t), -1);
	cr_assert_eq(errno, EBADF);
}

/* ---- asleep ---- */

static void *put_later(void *arg)
{
	usleep(30000);
	desk_put(arg, "x", 1);
	return NULL;
}

static void *attach_later(void *arg)
{
	usleep(30000);
	desk_up(a);
	return put_later(arg);
}

Test(waiting, sleeper_is_woken_by_a_write)
{
	pthread_t t;

	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN, 7);
	desk_up(a);
	for (int i = 0; i < 5; i++) {
		pthread_create(&t, NULL, put_later, a[0]);
		cr_assert_eq(one(-1, 7), EPOLLIN);
		drain(a[1]);
		pthread_join(t, NULL);
		struct pollfd p = { .fd = fd_of(a[1]), .events = POLLIN };
		pthread_create(&t, NULL, put_later, a[0]);
		cr_assert_eq(poll(&p, 1, -1), 1);
		drain(a[1]);
		pthread_join(t, NULL);
	}
}

Test(waiting, sleeper_is_woken_when_it_attached_meanwhile)
{
	pthread_t t;
	uint32_t events;

	ctl(EPOLL_CTL_ADD, a[1], EPOLLIN | EPOLLET, 7);
	pthread_create(&t, NULL, attach_later, a[0]);
	/* the bytes that make it go up may be told, or be gone already */
	do {
		events = one(-1, 7);
		cr_assert_eq(events, EPOLLIN);
	} while (a[1]->stream.end->rx_mode != SMC_RX_FAST);
	pthread_join(t, NULL);
	one(0, 7);
	desk_put(a[0], "y", 1);
	cr_assert_eq(one(1000, 7), EPOLLIN);
}

/* ---- everything at once ---- */

enum { STORM = 24, STORM_MS = 1500 };
static struct conn *storm[STORM][2];
static _Atomic uint32_t storm_mode[STORM];
static pthread_mutex_t storm_lock[STORM];
static _Atomic bool storm_over;

static void echo(unsigned i)
{
	char b[64];
	ssize_t n;

	while ((n = desk_get(storm[i][1], b, sizeof(b))) > 0)
		cr_assert_eq(desk_put(storm[i][1], b, (size_t)n), n);
}

static void *storm_waiter(void *arg)
{
	struct epoll_event e[5];

	(void)arg;
	while (!storm_over) {
		int n = epoll_wait(ep, e, 5, 100);
		cr_assert_geq(n, 0);
		for (int k = 0; k < n; k++) {
			unsigned i = (unsigned)e[k].data.u64;
			cr_assert_lt(i, STORM);
			pthread_mutex_lock(&storm_lock[i]);
			echo(i);
			if (storm_mode[i] & EPOLLONESHOT)
				cr_assert_eq(ctl(EPOLL_CTL_MOD, storm[i][1], storm_mode[i], i), 0);
			pthread_mutex_unlock(&storm_lock[i]);
		}
	}
	return NULL;
}

static void *storm_changer(void *arg)
{
	static const uint32_t modes[] = { EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT, EPOLLIN | EPOLLRDHUP | EPOLLET };
	unsigned attached = 0;

	(void)arg;
	for (unsigned k = 1; !storm_over; k++) {
		unsigned i = k * 7 % STORM;
		pthread_mutex_lock(&storm_lock[i]);
		storm_mode[i] = modes[k * 11 / 3 % 4];
		if (k % 3 == 0) {
			cr_assert_eq(ctl(EPOLL_CTL_DEL, storm[i][1], 0, 0), 0);
			cr_assert_eq(ctl(EPOLL_CTL_ADD, storm[i][1], storm_mode[i], i), 0);
		} else {
			cr_assert_eq(ctl(EPOLL_CTL_MOD, storm[i][1], storm_mode[i], i), 0);
		}
		pthread_mutex_unlock(&storm_lock[i]);
		if (k % 20 == 0 && attached < STORM * 2) {
			cr_assert(desk_attach(storm[attached / 2][attached % 2]));
			attached++;
		}
		usleep(200);
	}
	return NULL;
}

Test(waiting, nothing_is_lost_while_all_changes)
{
	struct pollfd p[STORM];
	uint64_t sent[STORM] = { 0 }, end = smc_now_ns() + UINT64_C(1000000) * STORM_MS;
	pthread_t threads[4];
	char byte;
	long answers = 0;

	for (unsigned i = 0; i < STORM; i++) {
		desk_pair(storm[i]);
		p[i] = (struct pollfd){ .fd = fd_of(storm[i][0]), .events = POLLIN };
		pthread_mutex_init(&storm_lock[i], NULL);
		storm_mode[i] = EPOLLIN;
		ctl(EPOLL_CTL_ADD, storm[i][1], EPOLLIN, i);
	}
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, i ? storm_waiter : storm_changer, NULL);
	while (smc_now_ns() < end) {
		for (unsigned i = 0; i < STORM; i++) {
			if (sent[i] || (answers + i) % 5 == 0)
				continue;
			sent[i] = smc_now_ns();
			cr_assert_eq(desk_put(storm[i][0], "x", 1), 1);
		}
		cr_assert_gt(poll(p, STORM, 4000), 0, "after %ld answers", answers);
		for (unsigned i = 0; i < STORM; i++) {
			if (p[i].revents && desk_get(storm[i][0], &byte, 1) == 1) {
				sent[i] = 0;
				answers++;
			}
			cr_assert(!sent[i] || smc_now_ns() - sent[i] < UINT64_C(4000000000), "%u is lost", i);
		}
	}
	storm_over = true;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	cr_assert_gt(answers, STORM);
}
