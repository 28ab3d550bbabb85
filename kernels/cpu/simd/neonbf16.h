// The vector operations of armv8.2-a+bf16. Only the matrix product and attention differ from armv8-a: they
// use its instructions for bf16 values.
//
// Arithmetic of BFDOT and BFMMLA, without FPCR.EBF, which is 0 unless a program sets it: both products of a
// pair are added, then that sum is added to the sum of earlier pairs. Each of these operations rounds to odd:
// an inexact result is cut off, and its last bit becomes 1. Its error is less than one unit in the last
// place, of either sign. Subnormal operands and results become zero; overflow gives infinity. No other bit of
// FPCR changes a number, so the bits are the same on every processor that has the instructions. BFMMLA adds
// two pairs of adjacent values of k, one after the other: what two BFDOT compute.
#pragma once

#include "kernels/cpu/simd/advanced_simd.h"

#define HWS_MATMUL_BF16_WORDS "kernels/cpu/matmul_words_quads.h"
#define HWS_ATTENTION_BF16_WORDS "kernels/cpu/attention_words_bfdot.h"
