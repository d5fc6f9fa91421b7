/* SPDX-License-Identifier: Apache-2.0
 * From a plan to its law, under our own floating-point mode. */
#include "dpf_impl.h"

#define DPF_FILL(law) DPF_DISPATCH(isa, law##_fill, plan, careful, key, start, n, to)

static int64_t dpf_draw(int isa, const dpf_plan *plan, int careful, const uint8_t *key, uint64_t start, int64_t n,
                        const dpf_target *to) {
    const dpf_fpmode mode = dpf_fp_enter();
    const int64_t count = plan->law == DPF_DISCRETE_LAPLACE ? DPF_FILL(discrete_laplace)
                          : plan->law == DPF_LAPLACE        ? DPF_FILL(laplace)
                          : plan->law == DPF_GAUSSIAN       ? DPF_FILL(gaussian)
                                                            : DPF_FILL(discrete_gaussian);
    dpf_fp_leave(mode);
    return count;
}

int64_t dpf_fill(int isa, const dpf_plan *plan, int careful, const uint8_t *key, uint64_t start, int64_t n, int64_t *lo,
                 int64_t *hi, int64_t *undecided) {
    const dpf_target to = {.lo = lo, .hi = hi, .undecided = undecided, .soon = lo};
    return dpf_draw(isa, plan, careful, key, start, n, &to);
}

int64_t dpf_fill_short(int isa, const dpf_plan *plan, const uint8_t *key, uint64_t start, int64_t n, int16_t *out,
                       int64_t *undecided, const void *soon) {
    const dpf_target to = {.shorts = out, .undecided = undecided, .soon = soon};
    return dpf_draw(isa, plan, 0, key, start, n, &to);
}

int64_t dpf_fill_real(int isa, const dpf_plan *plan, int careful, const uint8_t *key, uint64_t start, int64_t n,
                      const double *offset, int64_t *cells, int64_t *hi, int64_t *undecided) {
    const dpf_target to = {.lo = cells, .hi = hi, .undecided = undecided, .offset = offset, .real = hi == NULL};
    return dpf_draw(isa, plan, careful, key, start, n, &to);
}

/* Under the host's own rounding mode, on purpose: the tests set it. */
void dpf_tier(int isa, const dpf_plan *plan, int tier, int bits, int64_t n, const dpf_planted *planted, dpf_u128 *found,
              uint8_t *decided) {
#define DPF_TIER(law) DPF_DISPATCH(isa, law##_tier, plan, tier, bits, n, planted, found, decided)
    if (plan->law == DPF_DISCRETE_LAPLACE)
        DPF_TIER(discrete_laplace);
    else if (plan->law == DPF_LAPLACE)
        DPF_TIER(laplace);
    else if (plan->law == DPF_GAUSSIAN)
        DPF_TIER(gaussian);
    else
        DPF_TIER(discrete_gaussian);
}

uint64_t dpf_enter(void) {
    return (uint64_t)dpf_fp_enter();
}

void dpf_leave(uint64_t mode) {
    dpf_fp_leave((dpf_fpmode)mode);
}
