// NCCL library: opens the shared library and finds its functions.
#include "engine/comm/nccl/nccl_library.h"

#include "kernels/cuda/optional_library.h"

namespace hawser::comm::nccl {
namespace {

using kernels::cuda::ErrorText;

bool open_functions_of(Api& api, const char* name, ErrorText error) {
  return kernels::cuda::open_functions(name,
                                       {{"ncclGetVersion", api.GetVersion},
                                        {"ncclGetUniqueId", api.GetUniqueId},
                                        {"ncclGetErrorString", api.GetErrorString},
                                        {"ncclGetLastError", api.GetLastError},
                                        {"ncclCommInitRankConfig", api.CommInitRankConfig},
                                        {"ncclCommGetAsyncError", api.CommGetAsyncError},
                                        {"ncclCommFinalize", api.CommFinalize},
                                        {"ncclCommDestroy", api.CommDestroy},
                                        {"ncclCommAbort", api.CommAbort},
                                        {"ncclGroupStart", api.GroupStart},
                                        {"ncclGroupEnd", api.GroupEnd},
                                        {"ncclSend", api.Send},
                                        {"ncclRecv", api.Recv},
                                        {"ncclAllGather", api.AllGather}},
                                       error);
}

void open_registration_of(Api& api, const char* name) {
  if (kernels::cuda::open_functions(name,
                                    {{"ncclMemAlloc", api.MemAlloc},
                                     {"ncclMemFree", api.MemFree},
                                     {"ncclCommRegister", api.CommRegister},
                                     {"ncclCommDeregister", api.CommDeregister}},
                                    {api.without_registration, sizeof api.without_registration}))
    return;
  api.MemAlloc = nullptr, api.MemFree = nullptr;
  api.CommRegister = nullptr, api.CommDeregister = nullptr;
}

int64_t version_of(const Api& api) {
  int version = 0;
  return api.GetVersion(&version) == kSuccess ? version : -1;
}

}  // namespace

const Api* open_library(const char* name, char* error, size_t error_bytes) {
  static kernels::cuda::OptionalLibrary<Api> library;
  const ErrorText why = {error, error_bytes};
  return library.get([&](Api& api) {
    if (!open_functions_of(api, name, why) ||
        !kernels::cuda::version_fits(name, version_of(api), {kFirstVersion, kEndOfVersions}, why))
      return false;
    open_registration_of(api, name);
    return true;
  });
}

}  // namespace hawser::comm::nccl
