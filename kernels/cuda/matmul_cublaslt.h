// CublasLt: products by cuBLASLt. Row-major c = op(a) op(b) is column-major c^T = op(b)^T op(a)^T on the same
// memory, so b is passed first, and the library computes an n x m matrix. A bias of n elements is then the
// library's bias along rows; the argument of GELU is an n x m matrix like c; and the gradient of a bias, of m
// elements, belongs to the library's second operand, a.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/algorithm_cache.h"
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/matmul_fp8.h"
#include "kernels/include/matmul.h"

namespace hawser::kernels::cuda {

/// Everything that determines an algorithm.
struct ProductShape {
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0, library_bytes = 0;
  // These describe the operands as multiplied; alignments are in bytes, up to 16.
  int32_t type = 0, c_type = 0, bias_type = 0;  // type: of a; of b, too, or b is E4M3 if a is E5M2
  int32_t a_alignment = 0, b_alignment = 0, c_alignment = 0, bias_alignment = 0;
  int32_t a_transposed = 0, b_transposed = 0, accumulate = 0;
  int32_t epilogue = 0;  // cublasLtEpilogue_t; the argument of GELU is aligned to 16 bytes

  bool operator==(const ProductShape&) const = default;
};

ProductNumbers numbers_of(const ProductShape& shape);

/// How algorithms are chosen.
struct AlgorithmChoice {
  bool deterministic = true;  ///< excludes algorithms that add by atomics
  AlgorithmCache* cache =
      /// Looked up first; products that it lacks are timed and added; deleted with the CublasLt.
      nullptr;
  bool gelu = true;  ///< GELU is faster in the library's epilogue than in a separate kernel
  bool fp8 = true;   ///< the GPU multiplies fp8
};

struct LibraryProduct;
struct Operands;

/// One stream's use of the library. The descriptors and the algorithm of each shape are created when it is
/// prepared, or at its first product, and kept, so later products allocate nothing. One thread uses it at a
/// time.
class CublasLt {
 public:
  /// The caller must make the device current. If the library cannot start, stores an error in `error`;
  /// multiply then only returns false.
  CublasLt(const CublasLtApi& api, const AlgorithmChoice& choice, StickyError& error);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// Queues the product; sizes must be > 0. Returns false and queues nothing if the library has no algorithm
  /// for it. Errors of the library are stored in the stream.
  ///
  /// Operands of the types kE4m3Block and kE5m2Block are codes (Fp8Codes) with these scales; both are
  /// contiguous over k.
  bool multiply(const Matmul& args, CudaStream& stream, Fp8Scales scales = {});
  /// True if the library has an algorithm for the product.
  bool offers(const Matmul& args, CudaStream& stream);

  // Choice of algorithms (matmul_choice.cc). The algorithm of a product is another rank's choice (take); else
  // the cache's; else, if it is prepared and there is a cache, the fastest of the library's suggestions; else
  // the first suggestion.

  /// Creates everything that the product needs; returns false like multiply. If the product is timed, its
  /// operands, results and workspace are overwritten, and the call waits for the stream. Errors (of the
  /// library or the cache's file) are stored in the stream.
  bool prepare(const Matmul& args, CudaStream& stream, Fp8Scales scales = {});
  /// Uses another rank's choices; call it before any other function. Under `deterministic`, a choice that the
  /// library rejects here is an error.
  void take(const AlgorithmList& chosen);
  /// The prepared products, in order.
  const AlgorithmList& prepared() const { return prepared_; }
  size_t version() const { return api_.GetVersion(); }
  bool deterministic() const { return choice_.deterministic; }
  bool has_fp8() const { return choice_.fp8; }

 private:
  struct Product {
    ProductShape shape;
    cublaslt::Desc desc = nullptr;
    cublaslt::Layout a = nullptr, b = nullptr, c = nullptr;
    cublaslt::HeuristicResult choice = {};
    int64_t nanoseconds = 0;  ///< time of the chosen algorithm; 0 if not timed
    bool supported = false, used = false, prepared = false;
    bool known = false;  ///< chosen earlier, by another rank or run
  };
  static constexpr size_t kProducts = 1024;  ///< kept products; far more than a model has

  /// The pointers that a descriptor has; they may change from call to call.
  struct Pointers {
    const void *bias = nullptr, *aux = nullptr;
    Fp8Scales scales = {};
  };
  Product* product_of(const ProductShape& shape, const Pointers& pointers, CudaStream& stream);
  bool describe(Product& product, CudaStream& stream);
  bool describe_pointers(const Product& product, const Pointers& pointers, CudaStream& stream);
  bool set(const Product& product, int attribute, const void* value, size_t bytes, CudaStream& stream);
  LibraryProduct call_of(const Product& product, const Matmul& args, const Operands& operands) const;
  void forget(Product& product);
  bool succeeded(int status, const char* function, CudaStream& stream);

  bool choose(Product& product, CudaStream& stream);
  bool takes(Product& product, const ChosenAlgorithm& known);
  bool suggest(const Product& product, cublaslt::HeuristicResult* results, int most, int* found,
               CudaStream& stream);
  void time_suggestions(Product& product, const LibraryProduct& call, CudaStream& stream);

  const CublasLtApi& api_;
  const AlgorithmChoice choice_;
  cublaslt::Handle handle_ = nullptr;
  cublaslt::Preference preference_ = nullptr;
  std::array<Product, kProducts> products_;
  AlgorithmList taken_, prepared_;  // taken_: choices of another rank
};

}  // namespace hawser::kernels::cuda
