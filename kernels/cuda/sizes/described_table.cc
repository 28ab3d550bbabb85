#include "kernels/cuda/sizes/described_table.h"

#include "kernels/cuda/sizes/workspace_bytes.h"

namespace hawser::kernels::cuda {
namespace {

constexpr KernelTable named() {
  KernelTable table{};
  table.name = "cuda";
  return table;
}

}  // namespace

const KernelTable& described_kernels() {
  static constexpr KernelTable kTable = with_sizes(named());
  return kTable;
}

}  // namespace hawser::kernels::cuda
