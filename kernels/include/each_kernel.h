// Visits each function of the kernel table that computes. Tables that wrap another table are made with it.
#pragma once

#include "kernels/include/table.h"

namespace hawser::kernels {

/// Calls fn.template operator()<&KernelTable::matmul>() and so on for every function but *_workspace_bytes.
template <typename Fn>
constexpr void each_kernel(Fn fn) {
  using Table = KernelTable;
  fn.template operator()<&Table::matmul>();
  fn.template operator()<&Table::embedding_forward>();
  fn.template operator()<&Table::embedding_backward>();
  fn.template operator()<&Table::norm_forward>();
  fn.template operator()<&Table::norm_backward>();
  fn.template operator()<&Table::activation_forward>();
  fn.template operator()<&Table::activation_backward>();
  fn.template operator()<&Table::rope>();
  fn.template operator()<&Table::residual_forward>();
  fn.template operator()<&Table::residual_backward>();
  fn.template operator()<&Table::attention_forward>();
  fn.template operator()<&Table::attention_backward>();
  fn.template operator()<&Table::cross_entropy>();
  fn.template operator()<&Table::soft_cap>();
  fn.template operator()<&Table::column_sum>();
  fn.template operator()<&Table::sum_of_squares>();
  fn.template operator()<&Table::add>();
  fn.template operator()<&Table::convert>();
  fn.template operator()<&Table::ordered_sum>();
  fn.template operator()<&Table::adamw>();
  fn.template operator()<&Table::sgd>();
  fn.template operator()<&Table::adamw_bf16>();
  fn.template operator()<&Table::sgd_bf16>();
}

// A function that is in the table and not above would be forgotten by every table made of another.
inline constexpr size_t kKernelsOfEachKernel = [] {
  size_t count = 0;
  each_kernel([&]<auto>() { ++count; });
  return count;
}();
inline constexpr size_t kOtherEntries = 1 + 3 + 5 + 1;  // name, prepare_*, *_workspace_bytes, suited
static_assert(sizeof(KernelTable) == (kKernelsOfEachKernel + kOtherEntries) * sizeof(void*),
              "name every function of KernelTable that computes in each_kernel");

}  // namespace hawser::kernels
