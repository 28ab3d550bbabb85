#include "kernels/cuda/cudnn/functions.h"

namespace hawser::kernels::cuda::cudnn {
namespace {

// Since 9.16, the backward of any length needs no mask, which the frontend would copy from the host in every
// call.
constexpr LibraryVersions kVersions = {91600, 100000};  // 10000 major + 100 minor + patch

const Api* in_use = nullptr;

bool open_functions_of(Api& api, ErrorText error) {
  return open_functions(kName,
                        {{"cudnnCreate", api.Create},
                         {"cudnnDestroy", api.Destroy},
                         {"cudnnGetVersion", api.GetVersion},
                         {"cudnnGetErrorString", api.GetErrorString},
                         {"cudnnGetLastErrorString", api.GetLastErrorString},
                         {"cudnnSetStream", api.SetStream},
                         {"cudnnGetStream", api.GetStream},
                         {"cudnnBackendCreateDescriptor", api.BackendCreateDescriptor},
                         {"cudnnBackendDestroyDescriptor", api.BackendDestroyDescriptor},
                         {"cudnnBackendSetAttribute", api.BackendSetAttribute},
                         {"cudnnBackendGetAttribute", api.BackendGetAttribute},
                         {"cudnnBackendFinalize", api.BackendFinalize},
                         {"cudnnBackendExecute", api.BackendExecute}},
                        error);
}

}  // namespace

const Api* open_cudnn(ErrorText error) {
  static OptionalLibrary<Api> library;
  return library.get([&](Api& api) {
    return open_functions_of(api, error) &&
           version_fits(kName, static_cast<int64_t>(api.GetVersion()), kVersions, error);
  });
}

void call_through(const Api* api) { __atomic_store_n(&in_use, api, __ATOMIC_RELEASE); }

namespace {

const Api& used() { return *__atomic_load_n(&in_use, __ATOMIC_ACQUIRE); }

}  // namespace
}  // namespace hawser::kernels::cuda::cudnn

using hawser::kernels::cuda::cudnn::used;

extern "C" {

size_t cudnnGetVersion() { return used().GetVersion(); }
const char* cudnnGetErrorString(cudnnStatus_t status) { return used().GetErrorString(status); }
void cudnnGetLastErrorString(char* message, size_t bytes) { used().GetLastErrorString(message, bytes); }
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return used().GetStream(handle, stream);
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  return used().BackendCreateDescriptor(type, descriptor);
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return used().BackendDestroyDescriptor(descriptor);
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* elements) {
  return used().BackendSetAttribute(descriptor, name, type, count, elements);
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                       int64_t requested, int64_t* count, void* elements) {
  return used().BackendGetAttribute(descriptor, name, type, requested, count, elements);
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return used().BackendFinalize(descriptor);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  return used().BackendExecute(handle, plan, variant_pack);
}

}  // extern "C"
