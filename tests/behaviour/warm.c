/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The library moves a connection to shared memory in the background while data flows. To make a scenario
 * about that carrier, the two ends pass single bytes to and fro until the connecting end's own statistics
 * say that both directions have changed, then 'q' ends the exchange. Without the library, or when it has
 * given up on the connection, eight rounds are enough. What happens here is not part of the transcript.
 */

#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/stats.h"
#include "harness.h"

enum { ROUNDS_PLAIN = 8, LIMIT_MS = 3000, REASON_FINAL = 200 };

enum carriage { NOT_YET, ON_SHM, NEVER };

bool acceleration_expected(void)
{
	const char *preload = getenv("LD_PRELOAD"), *carrier = getenv("SMC_CARRIER");
	return preload && strstr(preload, "smc") && !(carrier && !strcmp(carrier, "tcp"));
}

static uint16_t port_remote(int fd)
{
	struct sockaddr_in6 address;
	socklen_t size = sizeof(address);
	if (getpeername(fd, (struct sockaddr *)&address, &size) < 0)
		return 0;
	return ntohs(address.sin6_port);
}

static enum carriage slot_carriage(const struct smc_stats_slot *slot)
{
	if (atomic_load(&slot->tx_carrier) == SMC_CARRIER_SHM &&
	    atomic_load(&slot->rx_carrier) == SMC_CARRIER_SHM)
		return ON_SHM;
	return atomic_load(&slot->reason) >= REASON_FINAL ? NEVER : NOT_YET;
}

/* Looks for the connection in one statistics page. */
static bool page_search(const char *map, size_t size, uint16_t local, uint16_t remote,
			enum carriage *out)
{
	const struct smc_stats_page *page = (const void *)map;
	if (size < sizeof(*page) || page->magic != SMC_STATS_MAGIC || page->pid != getpid())
		return false;
	uint32_t slots = atomic_load(&page->slots);
	for (uint32_t i = 0; i < slots; i++) {
		size_t at = page->header_size + (size_t)i * page->slot_size;
		if (at + sizeof(struct smc_stats_slot) > size)
			break;
		const struct smc_stats_slot *slot = (const void *)(map + at);
		if (!atomic_load(&slot->used) || slot->local.port != local ||
		    slot->remote.port != remote)
			continue;
		*out = slot_carriage(slot);
		return true;
	}
	return false;
}

static bool file_search(int dir, const char *name, uint16_t local, uint16_t remote,
			enum carriage *out)
{
	bool found = false;
	struct stat st;
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	char *map = MAP_FAILED;
	if (!fstat(fd, &st) && st.st_size)
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED) {
		found = page_search(map, (size_t)st.st_size, local, remote, out);
		munmap(map, (size_t)st.st_size);
	}
	return found;
}

/* What our own statistics say of the connection; NOT_YET if nothing is known. */
static enum carriage carriage_of(int fd)
{
	static const char wanted[] = "/memfd:" SMC_STATS_NAME " (deleted)";
	enum carriage result = NOT_YET;
	uint16_t local = port_of(fd), remote = port_remote(fd);
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return NOT_YET;
	for (struct dirent *e; (e = readdir(dir));) {
		char text[128];
		ssize_t n = readlinkat(dirfd(dir), e->d_name, text, sizeof(text) - 1);
		if (n < 0)
			continue;
		text[n] = 0;
		if (!strcmp(text, wanted) &&
		    file_search(dirfd(dir), e->d_name, local, remote, &result))
			break;
	}
	closedir(dir);
	return result;
}

bool accelerated(int fd)
{
	return carriage_of(fd) == ON_SHM;
}

static void byte_out(int fd, char c)
{
	send_all(fd, &c, 1);
}

static char byte_in(int fd)
{
	char c = 0;
	recv_all(fd, &c, 1);
	return c;
}

static bool warm_enough(int fd, int round, long end)
{
	if (!acceleration_expected())
		return round >= ROUNDS_PLAIN;
	if (now_ms() > end)
		return true;
	/* The look costs more than the exchange: not every time. */
	if (round > 8 && round % 4)
		return false;
	enum carriage c = carriage_of(fd);
	return c == ON_SHM || (c == NEVER && round >= ROUNDS_PLAIN);
}

void warm_up_client(int fd)
{
	int saved = errno;
	long end = now_ms() + LIMIT_MS;
	for (int round = 0; !warm_enough(fd, round, end); round++) {
		byte_out(fd, 'p');
		MUST(byte_in(fd) == 'p');
	}
	byte_out(fd, 'q');
	MUST(byte_in(fd) == 'q');
	errno = saved;
}

void warm_up_server(int fd)
{
	int saved = errno;
	char c;
	do {
		c = byte_in(fd);
		MUST(c == 'p' || c == 'q');
		byte_out(fd, c);
	} while (c == 'p');
	errno = saved;
}

static void round_trip(int a, int b)
{
	byte_out(a, 'p');
	MUST(byte_in(b) == 'p');
	byte_out(b, 'p');
	MUST(byte_in(a) == 'p');
}

void warm_up_both(int a, int b)
{
	int pair[1][2] = { { a, b } };
	warm_up_many(pair, 1);
}

void warm_up_many(int (*pairs)[2], int count)
{
	int saved = errno;
	long end = now_ms() + LIMIT_MS;
	if (acceleration_expected())
		for (int round = 0; round < 4; round++)
			for (int i = 0; i < count; i++)
				round_trip(pairs[i][0], pairs[i][1]);
	for (int i = 0; i < count; i++) {
		int a = pairs[i][0], b = pairs[i][1];
		for (int round = 0; !warm_enough(a, round, end) || !warm_enough(b, round, end);
		     round++)
			round_trip(a, b);
		round_trip(a, b);
	}
	errno = saved;
}
