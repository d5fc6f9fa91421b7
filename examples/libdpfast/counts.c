/* SPDX-License-Identifier: Apache-2.0
 * Ten million private counts from C: epsilon 0.1, and a person is in one count. */
#define _POSIX_C_SOURCE 199309L
#include <dpfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(void) {
    const int64_t n = 10000000;
    int64_t *const counts = malloc((size_t)n * sizeof *counts);
    dpfast_noise *noise = NULL;
    struct timespec begin, end;
    if (counts == NULL)
        return 1;
    for (int64_t i = 0; i < n; i++)
        counts[i] = i % 1000;
    int status = dpfast_discrete_laplace("1/0.1", &noise);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (status == DPFAST_OK)
        status = dpfast_add_int64(noise, n, counts, counts, INT64_MIN, INT64_MAX);
    clock_gettime(CLOCK_MONOTONIC, &end);
    dpfast_free(noise);
    if (status != DPFAST_OK) {
        fprintf(stderr, "no release: %s\n", dpfast_message(status));
        return 1;
    }
    const double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    printf("C: %.2f ns a count\n", ns / (double)n);
    free(counts);
    return 0;
}
