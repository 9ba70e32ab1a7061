/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/stats.h"
#include "core/sys.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Slots are allocated in the memfd a block at a time: few connections cost few pages. */
enum { BLOCK = 64, MAX_SLOTS = 64 * 1024 };

#define HEADER 1024
_Static_assert(sizeof(struct smc_stats_page) <= HEADER, "the slots start after the page header");

static struct {
	struct smc_stats_page *page;
	int fd;
	_Atomic uint32_t hint; /* where to look for a free slot first */
} own;

static struct smc_stats_totals nowhere;

static struct smc_stats_slot *slot_at(struct smc_stats_page *page, uint32_t i)
{
	return (struct smc_stats_slot *)((char *)page + HEADER) + i;
}

static size_t size_for(uint32_t slots)
{
	return HEADER + slots * sizeof(struct smc_stats_slot);
}

bool smc_stats_open(int *fd, int pid)
{
	struct timespec now;
	int memfd = memfd_create(SMC_STATS_NAME, MFD_CLOEXEC);

	if (memfd < 0)
		return false;
	/* address space for all, memory only for what fallocate gave: reading beyond is nobody's business */
	struct smc_stats_page *page = MAP_FAILED;
	if (!fallocate(memfd, 0, 0, (off_t)size_for(0)))
		page = mmap(NULL, size_for(MAX_SLOTS), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memfd, 0);
	if (page == MAP_FAILED) {
		smc_sys.close(memfd);
		return false;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	page->version = SMC_STATS_VERSION;
	page->header_size = HEADER;
	page->slot_size = sizeof(struct smc_stats_slot);
	page->max_slots = MAX_SLOTS;
	page->pid = pid;
	page->start_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	__atomic_store_n(&page->magic, SMC_STATS_MAGIC, __ATOMIC_RELEASE); /* last: now it may be read */
	own.page = page;
	own.fd = memfd;
	*fd = memfd;
	return true;
}

void smc_stats_fd_moved(int fd)
{
	own.fd = fd;
}

void smc_stats_forked(void)
{
	own.page = NULL;
	own.hint = 0;
}

struct smc_stats_totals *smc_stats_totals(void)
{
	return own.page ? &own.page->totals : &nowhere;
}

static struct smc_stats_slot *try_take(uint32_t i)
{
	struct smc_stats_slot *slot = slot_at(own.page, i);
	uint32_t free_slot = 0;

	if (atomic_load_explicit(&slot->used, memory_order_relaxed) ||
	    !atomic_compare_exchange_strong(&slot->used, &free_slot, 2)) /* 2: taken, not yet filled in */
		return NULL;
	memset((char *)slot + sizeof(slot->used), 0, sizeof(*slot) - sizeof(slot->used));
	atomic_store_explicit(&slot->used, 1, memory_order_release);
	atomic_store_explicit(&own.hint, i + 1, memory_order_relaxed);
	return slot;
}

struct smc_stats_slot *smc_stats_slot_take(void)
{
	struct smc_stats_page *page = own.page;
	struct smc_stats_slot *slot;

	if (!page)
		return NULL;
	for (;;) {
		uint32_t n = atomic_load(&page->slots), hint = atomic_load_explicit(&own.hint, memory_order_relaxed);
		for (uint32_t k = 0; k < n; k++)
			if ((slot = try_take((hint + k) % n)))
				return slot;
		if (n + BLOCK > MAX_SLOTS || fallocate(own.fd, 0, 0, (off_t)size_for(n + BLOCK))) {
			atomic_fetch_add_explicit(&page->totals.untracked, 1, memory_order_relaxed);
			return NULL;
		}
		uint32_t expected = n;
		atomic_compare_exchange_strong(&page->slots, &expected, n + BLOCK);
		atomic_store_explicit(&own.hint, n, memory_order_relaxed);
	}
}

void smc_stats_slot_drop(struct smc_stats_slot *slot)
{
	struct smc_stats_totals *t = smc_stats_totals();
	bool fast = false;

	for (int i = 0; i < SMC_CARRIERS; i++) {
		atomic_fetch_add_explicit(&t->tx[i], slot->tx[i], memory_order_relaxed);
		atomic_fetch_add_explicit(&t->rx[i], slot->rx[i], memory_order_relaxed);
		fast |= i != SMC_CARRIER_TCP && slot->tx[i] + slot->rx[i];
	}
	atomic_fetch_add_explicit(&t->closed, 1, memory_order_relaxed);
	if (fast)
		atomic_fetch_add_explicit(&t->closed_fast, 1, memory_order_relaxed);
	atomic_store_explicit(&slot->used, 0, memory_order_release);
}
