/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SMC_CORE_LLC_WIRE_H
#define SMC_CORE_LLC_WIRE_H

#include "core/llc.h"

/*
 * What the codecs of the LLC messages share; for core/llc*.c alone.
 *
 *   get   at least SMC_LLC_SIZE bytes are there; `message` is zero but for version, type and response
 *   size  of the message; 0 if it cannot be said
 *   put   head, length and the flag of a response are there, all else is zero
 */
enum { LLC_RKEY_SIZE = 16, LLC_FLAGS = 3 };

enum smc_wire_result llc_get_confirm_link(const uint8_t *from, size_t n, struct smc_llc *message);
size_t llc_size_confirm_link(const struct smc_llc *message);
void llc_put_confirm_link(const struct smc_llc *message, uint8_t *to);

enum smc_wire_result llc_get_add_link(const uint8_t *from, size_t n, struct smc_llc *message);
size_t llc_size_add_link(const struct smc_llc *message);
void llc_put_add_link(const struct smc_llc *message, uint8_t *to);

enum smc_wire_result llc_get_add_link_cont(const uint8_t *from, size_t n, struct smc_llc *message);
size_t llc_size_fixed(const struct smc_llc *message);
void llc_put_add_link_cont(const struct smc_llc *message, uint8_t *to);

enum smc_wire_result llc_get_delete_link(const uint8_t *from, size_t n, struct smc_llc *message);
void llc_put_delete_link(const struct smc_llc *message, uint8_t *to);

enum smc_wire_result llc_get_req_add_link(const uint8_t *from, size_t n, struct smc_llc *message);
size_t llc_size_req_add_link(const struct smc_llc *message);
void llc_put_req_add_link(const struct smc_llc *message, uint8_t *to);

enum smc_wire_result llc_get_confirm_rkey(const uint8_t *from, size_t n, struct smc_llc *message);
size_t llc_size_confirm_rkey(const struct smc_llc *message);
void llc_put_confirm_rkey(const struct smc_llc *message, uint8_t *to);

enum smc_wire_result llc_get_confirm_rkey_cont(const uint8_t *from, size_t n,
					       struct smc_llc *message);
void llc_put_confirm_rkey_cont(const struct smc_llc *message, uint8_t *to);

enum smc_wire_result llc_get_delete_rkey(const uint8_t *from, size_t n, struct smc_llc *message);
size_t llc_size_delete_rkey(const struct smc_llc *message);
void llc_put_delete_rkey(const struct smc_llc *message, uint8_t *to);

#endif
