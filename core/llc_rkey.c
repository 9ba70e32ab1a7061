/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/llc_wire.h"

#include <string.h>

/*
 * LLC messages about the keys of RMBs.
 *
 * CONFIRM RKEY (RFC A.3.5):
 *
 *   3   1  flags of a response: 0x20 = negative, 0x10 = retry
 *   4   1  number of tokens after the first
 *   5   4  rkey on the link that carries this
 *   9   8  address there
 *  17  13  second token: link number (1), rkey (4), address (8)
 *  30  13  third token
 *  43   1  reserved
 *
 * CONFIRM RKEY CONTINUATION (RFC A.3.6), v1:
 *
 *   4   1  tokens still to come, these included
 *   5  13  three tokens
 *
 * The first has the number in the place of its first token's link number, and so three tokens from
 * byte 4 on. Linux refuses numbers above three.
 */
enum {
	CONFIRM_NEGATIVE = 0x20,
	CONFIRM_RETRY = 0x10,
	CONFIRM_COUNT = 4,
	CONFIRM_TOKENS = 4,
	CONT_TOKENS = 5,
	TOKEN_SIZE = 13,
};

static void get_token(const uint8_t *from, struct smc_llc_token *token)
{
	token->link = from[0];
	token->rkey = wire_get32(from + 1);
	token->address = wire_get64(from + 5);
}

static void put_token(uint8_t *to, const struct smc_llc_token *token)
{
	to[0] = token->link;
	wire_put32(to + 1, token->rkey);
	wire_put64(to + 5, token->address);
}

static size_t tokens_in(const struct smc_llc_confirm_rkey *c, enum smc_llc_type type)
{
	size_t n = c->n_more + (type == SMC_LLC_CONFIRM_RKEY ? 1u : 0u);

	return n < SMC_LLC_MAX_TOKENS ? n : SMC_LLC_MAX_TOKENS;
}

static void get_flags(const uint8_t *from, bool response, struct smc_llc_confirm_rkey *c)
{
	c->negative = response && from[LLC_FLAGS] & CONFIRM_NEGATIVE;
	c->retry = response && from[LLC_FLAGS] & CONFIRM_RETRY;
}

static void put_flags(uint8_t *to, bool response, const struct smc_llc_confirm_rkey *c)
{
	if (response)
		to[LLC_FLAGS] |= (uint8_t)((c->negative ? CONFIRM_NEGATIVE : 0) |
					   (c->retry ? CONFIRM_RETRY : 0));
}

enum smc_wire_result llc_get_confirm_rkey(const uint8_t *from, size_t n, struct smc_llc *message)
{
	struct smc_llc_confirm_rkey *c = &message->confirm_rkey;

	(void)n;
	get_flags(from, message->response, c);
	c->n_more = from[CONFIRM_COUNT];
	if (c->n_more > SMC_LLC_MAX_TOKENS)
		return SMC_WIRE_COUNT;
	for (size_t i = 0; i < tokens_in(c, message->type); i++)
		get_token(from + CONFIRM_TOKENS + i * TOKEN_SIZE, &c->tokens[i]);
	c->tokens[0].link = 0; /* that byte was the number */
	return SMC_WIRE_OK;
}

size_t llc_size_confirm_rkey(const struct smc_llc *message)
{
	return message->confirm_rkey.n_more <= SMC_LLC_MAX_TOKENS ? SMC_LLC_SIZE : 0;
}

void llc_put_confirm_rkey(const struct smc_llc *message, uint8_t *to)
{
	const struct smc_llc_confirm_rkey *c = &message->confirm_rkey;

	put_flags(to, message->response, c);
	for (size_t i = 0; i < tokens_in(c, message->type); i++)
		put_token(to + CONFIRM_TOKENS + i * TOKEN_SIZE, &c->tokens[i]);
	to[CONFIRM_COUNT] = c->n_more;
}

enum smc_wire_result llc_get_confirm_rkey_cont(const uint8_t *from, size_t n,
					       struct smc_llc *message)
{
	struct smc_llc_confirm_rkey *c = &message->confirm_rkey;

	(void)n;
	get_flags(from, message->response, c);
	c->n_more = from[CONFIRM_COUNT];
	for (size_t i = 0; i < tokens_in(c, message->type); i++)
		get_token(from + CONT_TOKENS + i * TOKEN_SIZE, &c->tokens[i]);
	return SMC_WIRE_OK;
}

void llc_put_confirm_rkey_cont(const struct smc_llc *message, uint8_t *to)
{
	const struct smc_llc_confirm_rkey *c = &message->confirm_rkey;

	put_flags(to, message->response, c);
	to[CONFIRM_COUNT] = c->n_more;
	for (size_t i = 0; i < tokens_in(c, message->type); i++)
		put_token(to + CONT_TOKENS + i * TOKEN_SIZE, &c->tokens[i]);
}

/*
 * DELETE RKEY (RFC A.3.7):
 *
 *   3   1  flags of a response: 0x20 = some key was unknown
 *   4   1  number of keys, 1..8 in v1, up to 255 in v2
 *   5   1  of a response: v1 a mask of unknown keys, v2 their number
 *   6   2  reserved
 *   8   4  each key, as it is known on the link that carries this
 *
 * A response of v2 comes from Linux with its number of keys, but without the keys: none are read or
 * written there.
 */
enum {
	DELETE_NEGATIVE = 0x20,
	DELETE_COUNT = 4,
	DELETE_ERRORS = 5,
	DELETE_RKEYS = 8,
};

static bool has_rkeys(const struct smc_llc *message)
{
	return message->version == 1 || !message->response;
}

/* Whether so many keys may be in a message; what `n` bytes have is another matter. */
static bool count_ok(const struct smc_llc *message, size_t count)
{
	return message->version > 1 || count <= SMC_LLC_V1_DELETE_RKEYS;
}

enum smc_wire_result llc_get_delete_rkey(const uint8_t *from, size_t n, struct smc_llc *message)
{
	struct smc_llc_delete_rkey *d = &message->delete_rkey;
	size_t count = from[DELETE_COUNT];

	if (!count_ok(message, count))
		return SMC_WIRE_COUNT;
	if (message->response) {
		d->negative = from[LLC_FLAGS] & DELETE_NEGATIVE;
		d->errors = from[DELETE_ERRORS];
	}
	d->n_rkeys = (uint8_t)count;
	if (!has_rkeys(message))
		return SMC_WIRE_OK;
	if (DELETE_RKEYS + 4 * count > n)
		return SMC_WIRE_COUNT;
	for (size_t i = 0; i < count; i++)
		d->rkeys[i] = wire_get32(from + DELETE_RKEYS + 4 * i);
	return SMC_WIRE_OK;
}

size_t llc_size_delete_rkey(const struct smc_llc *message)
{
	size_t count = message->delete_rkey.n_rkeys;
	size_t size = DELETE_RKEYS + 4 * count;

	if (!count_ok(message, count))
		return 0;
	return has_rkeys(message) && size > SMC_LLC_SIZE ? size : SMC_LLC_SIZE;
}

void llc_put_delete_rkey(const struct smc_llc *message, uint8_t *to)
{
	const struct smc_llc_delete_rkey *d = &message->delete_rkey;

	if (message->response) {
		if (d->negative)
			to[LLC_FLAGS] |= DELETE_NEGATIVE;
		to[DELETE_ERRORS] = d->errors;
	}
	to[DELETE_COUNT] = d->n_rkeys;
	if (!has_rkeys(message))
		return;
	for (size_t i = 0; i < d->n_rkeys; i++)
		wire_put32(to + DELETE_RKEYS + 4 * i, d->rkeys[i]);
}
