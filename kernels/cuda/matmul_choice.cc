// Chooses the algorithms of cuBLASLt for products: another rank's choice, the cache's, the fastest of the
// library's suggestions, or the first of them. All of this happens before the first step.
#include "engine/base/code.h"
#include "kernels/cuda/matmul_cublaslt.h"
#include "kernels/cuda/matmul_timing.h"

namespace hawser::kernels::cuda {
namespace {

/// Alignment of the result and the bias. The library has no preference for the bias alone: code that reads it
/// in wide pieces does so while it writes the result.
uint32_t result_alignment(const ProductShape& s) {
  const bool bias_is_less = s.bias_alignment != 0 && s.bias_alignment < s.c_alignment;
  return static_cast<uint32_t>(bias_is_less ? s.bias_alignment : s.c_alignment);
}

}  // namespace

void CublasLt::take(const AlgorithmList& chosen) { taken_ = chosen; }

bool CublasLt::suggest(const Product& product, cublaslt::HeuristicResult* results, int most, int* found,
                       CudaStream& stream) {
  const ProductShape& s = product.shape;
  const auto prefer = [&](int attribute, const auto& value) {
    return succeeded(api_.MatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)),
                     "cublasLtMatmulPreferenceSetAttribute", stream);
  };
  // A narrow result must be rounded once, not with each part.
  const bool in_place = !choice_.deterministic && s.c_type == cublaslt::kReal32F;
  const uint32_t schemes = cublaslt::kReductionsInOrder | (in_place ? cublaslt::kReductionInPlace : 0u);
  const bool set = prefer(cublaslt::kMaxWorkspaceBytes, static_cast<size_t>(s.library_bytes)) &&
                   prefer(cublaslt::kReductionSchemeMask, schemes) &&
                   prefer(cublaslt::kMinAlignmentA, static_cast<uint32_t>(s.b_alignment)) &&
                   prefer(cublaslt::kMinAlignmentB, static_cast<uint32_t>(s.a_alignment)) &&
                   prefer(cublaslt::kMinAlignmentC, static_cast<uint32_t>(s.c_alignment)) &&
                   prefer(cublaslt::kMinAlignmentD, result_alignment(s));
  *found = 0;
  if (!set) return false;
  const int status = api_.MatmulAlgoGetHeuristic(handle_, product.desc, product.b, product.a, product.c,
                                                 product.c, preference_, most, results, found);
  if (status == cublaslt::kNotSupported) *found = 0;
  return status == cublaslt::kNotSupported || succeeded(status, "cublasLtMatmulAlgoGetHeuristic", stream);
}

/// Returns false if the library rejects the algorithm, which then comes from another build with the same
/// version number.
bool CublasLt::takes(Product& product, const ChosenAlgorithm& known) {
  cublaslt::HeuristicResult& choice = product.choice;
  const int status = api_.MatmulAlgoCheck(handle_, product.desc, product.b, product.a, product.c, product.c,
                                          &known.algorithm, &choice);
  choice.algorithm = known.algorithm;
  product.nanoseconds = known.nanoseconds;
  return status == cublaslt::kSuccess && choice.state == cublaslt::kSuccess &&
         choice.workspace_bytes <= static_cast<size_t>(product.shape.library_bytes);
}

/// Uses the known choice, or the library's first suggestion. If there is none, that is not an error: our own
/// kernel computes the product.
bool CublasLt::choose(Product& product, CudaStream& stream) {
  const ProductNumbers numbers = numbers_of(product.shape);
  const ChosenAlgorithm* const taken = taken_.find(numbers);
  const ChosenAlgorithm* const cached =
      choice_.cache != nullptr ? choice_.cache->known().find(numbers) : nullptr;
  const ChosenAlgorithm* const known = taken != nullptr ? taken : cached;
  product.supported = product.known = known != nullptr && takes(product, *known);
  if (product.known) return true;
  if (taken != nullptr && choice_.deterministic) {
    char line[kAlgorithmLine];
    write_algorithm(*taken, line, sizeof(line));
    stream.error->keep(static_cast<int32_t>(Code::kDeviceUnavailable), "matmul",
                       "cuBLASLt rejects the algorithm that the first rank chose", line);
    return false;
  }
  int found = 0;
  product.nanoseconds = 0;
  if (!suggest(product, &product.choice, 1, &found, stream)) return false;
  product.supported = found > 0 && product.choice.state == cublaslt::kSuccess;
  return true;
}

/// Times the library's suggestions; all of them compute equally valid results.
void CublasLt::time_suggestions(Product& product, const LibraryProduct& call, CudaStream& stream) {
  constexpr int kMost = 16;
  cublaslt::HeuristicResult candidates[kMost] = {};
  int found = 0;
  if (!suggest(product, candidates, kMost, &found, stream)) return;
  const int best = fastest(api_, call, candidates, found, stream, &product.nanoseconds);
  if (best < 0) return;
  product.choice = candidates[best];
  choice_.cache->add({numbers_of(product.shape), product.choice.algorithm, product.nanoseconds},
                     *stream.error);
}

}  // namespace hawser::kernels::cuda
