// Parts of workspaces begin at multiples of kWorkspaceAlignment, which cublasLtMatmul needs.
#pragma once

#include <cstdint>

namespace hawser::kernels::cuda {

constexpr uintptr_t kWorkspaceAlignment = 256;

constexpr int64_t aligned(int64_t bytes) {
  constexpr auto kBytes = static_cast<int64_t>(kWorkspaceAlignment);
  return (bytes + kBytes - 1) / kBytes * kBytes;
}

}  // namespace hawser::kernels::cuda
