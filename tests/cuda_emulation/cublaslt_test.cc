// Products through an emulated cuBLASLt: all rows of the op-case table, the requests to the library, and the
// handling of its errors.
#include <gtest/gtest.h>

#include <memory>

#include "kernels/cuda/matmul_cublaslt.h"
#include "kernels/cuda/table.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_stream.h"
#include "tests/harness/run_op_case.h"

namespace hawser::testing {
namespace cublaslt_test {

using cuda_emulation::cublaslt_record;
using cuda_emulation::EmulatedStream;
using kernels::Matmul;
using kernels::cuda::AlgorithmCache;
using kernels::cuda::AlgorithmChoice;
using kernels::cuda::CublasLt;

/// A stream with the library.
struct LibraryStream : EmulatedStream {
  explicit LibraryStream(AlgorithmChoice choice = {})
      : library(std::make_unique<CublasLt>(cuda_emulation::emulated_cublaslt(), choice, sticky)) {
    cublaslt = library.get();
  }
  std::unique_ptr<CublasLt> library;
};

class CublasLtProducts : public ::testing::Test {
 protected:
  void SetUp() override { cublaslt_record() = {}; }
  void TearDown() override { EXPECT_EQ(cublaslt_record().live_objects, 0); }
};

bool is_fp8(const OpCase& c) { return c.name.starts_with("fp8/"); }

/// Runs the rows of products, or only those with epilogues, which CPUs do not have.
void expect_reference(LibraryStream& stream, bool only_epilogues, int64_t* by_library,
                      int64_t* by_our_kernel) {
  *by_library = *by_our_kernel = 0;
  for (const OpCase* c : cases_of("matmul", true)) {
    if ((only_epilogues && !c->narrow) || is_fp8(*c)) continue;
    SCOPED_TRACE(c->name);
    const int64_t products = cublaslt_record().products;
    expect_close(*c, run_fast(*c, kernels::cuda::cuda_kernels(), stream), run_reference(*c));
    ++*(cublaslt_record().products > products ? by_library : by_our_kernel);
  }
  EXPECT_EQ(stream.sticky.code, 0) << stream.sticky.message;
}

TEST_F(CublasLtProducts, AgreeWithTheReference) {
  LibraryStream stream;
  int64_t by_library = 0, by_our_kernel = 0;
  expect_reference(stream, false, &by_library, &by_our_kernel);
  EXPECT_GT(by_library, 250);
  EXPECT_GT(by_our_kernel, 0);           // f32 to bf16, and k = 0
  EXPECT_EQ(cublaslt_record().gelu, 8);  // two shapes in bf16 have rows of a multiple of 8
  EXPECT_EQ(cublaslt_record().gelu_gradients, 4);
  EXPECT_EQ(cublaslt_record().bias_gradients, 32);
}

/// Without such epilogues, the library multiplies and our kernels compute the rest.
TEST_F(CublasLtProducts, AgreeWithTheReferenceWhereItHasNoSuchEpilogue) {
  cublaslt_record().epilogues = false;
  LibraryStream stream;
  int64_t by_library = 0, by_our_kernel = 0;
  expect_reference(stream, true, &by_library, &by_our_kernel);
  EXPECT_EQ(by_library, 68);
  EXPECT_EQ(cublaslt_record().gelu + cublaslt_record().gelu_gradients + cublaslt_record().bias_gradients, 0);
}

TEST_F(CublasLtProducts, TakeNoGeluAlongWhereThatIsSlower) {
  LibraryStream stream({.gelu = false});
  int64_t by_library = 0, by_our_kernel = 0;
  expect_reference(stream, true, &by_library, &by_our_kernel);
  EXPECT_EQ(cublaslt_record().gelu + cublaslt_record().gelu_gradients, 0);
  EXPECT_EQ(cublaslt_record().bias_gradients, 32);
}

/// Each part is a product of codes; those of other sizes, and those that add a bias in f32, are products of
/// bf16.
TEST_F(CublasLtProducts, MultiplyCodesOfFp8) {
  for (const bool fp8 : {true, false}) {
    cublaslt_record() = {};
    LibraryStream stream({.fp8 = fp8});
    int64_t cases = 0;
    for (const OpCase* c : cases_of("matmul", true)) {
      if (!is_fp8(*c)) continue;
      SCOPED_TRACE(c->name);
      expect_close(*c, run_fast(*c, kernels::cuda::cuda_kernels(), stream), run_reference(*c));
      ++cases;
    }
    EXPECT_EQ(cases, 15);
    EXPECT_EQ(cublaslt_record().codes, fp8 ? 18 : 0);
    EXPECT_EQ(stream.sticky.code, 0) << stream.sticky.message;
  }
}

/// A library that multiplies exactly gives the bits of a product of bf16 numbers.
TEST_F(CublasLtProducts, MultiplyTheNumbersOfTheirCodes) {
  LibraryStream codes, rounded({.fp8 = false});
  for (const OpCase* c : cases_of("matmul", true)) {
    if (!is_fp8(*c) || c->name.find("gelu") != c->name.npos || c->name.find("dx") != c->name.npos) continue;
    EXPECT_EQ(run_fast(*c, kernels::cuda::cuda_kernels(), codes)[4],
              run_fast(*c, kernels::cuda::cuda_kernels(), rounded)[4])
        << c->name;
  }
  EXPECT_GT(cublaslt_record().codes, 0);
}

/// A product of 4 x 6 x 8, f32.
struct Small {
  std::vector<float> a = std::vector<float>(32, 2), b = std::vector<float>(48, 3),
                     c = std::vector<float>(24, 1);
  std::vector<char> workspace;
  Matmul args() {
    Matmul m;
    m.c = c.data();
    m.a = a.data();
    m.b = b.data();
    m.m = 4;
    m.n = m.ldb = m.ldc = 6;
    m.k = m.lda = 8;
    workspace.resize(static_cast<size_t>(kernels::cuda::matmul_workspace_bytes(m, 1)));
    m.workspace = workspace.data();
    return m;
  }
};

TEST_F(CublasLtProducts, KeepTheAlgorithmOfAShape) {
  Small small;
  LibraryStream stream;
  const Matmul m = small.args();
  kernels::cuda::matmul(m, stream);
  const int64_t objects = cublaslt_record().live_objects;
  kernels::cuda::matmul(m, stream);
  EXPECT_EQ(cublaslt_record().products, 2);
  EXPECT_EQ(cublaslt_record().choices, 1);
  EXPECT_EQ(cublaslt_record().live_objects, objects);
  EXPECT_EQ(small.c[5], 48);
}

TEST_F(CublasLtProducts, ChooseAnotherAlgorithmForAnotherEpilogue) {
  Small small;
  LibraryStream stream;
  Matmul m = small.args();
  m.a_transposed = true, m.lda = 4;
  kernels::cuda::matmul(m, stream);
  alignas(16) float sums[4] = {};
  m.bias_gradient = sums;
  small.workspace.resize(static_cast<size_t>(kernels::cuda::matmul_workspace_bytes(m, 1)));
  m.workspace = small.workspace.data();
  kernels::cuda::matmul(m, stream);
  EXPECT_EQ(cublaslt_record().choices, 2);
  EXPECT_EQ(cublaslt_record().bias_gradients, 1);
  EXPECT_EQ(sums[3], 16);
  m.bias_gradient = sums + 1;  // a wide store cannot reach it, so our kernel computes it
  m.m = 3;
  kernels::cuda::matmul(m, stream);
  EXPECT_EQ(cublaslt_record().bias_gradients, 1);
  EXPECT_EQ(sums[3], 16);
}

TEST_F(CublasLtProducts, RoundOperandsToBf16) {
  Small small;
  for (float& x : small.a) x = 1.001953125f;  // rounds to one
  LibraryStream stream;
  Matmul m = small.args();
  m.round_to = DType::kBf16;
  small.workspace.resize(static_cast<size_t>(kernels::cuda::matmul_workspace_bytes(m, 1)));
  m.workspace = small.workspace.data();
  kernels::cuda::matmul(m, stream);
  EXPECT_EQ(cublaslt_record().products, 1);
  for (const float c : small.c) EXPECT_EQ(c, 24);
  EXPECT_EQ(small.a[0], 1.001953125f);
}

TEST_F(CublasLtProducts, AddInOrderWhereDeterministic) {
  Small small;
  const Matmul m = small.args();
  LibraryStream exact;
  kernels::cuda::matmul(m, exact);
  EXPECT_EQ(cublaslt_record().reduction_schemes, 2u);  // neither 1 (in place) nor 4 (in bf16)
  LibraryStream free({.deterministic = false});
  kernels::cuda::matmul(m, free);
  EXPECT_EQ(cublaslt_record().reduction_schemes, 3u);
}

/// The library reads a bias while it writes the result.
TEST_F(CublasLtProducts, SayHowTheBiasIsAligned) {
  Small small;
  LibraryStream stream;
  alignas(16) const float bias[16] = {};
  Matmul m = small.args();
  alignas(16) float c[24];
  m.c = c;
  for (const auto& [from, alignment] : {std::pair{0, 16u}, {2, 8u}, {3, 4u}}) {
    m.bias = bias + from;
    kernels::cuda::matmul(m, stream);
    EXPECT_EQ(cublaslt_record().result_alignment, alignment);
  }
  EXPECT_EQ(stream.sticky.code, 0) << stream.sticky.message;
}

TEST_F(CublasLtProducts, FailWithTheStatusOfTheLibrary) {
  Small small;
  LibraryStream stream;
  cublaslt_record().matmul_status = 14;
  kernels::cuda::matmul(small.args(), stream);
  EXPECT_NE(stream.sticky.code, 0);
  EXPECT_STREQ(stream.sticky.message, "matmul: cublasLtMatmul: CUBLAS_STATUS_INTERNAL_ERROR");
}

TEST_F(CublasLtProducts, ForgetShapesThatNoLongerFit) {
  LibraryStream stream;
  std::vector<float> memory(4096);
  std::vector<char> workspace(1 << 20);
  for (int64_t n = 1; n <= 3000; ++n) {  // more than are kept
    Matmul m;
    m.m = m.k = m.lda = 1;
    m.n = m.ldb = m.ldc = n;
    std::vector<float> c(static_cast<size_t>(n));
    m.a = m.b = memory.data();
    m.c = c.data();
    m.workspace = workspace.data();
    kernels::cuda::matmul(m, stream);
  }
  EXPECT_EQ(stream.sticky.code, 0) << stream.sticky.message;
  EXPECT_EQ(cublaslt_record().products, 3000);
  EXPECT_LE(cublaslt_record().live_objects, 1024 * 4 + 2);
}

TEST(CublasLtLibrary, NamesWhatIsMissing) {
  char error[256] = {};
  if (kernels::cuda::open_cublaslt(error, sizeof(error)) != nullptr)
    GTEST_SKIP() << "this machine has cuBLASLt";
  EXPECT_NE(std::string(error).find("libcublasLt.so.13"), std::string::npos) << error;
}

}  // namespace cublaslt_test
}  // namespace hawser::testing
