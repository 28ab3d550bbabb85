// Compares our declarations of cuBLASLt with its header; compiled if packaging/cuda_toolkit.sh --libraries
// has fetched it.
#include <cublasLt.h>

#include "kernels/cuda/cublaslt_library.h"

namespace hawser::kernels::cuda::cublaslt {

static_assert(kSuccess == CUBLAS_STATUS_SUCCESS && kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(kCompute32F == CUBLAS_COMPUTE_32F && kReal32F == CUDA_R_32F && kReal16BF == CUDA_R_16BF);
static_assert(kRealE4M3 == CUDA_R_8F_E4M3 && kRealE5M2 == CUDA_R_8F_E5M2);
static_assert(kTranspose == CUBLAS_OP_T);
static_assert(kDefaultEpilogue == CUBLASLT_EPILOGUE_DEFAULT && kBiasEpilogue == CUBLASLT_EPILOGUE_BIAS);
static_assert(kGeluAuxEpilogue == CUBLASLT_EPILOGUE_GELU_AUX &&
              kGeluAuxBiasEpilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS &&
              kGeluGradientEpilogue == CUBLASLT_EPILOGUE_DGELU &&
              kBiasGradientBEpilogue == CUBLASLT_EPILOGUE_BGRADB);
static_assert(int{kTransA} == CUBLASLT_MATMUL_DESC_TRANSA && int{kTransB} == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(int{kEpilogue} == CUBLASLT_MATMUL_DESC_EPILOGUE &&
              int{kBiasPointer} == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(int{kAuxPointer} == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER &&
              int{kAuxLd} == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
static_assert(int{kScalePointerA} == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER &&
              int{kScalePointerB} == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
static_assert(int{kBiasDataType} == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
static_assert(int{kMaxWorkspaceBytes} == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(int{kReductionSchemeMask} == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(int{kMinAlignmentA} == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(int{kMinAlignmentB} == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(int{kMinAlignmentC} == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(int{kMinAlignmentD} == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(kReductionsInOrder == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(kReductionInPlace == CUBLASLT_REDUCTION_SCHEME_INPLACE);
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

}  // namespace hawser::kernels::cuda::cublaslt
