// cuDNN's plans, one for each shape, made when it is first asked for and kept.
#include "kernels/cuda/cudnn/sdpa_cudnn.h"

#include <stdio.h>

#include <unordered_map>
#include <vector>

#include "engine/base/code.h"
#include "kernels/cuda/cudnn/functions.h"
#include "kernels/cuda/cudnn/graphs.h"

namespace hawser::kernels::cuda {
namespace {

using Graph = cudnn_frontend::graph::Graph;

/// The graph of a shape with its plan; null where cuDNN has none.
struct Plan {
  SdpaShape shape;
  std::shared_ptr<Graph> graph;
  int64_t workspace_bytes = 0;
};

/// Exceptions (of the heap) do not leave it: nothing of ours above could catch them.
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
      const Plan& plan = plan_of(shape);
      return plan.graph != nullptr && plan.workspace_bytes <= workspace_bytes;
    } catch (...) {
      return false;
    }
  }

  void run(const SdpaShape& shape, const SdpaTensors& tensors, CudaStream& stream) override {
    const char* const operation = shape.backward ? "attention_backward" : "attention_forward";
    const auto keep = [&](const char* what, const char* value) {
      stream.error->keep(static_cast<int32_t>(Code::kDeviceUnavailable), operation, what, value);
    };
    try {
      const cudnnStatus_t status = api_.SetStream(handle_, stream.handle);
      if (status != CUDNN_STATUS_SUCCESS) return keep("cudnnSetStream", api_.GetErrorString(status));
      auto pointers = pointers_of(shape, tensors);
      auto result = plan_of(shape).graph->execute(handle_, pointers, tensors.workspace);
      if (result.is_bad()) keep("cuDNN", result.get_message().c_str());
    } catch (const std::exception& error) {
      keep("cuDNN", error.what());
    }
  }

 private:
  const Plan& plan_of(const SdpaShape& shape) {
    for (const Plan& plan : plans_) {
      if (plan.shape == shape) return plan;
    }
    Plan plan;
    plan.shape = shape;
    auto graph = cudnn::attention_graph(shape, deterministic_);
    if (build(*graph, &plan.workspace_bytes)) plan.graph = std::move(graph);
    plans_.push_back(std::move(plan));
    return plans_.back();
  }

  bool build(Graph& graph, int64_t* workspace_bytes) {
    namespace fe = cudnn_frontend;
    if (graph.validate().is_bad() || graph.build_operation_graph(handle_).is_bad() ||
        graph.create_execution_plans({fe::HeurMode_t::A}).is_bad()) {
      return false;
    }
    return graph.check_support().is_good() &&
           graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE).is_good() &&
           graph.get_workspace_size(*workspace_bytes).is_good();
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
