/* SPDX-License-Identifier: Apache-2.0
 * A target of libFuzzer on dpfast.h: a maker with its text, then adds with any type, length,
 * bounds and places, all as the input says. What the header promises must hold. The system's key
 * is the input's, too, so that an input does the same again. tests/deep/fuzz_header.py runs it. */
#include "dpfast.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sanitizer/asan_interface.h>

enum { DISCRETE_LAPLACE, DISCRETE_GAUSSIAN, LAPLACE, GAUSSIAN, LAWS };
enum { INT64, UINT64, INT32, FLOAT64, FLOAT32, TYPES };
enum { NONE, SOME, PERHAPS };       /* PERHAPS: neither the header nor a long double says */
enum { MOST = 4200, GUARD = 64 };   /* values of an array, and bytes around it */
#define NO_ARRAY ((int64_t)1 << 61) /* a machine has fewer addresses */

static const size_t sizes[TYPES] = {8, 8, 4, 8, 4};
static const long double least[TYPES] = {INT64_MIN, 0, INT32_MIN, -HUGE_VALL, -HUGE_VALL};
static const long double most[TYPES] = {INT64_MAX, UINT64_MAX, INT32_MAX, HUGE_VALL, HUGE_VALL};

typedef union {
    int64_t int64;
    uint64_t uint64;
    int32_t int32;
    double float64;
    float float32;
} cell;

typedef struct {
    int law, is_there;
    long double log; /* base 2: the scale has it, or sigma */
    dpfast_noise *noise;
} maker;

typedef struct {
    int type;
    const dpfast_noise *noise;
    int64_t n;
    char *in, *out;
    cell lower, upper;
} add;

static void holds(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzz: not so: %s\n", what);
        abort();
    }
}

/* ---- what the input says */

static const uint8_t *given;
static size_t left;

/* A number of so many bytes; behind the input's end there are zeros. */
static uint64_t next(int bytes) {
    uint64_t found = 0;
    for (int i = 0; i < bytes && left > 0; i++, left--)
        found |= (uint64_t)*given++ << 8 * i;
    return found;
}

static int below(int n) {
    return (int)(next(n > 256 ? 2 : 1) % (uint64_t)n);
}

static struct { uint8_t byte, interrupts, fails; } system_key;

/* The system's, which comes in two parts, is interrupted, or fails between the parts. */
ssize_t getrandom(void *to, size_t n, unsigned flags) {
    const int interrupted = system_key.interrupts & 1;
    (void)flags;
    system_key.interrupts >>= 1;
    if (interrupted || (system_key.fails && n <= 12)) {
        errno = interrupted ? EINTR : EPERM;
        return -1;
    }
    n = n > 20 ? 20 : n;
    memset(to, system_key.byte, n);
    return (ssize_t)n;
}

/* A text in memory that ends with it: any bytes, or what numbers have, behind many equal ones. */
static char *some_text(void) {
    static const char pieces[] = "0123456789./eE+-";
    const int how = below(4), many = how == 3 ? below(1400) : 0, size = many + below(40);
    const char of = pieces[below(16)];
    char *const text = malloc((size_t)size + 1);
    holds(text != NULL, "there is memory");
    for (int i = 0; i < size; i++)
        text[i] = i < many ? of : how == 0 ? (char)next(1) : pieces[below(16)];
    text[size] = '\0';
    return text;
}

static cell cell_of(int type, long double x) {
    cell found = {0};
    switch (type) {
    case INT64:
        found.int64 = (int64_t)x;
        break;
    case UINT64:
        found.uint64 = (uint64_t)(x < 0 ? -x : x);
        break;
    case INT32:
        found.int32 = (int32_t)x;
        break;
    case FLOAT64:
        found.float64 = (double)x;
        break;
    default:
        found.float32 = (float)x;
    }
    return found;
}

static long double value(int type, const void *at) {
    cell x = {0};
    memcpy(&x, at, sizes[type]);
    return type == INT64     ? (long double)x.int64
           : type == UINT64  ? (long double)x.uint64
           : type == INT32   ? (long double)x.int32
           : type == FLOAT64 ? (long double)x.float64
                             : (long double)x.float32;
}

static cell some_cell(int type) {
    const int how = below(6);
    if (how == 0)
        return (cell){.uint64 = next(8)};
    if (how < 3)
        return cell_of(type, how == 1 ? least[type] : most[type]);
    return cell_of(type, how == 3 && type >= FLOAT64 ? (long double)NAN : (long double)(int8_t)next(1));
}

/* ---- makers */

/* Between ends that are known to within `near`. */
static int between(long double x, long double low, long double high, long double near) {
    return x > low + near && x < high - near ? SOME : x < low - near || x > high + near ? NONE : PERHAPS;
}

/* Read a number as the header has it, and not as the library does. */
static int number(const char **text, long double *log) {
    static const char digits[] = "0123456789";
    const char *const begin = *text, *end = begin + strspn(begin, digits);
    const size_t point = *end == '.', behind = point ? strspn(end + 1, digits) : 0;
    const size_t many = (size_t)(end - begin) + behind;
    long exponent = 0;
    end += point + behind;
    if (many == 0 || many > 1300 || strcspn(begin, "123456789") >= many + point) /* none, too many, or 0 */
        return NONE;
    if (*end == 'e' || *end == 'E') {
        const char *const places = end + 1 + (end[1] == '-' || end[1] == '+');
        const size_t count = strspn(places, digits);
        if (count == 0 || count > 4)
            return NONE;
        exponent = strtol(places, NULL, 10);
        end = places + count;
    }
    *log = log2l(strtold(begin, NULL));
    *text = end;
    return many > 100 || exponent > 200 ? PERHAPS : SOME;
}

/* Or a ratio of two: whether it has at most 4,096 bits is sure for few digits. */
static int number_or_ratio(const char *text, long double *log) {
    long double divisor = 0;
    int found = number(&text, log), other = SOME;
    if (found != NONE && *text == '/') {
        text++;
        other = number(&text, &divisor);
    }
    *log -= divisor;
    return found == NONE || other == NONE || *text != '\0' ? NONE : found > other ? found : other;
}

static int make(int law, const char *text, int32_t grid, dpfast_noise **made) {
    return law == DISCRETE_LAPLACE    ? dpfast_discrete_laplace(text, made)
           : law == DISCRETE_GAUSSIAN ? dpfast_discrete_gaussian(text, made)
           : law == LAPLACE           ? dpfast_laplace(text, grid, made)
                                      : dpfast_gaussian(text, grid, made);
}

static int in_range(const maker *m, int32_t grid) {
    if (m->law == DISCRETE_LAPLACE)
        return between(m->log, -60, 60, 1e-9L);
    if (m->law == DISCRETE_GAUSSIAN)
        return between(m->log, log2l(1e-6L) / 2, log2l(1e18L) / 2, 1e-9L);
    if (grid == DPFAST_GRID)
        return between(m->log, -1054, 920.5L, 1.5L); /* some 2^20 times finer */
    return grid < -1074 || grid > 900 ? NONE : between(m->log - grid, -60, 60, 1e-9L);
}

static maker some_maker(void) {
    static char nowhere;
    dpfast_noise *const any = (dpfast_noise *)(void *)&nowhere;
    maker m = {.law = below(LAWS), .noise = any};
    const int lacks = below(32), how = below(4);
    const int32_t grid = how == 0   ? DPFAST_GRID
                         : how == 1 ? (int8_t)next(1)
                         : how == 2 ? (int16_t)next(2)
                                    : (int32_t)(uint32_t)next(4);
    char *const text = some_text();
    const int read = number_or_ratio(text, &m.log), real = m.law >= LAPLACE;
    const int status = make(m.law, lacks == 1 ? NULL : text, grid, lacks == 2 ? NULL : &m.noise);
    m.log /= m.law == GAUSSIAN || m.law == DISCRETE_GAUSSIAN ? 2 : 1;
    if (lacks == 2)
        holds(m.noise == any, "what nobody named stays");
    else
        holds((m.noise != NULL) == (status == DPFAST_OK), "a noise is made, or there is NULL");
    if (lacks == 1 || lacks == 2)
        holds(status == DPFAST_POINTER, "a pointer is NULL");
    else if (read == NONE || status == DPFAST_NUMBER)
        holds(status == DPFAST_NUMBER && read != SOME, "what is no number is refused as such");
    else
        holds(in_range(&m, grid) == PERHAPS || status == (in_range(&m, grid) == SOME ? DPFAST_OK : DPFAST_SCALE),
              "a scale within its range makes a noise");
    m.is_there = status == DPFAST_OK;
    if (m.is_there) {
        const int32_t told = dpfast_grid(m.noise);
        holds(!real || grid != DPFAST_GRID ? told == (real ? grid : 0) : fabsl(m.log - told - 20) < 2, "the grid");
    } else {
        dpfast_noise *again = NULL;
        holds(make(m.law, lacks == 1 ? NULL : text, grid, lacks == 2 ? NULL : &again) == status, "refused alike");
        m.noise = NULL;
    }
    free(text);
    return m;
}

/* ---- adds */

static int added(const add *a) {
#define ADDED(name) dpfast_add_##name(a->noise, a->n, (const void *)a->in, (void *)a->out, a->lower.name, a->upper.name)
    return a->type == INT64     ? ADDED(int64)
           : a->type == UINT64  ? ADDED(uint64)
           : a->type == INT32   ? ADDED(int32)
           : a->type == FLOAT64 ? ADDED(float64)
                                : ADDED(float32);
}

static int has_array(const add *a) {
    return a->n > 0 && a->n <= MOST;
}

static size_t bytes_of(const add *a) {
    return has_array(a) ? (size_t)a->n * sizes[a->type] : 0;
}

/* All that is wrong with a call, as bits of statuses. *unsure: or its type is. */
static unsigned wrong(const add *a, const maker *m, int *unsure) {
    const int real = a->type >= FLOAT64, arrays = a->in != NULL && a->out != NULL;
    const uintptr_t x = (uintptr_t)a->in, y = (uintptr_t)a->out, size = sizes[a->type], bytes = bytes_of(a);
    const long double lower = value(a->type, &a->lower), upper = value(a->type, &a->upper);
    unsigned found = 0;
    *unsure = 0;
    if (a->noise != m->noise || !m->is_there || (a->n > 0 && !arrays))
        found |= 1u << DPFAST_POINTER;
    else if (real != (m->law >= LAPLACE) || (a->type == FLOAT32 && dpfast_grid(m->noise) < -149))
        found |= 1u << DPFAST_TYPE;
    else if (a->type == INT32) {
        const int narrow = between(m->log, -INFINITY, 54, 1e-9L);
        *unsure = narrow == PERHAPS;
        found |= narrow == NONE ? 1u << DPFAST_TYPE : 0;
    }
    if (a->n < 0 || a->n >= NO_ARRAY)
        found |= 1u << DPFAST_SIZE;
    if (a->n >= NO_ARRAY ||
        (a->n > 0 && arrays && (x % size || y % size || (x != y && x < y + bytes && y < x + bytes))))
        found |= 1u << DPFAST_ARRAYS;
    if (!(lower <= upper) || (real && (lower == HUGE_VALL || upper == -HUGE_VALL)))
        found |= 1u << DPFAST_BOUNDS;
    for (int64_t i = 0; has_array(a) && arrays && i < a->n; i++)
        if (!isfinite(value(a->type, a->in + (size_t)i * size)))
            found |= 1u << DPFAST_NOT_FINITE;
    if (system_key.fails && a->n > 0)
        found |= 1u << DPFAST_ENTROPY;
    return found;
}

/* Within the bounds, and of reals on the grid unless they are an end. */
static void released(const add *a) {
    const long double lower = value(a->type, &a->lower), upper = value(a->type, &a->upper);
    const long double step = ldexpl(1, dpfast_grid(a->noise)), end = a->type == FLOAT32 ? FLT_MAX : DBL_MAX;
    for (int64_t i = 0; i < a->n; i++) {
        const long double x = value(a->type, a->out + (size_t)i * sizes[a->type]);
        holds(x >= lower && x <= upper, "a result lies within the bounds");
        holds(isfinite(x) && (x == lower || x == upper || fabsl(x) == end || fmodl(x, step) == 0), "and on the grid");
    }
}

static char block[3 * GUARD + 2 * 8 * MOST] __attribute__((aligned(64)));
static char before[sizeof block], after[sizeof block];

/* The call, which may touch its arrays alone. */
static int guarded(const add *a) {
    memcpy(block, before, sizeof block);
    ASAN_POISON_MEMORY_REGION(block, sizeof block);
    if (has_array(a) && a->in != NULL)
        ASAN_UNPOISON_MEMORY_REGION(a->in, bytes_of(a));
    if (has_array(a) && a->out != NULL)
        ASAN_UNPOISON_MEMORY_REGION(a->out, bytes_of(a));
    const int status = added(a);
    ASAN_UNPOISON_MEMORY_REGION(block, sizeof block);
    return status;
}

static int64_t some_length(void) {
    switch (below(8)) {
    case 0:
        return 0;
    case 1:
        return -1 - (int64_t)(next(8) >> 1);
    case 2:
        return NO_ARRAY + (int64_t)(next(8) >> 4);
    case 3:
        return MOST + 1 + (int64_t)next(5);
    case 4:
        return MOST - below(300); /* equal work for every draw, and less */
    default:
        return 1 + below(70);
    }
}

/* Apart, one, beside each other, overlapping, and not aligned. */
static void some_places(add *a) {
    const int size = (int)sizes[a->type], bytes = (int)bytes_of(a), how = below(8);
    char *const first = block + GUARD, *const apart = first + bytes + GUARD / 2;
    char *const second = how < 3    ? apart
                         : how == 3 ? first
                         : how == 4 ? first + bytes
                         : how == 5 ? first + size * below((int)(a->n & 63) + 1)
                         : how == 6 ? first + below(bytes + 1)
                                    : apart + below(size);
    const int turned = below(2), lacks = below(32);
    a->in = turned ? second : first;
    a->out = turned ? first : second;
    if (lacks == 1 || lacks == 3)
        a->in = NULL;
    if (lacks == 2 || lacks == 3 || (a->n > MOST && a->n < NO_ARRAY)) /* which would be the caller's fault */
        a->out = NULL;
}

static void some_values(const add *a) {
    const int how = below(4), at = below(MOST);
    const cell one = some_cell(a->type), other = some_cell(a->type);
    uint64_t state = one.uint64 | 1;
    memset(before, 0xa5, sizeof before);
    for (int i = 0; has_array(a) && a->in != NULL && i < a->n; i++) {
        const cell any = {.uint64 = state *= 0x5851f42d4c957f2d};
        const cell x = how == 0   ? any
                       : how == 1 ? cell_of(a->type, i)
                       : how == 2 ? one
                                  : (i == at % a->n ? other : one);
        memcpy(before + (a->in - block) + (size_t)i * sizes[a->type], &x, sizes[a->type]);
    }
}

static void some_add(const maker *m) {
    static const uint64_t none[8]; /* what is no noise */
    const int which = below(32), type = below(TYPES);
    add a = {.type = type, .n = some_length(), .lower = some_cell(type), .upper = some_cell(type)};
    a.noise = which == 1 ? NULL : which == 2 ? (const dpfast_noise *)(const void *)none : m->noise;
    some_places(&a);
    some_values(&a);
    memcpy(block, before, sizeof block); /* where wrong() looks */
    const uint64_t key = next(2), fails = below(16) == 1;
    int unsure, status = 0;
    for (int time = 0; time < 2; time++) {
        system_key.byte = (uint8_t)key, system_key.interrupts = (uint8_t)(key >> 8), system_key.fails = (uint8_t)fails;
        memcpy(block, before, sizeof block);
        const unsigned found = wrong(&a, m, &unsure);
        const int then = status;
        status = guarded(&a);
        holds(status >= DPFAST_OK && status <= DPFAST_UNDECIDED, "a status is one of the header's");
        if (found != 0)
            holds((found >> status & 1) != 0, "what is wrong is refused as such");
        else
            holds(status == DPFAST_OK || (unsure && status == DPFAST_TYPE), "what is right is done");
        if (time == 1)
            holds(status == then && memcmp(block, after, sizeof block) == 0, "the same call does the same");
        memcpy(after, block, sizeof block);
    }
    const int written = has_array(&a) && a.out != NULL;
    if (written && status == DPFAST_OK)
        released(&a);
    else if (written)
        for (size_t i = 0; i < bytes_of(&a); i++)
            holds(a.out[i] == 0, "a failed add leaves zeros");
    if (written)
        memcpy(block + (a.out - block), before + (a.out - block), bytes_of(&a));
    holds(memcmp(block, before, sizeof block) == 0, "what is not out stays");
    holds(strcmp(dpfast_message(status), "no status") != 0, "a status has a message");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    given = data, left = size;
    const maker m = some_maker();
    for (int i = 0; i < 4 && (i == 0 || left > 0); i++)
        some_add(&m);
    holds(dpfast_message((int)(uint32_t)next(4)) != NULL && dpfast_grid(NULL) == 0, "any status has words");
    dpfast_free(m.noise);
    dpfast_free(NULL);
    return 0;
}
