/* SPDX-License-Identifier: Apache-2.0
 * All that is compiled for one instruction set; each gives equal bytes. isa_<name>.c defines it as
 * machine.h says, includes this file, and ends with its table of DPF_OFFERS. Only that table leaves
 * the unit. */
#pragma once
#include "discrete_laplace.h"
#include "laplace.h"
#include "gaussian.h"
#include "discrete_gaussian.h"
#include "bounded.h"

/* The laws. A law's number is its place; the first one is 1. */
static const dpf_code *const laws[] = {NULL, &discrete_laplace, &laplace, &gaussian, &discrete_gaussian, NULL};

DPF_END

#define DPF_OFFERS(isa_name)                                                                                           \
    {                                                                                                                  \
        .name = isa_name, .arithmetic = DPF_FMA + (DPF_VECTOR == 64), .runs = runs, .counts_zeros = counts_zeros,      \
        .blocks = blocks, .batch_words = batch_words, .store = store, .laws = laws, .bounded_counts = bounded_counts   \
    }
