/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/clock.h"
#include "preload/raw.h"
#include "transport/shm/channel.h"
#include "transport/shm/segment.h"

#include <err.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * What a pooled segment saves: batches of 100 connections' segments (16384 bytes to send, 131072 to receive), made
 * new against taken from the pool, 5 rounds after a warm-up. Each is used as a connection would (some bytes each way)
 * and let go by both ends, which clears it: that cost is told apart, for it is not part of setting a connection up.
 */
enum { BATCH = 100, ROUNDS = 5, SEND = 16384, RECEIVE = 131072 };

static struct shm_segment *taken[BATCH];

static double take(struct shm_pool *pool)
{
	uint64_t start = smc_now_ns();

	for (int i = 0; i < BATCH; i++) {
		int fd;
		taken[i] = shm_segment_get(pool, SEND, RECEIVE, &fd);
		if (!taken[i])
			errx(1, "no segment");
		if (fd >= 0)
			close(fd);
	}
	return (double)(smc_now_ns() - start) / BATCH;
}

static void use(struct shm_segment *s)
{
	static const struct shm_peer_bell bell;

	for (unsigned side = 0; side < 2; side++) {
		struct shm_channel c;
		struct iovec room[2];
		shm_channel_init(&c, s, side, &bell);
		c.base.ops->tx_open(&c.base, 0);
		c.base.ops->tx_reserve(&c.base, room);
		memset(room[0].iov_base, 'x', 4096);
		c.base.ops->tx_commit(&c.base, 4096);
	}
}

static double let_go(void)
{
	uint64_t start = smc_now_ns();

	for (int i = 0; i < BATCH; i++) {
		shm_segment_release(taken[i], 0);
		shm_segment_release(taken[i], 1);
	}
	return (double)(smc_now_ns() - start) / BATCH;
}

int main(void)
{
	struct shm_pool pool = { 0 };

	raw_fill_sys();
	for (int round = 0; round <= ROUNDS; round++) {
		struct shm_pool fresh = { 0 };
		double made = take(&fresh);
		shm_pool_destroy(&fresh);
		double pooled = take(&pool);
		for (int i = 0; i < BATCH; i++)
			use(taken[i]);
		double cleared = let_go();
		if (round) /* the first one fills the pool */
			printf("round %d: made new %.0f ns, from the pool %.0f ns (%.2f %%), let go %.0f ns\n", round, made, pooled,
			       100 * pooled / made, cleared);
	}
	shm_pool_destroy(&pool);
	return 0;
}
