#include "kernels/cuda/matmul_fp8.h"

#include <stdio.h>

#include <type_traits>

#include "kernels/cuda/matmul_cublaslt.h"
#include "kernels/cuda/sizes/fp8_workspace.h"
#include "kernels/cuda/table.h"

namespace hawser::kernels::cuda {
namespace {

template <class Pointer>
Pointer advanced(Pointer p, int64_t elements, DType type) {
  using Char = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const char, char>;
  return p == nullptr ? nullptr : static_cast<Char*>(p) + elements * (type == DType::kF32 ? 4 : 2);
}

/// An operand as it is stored.
struct Stored {
  const void* x;
  DType type;
  int64_t rows, columns, ld;
};
Stored stored_a(const Matmul& m) {
  return {m.a, m.a_type, m.a_transposed ? m.k : m.m, m.a_transposed ? m.m : m.k, m.lda};
}
Stored stored_b(const Matmul& m) {
  return {m.b, m.b_type, m.b_transposed ? m.n : m.k, m.b_transposed ? m.k : m.n, m.ldb};
}

/// The products of the parts of a product's operands.
class PartProducts {
 public:
  explicit PartProducts(const Matmul& args)
      : args_(args), w_(fp8_workspace(args)), memory_(static_cast<char*>(args.workspace)) {}

  int32_t count() const {
    return args_.a_fp8.parts > args_.b_fp8.parts ? args_.a_fp8.parts : args_.b_fp8.parts;
  }
  /// True if the products are added in the workspace, because the result is too narrow.
  bool adds_apart() const { return adds_parts(args_) && args_.c_type != DType::kF32; }

  /// Returns part i of the product, with unrounded operands.
  Matmul part(int32_t i) const {
    Matmul m = args_;
    m.a_fp8 = m.b_fp8 = {};
    if (count() == 1) return m;
    const bool of_a = args_.a_fp8.parts > 1;
    const Fp8Factor& divided = of_a ? args_.a_fp8 : args_.b_fp8;
    const int64_t begin = divided.begin(i), size = divided.part[i].size;
    if (of_a) m.a = advanced(m.a, begin, m.a_type);
    if (args_.b_fp8.parts > 1) m.b = advanced(m.b, begin * m.ldb, m.b_type);
    if (adds_parts(args_)) {
      m.k = size;
      m.accumulate = m.accumulate || i > 0;
    } else if (of_a) {
      m.m = size, m.c = advanced(m.c, begin * m.ldc, m.c_type);
    } else {
      m.n = size, m.c = advanced(m.c, begin, m.c_type), m.bias = advanced(m.bias, begin, m.bias_type);
    }
    return m;
  }

  /// Returns part i as a product of codes, which it has in the workspace.
  Matmul of_codes(int32_t i) const {
    Matmul m = part(i);
    m.a = memory_ + w_.a_at() + at(i, args_.a_fp8, args_.a_transposed ? args_.k : args_.m);
    m.b = memory_ + w_.b_at() + at(i, args_.b_fp8, args_.b_transposed ? args_.k : args_.n);
    m.a_type = args_.a_fp8.type, m.b_type = args_.b_fp8.type;
    m.lda = m.ldb = m.k;
    m.a_transposed = false, m.b_transposed = true;
    if (adds_apart()) m.c = memory_ + w_.sums_at(), m.c_type = DType::kF32, m.ldc = m.n;
    m.workspace = memory_ + w_.product_at();
    return m;
  }
  Fp8Scales scales(int32_t i) const {
    return {scale(own(i, args_.a_fp8)), scale(Fp8Factor::kMost + own(i, args_.b_fp8))};
  }
  /// Encodes the operands of part i; an operand without parts belongs to the first.
  void encode(int32_t i, CudaStream& stream) const {
    const Matmul whole = part(i), codes = of_codes(i);
    if (i < args_.a_fp8.parts)
      encode(stored_a(whole), args_.a_fp8, i, codes.a, scales(i).a, whole.a_transposed, stream);
    if (i < args_.b_fp8.parts)
      encode(stored_b(whole), args_.b_fp8, i, codes.b, scales(i).b, !whole.b_transposed, stream);
  }
  void finish(CudaStream& stream) const {
    if (!adds_apart()) return;
    Convert c = {args_.c, memory_ + w_.sums_at(), args_.c_type, DType::kF32, args_.n};
    c.rows = args_.m, c.y_stride = args_.ldc, c.x_stride = args_.n;
    convert(c, stream);
  }

  /// Returns the product with operands that are bf16 numbers in the workspace.
  Matmul of_rounded() const {
    Matmul m = args_;
    m.a_fp8 = m.b_fp8 = {};
    m.a = memory_ + w_.a_at(), m.b = memory_ + w_.b_at();
    m.a_type = m.b_type = DType::kBf16;
    m.lda = stored_a(m).columns, m.ldb = stored_b(m).columns;
    m.workspace = memory_ + w_.product_at();
    return m;
  }
  void round(CudaStream& stream) const {
    const Matmul to = of_rounded();
    for (int32_t i = 0; i < args_.a_fp8.parts; ++i) {
      Stored s = stored_a(args_);
      const int64_t columns = s.columns, begin = args_.a_fp8.begin(i);
      s.x = advanced(s.x, begin, s.type);
      if (args_.a_fp8.parts > 1) s.columns = args_.a_fp8.part[i].size;
      round(s, args_.a_fp8, i, static_cast<const uint16_t*>(to.a) + begin, columns, stream);
    }
    for (int32_t i = 0; i < args_.b_fp8.parts; ++i) {
      Stored s = stored_b(args_);
      const int64_t begin = args_.b_fp8.begin(i);
      s.x = advanced(s.x, begin * s.ld, s.type);
      if (args_.b_fp8.parts > 1) s.rows = args_.b_fp8.part[i].size;
      round(s, args_.b_fp8, i, static_cast<const uint16_t*>(to.b) + begin * s.columns, s.columns, stream);
    }
  }

 private:
  static int32_t own(int32_t i, const Fp8Factor& f) { return f.parts > 1 ? i : 0; }
  /// The first byte of the codes of part i of an operand; `other`: its size in the dimension that is not
  /// divided.
  int64_t at(int32_t i, const Fp8Factor& f, int64_t other) const {
    return f.parts > 1 ? f.begin(i) * other : 0;
  }
  float* scale(int32_t i) const { return reinterpret_cast<float*>(memory_) + i; }
  void encode(const Stored& s, const Fp8Factor& f, int32_t i, const void* codes, const float* scale,
              bool transposed, CudaStream& stream) const {
    encode_fp8({static_cast<uint8_t*>(const_cast<void*>(codes)), const_cast<float*>(scale), s.x, s.type,
                f.type, s.rows, s.columns, s.ld, f.part[i].maximum, args_.fp8_margin, transposed},
               stream);
  }
  void round(const Stored& s, const Fp8Factor& f, int32_t i, const uint16_t* y, int64_t y_stride,
             CudaStream& stream) const {
    Fp8Round r{const_cast<uint16_t*>(y), s.x, s.type, f.type, s.rows, s.columns, y_stride, s.ld};
    r.maximum = f.part[i].maximum, r.margin = args_.fp8_margin;
    fp8_round(r, stream);
  }

  const Matmul& args_;
  const Fp8Workspace w_;
  char* const memory_;
};

}  // namespace

bool multiplies_codes(const Matmul& args, CudaStream& stream) {
  if (stream.cublaslt == nullptr || args.k <= 0) return false;
  const PartProducts products(args);
  for (int32_t i = 0; i < products.count(); ++i)
    if (!stream.cublaslt->offers(products.of_codes(i), stream)) return false;
  return true;
}

void matmul_fp8(const Matmul& args, CudaStream& stream) {
  const PartProducts products(args);
  if (!multiplies_codes(args, stream)) {
    products.round(stream);
    return matmul(products.of_rounded(), stream);
  }
  for (int32_t i = 0; i < products.count(); ++i) {
    products.encode(i, stream);
    stream.cublaslt->multiply(products.of_codes(i), stream, products.scales(i));
  }
  products.finish(stream);
}

void prepare_matmul_fp8(const Matmul& args, CudaStream& stream) {
  const PartProducts products(args);
  if (!multiplies_codes(args, stream)) {
    const ErrorText& without = stream.without;
    if (!stream.cublaslt->has_fp8() && without.bytes > 0 && without.text[0] == '\0')
      snprintf(without.text, without.bytes,
               "its tensor cores have no fp8 (compute capability 8.9 or higher), so products multiply the "
               "rounded numbers as bf16");
    return prepare_matmul(products.of_rounded(), stream);
  }
  for (int32_t i = 0; i < products.count(); ++i)
    stream.cublaslt->prepare(products.of_codes(i), stream, products.scales(i));
}

}  // namespace hawser::kernels::cuda
