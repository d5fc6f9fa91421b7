/* SPDX-License-Identifier: Apache-2.0
 * Noise for differential privacy, from C: exact laws, a fresh key for every call, no Python.
 *
 *     dpfast_noise *noise;
 *     int status = dpfast_discrete_laplace("1/0.1", &noise);  // sensitivity/epsilon
 *     if (status == DPFAST_OK)
 *         status = dpfast_add_int64(noise, n, counts, noisy, 0, INT64_MAX);
 *     if (status != DPFAST_OK)
 *         fprintf(stderr, "no release: %s\n", dpfast_message(status));
 *     dpfast_free(noise);
 *
 * What it is not: no ledger adds up what releases spend, nothing is sealed against a second release
 * of the same counts, and nobody checks that one unit of privacy changes the values by no more than
 * the scale was made for. dpfast's Python package does that.
 *
 * Whoever makes a noise or adds one gets a status, and must look at it. If an add fails, all of
 * `out` is zeros, and zeros pass for counts. If no noise was made, nothing has touched your arrays:
 * in place they are still the private counts. Nothing prints, nothing aborts. Nothing is kept of a
 * call but where its thread's stack was: a noise never changes, any number of threads may use one,
 * and a forked child may, too.
 *
 * A call needs 208 KiB of stack: give a thread of your own 256 KiB or more. One with less ends by a
 * signal, before it has touched your arrays or memory that is not its own. One that is cancelled
 * within a call leaves `out` as it was. */
#ifndef DPFAST_H
#define DPFAST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#define DPFAST_LOOK_AT __attribute__((warn_unused_result))
#else
#define DPFAST_LOOK_AT
#endif

enum {
    DPFAST_OK = 0,
    DPFAST_POINTER = 1,    /* one is NULL, or `noise` is none */
    DPFAST_NUMBER = 2,     /* a text is no number above 0, or has too many digits */
    DPFAST_SCALE = 3,      /* the scale, or the grid for it, is out of range */
    DPFAST_SIZE = 4,       /* n is below 0, or no array is so long */
    DPFAST_ARRAYS = 5,     /* in and out overlap, or one is not aligned */
    DPFAST_TYPE = 6,       /* see dpfast_add_int64 */
    DPFAST_BOUNDS = 7,     /* lower exceeds upper, or one is not a number */
    DPFAST_NOT_FINITE = 8, /* a value is infinite or not a number: publish this status, and you tell so */
    DPFAST_ENTROPY = 9,    /* the operating system gave no key */
    DPFAST_MEMORY = 10,    /* there is none */
    DPFAST_BUILD = 11,     /* on this machine the build does not reproduce its known answers: nothing is drawn */
    DPFAST_UNDECIDED = 12  /* all digits of a draw left it undecided, once in 2^200 draws */
};

/* What a status means, in English, for ever. */
const char *dpfast_message(int status);

/* The version of the library, as text. */
const char *dpfast_version(void);

/* A law with its scale. Making one takes up to three milliseconds, most less than one, and the
 * first of its law in a process up to two more: the build is then checked against known answers. */
typedef struct dpfast_noise dpfast_noise;

/* Make a noise into *made, or NULL. A text is a number, as 10, 0.1 or 1e-3, or a ratio of two, as
 * 1/0.1, without blanks or a sign, and is taken exactly. A number has at most 1,300 digits and an
 * exponent of at most four; as a ratio of integers the text has at most 4,096 bits on either side.
 *
 * dpfast_discrete_laplace: integers with P(k) proportional to exp(-|k|/scale), scale from 2^-60 to
 *     2^60. With scale = sensitivity/epsilon, sensitivity in L1, a release is epsilon-DP.
 * dpfast_discrete_gaussian: integers with P(k) proportional to exp(-k^2/(2 sigma^2)), sigma^2 from
 *     1e-6 to 1e18. A release is rho-zCDP, rho = sensitivity^2/(2 sigma^2), sensitivity in L2.
 * dpfast_laplace, dpfast_gaussian: the real laws, added to a real value; their sum is rounded once,
 *     to a multiple of 2^grid. They promise what the discrete ones do, for a sensitivity of the
 *     values as doubles. DPFAST_GRID chooses a grid that is some 2^20 times finer than the scale,
 *     or sigma. grid is from -1074 to 900, and the scale, or sigma, 2^-60 to 2^60 steps of it. */
enum { DPFAST_GRID = INT32_MIN };
DPFAST_LOOK_AT int dpfast_discrete_laplace(const char *scale, dpfast_noise **made);
DPFAST_LOOK_AT int dpfast_discrete_gaussian(const char *sigma_squared, dpfast_noise **made);
DPFAST_LOOK_AT int dpfast_laplace(const char *scale, int32_t grid, dpfast_noise **made);
DPFAST_LOOK_AT int dpfast_gaussian(const char *sigma_squared, int32_t grid, dpfast_noise **made);

/* Free a noise, which no thread may use any more; NULL is none. */
void dpfast_free(dpfast_noise *noise);

/* The grid of a real law, as the exponent of 2; that of a discrete one is 0. */
int32_t dpfast_grid(const dpfast_noise *noise);

/* out[i] = in[i] + noise, clamped to [lower, upper], for i < n; each noise is a draw of its own,
 * under a key that this call takes from the operating system. out may be in; otherwise they must
 * not overlap. What does not fit the type is clamped to its ends. Bounds of reals may be infinite;
 * they need not lie on the grid.
 *
 * Integers take a discrete law, and int32 one up to scale 2^54; reals take a real law whose grid
 * their type holds, which for float32 is 2^-149 or more. Else the status is DPFAST_TYPE.
 *
 * A call with n < 4,096 does equal work for every draw, whatever it is, but for one draw in 2^30,
 * as long as a grid is at most 2^18 times the scale and, of dpfast_gaussian, at least sigma 2^-40;
 * a longer call does not. Both give the same results from the same digits. */
DPFAST_LOOK_AT int dpfast_add_int64(const dpfast_noise *noise, int64_t n, const int64_t *in, int64_t *out,
                                    int64_t lower, int64_t upper);
DPFAST_LOOK_AT int dpfast_add_uint64(const dpfast_noise *noise, int64_t n, const uint64_t *in, uint64_t *out,
                                     uint64_t lower, uint64_t upper);
DPFAST_LOOK_AT int dpfast_add_int32(const dpfast_noise *noise, int64_t n, const int32_t *in, int32_t *out,
                                    int32_t lower, int32_t upper);
DPFAST_LOOK_AT int dpfast_add_float64(const dpfast_noise *noise, int64_t n, const double *in, double *out, double lower,
                                      double upper);
DPFAST_LOOK_AT int dpfast_add_float32(const dpfast_noise *noise, int64_t n, const float *in, float *out, float lower,
                                      float upper);

#ifdef __cplusplus
}
#endif
#endif
