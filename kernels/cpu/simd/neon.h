// The vector operations of armv8-a.
#pragma once

#include "kernels/cpu/simd/advanced_simd.h"

#define HWS_MATMUL_BF16_WORDS "kernels/cpu/matmul_words_bf16.h"
#define HWS_ATTENTION_BF16_WORDS "kernels/cpu/attention_words_bf16.h"
