// How profiles and traces name a class of kernel calls.
#pragma once

#include <string>

#include "engine/nn/kernel_work.h"

namespace hawser::train {

/// "matmul 256 x 2304 x 768 NT bf16" (m, n, k; N or T: op(a) and op(b) are plain or transposed), "adamw
/// fp32".
std::string kernel_label(const nn::KernelWork& work);

}  // namespace hawser::train
