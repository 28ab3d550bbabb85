// Visits each computing function of the kernel table, for tables that wrap another table.
#pragma once

#include "kernels/include/table.h"

namespace hawser::kernels {

/// Calls fn.template operator()<&KernelTable::matmul>() and so on for every function except
/// *_workspace_bytes.
template <typename Fn>
constexpr void each_kernel(Fn fn) {
#define HWS_VISIT(name, Args) fn.template operator()<&KernelTable::name>();
  HWS_EACH_KERNEL(HWS_VISIT)
#undef HWS_VISIT
}

}  // namespace hawser::kernels
