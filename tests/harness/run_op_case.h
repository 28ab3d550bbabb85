// Runs a row of the op-case table through a kernel table, and compares the result with the reference.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/harness/op_cases.h"

namespace hawser::testing {

/// Returns the bytes of every operand after the fast path has run. Each operand and each workspace is a
/// separate 64-byte aligned allocation that ends with its last byte; memory that is not input starts with
/// bytes of 0xff.
std::vector<std::vector<char>> run_fast(const OpCase& c, const kernels::KernelTable& table, Stream& stream);

/// Likewise, in memory from `allocate(bytes)`, which must outlive the call.
std::vector<std::vector<char>> run_fast(const OpCase& c, const kernels::KernelTable& table, Stream& stream,
                                        const std::function<void*(int64_t bytes)>& allocate);

/// Returns the operands after the reference has run.
RealOperands run_reference(const OpCase& c);

/// Adds a failure to the running test for each operand that the fast path wrote and that differs from the
/// reference by more than its tolerance; the message has the worst element. on_tensor_cores: a GPU's library
/// computes products, which may be less exact.
void expect_close(const OpCase& c, const std::vector<std::vector<char>>& got, const RealOperands& want,
                  bool on_tensor_cores = false);

/// Returns the rows of one op that the CPU, or CUDA, supports.
std::vector<const OpCase*> cases_of(const std::string& op, bool cuda = false);
/// Returns those of CUDA without the rows for tiles of the CPU.
std::vector<const OpCase*> emulated_cases_of(const std::string& op);

}  // namespace hawser::testing
