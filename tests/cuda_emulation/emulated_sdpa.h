// The emulator's implementation of the interface to cuDNN's attention: the CPU's kernels, document by
// document as in the ragged tensors.
#pragma once

#include <vector>

#include "kernels/cuda/sdpa.h"

namespace hawser::cuda_emulation {

/// Of those that are made from now on.
int64_t& sdpa_needed_bytes();

class EmulatedSdpa final : public kernels::cuda::Sdpa {
 public:
  bool offers(const kernels::cuda::SdpaShape& shape, int64_t workspace_bytes) override;
  int64_t version() const override { return 0; }
  bool deterministic() const override { return true; }
  void run(const kernels::cuda::SdpaShape& shape, const kernels::cuda::SdpaTensors& tensors,
           kernels::cuda::CudaStream& stream) override;

  int64_t runs = 0;                            ///< given to it
  int64_t needed_bytes = sdpa_needed_bytes();  ///< of workspace, by each plan
  std::vector<kernels::cuda::SdpaShape> plans;
};

/// Made in this program by all of them.
int64_t& sdpa_plans_made();

}  // namespace hawser::cuda_emulation
