// A fake of the part of cuDNN's backend that its graph API needs to describe, plan and run a graph.
// Descriptors are stored as they were set, every graph has one plan, and the arguments of a run are recorded.
// Nothing is computed.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "kernels/cuda/cudnn/functions.h"

namespace hawser::cuda_emulation {

/// A tensor of a graph, as described to the library.
struct FakeTensor {
  std::vector<int64_t> dims, strides;
  int type = 0;  ///< cudnnDataType_t
  bool is_virtual = false, by_value = false;
  int64_t ragged_by = 0;  ///< the tensor with its offsets; 0: none
};

struct FakeCudnn {
  int64_t plan_bytes = 0;       ///< bytes of workspace that each plan needs
  int64_t head_bytes = 0;       ///< additional bytes for each head of each row of the batch
  bool has_plans = true;        ///< true if there is an engine for a graph
  int64_t most_rows = 1 << 20;  ///< maximum rows of the batch in a graph that has a plan
  int devices_major = 9;        ///< compute capability of the GPU that the frontend sees
  int64_t descriptors = 0;      ///< number of existing descriptors
  int64_t runs = 0;
  std::map<int64_t, FakeTensor> tensors;  ///< of all graphs since the record was cleared, by unique id
  std::map<int64_t, void*> given;         ///< arguments of the last run
  std::vector<std::map<int64_t, void*>> all_given;  ///< arguments of each run
  void* workspace = nullptr;                        ///< workspace of the last run
};
FakeCudnn& fake_cudnn();
const kernels::cuda::cudnn::Api& fake_cudnn_api();

}  // namespace hawser::cuda_emulation
