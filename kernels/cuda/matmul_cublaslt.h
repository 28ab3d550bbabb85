// Products by cuBLASLt. Row-major c = op(a) op(b) is column-major c^T = op(b)^T op(a)^T on the same memory,
// so the library is given b first and computes an n x m matrix; a bias of n elements is then its bias along
// rows, what GELU is taken of an n x m matrix like c, and the gradient of a bias, of m elements, that of its
// second operand, which is a.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/algorithm_cache.h"
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/include/matmul.h"

namespace hawser::kernels::cuda {

/// All that chooses an algorithm.
struct ProductShape {
  int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0, library_bytes = 0;
  // Of the operands as multiplied; alignments in bytes, up to 16.
  int32_t type = 0, c_type = 0, bias_type = 0;
  int32_t a_alignment = 0, b_alignment = 0, c_alignment = 0, bias_alignment = 0;
  int32_t a_transposed = 0, b_transposed = 0, accumulate = 0;
  int32_t epilogue = 0;  // cublasLtEpilogue_t; what GELU is taken of is aligned to 16 bytes

  bool operator==(const ProductShape&) const = default;
};

ProductNumbers numbers_of(const ProductShape& shape);

/// How algorithms are chosen.
struct AlgorithmChoice {
  bool deterministic = true;  ///< leaves out those that add through atomics
  AlgorithmCache* cache =
      nullptr;       ///< asked first; what it lacks is timed and added. Deleted with the CublasLt
  bool gelu = true;  ///< GELU is faster in the library's epilogue than as a kernel of its own
};

struct LibraryProduct;
struct Operands;

/// One stream's use of the library: descriptors and the algorithm of each shape are made when it is prepared,
/// or else at its first product, and kept, so later ones allocate nothing. One thread at a time.
class CublasLt {
 public:
  /// The caller has made the device current. Keeps an error in `error` if the library cannot start; multiply
  /// then does nothing but return false.
  CublasLt(const CublasLtApi& api, const AlgorithmChoice& choice, StickyError& error);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// Queues the product, sizes > 0. False, with nothing queued: the library has no algorithm for it. Errors
  /// of the library go to the stream.
  bool multiply(const Matmul& args, CudaStream& stream);

  // Choosing (matmul_choice.cc): the algorithm of a product is what another rank chose (take), else what the
  // cache has, else, if it is prepared and there is a cache, the fastest of the library's suggestions, else
  // the first of these.

  /// Makes all that the product needs; false as above. Where it is timed, the memory of its operands, results
  /// and workspace is overwritten, and this waits for the stream. Errors (the library's, of the cache's file)
  /// go to the stream.
  bool prepare(const Matmul& args, CudaStream& stream);
  /// Before anything else: what another rank chose. Under `deterministic` one that the library does not take
  /// here is an error.
  void take(const AlgorithmList& chosen);
  /// What was prepared, in this order.
  const AlgorithmList& prepared() const { return prepared_; }
  size_t version() const { return api_.GetVersion(); }
  bool deterministic() const { return choice_.deterministic; }

 private:
  struct Product {
    ProductShape shape;
    cublaslt::Desc desc = nullptr;
    cublaslt::Layout a = nullptr, b = nullptr, c = nullptr;
    cublaslt::HeuristicResult choice = {};
    int64_t nanoseconds = 0;  ///< of the choice; 0: not timed
    bool supported = false, used = false, prepared = false;
    bool known = false;  ///< the choice was made before: by another rank or run
  };
  static constexpr size_t kProducts = 1024;  ///< kept; many more than a model has

  Product* product_of(const ProductShape& shape, const void* bias, const void* aux, CudaStream& stream);
  bool describe(Product& product, CudaStream& stream);
  bool describe_epilogue(const Product& product, const void* bias, const void* aux, CudaStream& stream);
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
  AlgorithmList taken_, prepared_;  // taken_: what another rank chose
};

}  // namespace hawser::kernels::cuda
