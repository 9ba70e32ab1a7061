/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef STRESS_COMMON_H
#define STRESS_COMMON_H

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/*
 * What the stress programs share: options, random numbers from one printed seed, content that tells its
 * place in the stream, and a watchdog that reports where everybody stands when nothing moves any more.
 * Programs print one line of figures at the end and exit with 0; a failure is told on stderr at once and
 * ends the program with 1.
 */
struct options {
	uint64_t seed;
	double seconds;
	int connections;
	bool processes; /* the two ends in processes of their own */
};

extern struct options options;

/* --seconds S --seed N --connections N --processes; exits on nonsense. Prints the seed. */
void options_read(int argc, char **argv, int connections);

/* --- random numbers: xorshift, one state per thread --- */
struct rng {
	uint64_t state;
};

uint64_t mix(uint64_t a, uint64_t b);
struct rng rng_from(uint64_t a, uint64_t b);
uint64_t rng_next(struct rng *r);
/* 0..n-1 */
uint64_t rng_below(struct rng *r, uint64_t n);
/* 1..max, small numbers as likely as large ones by order of magnitude. */
size_t rng_size(struct rng *r, size_t max);
bool rng_one_in(struct rng *r, unsigned n);

/* --- content --- */
void content_fill(void *data, uint64_t stream, uint64_t offset, size_t size);
/* The index of the first wrong byte, or `size`. */
size_t content_check(const void *data, uint64_t stream, uint64_t offset, size_t size);

/* --- sockets: these never fail, or end the program --- */
int listen_any_port(uint16_t *port);
int connect_port(uint16_t port);
int accept_from(int listener);
uint16_t local_port(int fd);
uint16_t remote_port(int fd);
void nonblocking(int fd);
void local_pair(int sv[2]);

/* --- time, failures, progress --- */
double now(void);
bool time_is_up(void);
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Called for whatever moves; the watchdog ends the program `limit` seconds after the last call. */
void progress(void);
/* `tell` writes the state of the program to stderr; may be NULL. */
void watchdog_start(double limit, void (*tell)(void));
/* Stack traces of all threads to stderr, if gdb is there. */
void backtraces(pid_t pid);

pthread_t thread_start(void *(*run)(void *), void *arg);

#endif
