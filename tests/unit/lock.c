/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arena.h"
#include "core/lock.h"
#include "preload/raw.h"

#include <criterion/criterion.h>
#include <setjmp.h>
#include <signal.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What forked processes share: locks and the arena. */

struct shared {
	struct smc_lock lock;
	unsigned count;
};

TestSuite(lock, .init = raw_fill_sys);
TestSuite(arena, .init = raw_fill_sys);

static void *add(void *p)
{
	struct shared *s = p;

	for (int i = 0; i < 100000; i++) {
		smc_lock(&s->lock);
		s->count++;
		smc_unlock(&s->lock);
	}
	return NULL;
}

Test(lock, excludes_threads_and_processes)
{
	struct shared *s = smc_arena_alloc();
	pthread_t t[2];
	pid_t child = fork();

	if (!child)
		smc_lock_forget_self();
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, add, s);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
	cr_assert_eq(s->count, 400000);
}

Test(lock, is_taken_over_from_the_dead)
{
	struct shared *s = smc_arena_alloc();
	pid_t child = fork();

	if (!child) {
		smc_lock_forget_self();
		smc_lock(&s->lock);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	smc_lock(&s->lock);
	smc_unlock(&s->lock);
	cr_assert_eq(s->lock.word, 0);
}

/* Killed, and its parent has better things to do than to wait for it. */
Test(lock, is_taken_over_from_one_not_yet_waited_for)
{
	struct shared *s = smc_arena_alloc();
	pid_t child = fork();
	siginfo_t info;

	if (!child) {
		smc_lock_forget_self();
		smc_lock(&s->lock);
		_exit(0);
	}
	cr_assert(!waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT));
	alarm(5); /* for ever, otherwise */
	smc_lock(&s->lock);
	smc_unlock(&s->lock);
	waitpid(child, NULL, 0);
}

static struct smc_guarded_lock guarded;
static volatile sig_atomic_t got_in;

static void come_for_it(int signo)
{
	struct smc_guard guard;

	(void)signo;
	got_in = smc_enter(&guarded, &guard);
}

static void check_handler(int flags)
{
	struct sigaction act = { .sa_handler = come_for_it, .sa_flags = flags };
	struct smc_guard guard;

	cr_assert(!sigaction(SIGUSR1, &act, NULL));
	got_in = 2;
	cr_assert(smc_enter(&guarded, &guard));
	raise(SIGUSR1);
	cr_assert_eq(got_in, 0);
	smc_leave(&guarded, &guard);
	raise(SIGUSR1);
	cr_assert_eq(got_in, 1);
}

Test(lock, a_handler_is_told_that_its_own_thread_is_inside)
{
	check_handler(0);
}

Test(lock, a_handler_with_a_stack_of_its_own_is_told_too)
{
	static char space[64 * 1024];
	stack_t stack = { .ss_sp = space, .ss_size = sizeof(space) };

	cr_assert(!sigaltstack(&stack, NULL));
	check_handler(SA_ONSTACK);
}

static jmp_buf out;

/* Deep enough for what the test calls afterwards to lie above it. */
static __attribute__((noinline)) void leave_by_longjmp(void)
{
	volatile char depth[4096];
	struct smc_guard guard;

	depth[0] = depth[4095] = 0;
	cr_assert(smc_enter(&guarded, &guard));
	longjmp(out, 1);
}

Test(lock, one_that_longjmp_left_is_got_again)
{
	struct smc_guard guard;

	if (!setjmp(out))
		leave_by_longjmp();
	cr_assert(smc_enter(&guarded, &guard));
	smc_leave(&guarded, &guard);
	cr_assert_eq(guarded.lock.word, 0);
}

Test(arena, objects_are_zeroed_distinct_and_come_back)
{
	char *a = smc_arena_alloc(), *b = smc_arena_alloc();

	cr_assert(a != b);
	memset(a, 'x', SMC_ARENA_OBJECT);
	smc_arena_free(a);
	char *c = smc_arena_alloc();
	cr_assert_eq(c, a);
	for (int i = 0; i < SMC_ARENA_OBJECT; i++)
		cr_assert_eq(c[i], 0);
}

Test(arena, grows_beyond_a_chunk)
{
	for (int i = 0; i < 5000; i++) {
		char *p = smc_arena_alloc();
		cr_assert(p);
		memset(p, i, SMC_ARENA_OBJECT);
	}
}

Test(arena, what_a_child_frees_the_parent_uses_again)
{
	char *a = smc_arena_alloc();
	pid_t child = fork();

	if (!child) {
		smc_lock_forget_self();
		smc_arena_forked();
		char *own = smc_arena_alloc();
		memset(own, 1, SMC_ARENA_OBJECT);
		smc_arena_free(a);
		_exit(own == a);
	}
	int status;
	waitpid(child, &status, 0);
	cr_assert_eq(status, 0, "the child allocated from its parent's arena");
	cr_assert_eq((char *)smc_arena_alloc(), a);
}
