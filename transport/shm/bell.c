/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/shm/bell.h"
#include "core/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

struct smc_stats_totals *shm_totals;

void *shm_make_page(const char *name, size_t size, int *fd)
{
	int memfd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *map;

	if (memfd < 0) {
		*fd = -errno;
		return NULL;
	}
	/* allocated now, so that a full machine is an error here and not a SIGBUS later */
	if (fallocate(memfd, 0, 0, (off_t)size) || smc_sys.fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		goto fail;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	if (map == MAP_FAILED)
		goto fail;
	*fd = memfd;
	return map;
fail:
	*fd = -errno;
	smc_sys.close(memfd);
	return NULL;
}

void *shm_map_page(int fd, size_t size, bool writable)
{
	struct stat st;
	int seals = smc_sys.fcntl(fd, F_GET_SEALS, 0);

	if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW) ||
	    fstat(fd, &st) || st.st_size != (off_t)size ||
	    (off_t)st.st_blocks * 512 < (off_t)size) /* holes could still end in SIGBUS */
		return NULL;
	void *map = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
	return map == MAP_FAILED ? NULL : map;
}

int shm_bell_make(struct shm_bell *bell)
{
	bell->status = shm_make_page("smc_preload_status", sizeof(struct shm_status), &bell->status_fd);
	if (!bell->status)
		return bell->status_fd;
	/* peers get this memfd and must not be able to write to it; a kernel before 5.1 cannot say so, then a
	 * hostile peer could silence our own doorbell for other peers: worse latency, no more */
	smc_sys.fcntl(bell->status_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (bell->fd >= 0)
		return 0;
	int error = -errno;
	munmap(bell->status, sizeof(struct shm_status));
	smc_sys.close(bell->status_fd);
	return error;
}

void shm_bell_close(struct shm_bell *bell)
{
	smc_sys.close(bell->fd);
	smc_sys.close(bell->status_fd);
	munmap(bell->status, sizeof(struct shm_status));
}

void shm_bell_ring(const struct shm_peer_bell *bell)
{
	uint32_t word = bell->slot / 64;

	atomic_fetch_or(&bell->attention->bits[word], UINT64_C(1) << bell->slot % 64);
	atomic_fetch_or(&bell->attention->summary[word / 64], UINT64_C(1) << word % 64);
	if (!atomic_load(&bell->status->asleep))
		return;
	const uint64_t one = 1;
	smc_sys.write(bell->fd, &one, sizeof(one)); /* full counter: whoever watches was rung long ago */
	if (shm_totals)
		atomic_fetch_add_explicit(&shm_totals->doorbells, 1, memory_order_relaxed);
}

void shm_attention_harvest(struct shm_attention *a, void (*found)(void *context, uint32_t slot), void *context)
{
	for (uint32_t s = 0; s < SHM_LINK_SLOTS / 64 / 64; s++) {
		if (!atomic_load_explicit(&a->summary[s], memory_order_relaxed))
			continue;
		for (uint64_t words = atomic_exchange(&a->summary[s], 0); words; words &= words - 1) {
			uint32_t word = s * 64 + (uint32_t)__builtin_ctzll(words);
			for (uint64_t bits = atomic_exchange(&a->bits[word], 0); bits; bits &= bits - 1)
				found(context, word * 64 + (uint32_t)__builtin_ctzll(bits));
		}
	}
}
