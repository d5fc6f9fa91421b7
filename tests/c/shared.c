/* SPDX-License-Identifier: Apache-2.0
 * Threads as a Python without its lock has them, for the thread sanitizer. They share the record of
 * one release and its plan, and nothing is written. Two races are built in by a macro each:
 *     EACH_KEYS   each thread writes the key into the record, as equal values: a race in `how`
 *     WRITTEN     one writes the values that the others read: races in `values`, and nowhere else.
 *                 Each call refuses, and leaves zeros, or releases.
 * .ci/run has the commands. */
#define _GNU_SOURCE
#include "dpf_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, ROUNDS = 30, VALUES = 5000 };
#ifdef WRITTEN
enum { CHANGES = 1 };
#else
enum { CHANGES = 0 };
#endif

static const uint8_t key[32] = {1, 2, 3};
static dpf_plan plan;
static dpf_release how = {.kind = DPF_FLOAT64, .limbs = 1, .refuse = 1};
static double values[VALUES];
static pthread_barrier_t together;

static void holds(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "shared: not so: %s\n", what);
        exit(1);
    }
}

/* All results are finite, or the call refused and all are zeros. */
static int sound(int64_t done, int64_t n, const double *out) {
    int found = 1;
    for (int64_t i = 0; i < n; i++)
        found &= done == n ? __builtin_fabs(out[i]) < 1e15 : out[i] == 0.0;
    return found && (done == n || (CHANGES && done == DPF_NOT_FINITE));
}

static void *adds(void *number) {
    double *const out = calloc(VALUES, sizeof *out);
    holds(out != NULL, "memory");
    pthread_barrier_wait(&together);
    for (int i = 0; i < ROUNDS; i++) {
#ifdef EACH_KEYS
        how.key = key;
#endif
        const int64_t n = i % 2 == 0 ? 7 : VALUES;
        holds(sound(dpf_add(&how, (uint64_t)(uintptr_t)number * VALUES, n, values, out), n, out), "a keyed call");
        if (!dpf_all_finite(DPF_FLOAT64, n, values)) /* as small.h asks first */
            continue;
        holds(sound(dpf_add_fresh(&how, n, values, out), n, out), "a fresh call");
    }
    free(out);
    return NULL;
}

int main(void) {
    const uint64_t scale = 1000, one = 1;
    pthread_t threads[THREADS];
    int law = 1;
    while (strcmp(dpf_law_name(law), "laplace") != 0)
        law++;
    const dpf_ratio of = {law, 0, 1, 1, &scale, &one};
    holds(dpf_make_plan(&of, &plan, NULL, NULL) == 0, "a plan is made");
    how.plan = &plan, how.key = key, how.isa = dpf_best_isa();
    how.granularity = how.inverse = how.inverse_too = 1.0;
    how.least = how.real_lower = -1e15, how.greatest = how.real_upper = 1e15;
    holds(pthread_barrier_init(&together, NULL, THREADS + 1) == 0, "a barrier");
    for (uintptr_t i = 0; i < THREADS; i++)
        holds(pthread_create(threads + i, NULL, adds, (void *)i) == 0, "a thread");
    pthread_barrier_wait(&together);
    for (int i = 0; CHANGES && i < 200 * VALUES; i++)
        values[i % VALUES] = i % 997 == 0 ? __builtin_nan("") : i % 3 == 0 ? -0.0 : i;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&together);
    printf("shared: %d threads, one record\n", THREADS);
    return 0;
}
