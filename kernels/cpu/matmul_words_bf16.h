// Bf16Words for processors without bf16 arithmetic.
#pragma once

#include "kernels/cpu/matmul_words_wide.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

using Bf16Words = WideWords<uint16_t>;

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
