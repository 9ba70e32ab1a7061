/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/raw.h"
#include "transport/shm/bell.h"
#include "transport/shm/channel.h"
#include "transport/shm/segment.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Segments and their pool, as two processes see them: one pool makes, the other adopts. */

static struct shm_pool maker, other;

TestSuite(segment, .init = raw_fill_sys);

static struct shm_segment *get(uint32_t ring, int *fd)
{
	return shm_segment_get(&maker, ring, ring, fd);
}

Test(segment, is_made_once_and_then_reused)
{
	int fd, again;
	struct shm_segment *s = get(16384, &fd);

	cr_assert(s && fd >= 0);
	shm_segment_release(s, 0);
	cr_assert_neq(get(16384, &again), s, "the other side is not done");
	shm_segment_release(s, 1);
	cr_assert_eq(get(16384, &again), s);
	cr_assert_eq(again, -1);
}

Test(segment, is_clear_when_reused)
{
	int fd;
	struct shm_segment *s = get(16384, &fd), *mine = shm_segment_adopt(&other, s->id, 16384, 16384, fd);
	struct shm_peer_bell bell = { 0 };
	struct shm_channel w;
	struct iovec room[2];

	cr_assert(mine);
	shm_channel_init(&w, s, 0, &bell);
	w.base.ops->tx_open(&w.base, 16000); /* wraps */
	w.base.ops->tx_reserve(&w.base, room);
	memset(room[0].iov_base, 's', room[0].iov_len);
	memset(room[1].iov_base, 's', room[1].iov_len);
	w.base.ops->tx_commit(&w.base, 9000);
	shm_segment_release(s, 0);
	cr_assert_eq(shm_segment_ring(mine, 0)[16000], 's');
	shm_segment_release(mine, 1);
	for (unsigned i = 0; i < 9000; i++)
		cr_assert_eq(shm_segment_ring(s, 0)[(16000 + i) % 16384], 0, "byte %u", i);
	cr_assert_eq(s->header->dir[0].prod, 0);
	cr_assert_eq(s->header->dir[0].opened, SHM_NONE);
}

Test(segment, of_another_size_is_another_one)
{
	int fd;
	struct shm_segment *s = get(16384, &fd);

	shm_segment_release(s, 0);
	shm_segment_release(s, 1);
	cr_assert_neq(get(32768, &fd), s);
	cr_assert_geq(fd, 0);
}

Test(segment, adopting_refuses_what_is_not_as_told)
{
	int fd;
	struct shm_segment *s = get(16384, &fd);
	int unsealed = memfd_create("x", MFD_ALLOW_SEALING);

	cr_assert(!ftruncate(unsealed, (off_t)s->size));
	cr_assert_null(shm_segment_adopt(&other, 7, 16384, 16384, unsealed), "not sealed");
	cr_assert_null(shm_segment_adopt(&other, 7, 32768, 16384, fd), "another size");
	cr_assert_null(shm_segment_adopt(&other, 7, 16383, 16384, fd), "no power of two");
	cr_assert_null(shm_segment_adopt(&other, 7, 16384, 16384, -1), "not known");
	cr_assert(shm_segment_adopt(&other, 7, 16384, 16384, fd));
	cr_assert_null(shm_segment_adopt(&other, 7, 16384, 16384, fd), "known already");
	cr_assert_null(shm_segment_adopt(&other, 7, 32768, 16384, -1), "known in another size");
	cr_assert(shm_segment_adopt(&other, 7, 16384, 16384, -1));
}

Test(segment, declined_goes_back)
{
	int fd;
	struct shm_segment *s = get(16384, &fd);

	shm_segment_cancel(s);
	cr_assert_eq(get(16384, &fd), s);
}

static uint32_t found[8], count;

static void note(void *context, uint32_t slot)
{
	(void)context;
	found[count++] = slot;
}

Test(attention, harvest_finds_each_bit_once)
{
	static struct shm_attention a;
	static struct shm_status status;
	const uint32_t slots[] = { 0, 63, 64, 4095, 4096, SHM_LINK_SLOTS - 1 };

	cr_assert_not(shm_attention_any(&a));
	for (int i = 0; i < 6; i++) {
		struct shm_peer_bell bell = { &a, &status, -1, slots[i] };
		shm_bell_ring(&bell);
		shm_bell_ring(&bell);
	}
	cr_assert(shm_attention_any(&a));
	shm_attention_harvest(&a, note, NULL);
	cr_assert_eq(count, 6);
	for (int i = 0; i < 6; i++)
		cr_assert_eq(found[i], slots[i]);
	cr_assert_not(shm_attention_any(&a));
}
