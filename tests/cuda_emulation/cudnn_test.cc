// Our graphs through NVIDIA's frontend, down to cuDNN's backend calls (fake_cudnn.h): which tensors, layouts
// and masks the library is told of, what workspace the frontend takes, what a run is given, and what is
// refused.
#include <gtest/gtest.h>

#include <memory>

#include "kernels/cuda/cudnn/sdpa_cudnn.h"
#include "kernels/cuda/cudnn/tensor_uid.h"
#include "tests/cuda_emulation/fake_cudnn.h"

namespace hawser::testing {
namespace {

using cuda_emulation::fake_cudnn;
using cuda_emulation::FakeTensor;
using kernels::cuda::CudaStream;
using kernels::cuda::Sdpa;
using kernels::cuda::SdpaShape;
using kernels::cuda::SdpaTensors;
using kernels::cuda::StickyError;

using namespace kernels::cuda::cudnn;  // the numbers of tensors

/// Fused q, k and v of 16 heads over 4, as the engine stores them.
SdpaShape shape_of(bool backward, int64_t documents = 0, int64_t window = 0) {
  SdpaShape s{.batch = 3, .seq = 1000, .heads = 16, .kv_heads = 4, .head_dim = 64};
  s.q_stride = s.kv_stride = (16 + 2 * 4) * 64;
  s.o_stride = 16 * 64;
  s.documents = documents, s.window = window;
  s.scale = 0.125f;
  s.backward = backward;
  return s;
}

class CudnnGraphs : public ::testing::Test {
 protected:
  void SetUp() override { fake_cudnn() = {}; }

  std::unique_ptr<Sdpa> open(bool deterministic = true) {
    char why[256] = "";
    std::unique_ptr<Sdpa> sdpa(
        kernels::cuda::make_cudnn_sdpa(cuda_emulation::fake_cudnn_api(), deterministic, {why, sizeof why}));
    EXPECT_NE(sdpa, nullptr) << why;
    return sdpa;
  }
  static void expect_layout(int64_t id, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides,
                            int64_t ragged_by) {
    ASSERT_TRUE(fake_cudnn().tensors.contains(id)) << id;
    const FakeTensor& t = fake_cudnn().tensors.at(id);
    EXPECT_EQ(t.dims, dims) << id;
    EXPECT_EQ(t.strides, strides) << id;
    EXPECT_EQ(t.ragged_by, ragged_by) << id;
    EXPECT_FALSE(t.is_virtual) << id;
  }
};

TEST_F(CudnnGraphs, DescribeTensorsAsTheEngineStoresThem) {
  const SdpaShape s = shape_of(false);
  ASSERT_TRUE(open()->offers(s, kernels::cuda::sdpa_workspace(s).library_bytes));
  expect_layout(kQ, {3, 16, 1000, 64}, {1000 * 1536, 64, 1536, 1}, 0);
  expect_layout(kK, {3, 4, 64, 1000}, {1000 * 1536, 64, 1, 1536}, 0);  // the backend's own order of k
  expect_layout(kV, {3, 4, 1000, 64}, {1000 * 1536, 64, 1536, 1}, 0);
  expect_layout(kO, {3, 16, 1000, 64}, {1000 * 1024, 64, 1024, 1}, 0);
  expect_layout(kStats, {3, 16, 1000, 1}, {16 * 1000, 1000, 1, 1}, 0);
  EXPECT_EQ(fake_cudnn().tensors.at(kQ).type, CUDNN_DATA_BFLOAT16);
  EXPECT_EQ(fake_cudnn().tensors.at(kStats).type, CUDNN_DATA_FLOAT);
}

TEST_F(CudnnGraphs, TakeDocumentsAsRaggedTensors) {
  const SdpaShape s = shape_of(false, 32);
  ASSERT_TRUE(open()->offers(s, kernels::cuda::sdpa_workspace(s).library_bytes));
  expect_layout(kQ, {32, 16, 1000, 64}, {1000 * 1536, 64, 1536, 1}, kQBegin);
  expect_layout(kO, {32, 16, 1000, 64}, {1000 * 1024, 64, 1024, 1}, kOBegin);
  expect_layout(kStats, {32, 16, 1000, 1}, {16 * 1000, 1, 16, 1}, kStatsBegin);
  expect_layout(kQBegin, {33, 1, 1, 1}, {1, 1, 1, 1}, 0);
  expect_layout(kRows, {32, 1, 1, 1}, {1, 1, 1, 1}, 0);
  EXPECT_EQ(fake_cudnn().tensors.at(kQBegin).type, CUDNN_DATA_INT64);
  EXPECT_EQ(fake_cudnn().tensors.at(kRows).type, CUDNN_DATA_INT32);
}

/// All that the frontend takes of the workspace, and some for the plan, must be planned for.
TEST_F(CudnnGraphs, FitTheWorkspaceThatIsPlanned) {
  fake_cudnn().plan_bytes = int64_t{1} << 20;
  for (const bool backward : {false, true}) {
    for (const int64_t documents : {0, 4, 4096}) {
      for (const int64_t kv_heads : {16, 4, 1}) {
        SdpaShape s = shape_of(backward, documents);
        s.kv_heads = kv_heads;
        s.q_stride = s.kv_stride = (16 + 2 * kv_heads) * 64;
        EXPECT_TRUE(open()->offers(s, kernels::cuda::sdpa_workspace(s).library_bytes))
            << backward << " " << documents << " " << kv_heads;
      }
    }
  }
}

TEST_F(CudnnGraphs, RunOnWhatTheyAreGiven) {
  StickyError error;
  CudaStream stream(nullptr, 1, &error);
  for (const bool backward : {false, true}) {
    const SdpaShape s = shape_of(backward, 8, 100);
    const auto sdpa = open();
    ASSERT_TRUE(sdpa->offers(s, int64_t{1} << 40));
    char memory[16];
    SdpaTensors t;
    t.q = memory, t.k = memory + 1, t.v = memory + 2, t.o = memory + 3;
    t.stats = reinterpret_cast<float*>(memory + 4);
    t.dout = memory + 5, t.dq = memory + 6, t.dk = memory + 7, t.dv = memory + 8;
    t.documents.rows = reinterpret_cast<int32_t*>(memory + 9);
    t.documents.q = reinterpret_cast<int64_t*>(memory + 10);
    t.documents.kv = reinterpret_cast<int64_t*>(memory + 11);
    t.documents.o = reinterpret_cast<int64_t*>(memory + 12);
    t.documents.stats = reinterpret_cast<int64_t*>(memory + 13);
    t.workspace = memory + 14;
    sdpa->run(s, t, stream);
    EXPECT_EQ(error.code, 0) << error.message;
    for (int64_t id = kQ; id <= kStatsBegin; ++id) {
      if (!backward && id >= kDout && id <= kDv) continue;
      EXPECT_EQ(fake_cudnn().given[id], memory + (id - 1)) << id << (backward ? " backward" : " forward");
    }
  }
  EXPECT_EQ(fake_cudnn().runs, 2);
}

TEST_F(CudnnGraphs, AreLeftToOursWhereCudnnHasNoPlan) {
  fake_cudnn().has_plans = false;
  EXPECT_FALSE(open()->offers(shape_of(false), int64_t{1} << 40));
  fake_cudnn().has_plans = true;
  fake_cudnn().plan_bytes = int64_t{1} << 41;
  EXPECT_FALSE(open()->offers(shape_of(false), int64_t{1} << 40));
  fake_cudnn().plan_bytes = 0;
  fake_cudnn().devices_major = 8;  // there ragged backwards add in any order
  EXPECT_FALSE(open()->offers(shape_of(true, 8), int64_t{1} << 40));
  EXPECT_TRUE(open(false)->offers(shape_of(true, 8), int64_t{1} << 40));
}

TEST_F(CudnnGraphs, GiveEverythingBack) {
  {
    const auto sdpa = open();
    for (const bool backward : {false, true}) EXPECT_TRUE(sdpa->offers(shape_of(backward), int64_t{1} << 40));
    EXPECT_GT(fake_cudnn().descriptors, 0);
  }
  EXPECT_EQ(fake_cudnn().descriptors, 0);
}

}  // namespace
}  // namespace hawser::testing
