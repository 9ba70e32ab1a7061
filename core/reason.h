/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_REASON_H
#define SMC_CORE_REASON_H

/*
 * Why a connection is (still, or again) on TCP.
 *
 * Every connection that is not carried by SMC has exactly one current reason. The numbers are an
 * interface: they are printed by smc_stat and by the debug log, so they are never re-used and new
 * ones are only appended. Hundreds group them: 1xx waiting (may still go up), 2xx the situation,
 * 3xx the peer, 4xx what the application did, 5xx resources, 6xx came down from SMC.
 *
 *   X(name, number, text)
 */
#define SMC_REASONS(X)                                                                             \
	X(NONE, 0, "accelerated")                                                                  \
	X(NEW, 100, "too few calls or bytes so far to be worth an upgrade")                        \
	X(WAITING, 101, "upgrade asked for, the other end has not answered yet")                   \
	X(SWITCHING, 102, "attached, switching at the next call")                                  \
	X(NOT_CONNECTED, 103, "not connected yet")                                                 \
	X(CONFIG, 200, "SMC_CARRIER=tcp")                                                          \
	X(NOT_LOCAL, 201, "the other end is not on this host, or behind NAT or a proxy")           \
	X(NO_DIAG, 202, "the kernel does not tell who holds the other end (no inet_diag)")         \
	X(NO_RENDEZVOUS, 203, "no unix socket for the rendezvous can be made")                     \
	X(NO_MEMFD, 204, "no shared memory segment can be made")                                   \
	X(NO_THREAD, 205, "no service thread can be started")                                      \
	X(NOT_TCP, 206, "not a plain TCP socket")                                                  \
	X(PEER_SILENT, 300, "the other end does not run the library, or did not answer")           \
	X(PEER_UID, 301, "who answered is not the user that holds the other end")                  \
	X(PEER_DECLINED, 302, "the other end declined")                                            \
	X(PEER_PROTOCOL, 303, "the other end speaks another version, or garbage")                  \
	X(SHARED, 400, "another process holds the same socket")                                    \
	X(OOB, 401, "urgent data is used")                                                         \
	X(STDIO, 402, "stdio is used on the socket")                                               \
	X(ASYNC, 403, "signal driven I/O (O_ASYNC) is used")                                       \
	X(KERNEL_CALL, 404, "a call that only the kernel can serve is used")                       \
	X(FD_PASSED, 405, "the socket was passed to another process")                              \
	X(EPOLL_EXCLUSIVE, 406, "in an epoll set with EPOLLEXCLUSIVE")                             \
	X(SHUTDOWN, 407, "already shut down")                                                      \
	X(SOCKOPT, 408, "a socket option that only the kernel can serve is set")                   \
	X(ACCEPT_INHERITED, 409, "inherited from a program that ran before")                       \
	X(UNSEEN, 410, "bytes were moved by calls the library does not see (io_uring, say)")       \
	X(NO_FDS, 500, "no file descriptor left")                                                  \
	X(NO_MEMORY, 501, "no memory")                                                             \
	X(LINK_FULL, 502, "too many connections between the two processes")                        \
	X(TABLE_FULL, 503, "file descriptor number or connection count beyond the table")          \
	X(HANDED_BACK, 600, "handed back to TCP")                                                  \
	X(PEER_LEFT, 601, "the other end handed back to TCP")                                      \
	X(PEER_TORN, 602, "the other end wrote nonsense into shared memory")

enum smc_reason {
#define X(name, number, text) SMC_REASON_##name = (number),
	SMC_REASONS(X)
#undef X
};

/* One line of meaning, without a full stop; "unknown reason" for a number that is not in the list. */
const char *smc_reason_text(unsigned reason);

#endif
