/* SPDX-License-Identifier: Apache-2.0
 * Rows that are bounded before their counts or sums get noise: which are kept, what they come to,
 * and where words lie among sorted ones. */
#include "tags.h"

void dpf_hash_texts(const uint64_t *key, const uint8_t *texts, const int64_t *ends, int64_t n, uint64_t *out) {
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t length = ends[i] - at;
        uint64_t x[4], word;
        dpf_sip_begin(key, x);
        for (; ends[i] - at >= 8; at += 8) {
            memcpy(&word, texts + at, sizeof word);
            DPF_SIP_TAKE(x, word);
        }
        word = (uint64_t)length << 56;
        for (int64_t j = 0; at < ends[i]; j++, at++)
            word |= (uint64_t)texts[at] << 8 * j;
        DPF_SIP_TAKE(x, word);
        out[i] = DPF_SIP_END(x);
    }
}

void dpf_look_up(const uint64_t *rows, int64_t n, uint64_t base, const int64_t *table, int64_t beyond,
                 int64_t *places) {
    for (int64_t i = 0; i < n; i++) {
        const uint64_t off = rows[i] - base;
        places[i] = table[off < (uint64_t)beyond ? (int64_t)off : beyond];
    }
}

int64_t dpf_pack(const uint64_t *units, const int64_t *places, int64_t n, uint64_t base, uint64_t last, int bits,
                 uint64_t *out) {
    int64_t kept = 0;
    int beyond = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t unit = units[i] - base;
        beyond |= unit > last;
        out[kept] = unit << bits | (uint64_t)places[i]; /* the next one comes here, too, if it is dropped */
        kept += places[i] >= 0;
    }
    return beyond ? -1 : kept;
}

enum { DIGIT = 8, DIGITS = 1 << DIGIT, HANDFUL = 32 };

/* What a sort looks at of a word in one step. */
static int64_t digit_of(uint64_t word, int shift) {
    return (int64_t)(word >> shift & (DIGITS - 1));
}

/* Where the words of each digit end, once they come one after the other. */
static void ends_of_digits(const uint64_t *words, int64_t n, int shift, int64_t *ends) {
    memset(ends, 0, sizeof *ends * DIGITS);
    for (int64_t i = 0; i < n; i++)
        ends[digit_of(words[i], shift)]++;
    for (int i = 1; i < DIGITS; i++)
        ends[i] += ends[i - 1];
}

/* Words of each digit come together, in their place. */
__attribute__((noinline)) static void part(uint64_t *words, int shift, const int64_t *ends) {
    int64_t heads[DIGITS] = {0};
    memcpy(heads + 1, ends, sizeof *ends * (DIGITS - 1));
    for (int more = 1; more;) { /* a step brings one word home, a round half of those that are not there */
        more = 0;
        for (int digit = 0; digit < DIGITS; digit++) {
            for (int64_t i = heads[digit]; i < ends[digit]; i++) {
                const uint64_t word = words[i];
                const int64_t home = heads[digit_of(word, shift)]++;
                words[i] = words[home];
                words[home] = word;
            }
            more |= heads[digit] < ends[digit];
        }
    }
}

/* By the last digit, then by the one above it and so on, from one array to the other and back. */
__attribute__((noinline)) static void sort_through(uint64_t *spare, uint64_t *words, int64_t n, int bits) {
    uint64_t *from = words, *to = spare;
    int64_t ends[DIGITS];
    for (int shift = 0; shift < bits; shift += DIGIT) {
        ends_of_digits(from, n, shift, ends);
        for (int64_t i = n; i-- > 0;)
            to[--ends[digit_of(from[i], shift)]] = from[i];
        uint64_t *const other = from;
        from = to, to = other;
    }
    if (from != words)
        memcpy(words, from, sizeof *words * (size_t)n);
}

void dpf_sort(uint64_t *words, int64_t n, int bits, uint64_t *spare) {
    if (n <= HANDFUL) {
        for (int64_t i = 1, at; i < n; i++) {
            const uint64_t word = words[i];
            for (at = i; at > 0 && words[at - 1] > word; at--)
                words[at] = words[at - 1];
            words[at] = word;
        }
    } else if (n <= DPF_SPARE) {
        sort_through(spare, words, n, bits);
    } else if (bits > 0) { /* more than the caches hold */
        const int shift = bits > DIGIT ? bits - DIGIT : 0;
        int64_t ends[DIGITS];
        ends_of_digits(words, n, shift, ends);
        part(words, shift, ends);
        for (int digit = 0; digit < DIGITS; digit++) {
            const int64_t begin = digit > 0 ? ends[digit - 1] : 0;
            dpf_sort(words + begin, ends[digit] - begin, shift, spare);
        }
    }
}

void dpf_search(const uint64_t *wanted, int64_t n, const uint64_t *words, int shift, const int64_t *begins,
                int64_t buckets, int64_t *places) {
    for (int64_t i = 0; i < n; i++) {
        const uint64_t off = wanted[i] - words[0], found = off >> shift;
        const int64_t bucket = found < (uint64_t)buckets ? (int64_t)found : buckets - 1;
        int64_t at = begins[bucket], many = begins[bucket + 1] - at;
        for (int64_t half; many > 1; many -= half) {
            half = many / 2;
            at += words[at + half] - words[0] <= off ? half : 0;
        }
        places[i] = many == 1 && words[at] == wanted[i] ? at : -1;
    }
}

/* Sorts in time that no order of the values makes longer. */
static void sort(int64_t *values, int64_t n) {
    for (int64_t end = n, from = n / 2; end > 1;) {
        if (from > 0) {
            from--;
        } else {
            const int64_t last = values[--end];
            values[end] = values[0];
            values[0] = last;
        }
        for (int64_t at = from;;) {
            int64_t child = 2 * at + 1;
            child += child + 1 < end && values[child + 1] > values[child];
            if (child >= end || values[child] <= values[at])
                break;
            const int64_t value = values[at];
            values[at] = values[child];
            values[child] = value;
            at = child;
        }
    }
}

/* Sort the values of each bin, so that equal rows come together. */
static void sort_each(const uint64_t *rows, int64_t *values, int64_t at, int64_t end) {
    while (at < end) {
        const int64_t begin = at;
        int falls = 0;
        for (; at < end && rows[at] == rows[begin]; at++)
            falls |= at > begin && values[at] < values[at - 1];
        if (falls)
            sort(values + begin, at - begin);
    }
}

/* What dpf_chosen_rows looks at. */
typedef struct {
    const dpf_choice *how;
    const uint64_t *rows;
    const int64_t *values;
    int whole;
} entries;

/* Whether row i is of the bin of the row before it, or equal to it. */
static int again(const entries *of, int64_t i) {
    return of->rows[i] == of->rows[i - 1] && (of->whole || !of->values || of->values[i] == of->values[i - 1]);
}

/* before: how many equal rows come before row i. */
static uint64_t tag_of(const entries *of, uint64_t name, int64_t i, int64_t before) {
    const uint64_t value = of->values ? (uint64_t)of->values[i] : 1;
    const uint64_t words[] = {name, dpf_word_of_bin(of->how, of->rows[i]), value, (uint64_t)before};
    return dpf_sip_words(of->how->key, words, of->whole ? 2 : 4);
}

int64_t dpf_chosen_rows(const dpf_choice *how, uint64_t *rows, int64_t *values, int64_t n, int shift, int whole,
                        int64_t most, uint64_t *heap, int64_t *places) {
    const entries of = {how, rows, values, whole};
    int64_t kept = 0;
    for (int64_t at = 0, begin; (begin = at) < n;) {
        int64_t count = 0;
        for (; at < n && rows[at] >> shift == rows[begin] >> shift; at++)
            count += !whole || at == begin || rows[at] != rows[at - 1];
        const int draws = count > most;
        const uint64_t name = draws ? dpf_word_of_unit(how, rows[begin] >> how->bits) : 0;
        int64_t room = 0; /* for entries of the largest tag that is kept */
        if (draws) {
            if (!whole && values)
                sort_each(rows, values, begin, at);
            for (int64_t i = begin, before = 0, held = 0; i < at; i++) {
                before = i > begin && again(&of, i) ? before + 1 : 0;
                if (whole && before > 0)
                    continue;
                dpf_hold(heap, places, held, most, tag_of(&of, name, i, before), i);
                held += held < most;
            }
            for (int64_t i = 0; i < most; i++)
                room += heap[i] == heap[0];
        }
        int keep = 1;
        for (int64_t i = begin, before = 0; i < at; i++) {
            before = i > begin && again(&of, i) ? before + 1 : 0;
            if (draws && !(whole && before > 0)) {
                const uint64_t tag = tag_of(&of, name, i, before);
                keep = tag < heap[0] || (tag == heap[0] && room > 0); /* the first ones, where tags are equal */
                room -= tag == heap[0];
            }
            if (keep) {
                rows[kept] = rows[i];
                if (values)
                    values[kept] = values[i];
                kept++;
            }
        }
    }
    return kept;
}

/* The sum top 2^64 + low, and a value. */
static void plus(int64_t *top, uint64_t *low, int64_t value) {
    const dpf_wide sum = ((dpf_wide)(uint64_t)*top << 64 | *low) + (dpf_wide)value;
    *top = (int64_t)(uint64_t)(sum >> 64), *low = (uint64_t)sum;
}

void dpf_totals(const uint64_t *rows, const int64_t *values, int64_t n, int bits, int64_t lower, int64_t upper,
                int each, int64_t *tops, uint64_t *lows) {
    for (int64_t at = 0; at < n;) {
        const uint64_t row = rows[at], bin = row & (((uint64_t)1 << bits) - 1);
        int64_t top = 0;
        uint64_t low = 0;
        for (int first = 1; at < n && rows[at] == row && (first || !each); at++, first = 0)
            plus(&top, &low, values ? values[at] : 1);
        int64_t value = (int64_t)low;
        if (top != value >> 63) /* beyond 64 bits */
            value = top < 0 ? lower : upper;
        value = value > lower ? value : lower;
        plus(&tops[bin], &lows[bin], value < upper ? value : upper);
    }
}
