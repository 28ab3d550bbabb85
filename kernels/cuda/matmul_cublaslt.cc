// Computes products by cuBLASLt.
#include "kernels/cuda/matmul_cublaslt.h"

#include "engine/base/code.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/matmul_timing.h"

namespace hawser::kernels::cuda {

/// The operands as they are multiplied: for a product of bf16 values, rounded copies in the workspace.
struct Operands {
  const void *a, *b;
  int64_t lda, ldb;
  void* library_workspace;
  size_t library_bytes;
};

namespace {

int32_t alignment_of(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  int32_t alignment = 16;
  while (address % static_cast<uintptr_t>(alignment) != 0) alignment /= 2;
  return alignment;
}

constexpr int32_t kNoType = -1;  // the type of an absent bias

bool is_code(DType type) { return type == DType::kE4m3Block || type == DType::kE5m2Block; }

int32_t data_type(DType type) {
  if (is_code(type)) return type == DType::kE4m3Block ? cublaslt::kRealE4M3 : cublaslt::kRealE5M2;
  return type == DType::kBf16 ? cublaslt::kReal16BF : cublaslt::kReal32F;
}

/// Returns the type of b for that of a.
int32_t second_type(int32_t type) { return type == cublaslt::kRealE5M2 ? cublaslt::kRealE4M3 : type; }
bool is_code(int32_t type) { return type == cublaslt::kRealE4M3 || type == cublaslt::kRealE5M2; }

int32_t epilogue_of(const Matmul& m) {
  if (m.epilogue == Epilogue::kGeluTanhGradient) return cublaslt::kGeluGradientEpilogue;
  if (m.epilogue == Epilogue::kGeluTanh)
    return m.bias != nullptr ? cublaslt::kGeluAuxBiasEpilogue : cublaslt::kGeluAuxEpilogue;
  if (m.bias_gradient != nullptr) return cublaslt::kBiasGradientBEpilogue;
  return m.bias != nullptr ? cublaslt::kBiasEpilogue : cublaslt::kDefaultEpilogue;
}

/// True if cuBLASLt has this epilogue and it is useful. GELU is used only in bf16: fp32 must agree with other
/// devices to the last digits, and the library does not document the accuracy of its tanh.
bool epilogue_offered(const Matmul& m, bool gelu) {
  if (m.bias_gradient != nullptr && alignment_of(m.bias_gradient) < 16) return false;
  if (m.epilogue == Epilogue::kNone) return true;
  return gelu && m.c_type == DType::kBf16 && m.n % 8 == 0 && alignment_of(m.aux) == 16;
}

/// True if cuBLASLt supports this product of codes: sizes and addresses must suit its widest accesses, and a
/// bias is bf16, to which that of a wider result would lose digits.
bool codes_offered(const Matmul& m, bool fp8) {
  const int64_t ldc_bytes = m.ldc * (m.c_type == DType::kBf16 ? 2 : 4);
  return fp8 && m.m % kFp8Sizes == 0 && m.n % kFp8Sizes == 0 && m.k % kFp8Sizes == 0 &&
         ldc_bytes % kFp8Sizes == 0 && alignment_of(m.c) == kFp8Sizes && m.epilogue == Epilogue::kNone &&
         m.bias_gradient == nullptr && (m.bias == nullptr || m.c_type == DType::kBf16);
}

/// True if cuBLASLt supports this product (its table of types): a narrow result requires narrow operands, and
/// a bias must have the result's type, to which only a wider one can be converted.
bool offered(const Matmul& m, const AlgorithmChoice& choice) {
  if (is_code(m.a_type)) return codes_offered(m, choice.fp8);
  return (product_type(m) == DType::kBf16 || m.c_type == DType::kF32) &&
         (m.bias == nullptr || m.bias_type == m.c_type || m.bias_type == DType::kF32) &&
         epilogue_offered(m, choice.gelu);
}

/// Returns where the library reads the bias, or writes the gradient of one. Null if there is neither.
const void* bias_place(const Matmul& m, const MatmulWorkspace& w) {
  if (m.bias_gradient != nullptr || m.bias == nullptr) return m.bias_gradient;
  return w.bias_bytes > 0 ? static_cast<char*>(m.workspace) + w.bias_at() : m.bias;
}

Operands operands_of(const Matmul& m, const MatmulWorkspace& w, CudaStream& stream) {
  char* at = static_cast<char*>(m.workspace);
  Operands o = {m.a, m.b, m.lda, m.ldb, at + w.library_at(), static_cast<size_t>(w.library_bytes)};
  if (w.a_bytes > 0) {
    const int64_t rows = m.a_transposed ? m.k : m.m, columns = m.a_transposed ? m.m : m.k;
    round_operand(at, static_cast<const float*>(m.a), rows, columns, m.lda, stream);
    o.a = at;
    o.lda = columns;
  }
  if (w.b_bytes > 0) {
    const int64_t rows = m.b_transposed ? m.n : m.k, columns = m.b_transposed ? m.k : m.n;
    round_operand(at + w.a_bytes, static_cast<const float*>(m.b), rows, columns, m.ldb, stream);
    o.b = at + w.a_bytes;
    o.ldb = columns;
  }
  if (w.bias_bytes > 0 && m.bias != nullptr)
    round_operand(at + w.bias_at(), static_cast<const float*>(m.bias), 1, m.n, m.n, stream);
  return o;
}

/// Describes where the operands will be, without moving them, because alignments and leading dimensions
/// determine the algorithm.
ProductShape shape_of(const Matmul& m, const MatmulWorkspace& w) {
  ProductShape s;
  s.m = m.m;
  s.n = m.n;
  s.k = m.k;
  s.lda = w.a_bytes > 0 ? (m.a_transposed ? m.m : m.k) : m.lda;
  s.ldb = w.b_bytes > 0 ? (m.b_transposed ? m.k : m.n) : m.ldb;
  s.ldc = m.ldc;
  s.library_bytes = w.library_bytes;
  s.type = data_type(product_type(m));
  s.c_type = data_type(m.c_type);
  s.a_alignment = alignment_of(w.a_bytes > 0 ? m.workspace : m.a);
  s.b_alignment = alignment_of(w.b_bytes > 0 ? m.workspace : m.b);
  s.c_alignment = alignment_of(m.c);
  s.a_transposed = m.a_transposed ? 1 : 0;
  s.b_transposed = m.b_transposed ? 1 : 0;
  const void* const bias = bias_place(m, w);
  s.bias_type = bias != nullptr ? s.c_type : kNoType;
  s.bias_alignment = bias != nullptr ? alignment_of(bias) : 0;
  s.accumulate = m.accumulate ? 1 : 0;
  s.epilogue = epilogue_of(m);
  return s;
}

size_t slot_of(const ProductShape& s, size_t slots) {
  uint64_t hash = 1469598103934665603ull;  // FNV-1a over the fields
  for (const int64_t field : numbers_of(s)) {
    hash = (hash ^ static_cast<uint64_t>(field)) * 1099511628211ull;
    hash ^= hash >> 29;
  }
  return hash % slots;
}

}  // namespace

ProductNumbers numbers_of(const ProductShape& s) {
  return {s.m,
          s.n,
          s.k,
          s.lda,
          s.ldb,
          s.ldc,
          s.library_bytes,
          s.type,
          s.c_type,
          s.bias_type,
          s.a_alignment,
          s.b_alignment,
          s.c_alignment,
          s.bias_alignment,
          s.a_transposed,
          s.b_transposed,
          s.accumulate,
          s.epilogue};
}

CublasLt::CublasLt(const CublasLtApi& api, const AlgorithmChoice& choice, StickyError& error)
    : api_(api), choice_(choice) {
  int status = api_.Create(&handle_);
  const char* function = "cublasLtCreate";
  if (status == cublaslt::kSuccess) {
    status = api_.MatmulPreferenceCreate(&preference_);
    function = "cublasLtMatmulPreferenceCreate";
  }
  if (status == cublaslt::kSuccess) return;
  error.keep(static_cast<int32_t>(Code::kDeviceUnavailable), function, "failed", api_.GetStatusName(status));
}

CublasLt::~CublasLt() {
  for (Product& product : products_) forget(product);
  if (preference_ != nullptr) api_.MatmulPreferenceDestroy(preference_);
  if (handle_ != nullptr) api_.Destroy(handle_);
  delete choice_.cache;
}

bool CublasLt::succeeded(int status, const char* function, CudaStream& stream) {
  if (status == cublaslt::kSuccess) return true;
  stream.error->keep(static_cast<int32_t>(Code::kDeviceUnavailable), "matmul", function,
                     api_.GetStatusName(status));
  return false;
}

void CublasLt::forget(Product& product) {
  if (product.desc != nullptr) api_.MatmulDescDestroy(product.desc);
  for (const cublaslt::Layout layout : {product.a, product.b, product.c}) {
    if (layout != nullptr) api_.MatrixLayoutDestroy(layout);
  }
  product = {};
}

bool CublasLt::set(const Product& product, int attribute, const void* value, size_t bytes,
                   CudaStream& stream) {
  return succeeded(api_.MatmulDescSetAttribute(product.desc, attribute, value, bytes),
                   "cublasLtMatmulDescSetAttribute", stream);
}

/// Describes the matrices in column-major order: a row-major [rows, columns] matrix is a columns x rows one.
bool CublasLt::describe(Product& product, CudaStream& stream) {
  const ProductShape& s = product.shape;
  const int32_t a_operation = s.a_transposed != 0 ? cublaslt::kTranspose : 0,
                b_operation = s.b_transposed != 0 ? cublaslt::kTranspose : 0;
  const auto layout = [&](cublaslt::Layout& out, int32_t type, int64_t rows, int64_t columns, int64_t ld) {
    return succeeded(
        api_.MatrixLayoutCreate(&out, type, static_cast<uint64_t>(columns), static_cast<uint64_t>(rows), ld),
        "cublasLtMatrixLayoutCreate", stream);
  };
  return succeeded(api_.MatmulDescCreate(&product.desc, cublaslt::kCompute32F, cublaslt::kReal32F),
                   "cublasLtMatmulDescCreate", stream) &&
         set(product, cublaslt::kTransA, &b_operation, sizeof b_operation, stream) &&
         set(product, cublaslt::kTransB, &a_operation, sizeof a_operation, stream) &&
         set(product, cublaslt::kEpilogue, &s.epilogue, sizeof s.epilogue, stream) &&
         layout(product.a, s.type, s.a_transposed != 0 ? s.k : s.m, s.a_transposed != 0 ? s.m : s.k, s.lda) &&
         layout(product.b, second_type(s.type), s.b_transposed != 0 ? s.n : s.k,
                s.b_transposed != 0 ? s.k : s.n, s.ldb) &&
         layout(product.c, s.c_type, s.m, s.n, s.ldc);
}

/// Sets the pointers of the epilogue, whose alignments, too, determine the algorithm, and of the scales.
bool CublasLt::describe_pointers(const Product& product, const Pointers& pointers, CudaStream& stream) {
  const auto [bias, aux, scales] = pointers;
  const ProductShape& s = product.shape;
  const auto is_set = [&](int attribute, const auto& value) {
    return set(product, attribute, &value, sizeof value, stream);
  };
  return (bias == nullptr ||
          (is_set(cublaslt::kBiasPointer, bias) && is_set(cublaslt::kBiasDataType, s.bias_type))) &&
         (aux == nullptr || (is_set(cublaslt::kAuxPointer, aux) && is_set(cublaslt::kAuxLd, s.n))) &&
         (!is_code(s.type) ||
          (is_set(cublaslt::kScalePointerA, scales.b) && is_set(cublaslt::kScalePointerB, scales.a)));
}

/// Returns the product of this shape, created if it is new; null after an error. If all slots for the shape's
/// hash are used, the first of them is replaced.
CublasLt::Product* CublasLt::product_of(const ProductShape& shape, const Pointers& pointers,
                                        CudaStream& stream) {
  constexpr size_t kTries = 8;
  const size_t home = slot_of(shape, kProducts);
  Product* free = &products_[home];
  for (size_t i = 0; i < kTries; ++i) {
    Product& product = products_[(home + i) % kProducts];
    if (product.used && product.shape == shape) return &product;
    if (!product.used) {
      free = &product;
      break;
    }
  }
  forget(*free);
  free->shape = shape;
  if (!describe(*free, stream) || !describe_pointers(*free, pointers, stream) || !choose(*free, stream)) {
    forget(*free);
    return nullptr;
  }
  free->used = true;
  return free;
}

LibraryProduct CublasLt::call_of(const Product& product, const Matmul& args, const Operands& o) const {
  return {handle_,
          product.desc,
          product.b,
          product.a,
          product.c,
          o.b,
          o.a,
          args.c,
          args.accumulate ? 1.0f : 0.0f,
          o.library_workspace,
          o.library_bytes};
}

bool CublasLt::offers(const Matmul& args, CudaStream& stream) {
  if (preference_ == nullptr || !offered(args, choice_)) return false;
  const MatmulWorkspace w = matmul_workspace(args);
  const Product* const product = product_of(shape_of(args, w), {bias_place(args, w), args.aux}, stream);
  return product != nullptr && product->supported;
}

bool CublasLt::multiply(const Matmul& args, CudaStream& stream, Fp8Scales scales) {
  if (preference_ == nullptr || !offered(args, choice_)) return false;
  const MatmulWorkspace w = matmul_workspace(args);
  const Pointers pointers = {bias_place(args, w), args.aux, scales};
  Product* product = product_of(shape_of(args, w), pointers, stream);
  if (product == nullptr) return true;  // the error is stored
  if (!product->supported) return false;
  const Operands o = operands_of(args, w, stream);
  if (!describe_pointers(*product, pointers, stream)) return true;
  const LibraryProduct call = call_of(*product, args, o);
  succeeded(call.run(api_, product->choice.algorithm, stream.handle), "cublasLtMatmul", stream);
  return true;
}

namespace {

/// Number of elements from the first of the first row to the last of the last row.
int64_t extent(int64_t rows, int64_t columns, int64_t ld) { return (rows - 1) * ld + columns; }

/// Pairs of codes get the bytes of a bf16 number.
void fill_operands(const ProductShape& s, const Operands& o, CudaStream& stream) {
  const DType type = s.type == cublaslt::kReal32F ? DType::kF32 : DType::kBf16;
  const int64_t in_element = is_code(s.type) ? 2 : 1;
  const bool at = s.a_transposed != 0, bt = s.b_transposed != 0;
  const auto fill = [&](const void* to, int64_t numbers) {
    fill_random(const_cast<void*>(to), type, numbers / in_element, stream);
  };
  fill(o.a, extent(at ? s.k : s.m, at ? s.m : s.k, s.lda));
  fill(o.b, extent(bt ? s.n : s.k, bt ? s.k : s.n, s.ldb));
}

}  // namespace

bool CublasLt::prepare(const Matmul& args, CudaStream& stream, Fp8Scales scales) {
  if (preference_ == nullptr || !offered(args, choice_)) return false;
  if (stream.error->code != 0) return true;
  const MatmulWorkspace w = matmul_workspace(args);
  const Pointers pointers = {bias_place(args, w), args.aux, scales};
  Product* const product = product_of(shape_of(args, w), pointers, stream);
  if (product == nullptr || product->prepared) return true;
  if (!product->supported) return false;
  product->prepared = true;
  if (!product->known && choice_.cache != nullptr) {
    const Operands o = operands_of(args, w, stream);
    fill_operands(product->shape, o, stream);
    if (!describe_pointers(*product, pointers, stream)) return true;
    time_suggestions(*product, call_of(*product, args, o), stream);
  }
  prepared_.keep({numbers_of(product->shape), product->choice.algorithm, product->nanoseconds});
  return true;
}

}  // namespace hawser::kernels::cuda
