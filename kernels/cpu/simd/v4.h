// The vector operations of x86-64-v4: AVX-512.
#pragma once

#include "kernels/cpu/simd/avx512.h"

#define HWS_MATMUL_BF16_WORDS "kernels/cpu/matmul_words_bf16.h"
#define HWS_ATTENTION_BF16_WORDS "kernels/cpu/attention_words_bf16.h"
