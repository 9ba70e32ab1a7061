/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/target.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * replay CORPUS [MUTATIONS [SEED]]: a fuzz target without libFuzzer. Gives it every file of the
 * folder, then mutations of them, the same ones for the same seed. Each input is a heap block of
 * just its size, so that AddressSanitizer sees the first byte read beyond it.
 */
#define MAX_FILES 256
#define MAX_SIZE  1024

static struct input {
	size_t n;
	uint8_t bytes[MAX_SIZE];
} files[MAX_FILES];
static size_t n_files;

static void fail(const char *what, const char *name)
{
	fprintf(stderr, "replay: %s: %s\n", what, name);
	exit(1);
}

static void read_file(const char *folder, const char *name)
{
	struct input *to = &files[n_files];
	char path[4096];
	struct stat st;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return;
	if (n_files == MAX_FILES || st.st_size > MAX_SIZE)
		fail("more files, or a larger one, than foreseen", path);
	f = fopen(path, "rb");
	if (!f)
		fail("cannot be read", path);
	to->n = fread(to->bytes, 1, MAX_SIZE, f);
	fclose(f);
	n_files++;
}

/* In an order of its own: that of a folder is the file system's, and mutations depend on it. */
static void read_corpus(const char *folder)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, NULL, alphasort);

	if (n < 0)
		fail("no folder", folder);
	for (int i = 0; i < n; i++) {
		read_file(folder, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	if (n_files == 0)
		fail("no corpus", folder);
}

static void give(const struct input *input)
{
	uint8_t *exact = malloc(input->n);

	if (!exact && input->n)
		abort();
	if (input->n)
		memcpy(exact, input->bytes, input->n);
	LLVMFuzzerTestOneInput(exact, input->n);
	free(exact);
}

static size_t below(size_t n)
{
	return (size_t)rand() % n;
}

/* Some bytes of another file, at the place that they have there or at another. */
static void splice(struct input *input)
{
	const struct input *from = &files[below(n_files)];
	size_t n, at, to;

	if (from->n == 0 || input->n == 0)
		return;
	at = below(from->n);
	to = rand() % 2 && at < input->n ? at : below(input->n);
	n = 1 + below(from->n - at);
	if (n > input->n - to)
		n = input->n - to;
	memcpy(input->bytes + to, from->bytes + at, n);
}

static void resize(struct input *input)
{
	size_t n = rand() % 2 ? below(input->n + 1) : below(MAX_SIZE + 1);

	if (n > input->n)
		memset(input->bytes + input->n, rand() % 2 ? 0 : rand(), n - input->n);
	input->n = n;
}

static void mutate(struct input *input)
{
	static const uint8_t odd[] = { 0, 1, 2, 8, 9, 0x28, 0x2c, 0x7f, 0x80, 0xac, 0xfe, 0xff };
	uint8_t *at = &input->bytes[input->n ? below(input->n) : 0];

	switch (rand() % 6) {
	case 0:
		*at ^= (uint8_t)(1u << rand() % 8);
		break;
	case 1:
		*at = odd[below(sizeof(odd))];
		break;
	case 2:
		*at = (uint8_t)rand();
		break;
	case 3:
		*at = (uint8_t)(*at + rand() % 9 - 4);
		break;
	case 4:
		splice(input);
		break;
	case 5:
		if (rand() % 4 == 0)
			resize(input);
		break;
	}
}

int main(int argc, char **argv)
{
	unsigned long mutations = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	unsigned seed = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1;

	if (argc < 2)
		fail("usage", "replay CORPUS [MUTATIONS [SEED]]");
	read_corpus(argv[1]);
	printf("%zu files, %lu mutations, seed %u\n", n_files, mutations, seed);
	fflush(stdout);
	srand(seed);
	for (size_t i = 0; i < n_files; i++)
		give(&files[i]);
	for (unsigned long i = 0; i < mutations; i++) {
		struct input input = files[below(n_files)];

		for (int n = 1 + rand() % 5; n > 0; n--)
			mutate(&input);
		give(&input);
	}
	return 0;
}
