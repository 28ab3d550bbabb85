// Runs cuDNN's plans (plan.h), one per shape, created on first use and kept.
#include "kernels/cuda/cudnn/sdpa_cudnn.h"

#include <stdio.h>

#include <type_traits>
#include <unordered_map>
#include <vector>

#include "engine/base/code.h"
#include "kernels/cuda/cudnn/functions.h"
#include "kernels/cuda/cudnn/plan.h"

namespace hawser::kernels::cuda {
namespace {

using cudnn::Plan;

/// Returns `p` plus a number of bf16 elements.
template <class Pointer>
Pointer moved(Pointer p, int64_t elements) {
  using Byte = std::conditional_t<std::is_same_v<Pointer, const void*>, const char, char>;
  return p != nullptr ? static_cast<Byte*>(p) + elements * 2 : nullptr;
}

/// Returns the tensors of the part that starts with row b and key-value head kv of that row.
SdpaTensors tensors_of(const SdpaShape& whole, SdpaTensors t, int64_t b, int64_t kv) {
  const int64_t row = b * whole.seq, h = kv * (whole.heads / whole.kv_heads);
  const int64_t q = row * whole.q_stride + h * whole.head_dim,
                k = row * whole.kv_stride + kv * whole.head_dim,
                v = row * whole.kv_stride + kv * whole.value_dim,
                o = row * whole.o_stride + h * whole.value_dim;
  t.q = moved(t.q, q), t.dq = moved(t.dq, q);
  t.k = moved(t.k, k), t.dk = moved(t.dk, k);
  t.v = moved(t.v, v), t.dv = moved(t.dv, v);
  t.o = moved(t.o, o), t.dout = moved(t.dout, o);
  t.stats += (b * whole.heads + h) * whole.seq;
  return t;
}

/// Catches exceptions of allocations, because no caller of this class could.
class CudnnSdpa final : public Sdpa {
 public:
  CudnnSdpa(const cudnn::Api& api, cudnnHandle_t handle, bool deterministic)
      : api_(api), handle_(handle), deterministic_(deterministic) {}
  ~CudnnSdpa() override {
    plans_.clear();
    api_.Destroy(handle_);
  }

  bool offers(const SdpaShape& shape, int64_t workspace_bytes) override {
    try {
      const Plan& plan = plan_of(shape, workspace_bytes);
      return plan.graph != nullptr && plan.workspace_bytes <= workspace_bytes;
    } catch (...) {
      return false;
    }
  }

  int64_t version() const override { return static_cast<int64_t>(api_.GetVersion()); }
  bool deterministic() const override { return deterministic_; }

  void run(const SdpaShape& shape, const SdpaTensors& tensors, CudaStream& stream) override {
    const char* const operation = shape.backward ? "attention_backward" : "attention_forward";
    const auto keep = [&](const char* what, const char* value) {
      stream.error->keep(static_cast<int32_t>(Code::kDeviceUnavailable), operation, what, value);
    };
    try {
      const cudnnStatus_t status = api_.SetStream(handle_, stream.handle);
      if (status != CUDNN_STATUS_SUCCESS) return keep("cudnnSetStream", api_.GetErrorString(status));
      const Plan& plan = plan_of(shape, 0);
      for (int64_t b = 0; b < shape.batch; b += plan.part.batch) {
        for (int64_t kv = 0; kv < shape.kv_heads; kv += plan.part.kv_heads) {
          auto pointers = pointers_of(shape, tensors_of(shape, tensors, b, kv));
          auto result = plan.graph->execute(handle_, pointers, tensors.workspace);
          if (result.is_bad()) return keep("cuDNN", result.get_message().c_str());
        }
      }
    } catch (const std::exception& error) {
      keep("cuDNN", error.what());
    }
  }

 private:
  /// Returns the plan of the shape. If there is none yet, creates it for `workspace_bytes`.
  const Plan& plan_of(const SdpaShape& shape, int64_t workspace_bytes) {
    for (const Plan& plan : plans_) {
      if (plan.shape == shape) return plan;
    }
    plans_.push_back(cudnn::make_plan(shape, workspace_bytes, deterministic_, {.handle = handle_}));
    return plans_.back();
  }

  static std::unordered_map<int64_t, void*> pointers_of(const SdpaShape& shape, const SdpaTensors& t) {
    const auto in = [](const void* p) { return const_cast<void*>(p); };
    std::unordered_map<int64_t, void*> pointers = {{cudnn::kQ, in(t.q)},
                                                   {cudnn::kK, in(t.k)},
                                                   {cudnn::kV, in(t.v)},
                                                   {cudnn::kO, t.o},
                                                   {cudnn::kStats, t.stats}};
    if (shape.backward) {
      pointers.insert(
          {{cudnn::kDout, in(t.dout)}, {cudnn::kDq, t.dq}, {cudnn::kDk, t.dk}, {cudnn::kDv, t.dv}});
    }
    if (shape.documents > 0) {
      const DocumentTable& d = t.documents;
      pointers.insert({{cudnn::kRows, d.rows},
                       {cudnn::kQBegin, d.q},
                       {cudnn::kKvBegin, d.kv},
                       {cudnn::kOBegin, d.o},
                       {cudnn::kStatsBegin, d.stats}});
    }
    return pointers;
  }

  const cudnn::Api& api_;
  const cudnnHandle_t handle_;
  const bool deterministic_;
  std::vector<Plan> plans_;
};

}  // namespace

Sdpa* open_cudnn_sdpa(bool deterministic, ErrorText error) {
  const cudnn::Api* const api = cudnn::open_cudnn(error);
  return api != nullptr ? make_cudnn_sdpa(*api, deterministic, error) : nullptr;
}

Sdpa* make_cudnn_sdpa(const cudnn::Api& api, bool deterministic, ErrorText error) {
  cudnn::call_through(&api);
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t status = api.Create(&handle);
  if (status == CUDNN_STATUS_SUCCESS) return new CudnnSdpa(api, handle, deterministic);
  snprintf(error.text, error.bytes, "cudnnCreate: %s", api.GetErrorString(status));
  return nullptr;
}

}  // namespace hawser::kernels::cuda
