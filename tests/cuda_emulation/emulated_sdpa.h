// EmulatedSdpa: the emulator's implementation of the interface to cuDNN's attention, by the CPU's kernels,
// document by document as in the ragged tensors.
#pragma once

#include <vector>

#include "kernels/cuda/sdpa.h"

namespace hawser::cuda_emulation {

/// The workspace of plans that are made from now on.
int64_t& sdpa_needed_bytes();

class EmulatedSdpa final : public kernels::cuda::Sdpa {
 public:
  bool offers(const kernels::cuda::SdpaShape& shape, int64_t workspace_bytes) override;
  int64_t version() const override { return 0; }
  bool deterministic() const override { return true; }
  void run(const kernels::cuda::SdpaShape& shape, const kernels::cuda::SdpaTensors& tensors,
           kernels::cuda::CudaStream& stream) override;

  int64_t runs = 0;                            ///< number of calls
  int64_t needed_bytes = sdpa_needed_bytes();  ///< bytes of workspace that each plan needs
  std::vector<kernels::cuda::SdpaShape> plans;
};

/// Number of plans that all objects in this program have made.
int64_t& sdpa_plans_made();

}  // namespace hawser::cuda_emulation
