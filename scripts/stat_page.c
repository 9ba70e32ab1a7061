/* SPDX-License-Identifier: BSD-2-Clause */
#include "scripts/stat_page.h"

#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/stats.h"

enum {
	MAX_HEADER = 64 * 1024,
	MAX_SLOT = 4096,
	MAX_SLOTS = 256 * 1024,
	READ_TRIES = 100,
};

static bool read_at(int fd, void *to, size_t n, uint64_t offset)
{
	return pread(fd, to, n, (off_t)offset) == (ssize_t)n;
}

static void copy_bytes(struct stat_bytes *to, const _Atomic uint64_t *tx,
		       const _Atomic uint64_t *rx)
{
	for (int i = 0; i < SMC_CARRIERS; i++) {
		to->tx[i] = tx[i];
		to->rx[i] = rx[i];
	}
}

static void copy_totals(struct stat_totals *to, const struct smc_stats_totals *from)
{
	copy_bytes(&to->bytes, from->tx, from->rx);
#define X(name) to->name = from->name;
	STAT_COUNTERS(X)
#undef X
}

static const char *page_check(const struct smc_stats_page *header)
{
	if (header->magic != SMC_STATS_MAGIC)
		return "no statistics page";
	if (header->version != SMC_STATS_VERSION)
		return "made by another version of the library";
	if (header->header_size < sizeof(*header) || header->header_size > MAX_HEADER ||
	    header->slot_size < sizeof(struct smc_stats_slot) || header->slot_size > MAX_SLOT)
		return "sizes out of range";
	return NULL;
}

/* How many slots are there: what the page says, but no more than the file has. */
static uint32_t slot_count(const struct smc_stats_page *header, off_t file_size)
{
	uint64_t room = 0, slots = header->slots;

	if ((uint64_t)file_size > header->header_size)
		room = ((uint64_t)file_size - header->header_size) / header->slot_size;
	if (slots > room)
		slots = room;
	return slots > MAX_SLOTS ? MAX_SLOTS : (uint32_t)slots;
}

const char *stat_page_open(struct stat_page *page, int fd)
{
	struct smc_stats_page header;
	struct stat st;
	const char *wrong;

	*page = (struct stat_page){ .fd = fd };
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		wrong = "no regular file";
	else if (!read_at(fd, &header, sizeof(header), 0))
		wrong = "too short";
	else
		wrong = page_check(&header);
	if (wrong) {
		stat_page_close(page);
		return wrong;
	}
	page->header_size = header.header_size;
	page->slot_size = header.slot_size;
	page->slots = slot_count(&header, st.st_size);
	page->pid = header.pid;
	copy_totals(&page->totals, &header.totals);
	return NULL;
}

void stat_page_close(struct stat_page *page)
{
	if (page->fd >= 0)
		close(page->fd);
	page->fd = -1;
}

static void print_addr(char to[STAT_ADDR_LEN], const struct smc_stats_addr *addr)
{
	char ip[INET6_ADDRSTRLEN];

	if ((addr->family != AF_INET && addr->family != AF_INET6) ||
	    !inet_ntop(addr->family, addr->ip, ip, sizeof(ip)))
		snprintf(to, STAT_ADDR_LEN, "-");
	else
		snprintf(to, STAT_ADDR_LEN, addr->family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip,
			 addr->port);
}

static enum smc_carrier in_range(uint8_t carrier)
{
	return carrier < SMC_CARRIERS ? (enum smc_carrier)carrier : SMC_CARRIER_TCP;
}

static void copy_slot(struct stat_connection *to, const struct smc_stats_slot *slot)
{
	*to = (struct stat_connection){
		.pid = slot->pid,
		.fd = slot->fd,
		.role = slot->role == SMC_ROLE_ACCEPTOR ? SMC_ROLE_ACCEPTOR : SMC_ROLE_CONNECTOR,
		.tx_carrier = in_range(slot->tx_carrier),
		.rx_carrier = in_range(slot->rx_carrier),
		.reason = slot->reason,
		.ring_tx = slot->ring_tx,
		.ring_rx = slot->ring_rx,
		.ups = slot->ups,
		.downs = slot->downs,
	};
	copy_bytes(&to->bytes, slot->tx, slot->rx);
	print_addr(to->local, &slot->local);
	print_addr(to->remote, &slot->remote);
}

bool stat_page_read(const struct stat_page *page, uint32_t i, struct stat_connection *connection)
{
	const uint64_t at = page->header_size + (uint64_t)i * page->slot_size;
	const uint64_t seq_at = at + offsetof(struct smc_stats_slot, seq);
	struct smc_stats_slot slot;
	uint32_t before, after;

	for (int tries = 0; tries < READ_TRIES; tries++) {
		/* Three reads, for within one the kernel may copy in any order. */
		if (!read_at(page->fd, &before, sizeof(before), seq_at) ||
		    !read_at(page->fd, &slot, sizeof(slot), at) || !slot.used)
			return false;
		if (!read_at(page->fd, &after, sizeof(after), seq_at))
			return false;
		if (before == after && !(before & 1)) {
			copy_slot(connection, &slot);
			return true;
		}
		sched_yield();
	}
	return false;
}
