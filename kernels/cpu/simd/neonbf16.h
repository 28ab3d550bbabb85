// The vector operations of armv8.2-a+bf16. Only the matrix product and attention differ from armv8-a: they
// use the bf16 instructions.
//
// This is the arithmetic of BFDOT and BFMMLA if FPCR.EBF is 0, as it is unless a program sets it. Both
// products of a pair are added, then their sum is added to the sum of earlier pairs. Each of these operations
// rounds to odd: an inexact result is truncated, and its last bit is set to 1. The error is less than one
// unit in the last place and can have either sign. Subnormal operands and results become zero; overflow gives
// infinity. No other bit of FPCR changes a number, so the bits are the same on every processor that has the
// instructions. BFMMLA adds two pairs of adjacent values of k, one after the other, as two BFDOT do.
#pragma once

#include "kernels/cpu/simd/advanced_simd.h"

#define HWS_MATMUL_BF16_WORDS "kernels/cpu/matmul_words_quads.h"
#define HWS_ATTENTION_BF16_WORDS "kernels/cpu/attention_words_bfdot.h"
