/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BEHAVE_HARNESS_H
#define BEHAVE_HARNESS_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
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
 * A scenario is a small play about sockets. Its parts (roles) run in processes of their own, re-executed
 * from this program, and write down what they saw; the transcript of all of them, part by part, goes to
 * standard output when the play is over. run.py plays every scenario without the library, with it, and
 * with it forced to fall back, and wants three equal transcripts. So a transcript holds nothing that
 * depends on time, ports, process ids or on luck that TCP itself leaves open.
 *
 *   SOLO(name, flags) { ... }          one part, does everything itself
 *   PAIR(name, flags);                 two parts, connected to each other before they begin
 *   SERVER(name) { ... fd ... }
 *   CLIENT(name) { ... fd ... }
 *   ROLE(name, role) { ... }           a further part, started by spawn_role(); see proc.c
 *
 * Unless COLD is given, the two ends of a PAIR talk to each other first until the library, if there is
 * one, has moved the connection to shared memory (warm.c), so that what follows is about that carrier.
 */
enum scenario_flags {
	MAY_BE_TCP = 1 << 0,   /* which carrier is used is left to the library */
	MUST_BE_TCP = 1 << 1,  /* the library must keep every connection on TCP */
	SOME_TCP = 1 << 2,     /* one accelerated connection proves the point, others may be TCP */
	COLD = 1 << 3,	       /* a PAIR that is not warmed up */
	V6 = 1 << 4,	       /* PAIR over ::1 */
	MAPPED = 1 << 5,       /* PAIR: listener on ::, client connects to 127.0.0.1 */
	PLAIN_SERVER = 1 << 6, /* PAIR: this end runs without the library */
	PLAIN_CLIENT = 1 << 7,
	NEEDS_ROOT = 1 << 8,
	FORKED = 1 << 9,     /* PAIR: the ends are forked, not executed */
	NONBLOCK = 1 << 10,  /* PAIR: both ends O_NONBLOCK */
	DIFFERS = 1 << 12,   /* a known difference of the accelerated way, told in libsmc_preload(7) */
	SMALL_BUF = 1 << 11, /* PAIR: SO_SNDBUF and SO_RCVBUF set to 16 KiB before the connection */
	BIG_BUF = 1 << 13,   /* PAIR: set to 4 MiB, of which the kernel grants net.core.?mem_max */
};

struct scenario {
	const char *name;
	const char *role; /* "solo", "server", "client" or the scenario's own */
	unsigned flags;
	void (*pair)(int fd);
	void (*solo)(void);
	struct scenario *next;
};

void scenario_register(struct scenario *s);
const struct scenario *scenario_find(const char *name, const char *role);

#define SCENARIO_ENTRY_(name_, role_, flags_, pair_, solo_)                                        \
	static struct scenario name_##_##role_##_entry = {                                         \
		.name = #name_, .role = #role_, .flags = (flags_), .pair = pair_, .solo = solo_    \
	};                                                                                         \
	__attribute__((constructor)) static void name_##_##role_##_register(void)                  \
	{                                                                                          \
		scenario_register(&name_##_##role_##_entry);                                       \
	}

#define SOLO(name_, flags_)                                                                        \
	static void name_##_solo(void);                                                            \
	SCENARIO_ENTRY_(name_, solo, flags_, NULL, name_##_solo)                                   \
	static void name_##_solo(void)

#define ROLE(name_, role_)                                                                         \
	static void name_##_##role_(void);                                                         \
	SCENARIO_ENTRY_(name_, role_, 0, NULL, name_##_##role_)                                    \
	static void name_##_##role_(void)

#define PAIR(name_, flags_)                                                                        \
	static void name_##_server(int fd);                                                        \
	static void name_##_client(int fd);                                                        \
	SCENARIO_ENTRY_(name_, server, flags_, name_##_server, NULL)                               \
	SCENARIO_ENTRY_(name_, client, flags_, name_##_client, NULL)
#define SERVER(name_) static void name_##_server(int fd)
#define CLIENT(name_) static void name_##_client(int fd)

/* --- the transcript (harness.c) --- */

enum { ACTORS = 24, POSTS = 64, ACTOR_TEXT = 128 * 1024 };

/* Names the part that this thread writes as; `index` decides the order of the parts. */
void actor_use(int index, const char *name);
int actor_index(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "TEXT = RESULT", with the name of errno if the result is -1. */
void report(const char *text, long result);
const char *errno_name(int err);
/* "TEXT: IN|OUT|HUP" */
void say_events(const char *text, unsigned events);
const char *events_text(unsigned events, char *out, size_t size);

/* Evaluates a call and writes down its text and its result; the value is the result. */
#define R(call)                                                                                    \
	({                                                                                         \
		errno = 0;                                                                         \
		long result_ = (long)(call);                                                       \
		int error_ = errno;                                                                \
		report(#call, result_);                                                            \
		errno = error_;                                                                    \
		result_;                                                                           \
	})
/* The same for what must hold: says "TEXT: yes" or "TEXT: no". */
#define YES(expression) say("%s: %s", #expression, (expression) ? "yes" : "no")
/* For steps that cannot fail unless the scenario itself is broken: says so, and ends the part. */
#define MUST(expression)                                                                           \
	do {                                                                                       \
		if (!(expression))                                                                 \
			broken(__FILE__, __LINE__, #expression);                                   \
	} while (0)
_Noreturn void broken(const char *file, int line, const char *expression);

/* --- meeting points of the parts (harness.c) --- */

/* post(k) counts up number k (0..POSTS-1); await(k) waits until it was posted, await_n until it was n
 * times. All give up after 10 s, and say so. */
void post(int k);
void await(int k);
void await_n(int k, int n);
/* Numbers that the parts tell each other. */
void shared_set(int k, long value);
long shared_get(int k);

/* --- processes (proc.c) --- */

enum spawn_flags { SPAWN_PLAIN = 1 /* without the library */ };
pid_t spawn_role(const char *role, unsigned flags);
/* Waits for one child; says nothing; returns the wait status. */
int reap(pid_t pid);
/* "WHAT: exit 0", "WHAT: killed by SIGKILL" */
void say_status(const char *what, int status);
const char *self_path(void);
const char *scenario_name(void);
unsigned scenario_flags(void);
/* The listener of a PAIR's server. */
extern int pair_listener;

/* --- sockets (sock.c) --- */

/* Listens on a free port of 127.0.0.1, ::1 or (any) the wildcard of the family; never fails. */
int listen_on(int family, bool any, uint16_t *port);
uint16_t port_of(int fd);
/* With TCP_NODELAY, which accepted sockets inherit. */
int tcp_socket(int family, int type_flags);
/* Blocking connect to 127.0.0.1 or ::1; never fails. */
int connect_to(int family, uint16_t port);
socklen_t loopback(struct sockaddr_storage *address, int family, uint16_t port);
/* A connected, warmed up pair within this process. */
void self_pair(int sv[2]);
void self_pair_cold(int sv[2]);
void set_nonblock(int fd, bool on);
long now_ms(void);
void nap(int ms);
/* Waits until the fd has one of the events, returns what it has (poll's revents; 0 after `ms`). */
unsigned wait_events(int fd, unsigned events, int ms);
/* Waits until FIONREAD says at least n, or 5 s. */
bool wait_queued(int fd, int n);
/* Everything or death of the part; no transcript. They cope with non-blocking sockets. */
void send_all(int fd, const void *data, size_t size);
void recv_all(int fd, void *data, size_t size);
/* Reads until end of file or error; returns the bytes read; *err is 0 at end of file, else the errno. */
size_t recv_to_end(int fd, uint32_t seed, size_t from, bool *intact, int *err);
void linger_reset(int fd);
void no_delay(int fd);
/* Whether thread `tid` of this process, or process `tid`, is asleep. Waits up to 2 s for it. */
bool wait_asleep(pid_t tid);

/* --- content that tells its place (sock.c) --- */
void pattern_fill(void *data, uint32_t seed, size_t offset, size_t size);
bool pattern_check(const void *data, uint32_t seed, size_t offset, size_t size);
/* Sends or receives `size` bytes of the stream `seed` from `offset` on, in calls of up to `chunk`. */
void pattern_send(int fd, uint32_t seed, size_t offset, size_t size, size_t chunk);
bool pattern_recv(int fd, uint32_t seed, size_t offset, size_t size, size_t chunk);
uint32_t checksum(const void *data, size_t size);

/* --- small exchanges (talk.c) --- */
/* Answers with what it gets, until the end; returns the last recv's result. */
ssize_t echo_until_end(int fd);
/* Sends 1 MiB to such an echo while it receives as much; whether all came back intact. */
bool echo_check(int fd, uint32_t seed);
/* Waits until poll shows one of `bits`, and writes down all that it shows. */
void say_poll_with(int fd, unsigned bits);
int try_connect(int fd, int family, uint16_t port);

/* --- signals and threads (sock.c) --- */
extern volatile sig_atomic_t signals_seen;
/* Installs a counting handler. */
void on_signal(int signo, int sa_flags);
/* SIGALRM after `ms` and then every `ms`; 0 stops it. */
void alarm_every(int ms);

struct worker {
	pthread_t thread;
	void (*run)(struct worker *w);
	int actor;
	const char *name;
	int fd;
	long arg, result;
	void *data;
	_Atomic pid_t tid;
};
void worker_start(struct worker *w);
/* Joins; a worker that does not end within 5 s is told as a hang and the part ends. */
void worker_join(struct worker *w);

/* --- moving to shared memory (warm.c) --- */
void warm_up_client(int fd);
void warm_up_server(int fd);
/* For connections with both ends in this thread. */
void warm_up_both(int a, int b);
void warm_up_many(int (*pairs)[2], int count);
/* Both directions of this process's end are carried by shared memory. */
bool accelerated(int fd);
/* The library is loaded and may accelerate. */
bool acceleration_expected(void);

#endif
