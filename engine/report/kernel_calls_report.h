// Names of kernel calls in profiles, traces and plans, and the work of a planned step as JSON and as a table.
#pragma once

#include <string>

#include "engine/base/json.h"
#include "engine/base/kernel_calls.h"

namespace hawser::train {

/// For example "matmul 256 x 2304 x 768 NT bf16" (m, n, k; N or T: op(a) and op(b) are plain or transposed),
/// "attention_forward 1024 x 64 bf16" (keys, elements of a head) or "adamw fp32".
std::string kernel_label(const KernelCalls& calls);

/// {"kernel", "type", "m", "n", "k", "a_transposed", "b_transposed" (these five for products), "length",
/// "head_dim" (these two for attention), "calls", "flops", "bytes"}.
OrderedJson kernel_calls_json(const KernelCalls& calls);

/// One line for each class, in order of bytes, and their sum.
std::string work_text(const WorkList& work);

}  // namespace hawser::train
