/* SPDX-License-Identifier: Apache-2.0
 * Every 64-bit machine runs this; it defines what the other instruction sets must give. */
#include "dpf_impl.h"

#include "isa.h"

const dpf_isa dpf_isa_portable = DPF_OFFERS("portable");
