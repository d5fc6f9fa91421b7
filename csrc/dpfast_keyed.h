/* SPDX-License-Identifier: Apache-2.0
 * Blocks of one stream, for whoever seals releases or cuts one among threads or machines.
 *
 * What the caller owes. The key is 32 bytes that nobody can guess, is kept secret, and is used for
 * one release: two releases that share key and draws have the same noise, and their difference is
 * exact. Draw numbers must not meet twice: block b of a release begins where block b - 1 ended.
 * Whoever derives the key derives it from all that the release depends on. Overwrite it when the
 * release is done. */
#ifndef DPFAST_KEYED_H
#define DPFAST_KEYED_H

#include "dpfast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As dpfast_add_..., by draws start to start + n - 1 of the stream of a key of 32 bytes; the sum of
 * start and n is at most 2^60. The same call gives the same results, on every machine. */
DPFAST_LOOK_AT int dpfast_add_int64_keyed(const dpfast_noise *noise, const uint8_t *key, uint64_t start, int64_t n,
                                          const int64_t *in, int64_t *out, int64_t lower, int64_t upper);
DPFAST_LOOK_AT int dpfast_add_uint64_keyed(const dpfast_noise *noise, const uint8_t *key, uint64_t start, int64_t n,
                                           const uint64_t *in, uint64_t *out, uint64_t lower, uint64_t upper);
DPFAST_LOOK_AT int dpfast_add_int32_keyed(const dpfast_noise *noise, const uint8_t *key, uint64_t start, int64_t n,
                                          const int32_t *in, int32_t *out, int32_t lower, int32_t upper);
DPFAST_LOOK_AT int dpfast_add_float64_keyed(const dpfast_noise *noise, const uint8_t *key, uint64_t start, int64_t n,
                                            const double *in, double *out, double lower, double upper);
DPFAST_LOOK_AT int dpfast_add_float32_keyed(const dpfast_noise *noise, const uint8_t *key, uint64_t start, int64_t n,
                                            const float *in, float *out, float lower, float upper);

#ifdef __cplusplus
}
#endif
#endif
