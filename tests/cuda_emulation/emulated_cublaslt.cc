// cuBLASLt by plain loops.
#include "tests/cuda_emulation/emulated_cublaslt.h"

#include <cstring>
#include <map>

#include "tests/cuda_emulation/streams.h"
#include "tests/harness/kernel_levels.h"

namespace hawser::cuda_emulation {
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

template <class T>
int destroy(void* object) {
  delete static_cast<T*>(object);
  --cublaslt_record().live_objects;
  return lt::kSuccess;
}

template <class T>
int make(void** out, T object) {
  *out = new T(std::move(object));
  ++cublaslt_record().live_objects;
  return lt::kSuccess;
}

const Layout& layout(void* p) { return *static_cast<Layout*>(p); }

double read(const void* p, int type, int64_t i) {
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

bool supported(const Attributes& desc, const Layout& a, const Layout& b, const Layout& c) {
  const bool bias = desc.get(lt::kEpilogue) == lt::kBiasEpilogue;
  return a.type == b.type && (a.type == lt::kReal16BF || c.type == lt::kReal32F) &&
         (!bias || static_cast<int>(desc.get(lt::kBiasDataType)) == c.type);
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
  ++record.choices;
  record.reduction_schemes =
      static_cast<uint32_t>(static_cast<Attributes*>(preference)->get(lt::kReductionSchemeMask));
  *found = 0;
  if (!supported(*static_cast<Attributes*>(desc), layout(a), layout(b), layout(c))) return lt::kNotSupported;
  for (; *found < requested && *found < record.suggestions; ++*found) {
    result[*found] = {};
    result[*found].algorithm.data[0] = kFirstAlgorithm + static_cast<uint64_t>(*found);
    result[*found].algorithm.data[7] = 0xfedcba9876543210;
  }
  return lt::kSuccess;
}

/// Element (i, j) of op(x): op is a transposition or none.
double element(const void* p, const Layout& x, bool transposed, int64_t i, int64_t j) {
  return transposed ? read(p, x.type, i * x.ld + j) : read(p, x.type, j * x.ld + i);
}

int multiply(void*, void* description, const void* alpha, const void* a, void* la, const void* b, void* lb,
             const void* beta, const void* c, void* lc, void* d, void*, const lt::Algorithm* algorithm,
             void* workspace, size_t workspace_bytes, void*) {
  CublasLtRecord& record = cublaslt_record();
  ++record.products;
  if (record.matmul_status != lt::kSuccess) return record.matmul_status;
  const Attributes& desc = *static_cast<Attributes*>(description);
  const bool a_transposed = desc.get(lt::kTransA) == lt::kTranspose,
             b_transposed = desc.get(lt::kTransB) == lt::kTranspose;
  const Layout &x = layout(la), &y = layout(lb), &z = layout(lc);
  const int64_t depth = a_transposed ? x.rows : x.columns;
  record.last_algorithm = algorithm->data[0] - kFirstAlgorithm;
  if (record.suggestions > 1 && record.last_algorithm != record.fastest) pass_seconds(1000);
  if (algorithm->data[7] != 0xfedcba9876543210 || c != d || x.ld < x.rows || y.ld < y.rows || z.ld < z.rows ||
      depth != (b_transposed ? y.columns : y.rows) || z.rows != (a_transposed ? x.columns : x.rows) ||
      z.columns != (b_transposed ? y.rows : y.columns)) {
    return kInvalidValue;
  }
  std::memset(workspace, 0xff, workspace_bytes);
  const auto* bias = reinterpret_cast<const void*>(desc.get(lt::kBiasPointer));
  const bool with_bias = desc.get(lt::kEpilogue) == lt::kBiasEpilogue;
  for (int64_t j = 0; j < z.columns; ++j) {
    for (int64_t i = 0; i < z.rows; ++i) {
      double sum = 0;
      for (int64_t p = 0; p < depth; ++p) {
        sum += element(a, x, a_transposed, i, p) * element(b, y, b_transposed, p, j);
      }
      sum *= *static_cast<const float*>(alpha);
      if (*static_cast<const float*>(beta) != 0) {
        sum += *static_cast<const float*>(beta) * read(c, z.type, j * z.ld + i);
      }
      if (with_bias) sum += read(bias, static_cast<int>(desc.get(lt::kBiasDataType)), i);
      write(d, z.type, j * z.ld + i, static_cast<float>(sum));
    }
  }
  return lt::kSuccess;
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
