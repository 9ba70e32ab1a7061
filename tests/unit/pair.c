/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/pair.h"
#include "preload/raw.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void connect_pair(struct pair *p)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert(!bind(listener, (struct sockaddr *)&a, len));
	cr_assert(!getsockname(listener, (struct sockaddr *)&a, &len));
	cr_assert(!listen(listener, 1));
	p->end[0].fd = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert(!connect(p->end[0].fd, (struct sockaddr *)&a, len));
	p->end[1].fd = accept(listener, NULL, NULL);
	cr_assert(p->end[1].fd >= 0);
	close(listener);
	/* no Nagle: what is sent is there at once, so tests need not wait */
	int on = 1;
	for (int i = 0; i < 2; i++)
		cr_assert(!setsockopt(p->end[i].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
}

void pair_make(struct pair *p, uint32_t ring0, uint32_t ring1)
{
	int fd;

	raw_fill_sys();
	memset(p, 0, sizeof(*p));
	connect_pair(p);
	p->segment = shm_segment_get(&p->pool, ring0, ring1, &fd);
	cr_assert(p->segment);
	close(fd);
	p->attention = calloc(1, sizeof(*p->attention) + SHM_LINE);
	struct shm_peer_bell bell = { p->attention, &p->status, -1, 0 };
	for (int i = 0; i < 2; i++) {
		p->end[i].end = &p->shared[i];
		p->end[i].stats = &p->stats[i];
		p->end[i].connector = i == 0;
		p->shared[i].holders = 1;
		shm_channel_init(&p->channel[i], p->segment, (unsigned)i, &bell);
	}
}

void pair_attach(struct pair *p, int i)
{
	cr_assert_eq(smc_stream_attach(&p->end[i], &p->channel[i].base), 0);
	smc_stream_promise(&p->end[i], true);
}

void pair_free(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		close(p->end[i].fd);
	shm_pool_destroy(&p->pool);
	free(p->attention);
}
