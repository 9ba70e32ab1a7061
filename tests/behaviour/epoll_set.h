/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BEHAVE_EPOLL_SET_H
#define BEHAVE_EPOLL_SET_H

#include <sys/epoll.h>

/* Short forms for scenarios about epoll. */
int set_new(void);
/* epoll_ctl with the event's two fields as arguments. */
int ctl(int ep, int op, int fd, unsigned events, unsigned data);
/* Waits up to `ms` for at most 16 events and writes down what came, ordered by data (0..63). */
int say_wait(const char *what, int ep, int ms);

#endif
