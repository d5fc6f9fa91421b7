/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole C surface of dpfast. cffi reads this text verbatim as its cdef, and the C reads it
 * through dpf_impl.h: hence no include guard and no preprocessor. */

enum {
    DPF_STREAM_VERSION = 2, /* the stream, its addresses, every law's map, and keys; see stream.md */
    DPF_BATCH = 32,         /* ChaCha blocks computed at once: a batch, two groups of sixteen lanes */
    DPF_TABLE_BITS = 15,    /* magnitude bits of a 16-bit word */
    DPF_EXACT_LIMBS = 15    /* a number of the exact tier has so many, of 64 digits; two are before the point */
};

enum { DPF_PORTABLE = 0 }; /* the instruction set that each machine runs; dpf_isa_name has the others */
enum {
    DPF_TABLE = 1,
    DPF_FLOAT = 2, /* level 0 of 32-bit words; for a build without fma it is DPF_DOUBLE */
    DPF_DOUBLE = 3,
    DPF_EXTENDED = 4,
    DPF_DOUBLE_DOUBLE = 5,
    DPF_INTEGER = 6
};                                           /* tiers but the last, dpf_exact */
enum { DPF_LEVEL0 = 7, DPF_ACCEPTANCE = 8 }; /* no tiers: what dpf_tier plants besides */
enum { DPF_UNDECIDED = -32768 };             /* in a table */
enum { DPF_INTERRUPTED = 1 };                /* by a signal, and nothing has happened */
enum {
    DPF_INT64 = 1,
    DPF_UINT64 = 2,
    DPF_FLOAT64 = 3,
    DPF_FLOAT32 = 4,
    DPF_NOISE = 5, /* noise alone, for tests and known answers */
    DPF_INT32 = 6,
    DPF_UINT32 = 7,
    DPF_INT16 = 8,
    DPF_UINT16 = 9,
    DPF_INT8 = 10,
    DPF_UINT8 = 11
}; /* what values are */
enum {
    DPF_BLOCK = 8192,    /* values whose noise a table's pipeline holds */
    DPF_SMALL = 4096,    /* below so many values every draw does equal work (docs/design.md) */
    DPF_NOT_FINITE = -1, /* what dpf_add returns where it fails */
    DPF_NO_KEY = -2,
    DPF_AGAIN = -3,   /* a signal came before there was a key: let its handler run, and call again */
    DPF_OPEN = -4,    /* all digits of a draw leave it undecided, once in 2^200 (exact.md) */
    DPF_NO_SCALE = -5 /* what dpf_make_plan returns */
};

typedef struct {
    uint64_t lo, hi;
} dpf_u128;

/* What a draw of one law needs; its mechanism makes it once. The law's .md says what each constant
 * means and proves that it suffices. A law uses one of the three blocks and leaves the others at 0.
 * No two fields have one name, in whichever blocks they are. */
typedef struct {
    int32_t law;
    int32_t width;               /* bits of a level-0 word: 16, 32 or 64 */
    int32_t bulk;                /* first tier of a bulk call */
    int32_t constant_work;       /* first tier of a small or constant-work call */
    const int16_t *table;        /* 2^16 draws or DPF_UNDECIDED, by word; only read by a bulk call that starts there */
    double t;                    /* the noise's scale in steps of the grid, rounded */
    double t_low;                /* the scale less t */
    uint64_t scale[15];          /* the scale in units of 2^-832, rounded down; the least limb first */
    double margin;               /* 1/2 less the error that does not grow with the noise */
    double relative_error;       /* the error for each unit of noise */
    double margin32;             /* 1/2 less both, for the most noise of a 32-bit word (Gaussian: margin) */
    double half_cell;            /* t/2 + 1/4 (Gaussian: t^2), and a little more: half a cell of U, scaled */
    double extended_margin;      /* 1/2 less the error of the extended tier (Gaussian: that does not grow) */
    double double_double_margin; /* 1/2 less the error of the double-double tier */
    double float_margin;         /* margin and relative_error in floats ... */
    double float_error;          /* ... (Gaussian: for each unit of the radius, scaled) */
    struct {                     /* t (C - ln U), C = ln(2/(1+q)) or 0 */
        double offset;           /* t C - 1/2, rounded */
        double c, c_low;         /* C, cut to 45 fractional bits, and the rest */
        dpf_u128 wide_t;         /* the scale in units of 2^-67, cut */
        dpf_u128 wide_c;         /* C in units of 2^-120 */
        int32_t wide_cell;       /* e + 61, where 2^e <= t < 2^(e+1) */
    } logarithm;
    struct {                       /* Box-Muller */
        double half_angle;         /* half a cell of the angle; 32-bit words: and the relative error */
        double extended_error;     /* the extended tier's error for each unit of t times the radius */
        double double_double_cell; /* the double-double tier's error that grows as the radius shrinks */
        double float_log_error;    /* the error of -ln U in floats, scaled as half_cell is */
        double rejects;            /* P(a proposal k is rejected) <= rejects k^2 */
        int32_t candidates;        /* proposals that a constant-work draw makes */
        int32_t accept_below;      /* a 16-bit acceptance word below it accepts any proposal */
    } normal;
    struct {
        const uint64_t *thresholds; /* floor(2^64 P(|X| >= k)), k = 1, 2, ..., then 2^steps zeros */
        const uint16_t *guide;      /* for a sixteenth of a binade of U's first 64 digits: thresholds surely above */
        int32_t steps;              /* a search takes so many from where the guide begins; 0: no thresholds */
    } search;
} dpf_plan;

/* A law, and what its plan is made from: above/below, the scale in steps of the grid; of a Gaussian
 * its square. Limbs of 64 digits, the least first and the last not 0. */
enum { DPF_RATIO_LIMBS = 192, DPF_THRESHOLDS = 1280, DPF_GUIDE = 1025 };
typedef struct {
    int32_t law, one_sided;
    int64_t above_limbs, below_limbs;
    const uint64_t *above, *below;
} dpf_ratio;

/* Make a plan, without a table. A search among thresholds is put where there is room for
 * DPF_THRESHOLDS and DPF_GUIDE, which only the discrete Gaussian needs; the plan points there.
 * ret   0; DPF_NO_SCALE: there is no such law, or it is no scale in the law's range; DPF_OPEN: a
 *       threshold is undecided */
int dpf_make_plan(const dpf_ratio *of, dpf_plan *plan, uint64_t *thresholds, uint16_t *guide);

/* The table of a plan whose bulk calls start there: 2^16 entries. */
void dpf_make_table(const dpf_plan *plan, int16_t *table);

/* Digits for one tier alone, as dpf_tier says. */
typedef struct {
    uint64_t digits[4];
    double offset;
    int32_t negative, sine; /* the sign of a Laplace draw; the second draw of a pair */
} dpf_planted;

/* A bit generator (bit_generator.md). All zeros: no key; the next draw asks the system for one. */
typedef struct {
    uint64_t words[256];   /* the next key, 4 words; then words to hand out, the last first */
    uint64_t left;         /* how many of these remain */
    uint32_t halved, half; /* 1: the lower half of a word was a 32-bit draw, and the upper waits for the next */
    int32_t keyed, isa;
} dpf_bits;

/* NumPy's bitgen_t, field by field (numpy/random/bitgen.h). */
typedef struct {
    void *state;
    uint64_t (*next_uint64)(void *state);
    uint32_t (*next_uint32)(void *state);
    double (*next_double)(void *state);
    uint64_t (*next_raw)(void *state);
} dpf_bitgen;

/* Fill out[0..n) from the operating system, and return 0. Else out means nothing: -1 is a failure,
 * DPF_INTERRUPTED a signal before the first byte: let its handler run, and ask again. */
int dpf_entropy(uint8_t *out, int64_t n);

/* Overwrite n bytes; no compiler may leave this store out. */
void dpf_wipe(void *at, int64_t n);

/* Overwrite a key's 32 bytes: their owner's finalizer calls it. */
void dpf_wipe_key(uint8_t *key);

/* The name of instruction set isa, from 0 on; NULL after the last. A later one is preferred. */
const char *dpf_isa_name(int isa);

/* The name of law number law, from 1 on; NULL for the number after the last, and no larger number
 * is allowed. */
const char *dpf_law_name(int law);

/* Whether this machine runs the instruction set. */
int dpf_isa_runs(int isa);

/* The preferred instruction set of those that this machine runs. */
int dpf_best_isa(void);

/* One ChaCha20 block, portable: the definition of the stream. */
void dpf_block(const uint8_t *key, uint64_t counter, uint64_t nonce, uint8_t *out);

/* DPF_BATCH blocks at unrelated counters; word w of block b lands in out[b / 16][w][b % 16]. */
void dpf_blocks(int isa, const uint8_t *key, const uint64_t *counter, uint64_t nonce, uint32_t *out);

/* What a release does to each of its values. */
typedef struct {
    const dpf_plan *plan;
    const uint8_t *key;
    int32_t isa, constant_work;
    int32_t kind;         /* what the values and results are; with two limbs, results may be of the other 64-bit kind */
    int32_t limbs;        /* 2 if noise may exceed 2^62 (a real law's 2^53 steps); then integers have 64 bits */
    int32_t non_temporal; /* store results past the caches: they lie elsewhere, and are many */
    int32_t single;       /* round a real result to float32, whatever holds it */
    int32_t refuse;       /* stop at a value that is not finite */
    dpf_u128 lower, upper;                    /* bounds of an integer result, in two's complement */
    double granularity, inverse, inverse_too; /* the grid: 1/granularity is the product of the latter */
    double missing;                           /* stands for a value that is not finite */
    double least, greatest;                   /* bounds of the values, before the noise */
    double real_lower, real_upper;            /* bounds of a real result */
} dpf_release;

/* The one place of the C where a value meets noise: out[i] = in[i] plus draw start + i, clamped,
 * for i < n; out may be in. Nothing but results and zeros is ever stored there.
 * pre   both are aligned arrays of how->kind. Of DPF_NOISE: in holds doubles, the offsets of a real
 *       law, and out 2 n words, lower limbs before upper ones; the latter is INT64_MIN where only
 *       the exact tier could decide
 * ret   n; or DPF_NOT_FINITE or DPF_OPEN, and out is all zeros */
int64_t dpf_add(const dpf_release *how, uint64_t start, int64_t n, const void *in, void *out);

/* As dpf_add from draw 0 under a fresh key, how->key left aside. DPF_NO_KEY, DPF_AGAIN: nothing has
 * happened. */
int64_t dpf_add_fresh(const dpf_release *how, int64_t n, const void *in, void *out);

/* The PyMethodDef with which Python releases few plain values in one call (small.h). */
void *dpf_small(void);

/* Columns to export as Arrow's structures. rows: as one array of rows, else as one column. */
typedef struct {
    const char *format, *name; /* Arrow's format, and UTF-8 */
    const void *cells;
    int64_t size; /* bytes */
} dpf_column;
typedef struct {
    int rows;
    int64_t n, length; /* columns; cells of each */
    const dpf_column *columns;
} dpf_columns;

/* A structure of zeros; NULL: no memory. Fill copies all into it; -1: no memory, and it is as
 * before. Free releases it, unless a consumer has moved it. */
enum { DPF_ARROW_SCHEMA, DPF_ARROW_ARRAY, DPF_ARROW_STREAM };
void *dpf_arrow_new(int kind);
int dpf_arrow_fill(int kind, void *into, const dpf_columns *of);
void dpf_arrow_free(int kind, void *at);

/* The PyMethodDef that makes a capsule of a new one (capsule.h). */
void *dpf_capsule(void);

/* How entries are drawn: by their tags, the keyed hashes of what they are (tags.h). A row is
 * unit << bits | bin. */
enum { DPF_FEW = 32 }; /* bins of a unit whose tags are compared all with all, or hashed at once */
typedef struct {
    int32_t isa, bits;
    uint64_t key[2], base;
    const uint64_t *units; /* the word of each unit; NULL: it is base + unit */
    const uint64_t *bins;  /* the word of each bin */
} dpf_choice;

/* Add to counts what the units keep of sorted rows: the `most` bins with the least tags, and at
 * most `cap` rows in each.
 * pre   most > 0; heap has room for `most` words, begin and many for most + DPF_FEW + 1 */
void dpf_bounded_counts(const dpf_choice *how, const uint64_t *rows, int64_t n, int64_t most, int64_t cap,
                        uint64_t *heap, int64_t *begin, int64_t *many, int64_t *counts);

/* The rows that are kept come first in rows and values, in their order; return how many. An entry
 * is a row, or a whole bin of a unit. The `most` with the least tags are kept of those whose rows
 * are equal but for the last `shift` bits. A row's tag is that of its unit, its bin, its value, and
 * how many equal rows come before it: equal rows are alike, so the rows' order is nothing.
 * pre   rows are sorted, most > 0; heap and places have room for `most`
 * values: one of each row, those of a bin are sorted; NULL: all are 1 */
int64_t dpf_chosen_rows(const dpf_choice *how, uint64_t *rows, int64_t *values, int64_t n, int shift, int whole,
                        int64_t most, uint64_t *heap, int64_t *places);

/* Add to each bin's sum, tops 2^64 + lows, what each unit has there. Equal rows follow each other.
 * values: as above. Each is clamped to [lower, upper]; without `each` the sum of equal rows is. */
void dpf_totals(const uint64_t *rows, const int64_t *values, int64_t n, int bits, int64_t lower, int64_t upper,
                int each, int64_t *tops, uint64_t *lows);

/* The words of n texts in tags. Text i ends at ends[i], and the next one begins there. */
void dpf_hash_texts(const uint64_t *key, const uint8_t *texts, const int64_t *ends, int64_t n, uint64_t *out);

/* Into places: table[row - base], or the table's last entry, number `beyond`, for rows that are not
 * between. */
void dpf_look_up(const uint64_t *rows, int64_t n, uint64_t base, const int64_t *table, int64_t beyond, int64_t *places);

/* Rows as words: (unit - base) << bits | place, without those whose place is negative. Return how
 * many; -1: a unit is not between base and base + last. */
int64_t dpf_pack(const uint64_t *units, const int64_t *places, int64_t n, uint64_t base, uint64_t last, int bits,
                 uint64_t *out);

/* Sort words below 2^bits in place, in time that their order does not change. spare: room for n
 * words, or for DPF_SPARE if these are fewer. */
enum { DPF_SPARE = 1 << 16 };
void dpf_sort(uint64_t *words, int64_t n, int bits, uint64_t *spare);

/* Where each wanted word is among words that rise, modulo 2^64, from the first on; or -1. begins:
 * for each bucket of 2^shift how many words come before it; and at its end how many there are. */
void dpf_search(const uint64_t *wanted, int64_t n, const uint64_t *words, int shift, const int64_t *begins,
                int64_t buckets, int64_t *places);

/* Whether n doubles, or floats, aligned or not, are all finite. */
int dpf_all_finite(int kind, int64_t n, const void *in);

/* One tier alone on planted digits, for tests: the outcome (discrete Laplace: its magnitude), or 0
 * in decided[i]. Only the first two laws use bits.
 *     Discrete Laplace, Laplace: if bits <= 64, U lies in cell digits[0] of 2^bits; else in the
 *         cell of the first `bits` digits of the 128 in digits[0] and, below it, digits[1]. Of 31
 *         digits the double tier makes what level 0 makes of a 32-bit word; the float tier takes no
 *         others. The double-double tier takes all 128 as U's.
 *         Of Laplace the extended tier takes 64 digits.
 *     Gaussian, discrete Gaussian without thresholds: words as a draw reads them, digits[0..1] the
 *         radius, digits[2..3] the angle, its first three bits the flags (gaussian.md). Level 0 has
 *         plan->width bits, aligned to the right; level 1, which comes second, 64. The float tier
 *         reads level 0 alone.
 *     Discrete Gaussian with thresholds: digits[0] has the first 64 digits of U.
 *     DPF_LEVEL0: what a bulk call makes of whole words of level 0, signs included: digits[0]; of a
 *         pair the radius's, and digits[2] the angle's.
 *     DPF_ACCEPTANCE: whether a proposal is accepted, digits[0], by w (refine.h), digits[1].
 *     DPF_TABLE: digits[0] is the place in the table. */
void dpf_tier(int isa, const dpf_plan *plan, int tier, int bits, int64_t n, const dpf_planted *planted, dpf_u128 *found,
              uint8_t *decided);

/* The first digits of a word, as an integer of `bits` bits; at most 768. */
typedef struct {
    uint64_t prefix[15]; /* the least limb first */
    int32_t bits;
} dpf_digits;

/* The exact tier on planted digits, for tests: 1, and the outcome, or 0 if they leave it undecided.
 * digits: a word's, its sign first; of a pair the radius's, and the angle's, its flags first. */
int dpf_exact_planted(const dpf_plan *plan, const dpf_digits *digits, double offset, int sine, dpf_u128 *found);

/* The digits of a draw's word that the exact tier reads, up to a level of at most 3 (stream.md). */
void dpf_exact_digits(const uint8_t *key, int purpose, uint64_t candidate, int width, uint64_t draw, int level,
                      dpf_digits *digits);

/* Whether the exact tier accepts a proposal k by these digits of V: 1, or -1, or 0. */
int dpf_exact_acceptance(const dpf_plan *plan, int64_t k, const dpf_digits *digits);

/* An answer that a build must know: outcomes of one plan, by the exact tier (known.h). */
typedef struct {
    const char *what; /* NULL after the last */
    dpf_plan plan;
    int32_t exponent;           /* the check makes this plan again, at scale 2^exponent - 1/3; 0: it does not */
    uint64_t table;             /* the digest of the table of that plan, if it has one */
    int32_t tier, bits;         /* those that dpf_tier plants; tier 0: none */
    const dpf_planted *planted; /* NULL: digits that the check makes up */
    dpf_release how;            /* without a tier: a release by draws start and on, under the key 0, 1, ..., 31 */
    uint64_t start;
    int32_t n;
    uint64_t digest[3]; /* one for each arithmetic of dpf_impl.h: builds differ in what a tier decides */
} dpf_known;
const dpf_known *dpf_known_answers(void);

/* NULL if an instruction set knows the cipher and, of these answers, those of the laws, a bit each
 * (DPF_LAWS, or more: all), else what it does not know. scratch: DPF_CHECK words. */
enum { DPF_CHECK = 52000, DPF_LAWS = 30 };
const char *dpf_self_check(int isa, int laws, const dpf_known *answers, uint64_t *scratch);

/* Set the proofs' floating-point mode: to nearest, no flushing. Return the old, for dpf_leave. */
uint64_t dpf_enter(void);
void dpf_leave(uint64_t mode);

/* Key stream of purpose 3 (stream.md): n bytes from byte 2048 batch. non_temporal: past
 * the caches. */
void dpf_key_stream(int isa, const uint8_t *key, uint64_t batch, int64_t n, uint8_t *out, int non_temporal);

/* A bit generator, all zeros, on a page of its own; NULL: no memory. In a forked child it is all
 * zeros again: Linux since 4.14 does so, and elsewhere a handler of pthread_atfork. */
dpf_bits *dpf_bits_new(void);
void dpf_bits_free(dpf_bits *bits);

/* Forget all and ask the system for a key. As dpf_entropy; a failure leaves the state all zeros. */
int dpf_bits_key(dpf_bits *bits);

/* NumPy calls these with a dpf_bits, one thread at a time. If there is no key and the system gives
 * none, the process ends with a line on stderr: NumPy takes no error from here. */
uint64_t dpf_next_uint64(void *state);
uint32_t dpf_next_uint32(void *state);
double dpf_next_double(void *state); /* a multiple of 2^-53 in [0, 1) */
