/* SPDX-License-Identifier: Apache-2.0
 * Bit generators and fork on a system without MADV_WIPEONFORK, with entropy.c as it is there:
 * forked [THREADS]. It prints how many of 64 children draw what their parent draws next, how many
 * of 64 find a word of the parent's in a page, how often a handler was registered, and whether a
 * page is used again, blank, and no more are mapped than there are generators. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#undef MADV_WIPEONFORK
static int registered;
static int registers(void (*before)(void), void (*parent)(void), void (*child)(void)) {
    registered++;
    return pthread_atfork(before, parent, child);
}
#define pthread_atfork registers
#undef _DEFAULT_SOURCE
#include "entropy.c"
#undef pthread_atfork

/* One instruction set, made of the cipher's definition. */
static void batch_words(const uint8_t *key, uint64_t nonce, uint64_t batch, dpf_ahead ahead, uint32_t *words) {
    (void)ahead;
    for (uint64_t b = 0; b < DPF_BATCH; b++)
        dpf_block(key, batch * DPF_BATCH + b, nonce, (uint8_t *)(words + 16 * b));
}
static const dpf_isa only = {.name = "only", .batch_words = batch_words};
const dpf_isa *dpf_isa_of(int isa) {
    (void)isa;
    return &only;
}
int dpf_best_isa(void) {
    return 0;
}

enum { FORKS = 64 };
static atomic_int ends;

/* Generators come and go while another thread forks. */
static void *busily(void *none) {
    while (!atomic_load(&ends)) {
        dpf_bits *some[8];
        for (int i = 0; i < 8; i++)
            if ((some[i] = dpf_bits_new()) == NULL)
                exit(2);
        for (int i = 0; i < 8; i++)
            dpf_bits_free(some[i]);
    }
    return none;
}

int main(int count, char **given) {
    const int threads = count > 1 ? atoi(given[1]) : 0;
    pthread_t others[8];
    dpf_bits *bits[FORKS];
    int equal = 0, seen = 0;
    for (int i = 0; i < threads; i++)
        if (pthread_create(others + i, NULL, busily, NULL) != 0)
            return 2;
    for (int i = 0; i < FORKS; i++) {
        int way[2];
        uint64_t there[2] = {0, 0};
        if ((bits[i] = dpf_bits_new()) == NULL || pipe(way) != 0)
            return 2;
        (void)dpf_next_uint64(bits[i]);
        const pid_t child = fork();
        if (child < 0)
            return 2;
        if (child == 0) {
            for (int j = 0; j <= i; j++)
                for (size_t at = 0; at < sizeof bits[j]->words / sizeof *bits[j]->words; at++)
                    there[1] |= bits[j]->words[at];
            there[0] = dpf_next_uint64(bits[i]);
            _exit(write(way[1], there, sizeof there) != sizeof there);
        }
        if (read(way[0], there, sizeof there) != sizeof there || waitpid(child, NULL, 0) != child)
            return 2;
        close(way[0]), close(way[1]);
        equal += there[0] == dpf_next_uint64(bits[i]);
        seen += there[1] != 0;
    }
    atomic_store(&ends, 1);
    for (int i = 0; i < threads; i++)
        pthread_join(others[i], NULL);
    dpf_bits_free(bits[0]);
    dpf_bits *const again = dpf_bits_new();
    int used = 1;
    for (size_t at = 0; at < sizeof(dpf_bits); at++)
        used &= ((const char *)again)[at] == 0;
    int mapped = 0;
    for (held *at = atomic_load(&pages); at; at = at->before)
        mapped++;
    used &= mapped <= FORKS + 8 * threads;
    printf("%d %d %d %d\n", equal, seen, registered, used);
    return 0;
}
