// Opens cuBLASLt.
#include "kernels/cuda/cublaslt_library.h"

#include "kernels/cuda/optional_library.h"

namespace hawser::kernels::cuda {
namespace {

constexpr LibraryVersions kVersions = {130000, 140000};  // as returned by GetVersion: 10000 major + 100 minor
                                                         // + patch

bool open_functions_of(CublasLtApi& api, ErrorText error) {
  return open_functions(kCublasLtName,
                        {{"cublasLtCreate", api.Create},
                         {"cublasLtDestroy", api.Destroy},
                         {"cublasLtGetVersion", api.GetVersion},
                         {"cublasLtGetStatusName", api.GetStatusName},
                         {"cublasLtMatmulDescCreate", api.MatmulDescCreate},
                         {"cublasLtMatmulDescDestroy", api.MatmulDescDestroy},
                         {"cublasLtMatmulDescSetAttribute", api.MatmulDescSetAttribute},
                         {"cublasLtMatrixLayoutCreate", api.MatrixLayoutCreate},
                         {"cublasLtMatrixLayoutDestroy", api.MatrixLayoutDestroy},
                         {"cublasLtMatmulPreferenceCreate", api.MatmulPreferenceCreate},
                         {"cublasLtMatmulPreferenceDestroy", api.MatmulPreferenceDestroy},
                         {"cublasLtMatmulPreferenceSetAttribute", api.MatmulPreferenceSetAttribute},
                         {"cublasLtMatmulAlgoGetHeuristic", api.MatmulAlgoGetHeuristic},
                         {"cublasLtMatmulAlgoCheck", api.MatmulAlgoCheck},
                         {"cublasLtMatmul", api.Matmul}},
                        error);
}

}  // namespace

const CublasLtApi* open_cublaslt(char* error, size_t error_bytes) {
  static OptionalLibrary<CublasLtApi> library;
  const ErrorText why = {error, error_bytes};
  return library.get([&](CublasLtApi& api) {
    return open_functions_of(api, why) &&
           version_fits(kCublasLtName, static_cast<int64_t>(api.GetVersion()), kVersions, why);
  });
}

}  // namespace hawser::kernels::cuda
