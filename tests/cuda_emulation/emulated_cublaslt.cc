// Emulates cuBLASLt by plain loops.
#include "tests/cuda_emulation/emulated_cublaslt.h"

#include <cmath>
#include <cstring>
#include <map>

#include "kernels/cpu/fp8_reference.h"
#include "tests/cuda_emulation/streams.h"
#include "tests/harness/kernel_levels.h"

namespace hawser::cuda_emulation {

void* current();  // defined in memory.cc

namespace {

namespace lt = kernels::cuda::cublaslt;
using kernels::cuda::CublasLtApi;

constexpr int kInvalidValue = 7;

struct Layout {
  int type;
  int64_t rows, columns, ld;
};

/// Attributes by number, as bytes.
struct Attributes {
  std::map<int, uint64_t> values;

  int set(int attribute, const void* value, size_t bytes) {
    uint64_t bits = 0;
    if (bytes > sizeof(bits)) return kInvalidValue;
    std::memcpy(&bits, value, bytes);
    values[attribute] = bits;
    return lt::kSuccess;
  }
  uint64_t get(int attribute) const { return values.contains(attribute) ? values.at(attribute) : 0; }
};

/// The addition is atomic, because ranks are threads.
void count(int64_t& counter, int64_t by) { __atomic_fetch_add(&counter, by, __ATOMIC_RELAXED); }

/// Returns the index of the GPU whose context is current; a context is its GPU's number plus one.
size_t gpu() {
  const auto context = reinterpret_cast<uintptr_t>(current());
  return context == 0 ? 0 : (context - 1) % CublasLtRecord::kGpus;
}

template <class T>
int destroy(void* object) {
  delete static_cast<T*>(object);
  count(cublaslt_record().live_objects, -1);
  return lt::kSuccess;
}

template <class T>
int make(void** out, T object) {
  *out = new T(std::move(object));
  count(cublaslt_record().live_objects, 1);
  return lt::kSuccess;
}

const Layout& layout(void* p) { return *static_cast<Layout*>(p); }

bool is_code(int type) { return type == lt::kRealE4M3 || type == lt::kRealE5M2; }

double read(const void* p, int type, int64_t i) {
  if (is_code(type))
    return kernels::fp8_number(type == lt::kRealE4M3 ? kernels::kE4m3 : kernels::kE5m2,
                               static_cast<const uint8_t*>(p)[i]);
  if (type == lt::kReal32F) return static_cast<const float*>(p)[i];
  return testing::from_bf16(static_cast<const uint16_t*>(p)[i]);
}

void write(void* p, int type, int64_t i, float x) {
  if (type == lt::kReal32F) {
    static_cast<float*>(p)[i] = x;
  } else {
    static_cast<uint16_t*>(p)[i] = testing::to_bf16(x);
  }
}

struct Epilogue {
  bool adds_bias = false, gelu = false, gelu_gradient = false, bias_gradient = false;
};

Epilogue epilogue_of(const Attributes& desc) {
  switch (desc.get(lt::kEpilogue)) {
    case lt::kBiasEpilogue:
      return {.adds_bias = true};
    case lt::kGeluAuxEpilogue:
      return {.gelu = true};
    case lt::kGeluAuxBiasEpilogue:
      return {.adds_bias = true, .gelu = true};
    case lt::kGeluGradientEpilogue:
      return {.gelu_gradient = true};
    case lt::kBiasGradientBEpilogue:
      return {.bias_gradient = true};
    default:
      return {};
  }
}

/// Products of codes, by NVIDIA's documentation of cublasLtMatmul and its table of types: the first operand
/// is transposed, the second is not, 16 divides all sizes and strides in bytes, not both are E5M2, a bias is
/// bf16 (the type of a bf16 result), and there is no epilogue with GELU here.
bool supports_codes(const Attributes& desc, const Layout& a, const Layout& b, const Layout& c) {
  const Epilogue e = epilogue_of(desc);
  const auto fits = [](const Layout& x) {
    return x.rows % 16 == 0 && x.columns % 16 == 0 &&
           x.ld *
                   (is_code(x.type)          ? 1
                    : x.type == lt::kReal32F ? 4
                                             : 2) %
                   16 ==
               0;
  };
  return cublaslt_record().fp8 && is_code(a.type) && is_code(b.type) &&
         !(a.type == lt::kRealE5M2 && b.type == lt::kRealE5M2) && desc.get(lt::kTransA) == lt::kTranspose &&
         desc.get(lt::kTransB) == 0 && fits(a) && fits(b) && fits(c) && !e.gelu && !e.gelu_gradient &&
         !e.bias_gradient &&
         (!e.adds_bias || (c.type == lt::kReal16BF && desc.get(lt::kBiasPointer) != 0 &&
                           static_cast<int>(desc.get(lt::kBiasDataType)) == lt::kReal16BF));
}

/// The argument of GELU must have the type of the result, columns with a stride that is a multiple of 8, and
/// at least the alignment of complete accesses.
bool supported(const Attributes& desc, const Layout& a, const Layout& b, const Layout& c) {
  if (is_code(a.type) || is_code(b.type)) return supports_codes(desc, a, b, c);
  const Epilogue e = epilogue_of(desc);
  const bool bias = e.adds_bias || e.bias_gradient, aux = e.gelu || e.gelu_gradient;
  const auto ld = static_cast<int64_t>(desc.get(lt::kAuxLd));
  return a.type == b.type && (a.type == lt::kReal16BF || c.type == lt::kReal32F) &&
         (!bias ||
          (desc.get(lt::kBiasPointer) != 0 && static_cast<int>(desc.get(lt::kBiasDataType)) == c.type)) &&
         (!aux || (desc.get(lt::kAuxPointer) % 16 == 0 && desc.get(lt::kAuxPointer) != 0 && ld % 8 == 0 &&
                   ld >= c.rows)) &&
         (cublaslt_record().epilogues || !(aux || e.bias_gradient));
}

constexpr uint64_t kFirstAlgorithm = 4711;

int check(void*, void*, void*, void*, void*, void*, const lt::Algorithm* algorithm,
          lt::HeuristicResult* result) {
  *result = {};
  result->state = cublaslt_record().known ? lt::kSuccess : lt::kNotSupported;
  result->algorithm = *algorithm;
  return result->state;
}

int choose(void*, void* desc, void* a, void* b, void* c, void*, void* preference, int requested,
           lt::HeuristicResult* result, int* found) {
  CublasLtRecord& record = cublaslt_record();
  count(record.choices, 1);
  record.reduction_schemes =
      static_cast<uint32_t>(static_cast<Attributes*>(preference)->get(lt::kReductionSchemeMask));
  record.result_alignment =
      static_cast<uint32_t>(static_cast<Attributes*>(preference)->get(lt::kMinAlignmentD));
  *found = 0;
  if (!supported(*static_cast<Attributes*>(desc), layout(a), layout(b), layout(c))) return lt::kNotSupported;
  for (; *found < requested && *found < record.suggestions; ++*found) {
    result[*found] = {};
    result[*found].algorithm.data[0] = kFirstAlgorithm + static_cast<uint64_t>(*found);
    result[*found].algorithm.data[7] = 0xfedcba9876543210;
  }
  return lt::kSuccess;
}

/// Returns element (i, j) of op(x), where op is the identity or a transposition.
double element(const void* p, const Layout& x, bool transposed, int64_t i, int64_t j) {
  return transposed ? read(p, x.type, i * x.ld + j) : read(p, x.type, j * x.ld + i);
}

double gelu(double x, double* slope) {
  constexpr double kSqrt2OverPi = 0.79788456080286535588, kCubic = 0.044715;
  const double t = std::tanh(kSqrt2OverPi * (x + kCubic * x * x * x));
  *slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kSqrt2OverPi * (1 + 3 * kCubic * x * x);
  return 0.5 * x * (1 + t);
}

/// All arguments of a product, so that it can run later.
struct Product {
  Attributes desc;
  Layout x, y, z;
  const void *a, *b;
  void* d;
  double alpha, beta;
  void* workspace;
  size_t workspace_bytes;

  bool a_transposed = desc.get(lt::kTransA) == lt::kTranspose;
  bool b_transposed = desc.get(lt::kTransB) == lt::kTranspose;

  int64_t depth() const { return a_transposed ? x.rows : x.columns; }
  bool fits() const {
    return x.ld >= x.rows && y.ld >= y.rows && z.ld >= z.rows &&
           depth() == (b_transposed ? y.columns : y.rows) && z.rows == (a_transposed ? x.columns : x.rows) &&
           z.columns == (b_transposed ? y.rows : y.columns);
  }
  double product(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t p = 0; p < depth(); ++p)
      sum += element(a, x, a_transposed, i, p) * element(b, y, b_transposed, p, j);
    return alpha * scale(x.type, lt::kScalePointerA) * scale(y.type, lt::kScalePointerB) * sum;
  }
  /// Returns the scale of an operand; it is read when the product runs.
  double scale(int type, int attribute) const {
    const auto* const at = reinterpret_cast<const float*>(desc.get(attribute));
    return is_code(type) && at != nullptr ? static_cast<double>(*at) : 1.0;
  }
  void run() const;
};

void Product::run() const {
  std::memset(workspace, 0xff, workspace_bytes);
  const Epilogue e = epilogue_of(desc);
  auto* const bias = reinterpret_cast<void*>(desc.get(lt::kBiasPointer));
  auto* const aux = reinterpret_cast<void*>(desc.get(lt::kAuxPointer));
  const int bias_type = static_cast<int>(desc.get(lt::kBiasDataType));
  const auto ld_aux = static_cast<int64_t>(desc.get(lt::kAuxLd));
  for (int64_t j = 0; j < z.columns; ++j) {
    for (int64_t i = 0; i < z.rows; ++i) {
      double sum = product(i, j), slope = 0;
      if (beta != 0) sum += beta * read(d, z.type, j * z.ld + i);
      if (e.adds_bias) sum += read(bias, bias_type, i);
      if (e.gelu) write(aux, z.type, j * ld_aux + i, static_cast<float>(sum));
      if (e.gelu) sum = gelu(sum, &slope);
      if (e.gelu_gradient) {
        gelu(read(aux, z.type, j * ld_aux + i), &slope);
        sum *= slope;
      }
      write(d, z.type, j * z.ld + i, static_cast<float>(sum));
    }
    double column = 0;
    for (int64_t p = 0; p < depth() && e.bias_gradient; ++p) column += element(b, y, b_transposed, p, j);
    if (e.bias_gradient) write(bias, bias_type, j, static_cast<float>(column));
  }
}

int multiply(void*, void* description, const void* alpha, const void* a, void* la, const void* b, void* lb,
             const void* beta, const void* c, void* lc, void* d, void*, const lt::Algorithm* algorithm,
             void* workspace, size_t workspace_bytes, void* stream) {
  CublasLtRecord& record = cublaslt_record();
  count(record.products, 1);
  if (record.matmul_status != lt::kSuccess) return record.matmul_status;
  const Product product = {*static_cast<Attributes*>(description),
                           layout(la),
                           layout(lb),
                           layout(lc),
                           a,
                           b,
                           d,
                           *static_cast<const float*>(alpha),
                           *static_cast<const float*>(beta),
                           workspace,
                           workspace_bytes};
  const Epilogue e = epilogue_of(product.desc);
  const bool codes = is_code(product.x.type);
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  if (codes && !(aligned(a) && aligned(b) && aligned(d) && product.desc.get(lt::kScalePointerA) != 0 &&
                 product.desc.get(lt::kScalePointerB) != 0))
    return kInvalidValue;
  count(record.codes, codes ? 1 : 0);
  count(record.gelu, e.gelu ? 1 : 0);
  count(record.gelu_gradients, e.gelu_gradient ? 1 : 0);
  count(record.bias_gradients, e.bias_gradient ? 1 : 0);
  if (algorithm->data[7] != 0xfedcba9876543210 || c != d || !product.fits() ||
      !supported(product.desc, product.x, product.y, product.z)) {
    return kInvalidValue;
  }
  const uint64_t number = algorithm->data[0] - kFirstAlgorithm;
  const size_t on = gpu();
  record.last_algorithm[on] = number;
  record.algorithms[on] |= uint64_t{1} << number;
  const bool slow = record.suggestions > 1 && number != record.fastest[on];
  const auto run = [product, slow] {
    product.run();
    if (slow) pass_seconds(1000);
    return cudaSuccess;
  };
  return give(static_cast<cudaStream_t>(stream), run) == cudaSuccess ? lt::kSuccess : kInvalidValue;
}

}  // namespace

CublasLtRecord& cublaslt_record() {
  static CublasLtRecord record;
  return record;
}

const CublasLtApi& emulated_cublaslt() {
  static constexpr CublasLtApi kApi = {
      .Create = [](void** handle) { return make(handle, Attributes{}); },
      .Destroy = destroy<Attributes>,
      .GetVersion = [] { return size_t{130100}; },
      .GetStatusName =
          [](int status) { return status == 14 ? "CUBLAS_STATUS_INTERNAL_ERROR" : "another status"; },
      .MatmulDescCreate = [](void** desc, int, int) { return make(desc, Attributes{}); },
      .MatmulDescDestroy = destroy<Attributes>,
      .MatmulDescSetAttribute =
          [](void* desc, int attribute, const void* value, size_t bytes) {
            return static_cast<Attributes*>(desc)->set(attribute, value, bytes);
          },
      .MatrixLayoutCreate =
          [](void** out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
            return make(out, Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld});
          },
      .MatrixLayoutDestroy = destroy<Layout>,
      .MatmulPreferenceCreate = [](void** preference) { return make(preference, Attributes{}); },
      .MatmulPreferenceDestroy = destroy<Attributes>,
      .MatmulPreferenceSetAttribute =
          [](void* preference, int attribute, const void* value, size_t bytes) {
            return static_cast<Attributes*>(preference)->set(attribute, value, bytes);
          },
      .MatmulAlgoGetHeuristic = choose,
      .MatmulAlgoCheck = check,
      .Matmul = multiply,
  };
  return kApi;
}

}  // namespace hawser::cuda_emulation
