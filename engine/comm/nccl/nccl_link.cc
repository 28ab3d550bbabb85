// NcclLink: the PeerLink of a GPU, a Communicator on one of its streams. Part of the CUDA plugin.
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include <new>

#include "engine/base/code.h"
#include "engine/comm/nccl/communicator.h"
#include "engine/device/cuda/peers.h"

namespace hawser::device {
namespace {

using comm::nccl::Communicator;
using comm::nccl::UniqueId;
using kernels::cuda::Context;
using kernels::cuda::ContextScope;
using kernels::cuda::CudaStream;

static_assert(sizeof(UniqueId) == sizeof(PeerId));

/// Polls the event, and clears CUDA's error state.
int poll_event(void*, Event* event, const char** why) {
  const cudaError_t result = cudaEventQuery(reinterpret_cast<cudaEvent_t>(event));
  if (result == cudaSuccess) return 0;
  cudaGetLastError();
  if (result == cudaErrorNotReady) return 1;
  *why = cudaGetErrorString(result);
  return -1;
}

/// Runs with this GPU's context current, because NCCL works on the GPU whose context is current.
class NcclLink final : public PeerLink {
 public:
  NcclLink(const comm::nccl::Api& api, const CudaStream& stream, const PeerLinkRequest& request)
      : context_(stream.context), communicator_(api, {stream.handle, nullptr, &poll_event}, request) {}

  Status make_id(PeerId* out) noexcept override {
    const ContextScope scope(context_);
    UniqueId id = {};
    const Status status = communicator_.make_id(&id);
    memcpy(out, &id, sizeof id);
    return status;
  }
  Status connect(const PeerId& id) noexcept override {
    const ContextScope scope(context_);
    UniqueId unique = {};
    memcpy(&unique, &id, sizeof unique);
    return communicator_.connect(unique);
  }
  bool register_memory(void* memory, int64_t bytes) noexcept override {
    const ContextScope scope(context_);
    return communicator_.register_memory(memory, bytes);
  }
  Status deregister_memory() noexcept override {
    const ContextScope scope(context_);
    return communicator_.deregister_memory();
  }
  Status all_gather(void* full, const void* shard, int64_t bytes) noexcept override {
    const ContextScope scope(context_);
    return communicator_.all_gather(full, shard, bytes);
  }
  Status all_to_all(void* out, const int64_t* out_offsets, const int64_t* out_bytes, const void* in,
                    const int64_t* in_offsets, const int64_t* in_bytes) noexcept override {
    const ContextScope scope(context_);
    return communicator_.all_to_all(out, out_offsets, out_bytes, in, in_offsets, in_bytes);
  }
  Status broadcast(void* data, int64_t bytes, int32_t root) noexcept override {
    const ContextScope scope(context_);
    return communicator_.broadcast(data, bytes, root);
  }
  Status send(const void* data, int64_t bytes, int32_t to) noexcept override {
    const ContextScope scope(context_);
    return communicator_.send(data, bytes, to);
  }
  Status recv(void* data, int64_t bytes, int32_t from) noexcept override {
    const ContextScope scope(context_);
    return communicator_.recv(data, bytes, from);
  }
  Status wait(Event* reached, Event* done) noexcept override {
    const ContextScope scope(context_);
    return communicator_.wait(reached, done);
  }
  const char* message() const noexcept override { return communicator_.message(); }
  void destroy() noexcept override {
    const ContextScope scope(context_);
    delete this;
  }

 private:
  const Context* const context_;
  Communicator communicator_;
};

const comm::nccl::Api* open(char* error, int64_t error_bytes) {
  return comm::nccl::open_library(comm::nccl::kLibraryName, error, static_cast<size_t>(error_bytes));
}

}  // namespace

Status why_no_peers(char* error, int64_t error_bytes) {
  return open(error, error_bytes) != nullptr ? 0 : static_cast<Status>(Code::kDeviceUnavailable);
}

/// NCCL does not register memory of cudaMalloc by default, because it calls that unsafe.
Status allocate_peer_memory(int64_t bytes, void** out, char* error, int64_t error_bytes) {
  const comm::nccl::Api* const api = open(error, error_bytes);
  if (api == nullptr) return static_cast<Status>(Code::kUnavailable);
  if (api->MemAlloc == nullptr) {
    snprintf(error, static_cast<size_t>(error_bytes), "%s", api->without_registration);
    return static_cast<Status>(Code::kUnavailable);
  }
  const int result = api->MemAlloc(out, static_cast<size_t>(bytes));
  if (result == comm::nccl::kSuccess) return 0;
  snprintf(error, static_cast<size_t>(error_bytes), "ncclMemAlloc: %s", api->GetErrorString(result));
  return static_cast<Status>(Code::kUnavailable);
}

void release_peer_memory(void* memory) { open(nullptr, 0)->MemFree(memory); }

PeerLink* open_peer_link(const CudaStream& stream, const PeerLinkRequest& request,
                         kernels::cuda::StickyError* failure) {
  char why[320] = "";
  const comm::nccl::Api* const api = open(why, sizeof why);
  if (api == nullptr) {
    failure->keep(static_cast<int32_t>(Code::kDeviceUnavailable), "GPUs communicate by NCCL", why,
                  "install it where the loader finds it, or set /comm/device_transport to \"host\"");
    return nullptr;
  }
  auto* const link = new (std::nothrow) NcclLink(*api, stream, request);
  if (link == nullptr)
    failure->keep(static_cast<int32_t>(Code::kOutOfMemory), "NcclLink", "no host memory is left", "");
  return link;
}

}  // namespace hawser::device
