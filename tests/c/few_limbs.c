/* SPDX-License-Identifier: Apache-2.0
 * The numbers of exact.h with one limb behind the point, where a rounding or a remainder is a unit
 * in sight: what tests/csrc/test_few_limbs.py asks by the numbers of these functions. */
#define LIMBS 3
#include "exact.h"

enum { PRODUCT, OVER_INTEGER, RATIO, ROOT, DIFFERENCE, MINUS_LOG, EXP_MINUS, COSINE, SINE, SUM_OF_TERMS };

void few_limbs(int which, const ends *x, const ends *y, const ends *z, ends *found);

void few_limbs(int which, const ends *x, const ends *y, const ends *z, ends *found) {
    *found = which == PRODUCT        ? product(*x, *y)
             : which == OVER_INTEGER ? over_integer(*x, y->low.limb[POINT])
             : which == RATIO        ? ratio(*x, *y)
             : which == ROOT         ? root_of(*x)
             : which == DIFFERENCE   ? difference(*x, *y)
             : which == MINUS_LOG    ? minus_log(*x)
             : which == EXP_MINUS    ? exp_minus(*x)
             : which == COSINE       ? alternating(*x, 0, 2)
             : which == SINE         ? alternating(*x, 1, 2)
                                     : sum_of_terms((terms){*x, *y, *z});
}
