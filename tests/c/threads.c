/* SPDX-License-Identifier: Apache-2.0
 * Threads and children that use dpfast.h as it allows, for the thread sanitizer: makers that are
 * the first of a process, one noise for all, a child amid the adds, and adds that are cancelled.
 * .ci/run has the commands. */
#define _GNU_SOURCE
#include "dpfast.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 20, VALUES = 5000 }; /* the last are a bulk call */

typedef struct {
    int64_t values[VALUES];
    double real_values[VALUES];
} work;

static pthread_barrier_t together;
static dpfast_noise *integers, *reals; /* the first thread's, for all */

static void holds(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "threads: not so: %s\n", what);
        exit(1);
    }
}

static int zeros(const int64_t *values) {
    int found = 0;
    for (int i = 0; i < VALUES; i++)
        found += values[i] == 0;
    return found;
}

static void add(work *mine, int64_t n) {
    memset(mine->values, 0, sizeof mine->values);
    holds(dpfast_add_int64(integers, n, mine->values, mine->values, -1000, 1000) == DPFAST_OK, "integers");
    holds(dpfast_add_float64(reals, n, mine->real_values, mine->real_values, -1e9, 1e9) == DPFAST_OK, "reals");
    holds(dpfast_add_int64(integers, n, mine->values, mine->values, 1, 0) == DPFAST_BOUNDS, "bounds");
}

/* All make noises at once, the first of the process; then all share those of one of them. */
static void *thread(void *first) {
    work *const mine = calloc(1, sizeof *mine);
    dpfast_noise *own[4] = {NULL};
    holds(mine != NULL, "memory");
    pthread_barrier_wait(&together);
    holds(dpfast_discrete_laplace("10", own) == DPFAST_OK, "discrete Laplace");
    holds(dpfast_gaussian("1e2", DPFAST_GRID, own + 1) == DPFAST_OK, "Gaussian");
    holds(dpfast_discrete_gaussian("1e6", own + 2) == DPFAST_OK, "discrete Gaussian");
    holds(dpfast_laplace("1/3", -30, own + 3) == DPFAST_OK, "Laplace");
    if (first != NULL)
        integers = own[0], reals = own[1];
    pthread_barrier_wait(&together);
    for (int i = 0; i < ROUNDS; i++)
        add(mine, i % 10 == 9 ? VALUES : i);
    pthread_barrier_wait(&together);
    for (int i = 0; i < 4; i++)
        dpfast_free(own[i]);
    free(mine);
    return NULL;
}

/* Cancelled where the library asks for its key, which is the only place. */
static void *cancelled(void *values) {
    pthread_cancel(pthread_self());
    if (dpfast_add_int64(integers, VALUES, values, values, -1000, 1000) != DPFAST_OK)
        exit(1);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS], other;
    int64_t *const values = calloc(VALUES, sizeof *values);
    void *how = NULL;
    int status;
    holds(values != NULL && pthread_barrier_init(&together, NULL, THREADS + 1) == 0, "a barrier");
    for (int i = 0; i < THREADS; i++)
        holds(pthread_create(threads + i, NULL, thread, i == 0 ? threads : NULL) == 0, "a thread");
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    const pid_t child = fork(); /* while the others add */
    holds(child >= 0, "a child");
    if (child == 0) {
        const int done = dpfast_add_int64(integers, VALUES, values, values, -1000, 1000);
        _exit(done == DPFAST_OK && zeros(values) < VALUES / 2 ? 0 : 1);
    }
    holds(waitpid(child, &status, 0) == child && status == 0, "a child adds noise of its own");
    holds(pthread_create(&other, NULL, cancelled, values) == 0 && pthread_join(other, &how) == 0, "a thread");
    holds(how == PTHREAD_CANCELED && zeros(values) == VALUES, "what is cancelled leaves out as it was");
    pthread_barrier_wait(&together);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&together);
    free(values);
    printf("threads: %d threads, a child and one that is cancelled\n", THREADS);
    return 0;
}
