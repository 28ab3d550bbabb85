// Bf16TileWords for processors without bf16 arithmetic.
#pragma once

#include "kernels/cpu/attention_words_wide.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

using Bf16TileWords = WideTileWords<uint16_t>;

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
