// The functions of the kernel table that compute, one after the other: for tables made of another one.
#pragma once

#include "kernels/include/table.h"

namespace hawser::kernels {

/// Calls fn.template operator()<&KernelTable::matmul>() and so on for every function but *_workspace_bytes.
template <typename Fn>
void each_kernel(Fn fn) {
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

}  // namespace hawser::kernels
