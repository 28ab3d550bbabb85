// The vector operations of x86-64-v4 with AVX512-BF16. Only the matrix product and attention differ from v4:
// they use its dot-product instruction.
#pragma once

#include "kernels/cpu/simd/avx512.h"

#define HWS_MATMUL_BF16_WORDS "kernels/cpu/matmul_words_pairs.h"
#define HWS_ATTENTION_BF16_WORDS "kernels/cpu/attention_words_pairs.h"
