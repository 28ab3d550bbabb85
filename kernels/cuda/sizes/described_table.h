// The kernel table of a GPU that this machine need not have: workspaces and preferences, for plans that are
// only printed.
#pragma once

#include "kernels/include/table.h"

namespace hawser::kernels::cuda {

/// Its kernels are null. Workspaces are those that the plugin plans, whichever libraries the machine has.
const KernelTable& described_kernels();

}  // namespace hawser::kernels::cuda
