// The part of cuBLASLt that we use, as a table of functions. The library is opened when a GPU is first used
// (which takes 0.2 s and 150 MB), and its headers are not needed to build. The constants are those of
// cublasLt.h 13; tests/cuda_emulation/cublaslt_header_check.cc compares them with that header if it is
// available.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace hawser::kernels::cuda {

namespace cublaslt {

constexpr int kSuccess = 0, kNotSupported = 15;  // cublasStatus_t
constexpr int kCompute32F = 68;                  // cublasComputeType_t: fp32, never TF32
constexpr int kReal32F = 0, kReal16BF = 14;      // cudaDataType
constexpr int kRealE4M3 = 28, kRealE5M2 = 29;
constexpr int kTranspose = 1;  // cublasOperation_t
// cublasLtEpilogue_t. GELU is the tanh form; "aux" is the argument of GELU, of the type of D.
constexpr int kDefaultEpilogue = 1, kBiasEpilogue = 4, kGeluAuxEpilogue = 160, kGeluAuxBiasEpilogue = 164,
              kGeluGradientEpilogue = 192, kBiasGradientBEpilogue = 512;
enum DescAttribute {
  kTransA = 3,
  kTransB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,  // for a bias gradient, too
  kAuxPointer = 11,
  kAuxLd = 12,  // a multiple of 8
  kScalePointerA = 17,
  kScalePointerB = 18,
  kBiasDataType = 26
};
enum PreferenceAttribute {
  kMaxWorkspaceBytes = 1,
  kReductionSchemeMask = 3,
  kMinAlignmentA = 5,
  kMinAlignmentB = 6,
  kMinAlignmentC = 7,
  kMinAlignmentD = 8
};
/// Reductions over a split k that use the workspace in fp32. Reductions in the result's type (4) are
/// excluded, because each part of a bf16 product would be rounded. "In place" adds part to part in the
/// result; the header promises one order.
constexpr uint32_t kReductionsInOrder = 2, kReductionInPlace = 1;

using Handle = void*;
using Desc = void*;
using Layout = void*;
using Preference = void*;

struct Algorithm {
  uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

}  // namespace cublaslt

/// Each member is the function of that name with the prefix "cublasLt"; statuses are cublasStatus_t. Matrices
/// are column-major.
struct CublasLtApi {
  int (*Create)(cublaslt::Handle*);
  int (*Destroy)(cublaslt::Handle);
  size_t (*GetVersion)();
  const char* (*GetStatusName)(int);
  int (*MatmulDescCreate)(cublaslt::Desc*, int compute_type, int scale_type);
  int (*MatmulDescDestroy)(cublaslt::Desc);
  int (*MatmulDescSetAttribute)(cublaslt::Desc, int attribute, const void* value, size_t bytes);
  int (*MatrixLayoutCreate)(cublaslt::Layout*, int type, uint64_t rows, uint64_t columns, int64_t ld);
  int (*MatrixLayoutDestroy)(cublaslt::Layout);
  int (*MatmulPreferenceCreate)(cublaslt::Preference*);
  int (*MatmulPreferenceDestroy)(cublaslt::Preference);
  int (*MatmulPreferenceSetAttribute)(cublaslt::Preference, int attribute, const void* value, size_t bytes);
  int (*MatmulAlgoGetHeuristic)(cublaslt::Handle, cublaslt::Desc, cublaslt::Layout a, cublaslt::Layout b,
                                cublaslt::Layout c, cublaslt::Layout d, cublaslt::Preference, int requested,
                                cublaslt::HeuristicResult* results, int* returned);
  int (*MatmulAlgoCheck)(cublaslt::Handle, cublaslt::Desc, cublaslt::Layout a, cublaslt::Layout b,
                         cublaslt::Layout c, cublaslt::Layout d, const cublaslt::Algorithm*,
                         cublaslt::HeuristicResult* result);
  int (*Matmul)(cublaslt::Handle, cublaslt::Desc, const void* alpha, const void* a, cublaslt::Layout,
                const void* b, cublaslt::Layout, const void* beta, const void* c, cublaslt::Layout, void* d,
                cublaslt::Layout, const cublaslt::Algorithm*, void* workspace, size_t workspace_bytes,
                void* stream);
};

/// The name by which the loader finds the library.
inline constexpr const char* kCublasLtName = "libcublasLt.so.13";

/// Opens the library, once per process; it stays open. On failure returns null and writes the reason (the
/// loader's message, or the library's version) to `error`.
const CublasLtApi* open_cublaslt(char* error, size_t error_bytes);

}  // namespace hawser::kernels::cuda
