/* SPDX-License-Identifier: Apache-2.0
 * What counts.R calls by .Call. R has no 64-bit integers: counts come as integers or whole doubles,
 * and leave as whole doubles, clamped to 2^53 either way. No text of an error tells a count. */
#include <dpfast.h>
#include <math.h>
#include <R.h>
#include <R_ext/Rdynload.h>
#include <Rinternals.h>

#define MOST INT64_C(9007199254740992) /* 2^53 */

/* R's own error() would say the call, too, and do.call() writes the counts into it. */
static void refuse(const char *why) {
    errorcall(R_NilValue, "no release: %s", why);
}

static SEXP noisy(SEXP counts, SEXP scale) {
    if (TYPEOF(counts) != INTSXP && TYPEOF(counts) != REALSXP)
        refuse("counts are integers or doubles");
    if (TYPEOF(scale) != STRSXP || XLENGTH(scale) != 1 || STRING_ELT(scale, 0) == NA_STRING)
        refuse("the scale is one text, such as \"1/0.1\"");
    const R_xlen_t n = XLENGTH(counts);
    SEXP const out = PROTECT(allocVector(REALSXP, n)); /* in R a call changes no argument */
    int64_t *const work = (int64_t *)R_alloc((size_t)n, sizeof *work);
    const int *const whole = TYPEOF(counts) == INTSXP ? INTEGER_RO(counts) : NULL;
    const double *const real = whole ? NULL : REAL_RO(counts);
    for (R_xlen_t i = 0; i < n; i++) {
        const double count = !whole ? real[i] : whole[i] == NA_INTEGER ? NA_REAL : whole[i];
        if (!(fabs(count) < (double)MOST) || count != trunc(count)) /* 2^53 may have been 2^53 + 1 */
            refuse("a count is missing, not whole, or not below 2^53");
        work[i] = (int64_t)count;
    }
    dpfast_noise *noise = NULL;
    int status = dpfast_discrete_laplace(CHAR(STRING_ELT(scale, 0)), &noise);
    if (status == DPFAST_OK)
        status = dpfast_add_int64(noise, n, work, work, -MOST, MOST);
    dpfast_free(noise); /* before an error jumps away */
    if (status != DPFAST_OK)
        refuse(dpfast_message(status));
    double *const to = REAL(out);
    for (R_xlen_t i = 0; i < n; i++)
        to[i] = (double)work[i];
    UNPROTECT(1);
    return out;
}

void R_init_counts_r(DllInfo *dll) {
    static const R_CallMethodDef calls[] = {{"noisy", (DL_FUNC)(void (*)(void))noisy, 2}, {NULL, NULL, 0}};
    R_registerRoutines(dll, NULL, calls, NULL, NULL);
    R_useDynamicSymbols(dll, FALSE);
    R_forceSymbols(dll, TRUE);
}
