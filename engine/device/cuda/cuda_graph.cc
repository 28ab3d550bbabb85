// CUDA graphs of captured work. A failed capture leaves the device unchanged: the work has not run and can be
// submitted without a capture.
#include "engine/device/cuda/cuda_device.h"

namespace hawser::device {

using kernels::cuda::ContextScope;

namespace {

cudaGraphExec_t cuda_graph(Graph* graph) { return reinterpret_cast<cudaGraphExec_t>(graph); }

}  // namespace

/// The capture mode is thread-local, because other ranks of the process may allocate meanwhile on their own
/// threads. Captured work does not run, so an error before the end of the capture is not an error of the
/// device.
Status CudaDevice::begin_capture(StreamId on) noexcept {
  const ContextScope scope(&context_);
  const Status status =
      done(cudaStreamBeginCapture(handle(on), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  if (status != 0) return status;
  uncaptured_ = {};
  at(on).error = &uncaptured_;
  return 0;
}

Status CudaDevice::end_capture(StreamId on, Graph** out) noexcept {
  const ContextScope scope(&context_);
  *out = nullptr;
  at(on).error = &queues_[static_cast<int>(on)].sticky;
  cudaGraph_t graph = nullptr;
  Status status = done(cudaStreamEndCapture(handle(on), &graph), "cudaStreamEndCapture");
  if (uncaptured_.code != 0) {
    if (graph != nullptr) cudaGraphDestroy(graph);
    return failed(uncaptured_);
  }
  if (status != 0) return status;
  cudaGraphExec_t launchable = nullptr;
  status = done(cudaGraphInstantiate(&launchable, graph, 0), "cudaGraphInstantiate");
  cudaGraphDestroy(graph);
  *out = reinterpret_cast<Graph*>(launchable);
  return status;
}

Status CudaDevice::launch(Graph* graph, StreamId on) noexcept {
  const ContextScope scope(&context_);
  return queued(cudaGraphLaunch(cuda_graph(graph), handle(on)), "cudaGraphLaunch", on);
}

void CudaDevice::free_graph(Graph* graph) noexcept {
  const ContextScope scope(&context_);
  cudaGraphExecDestroy(cuda_graph(graph));
  cudaGetLastError();
}

}  // namespace hawser::device
