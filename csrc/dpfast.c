/* SPDX-License-Identifier: Apache-2.0
 * The library of dpfast.h: arguments are checked, and dpf_add does the rest. The Python extension
 * has its own door to the same code, and no part of this file. */
#pragma GCC visibility push(default)
#include "dpfast_keyed.h"
#pragma GCC visibility pop
#include "dpf_impl.h"

#include <stdlib.h>

#ifndef DPFAST_VERSION
#define DPFAST_VERSION "unknown"
#endif

enum {
    OURS = 0x64706631,    /* what a noise begins with */
    MOST_BITS = 4096,     /* on either side of a ratio */
    MOST_DIGITS = 1300,   /* in the text of a number */
    PAST_CACHES = 1 << 21 /* values from which results that lie elsewhere are stored past the caches */
};
static const int64_t MOST_VALUES = INT64_MAX / 16;
static const uint64_t MOST_DRAWS = (uint64_t)1 << 60;

struct dpfast_noise {
    uint32_t ours;
    int32_t isa, real, limbs, grid;
    double granularity, inverse, inverse_too;
    dpf_plan plan;
    uint64_t thresholds[DPF_THRESHOLDS];
    uint16_t guide[DPF_GUIDE];
    int16_t table[2 << DPF_TABLE_BITS];
};

const char *dpfast_version(void) {
    return DPFAST_VERSION;
}

const char *dpfast_message(int status) {
    static const char *const messages[] = {
        [DPFAST_OK] = "done",
        [DPFAST_POINTER] = "a pointer is NULL, or the noise is none",
        [DPFAST_NUMBER] = "the text is no number above 0, such as 10, 0.1, 1e-3 or 1/0.1, of at most 4,096 bits",
        [DPFAST_SCALE] = "the scale is out of range, or the grid is",
        [DPFAST_SIZE] = "n must be at least 0, and no more than an array can have",
        [DPFAST_ARRAYS] = "in and out must be one array or share no memory, and be aligned",
        [DPFAST_TYPE] =
            "integers take a discrete law, int32 one up to scale 2^54; reals a law whose grid their type holds",
        [DPFAST_BOUNDS] = "lower must be at most upper",
        [DPFAST_NOT_FINITE] = "values must be finite",
        [DPFAST_ENTROPY] = "the operating system gave no random key",
        [DPFAST_MEMORY] = "there is no memory left",
        [DPFAST_BUILD] = "this build does not reproduce its known answers on this machine, so it draws nothing",
        [DPFAST_UNDECIDED] = "all digits of a draw leave it undecided",
    };
    return status >= 0 && status < (int)(sizeof messages / sizeof *messages) ? messages[status] : "no status";
}

/* ---- numbers */

typedef struct {
    uint64_t limb[DPF_RATIO_LIMBS];
    int64_t limbs;
} whole;

/* a = a by + more; 0: it has too many limbs. */
static int times(whole *a, uint64_t by, uint64_t more) {
    for (int64_t i = 0; i < a->limbs; i++) {
        const dpf_wide part = (dpf_wide)a->limb[i] * by + more;
        a->limb[i] = (uint64_t)part;
        more = (uint64_t)(part >> 64);
    }
    if (more != 0 && a->limbs == DPF_RATIO_LIMBS)
        return 0;
    if (more != 0)
        a->limb[a->limbs++] = more;
    return 1;
}

static int bits_of(const whole *a) {
    return a->limbs == 0 ? 0 : 64 * (int)a->limbs - __builtin_clzll(a->limb[a->limbs - 1]);
}

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* A number's digits into `above`, and powers of ten into either. Return what follows, or NULL. */
static const char *number(const char *at, whole *above, whole *below) {
    int digits = 0, behind = 0, point = 0, exponent = 0;
    for (; is_digit(*at) || (*at == '.' && !point); at++)
        if (*at == '.')
            point = 1;
        else if (++digits > MOST_DIGITS || !times(above, 10, (uint64_t)(*at - '0')))
            return NULL;
        else
            behind += point;
    if (digits == 0)
        return NULL;
    if (*at == 'e' || *at == 'E') {
        const int negative = at[1] == '-', given = at[1] == '-' || at[1] == '+';
        int places = 0;
        for (at += 1 + given; is_digit(*at) && places < 4; at++, places++)
            exponent = 10 * exponent + (*at - '0');
        if (places == 0)
            return NULL;
        exponent = negative ? -exponent : exponent;
    }
    for (exponent -= behind; exponent > 0; exponent--)
        if (!times(above, 10, 0))
            return NULL;
    for (; exponent < 0; exponent++)
        if (!times(below, 10, 0))
            return NULL;
    return at;
}

/* a = a b; 0: it has too many limbs. */
static int multiplied(whole *a, const whole *b) {
    whole found = {{0}, 0};
    for (int64_t i = b->limbs - 1; i >= 0; i--) {
        uint64_t carry = 0;
        if (found.limbs == DPF_RATIO_LIMBS)
            return 0;
        memmove(found.limb + 1, found.limb, (size_t)found.limbs * sizeof *found.limb);
        found.limb[0] = 0;
        found.limbs += found.limbs > 0;
        for (int64_t j = 0; j < a->limbs || carry; j++) {
            if (j == DPF_RATIO_LIMBS)
                return 0;
            const dpf_wide part = (dpf_wide)(j < a->limbs ? a->limb[j] : 0) * b->limb[i] + found.limb[j] + carry;
            found.limb[j] = (uint64_t)part;
            carry = (uint64_t)(part >> 64);
            found.limbs = j + 1 > found.limbs && found.limb[j] ? j + 1 : found.limbs;
        }
    }
    *a = found;
    return 1;
}

/* A number above 0, or a ratio of two, as a ratio of integers. */
static int read(const char *text, whole *above, whole *below) {
    whole divisor = {{0}, 0};
    *above = (whole){{0}, 0};
    *below = (whole){{1}, 1};
    const char *at = number(text, above, below);
    if (at && *at == '/') { /* (a/b) / (c/d) = ad/bc */
        whole tens = {{1}, 1};
        at = number(at + 1, &divisor, &tens);
        if (!at || !multiplied(above, &tens) || !multiplied(below, &divisor))
            return 0;
    }
    return at && *at == '\0' && above->limbs > 0 && below->limbs > 0 && bits_of(above) <= MOST_BITS &&
           bits_of(below) <= MOST_BITS;
}

/* a = a 2^bits, for which there is room. */
static void shift(whole *a, int bits) {
    for (; bits >= 32; bits -= 32)
        (void)times(a, (uint64_t)1 << 32, 0);
    (void)times(a, (uint64_t)1 << bits, 0);
}

/* Whether a < b. */
static int less(const whole *a, const whole *b) {
    if (a->limbs != b->limbs)
        return a->limbs < b->limbs;
    for (int64_t i = a->limbs - 1; i >= 0; i--)
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i];
    return 0;
}

/* The largest e with 2^e <= above/below. */
static int exponent_of(whole above, whole below) {
    const int e = bits_of(&above) - bits_of(&below);
    e > 0 ? shift(&below, e) : shift(&above, -e);
    return e - less(&above, &below);
}

/* ---- noises */

enum { DISCRETE_LAPLACE = 1, LAPLACE, GAUSSIAN, DISCRETE_GAUSSIAN }; /* the order of isa.h */

/* The laws, a bit each, whose answers this build was seen to know here. */
static _Atomic int known;

static int checked(int isa, int law) {
    const int laws = 1 << law | (law == DISCRETE_GAUSSIAN) << GAUSSIAN; /* which proposes for it */
    if ((known & laws) != laws) {
        uint64_t *const scratch = malloc(DPF_CHECK * sizeof *scratch);
        if (scratch == NULL)
            return DPFAST_MEMORY;
        const int knows = dpf_self_check(isa, laws, dpf_known_answers(), scratch) == NULL;
        free(scratch);
        if (!knows)
            return DPFAST_BUILD;
        known |= laws;
    }
    return DPFAST_OK;
}

/* 2^exponent, from -1074 to 1023 */
static double binary(int exponent) {
    double found = 1.0;
    for (; exponent > 0; exponent--)
        found *= 2.0;
    for (; exponent < 0; exponent++)
        found *= 0.5;
    return found;
}

static int planned(dpfast_noise *noise, int law, const whole *above, const whole *below) {
    const dpf_ratio of = {law, 0, above->limbs, below->limbs, above->limb, below->limb};
    const int status = dpf_make_plan(&of, &noise->plan, noise->thresholds, noise->guide);
    return status == 0 ? DPFAST_OK : status == DPF_NO_SCALE ? DPFAST_SCALE : DPFAST_UNDECIDED;
}

__attribute__((noinline)) static int new_noise(int law, const char *text, int32_t grid, dpfast_noise **made) {
    const int real = law == LAPLACE || law == GAUSSIAN, power = law == GAUSSIAN ? 2 : 1;
    whole above, below;
    if (made == NULL)
        return DPFAST_POINTER;
    *made = NULL;
    if (text == NULL)
        return DPFAST_POINTER;
    if (!read(text, &above, &below))
        return DPFAST_NUMBER;
    if (!real)
        grid = 0;
    else if (grid == DPFAST_GRID) {
        const int e = exponent_of(above, below);
        grid = (e - (e & (power - 1))) / power - 20;
    }
    if (grid < -1074 || grid > 900)
        return DPFAST_SCALE;
    grid > 0 ? shift(&below, power * grid) : shift(&above, -power * grid);

    dpfast_noise *const noise = calloc(1, sizeof *noise); /* pages of a table that nobody writes cost nothing */
    if (noise == NULL)
        return DPFAST_MEMORY;
    noise->isa = dpf_best_isa();
    int status = checked(noise->isa, law);
    if (status == DPFAST_OK)
        status = planned(noise, law, &above, &below);
    if (status != DPFAST_OK) {
        free(noise);
        return status;
    }
    if (noise->plan.bulk == DPF_TABLE) {
        dpf_make_table(&noise->plan, noise->table);
        noise->plan.table = noise->table;
    }
    noise->ours = OURS;
    noise->real = real;
    noise->grid = grid;
    noise->limbs = noise->plan.t > (real ? (law == LAPLACE ? 0x1p44 : 0x1p48) : 0x1p54) ? 2 : 1;
    const dpf_fpmode mode = dpf_fp_enter();
    noise->granularity = binary(grid);
    noise->inverse = binary(-grid / 2);
    noise->inverse_too = binary(-grid - -grid / 2);
    dpf_fp_leave(mode);
    *made = noise;
    return DPFAST_OK;
}

int dpfast_discrete_laplace(const char *scale, dpfast_noise **made) {
    dpf_reach();
    return new_noise(DISCRETE_LAPLACE, scale, 0, made);
}

int dpfast_discrete_gaussian(const char *sigma_squared, dpfast_noise **made) {
    dpf_reach();
    return new_noise(DISCRETE_GAUSSIAN, sigma_squared, 0, made);
}

int dpfast_laplace(const char *scale, int32_t grid, dpfast_noise **made) {
    dpf_reach();
    return new_noise(LAPLACE, scale, grid, made);
}

int dpfast_gaussian(const char *sigma_squared, int32_t grid, dpfast_noise **made) {
    dpf_reach();
    return new_noise(GAUSSIAN, sigma_squared, grid, made);
}

void dpfast_free(dpfast_noise *noise) {
    if (noise != NULL && noise->ours == OURS) {
        noise->ours = 0;
        free(noise);
    }
}

int32_t dpfast_grid(const dpfast_noise *noise) {
    return noise != NULL && noise->ours == OURS ? noise->grid : 0;
}

/* ---- releases */

/* Draws, and where a key comes from that is not the caller's. */
typedef struct {
    const uint8_t *key;
    uint64_t start;
    int fresh;
} draws;

/* What is wrong with a call, but for its bounds. Arrays of nothing may be anywhere. */
static int refused(const dpfast_noise *noise, draws of, int64_t n, const void *in, const void *out, int kind) {
    const uintptr_t x = (uintptr_t)in, y = (uintptr_t)out, size = (uintptr_t)dpf_size(kind),
                    length = (uintptr_t)n * size;
    const int real = kind == DPF_FLOAT64 || kind == DPF_FLOAT32;
    if (noise == NULL || noise->ours != OURS || (!of.fresh && of.key == NULL) || (n > 0 && (in == NULL || out == NULL)))
        return DPFAST_POINTER;
    if (n < 0 || n > MOST_VALUES || (!of.fresh && (of.start > MOST_DRAWS || (uint64_t)n > MOST_DRAWS - of.start)))
        return DPFAST_SIZE;
    if (n > 0 && (x % size || y % size || (x != y && x < y + length && y < x + length)))
        return DPFAST_ARRAYS;
    if (real != noise->real || (kind == DPF_FLOAT32 && noise->grid < -149) || (kind == DPF_INT32 && noise->limbs == 2))
        return DPFAST_TYPE;
    return DPFAST_OK;
}

/* how: the bounds. */
static int added(const dpfast_noise *noise, draws of, int64_t n, const void *in, void *out, int kind, int bounded,
                 dpf_release how) {
    int status = refused(noise, of, n, in, out, kind);
    if (status == DPFAST_OK && !bounded)
        status = DPFAST_BOUNDS;
    if (status == DPFAST_OK && n > 0) {
        int64_t done;
        how.plan = &noise->plan;
        how.key = of.key;
        how.isa = noise->isa;
        how.kind = kind;
        how.limbs = noise->limbs;
        how.constant_work = n < DPF_SMALL;
        how.non_temporal = n >= PAST_CACHES && in != out;
        how.single = kind == DPF_FLOAT32;
        how.refuse = 1;
        how.granularity = noise->granularity;
        how.inverse = noise->inverse;
        how.inverse_too = noise->inverse_too;
        how.least = -DBL_MAX;
        how.greatest = DBL_MAX;
        do
            done = of.fresh ? dpf_add_fresh(&how, n, in, out) : dpf_add(&how, of.start, n, in, out);
        while (done == DPF_AGAIN);
        status = done == n                ? DPFAST_OK
                 : done == DPF_NOT_FINITE ? DPFAST_NOT_FINITE
                 : done == DPF_NO_KEY     ? DPFAST_ENTROPY
                                          : DPFAST_UNDECIDED;
    }
    if (status != DPFAST_OK && out != NULL && n > 0 && n <= MOST_VALUES)
        dpf_wipe(out, n * dpf_size(kind));
    return status;
}

static dpf_u128 wide(int64_t x) {
    return (dpf_u128){(uint64_t)x, (uint64_t)(x >> 63)};
}

static dpf_release signed_bounds(int64_t lower, int64_t upper) {
    return (dpf_release){.lower = wide(lower), .upper = wide(upper)};
}

static dpf_release unsigned_bounds(uint64_t lower, uint64_t upper) {
    return (dpf_release){.lower = {lower, 0}, .upper = {upper, 0}};
}

/* In our own floating-point mode, which a bound may need to be read in. Infinite ones are the ends
 * of the type. */
static int added_real(const dpfast_noise *noise, draws of, int64_t n, const void *in, void *out, int kind,
                      const void *lower, const void *upper) {
    const dpf_fpmode mode = dpf_fp_enter();
    const double most = kind == DPF_FLOAT32 ? (double)FLT_MAX : DBL_MAX;
    double low, high;
    const uint64_t bits[2] = {dpf_value(kind, lower), dpf_value(kind, upper)};
    memcpy(&low, bits, sizeof low);
    memcpy(&high, bits + 1, sizeof high);
    const int bounded = low <= high && low <= most && high >= -most;
    const dpf_release how = {.real_lower = low < -most ? -most : low, .real_upper = high > most ? most : high};
    const int status = added(noise, of, n, in, out, kind, bounded, how);
    dpf_fp_leave(mode);
    return status;
}

#define DPFAST_ADDS(name, type, call, ...)                                                                             \
    int dpfast_add_##name(const dpfast_noise *noise, int64_t n, const type *in, type *out, type lower, type upper) {   \
        const draws of = {NULL, 0, 1};                                                                                 \
        return call(noise, of, n, in, out, __VA_ARGS__);                                                               \
    }                                                                                                                  \
    int dpfast_add_##name##_keyed(const dpfast_noise *noise, const uint8_t *key, uint64_t start, int64_t n,            \
                                  const type *in, type *out, type lower, type upper) {                                 \
        const draws of = {key, start, 0};                                                                              \
        return call(noise, of, n, in, out, __VA_ARGS__);                                                               \
    }

DPFAST_ADDS(int64, int64_t, added, DPF_INT64, lower <= upper, signed_bounds(lower, upper))
DPFAST_ADDS(uint64, uint64_t, added, DPF_UINT64, lower <= upper, unsigned_bounds(lower, upper))
DPFAST_ADDS(int32, int32_t, added, DPF_INT32, lower <= upper, signed_bounds(lower, upper))
DPFAST_ADDS(float64, double, added_real, DPF_FLOAT64, &lower, &upper)
DPFAST_ADDS(float32, float, added_real, DPF_FLOAT32, &lower, &upper)
