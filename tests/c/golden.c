/* SPDX-License-Identifier: Apache-2.0
 * Draw the rows of tests/vectors on this machine, by each of its instruction sets: golden FILE...
 * The files are read as they are, and plans are made here. A digest is that of the draws as Python
 * writes a list of them. Rows begin at all places of a stack that is aligned to 16 bytes. The
 * library does not contain it; tests/elsewhere.sh has the commands. */
#include "dpf_impl.h"

#include <stdio.h>
#include <stdlib.h>

enum { DRAWS = 20000, LINE = 1 << 14 };

static void die(const char *what, const char *of) {
    fprintf(stderr, "golden: %s: %s\n", what, of);
    exit(1);
}

/* ---- SHA-256 (FIPS 180-4) */

typedef struct {
    uint32_t state[8];
    uint8_t block[64];
    uint64_t bytes;
} digest;

/* The first 32 digits behind the point of a prime's square or cube root. */
static uint32_t part_of_root(uint32_t prime, int power) {
    dpf_wide root = 0; /* in units of 2^-32 */
    for (dpf_wide bit = (dpf_wide)1 << 37; bit > 0; bit >>= 1) {
        const dpf_wide tried = root | bit, raised = tried * tried * (power == 3 ? tried : 1);
        if (raised < (dpf_wide)prime << 32 * power)
            root = tried;
    }
    return (uint32_t)root;
}

static uint32_t primes[64], constants[64];

static void make_constants(void) {
    uint32_t n = 2;
    for (int found = 0; found < 64; n++) {
        int divides = 0;
        for (int i = 0; i < found; i++)
            divides |= n % primes[i] == 0;
        if (!divides)
            primes[found++] = n;
    }
    for (int i = 0; i < 64; i++)
        constants[i] = part_of_root(primes[i], 3);
}

static uint32_t turned(uint32_t x, int k) {
    return x >> k | x << (32 - k);
}

static void take_block(digest *of) {
    uint32_t w[64], x[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)of->block[4 * i] << 24 | (uint32_t)of->block[4 * i + 1] << 16 |
               (uint32_t)of->block[4 * i + 2] << 8 | of->block[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] + (turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(x, of->state, sizeof x);
    for (int i = 0; i < 64; i++) {
        const uint32_t one = x[7] + (turned(x[4], 6) ^ turned(x[4], 11) ^ turned(x[4], 25)) +
                             ((x[4] & x[5]) ^ (~x[4] & x[6])) + constants[i] + w[i];
        const uint32_t two =
            (turned(x[0], 2) ^ turned(x[0], 13) ^ turned(x[0], 22)) + ((x[0] & x[1]) ^ (x[0] & x[2]) ^ (x[1] & x[2]));
        memmove(x + 1, x, 7 * sizeof *x);
        x[4] += one, x[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        of->state[i] += x[i];
}

static void begin(digest *of) {
    of->bytes = 0;
    for (int i = 0; i < 8; i++)
        of->state[i] = part_of_root(primes[i], 2);
}

static void take(digest *of, const char *text) {
    for (; *text; text++) {
        of->block[of->bytes++ % 64] = (uint8_t)*text;
        if (of->bytes % 64 == 0)
            take_block(of);
    }
}

static void finish(digest *of, char *hex) {
    const uint64_t bits = 8 * of->bytes;
    do {
        of->block[of->bytes % 64] = of->bytes == bits / 8 ? 0x80 : 0;
        if (++of->bytes % 64 == 0)
            take_block(of);
    } while (of->bytes % 64 != 56);
    for (int i = 0; i < 8; i++)
        of->block[56 + i] = (uint8_t)(bits >> (56 - 8 * i));
    take_block(of);
    for (int i = 0; i < 64; i++)
        hex[i] = "0123456789abcdef"[of->state[i / 8] >> (28 - i % 8 * 4) & 15];
    hex[64] = '\0';
}

/* ---- one row */

/* What follows a name in a line of JSON, as far as its quotation mark. */
static const char *field(const char *line, const char *name) {
    char quoted[32] = "\"";
    strcat(strcat(quoted, name), "\": \"");
    const char *const at = strstr(line, quoted);
    return at ? at + strlen(quoted) : NULL;
}

static uint64_t number(const char **at) {
    uint64_t found = 0;
    for (; **at >= '0' && **at <= '9'; ++*at)
        found = 10 * found + (uint64_t)(**at - '0');
    return found;
}

/* An integer of two limbs, as a decimal. */
static void take_number(digest *of, uint64_t lo, int64_t hi) {
    char digits[48];
    int at = sizeof digits;
    dpf_wide size = (dpf_wide)(uint64_t)hi << 64 | lo;
    size = hi < 0 ? -size : size;
    digits[--at] = '\0';
    do
        digits[--at] = (char)('0' + (int)(size % 10));
    while ((size /= 10) > 0);
    if (hi < 0)
        digits[--at] = '-';
    take(of, digits + at);
}

/* The draws of a row: whether they are those of its digest, and those of constant work. */
static int equal(const dpf_plan *plan, int isa, const char *line) {
    static double offset[DRAWS];
    static int64_t out[2 * DRAWS], other[2 * DRAWS];
    const char *start = field(line, "start"), *hex = field(line, "key");
    uint8_t key[32];
    digest of;
    char found[65];
    for (int i = 0; i < 32; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
            die("no key", line);
        key[i] = (uint8_t)byte;
    }
    for (int i = 0; i < DRAWS; i++) /* tests/laws.py: where the noise of Laplace begins on its grid */
        offset[i] = strcmp(dpf_law_name(plan->law), "laplace") == 0 ? (i * 37 % 65 - 32) / 66.0 : 0.0;
    dpf_release how = {.plan = plan, .key = key, .isa = isa, .kind = DPF_NOISE, .limbs = 2};
    const uint64_t first = number(&start);
    if (dpf_add(&how, first, DRAWS, offset, out) != DRAWS)
        die("no draws", line);
    how.constant_work = 1;
    if (dpf_add(&how, first, DRAWS, offset, other) != DRAWS)
        die("no draws in constant work", line);
    int alike = 1;
    begin(&of);
    for (int i = 0; i < DRAWS; i++) {
        const int open = out[2 * i + 1] == DPF_UNDECIDED_LIMB, too = other[2 * i + 1] == DPF_UNDECIDED_LIMB;
        alike &= open || too || memcmp(out + 2 * i, other + 2 * i, 16) == 0;
        take(&of, i == 0 ? "[" : ", ");
        if (open)
            take(&of, "None");
        else
            take_number(&of, (uint64_t)out[2 * i], out[2 * i + 1]);
    }
    take(&of, "]");
    finish(&of, found);
    const char *const known = field(line, "sha256");
    return alike && known && strncmp(known, found, 64) == 0;
}

/* The same, from another place of the stack. */
__attribute__((noinline)) static int equal_from(int place, const dpf_plan *plan, int isa, const char *line) {
    volatile char room[16 * place + 16];
    room[0] = 1;
    return equal(plan, isa, line) & room[0];
}

static int law_of(const char *file) {
    const char *name = file;
    for (const char *at = file; *at; at++)
        if (*at == '/' || *at == '\\')
            name = at + 1;
    for (int law = 1; dpf_law_name(law); law++)
        if (strncmp(name, dpf_law_name(law), strlen(dpf_law_name(law))) == 0 && name[strlen(dpf_law_name(law))] == '.')
            return law;
    die("no law has this name", file);
    return 0;
}

/* The plan of a row's scale: of a Gaussian the scale is squared. */
static dpf_plan plan_of(int law, const char *line, int16_t *table) {
    static uint64_t thresholds[DPF_THRESHOLDS];
    static uint16_t guide[DPF_GUIDE];
    static const char *const names[] = {"scale", "sigma", "ratio"};
    const char *at = NULL;
    dpf_plan plan;
    for (int i = 0; i < 3 && at == NULL; i++)
        at = field(line, names[i]);
    if (at == NULL)
        die("no scale", line);
    const int squared = strstr(dpf_law_name(law), "gaussian") != NULL;
    dpf_wide above = number(&at), below = *at == '/' ? (at++, number(&at)) : 1;
    above *= squared ? above : 1, below *= squared ? below : 1;
    const uint64_t up[2] = {(uint64_t)above, (uint64_t)(above >> 64)};
    const uint64_t down[2] = {(uint64_t)below, (uint64_t)(below >> 64)};
    const dpf_ratio of = {law, 0, 1 + (up[1] > 0), 1 + (down[1] > 0), up, down};
    if (dpf_make_plan(&of, &plan, thresholds, guide) != 0)
        die("no plan", line);
    if (plan.bulk == DPF_TABLE) {
        dpf_make_table(&plan, table);
        plan.table = table;
    }
    return plan;
}

int main(int count, char **files) {
    static int16_t table[2 << DPF_TABLE_BITS];
    static char line[LINE];
    int rows = 0;
    char sets[64] = "";
    make_constants();
    for (int i = 1; i < count; i++) {
        FILE *const file = fopen(files[i], "r");
        if (file == NULL)
            die("no such file", files[i]);
        while (fgets(line, sizeof line, file))
            if (field(line, "sha256")) {
                const dpf_plan plan = plan_of(law_of(files[i]), line, table);
                for (int isa = 0; dpf_isa_name(isa); isa++)
                    if (dpf_isa_runs(isa) && !equal_from(rows % 4, &plan, isa, line))
                        die("other draws", strcat(strcat(strcat(line, " by "), dpf_isa_name(isa)), files[i]));
                rows++;
            }
        fclose(file);
    }
    for (int isa = 0; dpf_isa_name(isa); isa++)
        if (dpf_isa_runs(isa))
            strcat(strcat(sets, " "), dpf_isa_name(isa));
    printf("golden: %d rows equal by%s\n", rows, sets);
    return rows == 0;
}
