// Runs a row of the op-case table through a kernel table, and compares the result with the reference.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/harness/op_cases.h"

namespace hawser::testing {

/// The bytes of every operand after the fast path ran. Each operand and workspace is an allocation of its
/// own, 64-byte aligned, that ends with its last byte; what is not input begins as bytes of 0xff.
std::vector<std::vector<char>> run_fast(const OpCase& c, const kernels::KernelTable& table, Stream& stream);

/// The same in memory that `allocate(bytes)` gives, which outlives the call.
std::vector<std::vector<char>> run_fast(const OpCase& c, const kernels::KernelTable& table, Stream& stream,
                                        const std::function<void*(int64_t bytes)>& allocate);

/// The operands after the reference ran.
RealOperands run_reference(const OpCase& c);

/// Adds a failure to the running test for each operand that the fast path wrote and that differs from the
/// reference by more than its tolerance; names the worst element.
/// on_tensor_cores: a GPU's library computes products, which may be less exact.
void expect_close(const OpCase& c, const std::vector<std::vector<char>>& got, const RealOperands& want,
                  bool on_tensor_cores = false);

/// Rows of one op that the CPU takes, or CUDA.
std::vector<const OpCase*> cases_of(const std::string& op, bool cuda = false);

}  // namespace hawser::testing
