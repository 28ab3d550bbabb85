// kernel_label: a function that names kernel calls in profiles and traces.
#pragma once

#include <string>

#include "engine/nn/kernel_work.h"

namespace hawser::train {

/// For example "matmul 256 x 2304 x 768 NT bf16" (m, n, k; N or T: op(a) and op(b) are plain or transposed)
/// or "adamw fp32".
std::string kernel_label(const nn::KernelWork& work);

}  // namespace hawser::train
