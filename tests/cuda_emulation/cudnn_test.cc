// Our graphs through NVIDIA's frontend, down to cuDNN's backend calls (fake_cudnn.h): the tensors, layouts
// and masks that the library receives, the workspace that the frontend uses, the arguments of a run, and
// refusals.
#include <gtest/gtest.h>

#include <memory>
#include <tuple>

#include "kernels/cuda/cudnn/sdpa_cudnn.h"
#include "kernels/cuda/cudnn/tensor_uid.h"
#include "tests/cuda_emulation/fake_cudnn.h"

namespace hawser::testing {
namespace cudnn_test {

using cuda_emulation::fake_cudnn;
using cuda_emulation::FakeTensor;
using kernels::cuda::CudaStream;
using kernels::cuda::Sdpa;
using kernels::cuda::SdpaShape;
using kernels::cuda::SdpaTensors;
using kernels::cuda::StickyError;

using namespace kernels::cuda::cudnn;  // the ids of tensors

/// Fused q, k and v of 16 heads over 4, as the engine stores them.
SdpaShape shape_of(bool backward, int64_t documents = 0, int64_t window = 0) {
  SdpaShape s{.batch = 3, .seq = 1000, .heads = 16, .kv_heads = 4, .head_dim = 64};
  s.value_dim = 64;
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

/// Latent attention: keys of 192 elements, values and results of 128.
TEST_F(CudnnGraphs, TellOfValuesOfAnotherWidthThanKeys) {
  for (const int64_t documents : {0, 32}) {
    SdpaShape s = shape_of(true, documents);
    s.kv_heads = 16, s.head_dim = 192, s.value_dim = 128;
    s.q_stride = 16 * 192, s.kv_stride = 16 * 320, s.o_stride = 16 * 128;
    ASSERT_TRUE(open()->offers(s, kernels::cuda::sdpa_workspace(s).library_bytes));
    const int64_t rows = documents > 0 ? documents : 3;
    const auto ragged = [&](Uid by) { return documents > 0 ? by : Uid{0}; };
    for (const Uid id : {kQ, kDq})
      expect_layout(id, {rows, 16, 1000, 192}, {1000 * 3072, 192, 3072, 1}, ragged(kQBegin));
    expect_layout(kDk, {rows, 16, 1000, 192}, {1000 * 5120, 192, 5120, 1}, ragged(kKvBegin));
    expect_layout(kDv, {rows, 16, 1000, 128}, {1000 * 5120, 128, 5120, 1}, ragged(kKvBegin));
    for (const Uid id : {kO, kDout})
      expect_layout(id, {rows, 16, 1000, 128}, {1000 * 2048, 128, 2048, 1}, ragged(kOBegin));
  }
}

/// The plan must contain all of the workspace that the frontend uses, and some for cuDNN's plan.
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

/// A deterministic backward on Hopper needs [seq, seq] matrices, and there is room only for those of some
/// heads: the parts are side by side, and one plan runs all of them.
TEST_F(CudnnGraphs, RunInPartsThatFitTheWorkspace) {
  StickyError error;
  CudaStream stream(nullptr, 1, &error);
  SdpaShape s = shape_of(true);
  s.batch = 6;
  const int64_t room = kernels::cuda::sdpa_workspace(s).library_bytes;
  char* const base = nullptr;
  const auto at = [base](int64_t bytes) { return const_cast<char*>(base + 4096 + bytes); };
  for (const auto& [heads_at_once, rows, kv_heads] :
       {std::tuple{96, 6, 4}, {50, 3, 4}, {17, 1, 4}, {15, 1, 2}, {4, 1, 1}}) {
    fake_cudnn() = {};
    fake_cudnn().head_bytes = (room - (1 << 20)) / heads_at_once;  // the frontend needs some workspace itself
    SCOPED_TRACE(heads_at_once);
    const auto sdpa = open();
    ASSERT_TRUE(sdpa->offers(s, room));
    SdpaTensors t;
    t.q = t.k = t.v = t.dout = t.o = t.dq = t.dk = t.dv = at(0);
    t.stats = reinterpret_cast<float*>(at(0));
    t.workspace = at(0);
    sdpa->run(s, t, stream);
    EXPECT_EQ(error.code, 0) << error.message;
    expect_layout(kDk, {rows, kv_heads, 1000, 64}, {1000 * 1536, 64, 1536, 1}, 0);
    const auto& runs = fake_cudnn().all_given;
    ASSERT_EQ(static_cast<int64_t>(runs.size()), 6 / rows * (4 / kv_heads));
    size_t run = 0;
    for (int64_t b = 0; b < 6; b += rows) {
      for (int64_t kv = 0; kv < 4; kv += kv_heads, ++run) {
        const auto& given = runs[run];
        for (const auto id : {kQ, kDq}) EXPECT_EQ(given.at(id), at((b * 1000 * 1536 + kv * 4 * 64) * 2));
        for (const auto id : {kK, kV, kDk, kDv}) EXPECT_EQ(given.at(id), at((b * 1000 * 1536 + kv * 64) * 2));
        for (const auto id : {kO, kDout}) EXPECT_EQ(given.at(id), at((b * 1000 * 1024 + kv * 4 * 64) * 2));
        EXPECT_EQ(given.at(kStats), at((b * 16 + kv * 4) * 1000 * 4));
      }
    }
  }
  fake_cudnn() = {};
  fake_cudnn().most_rows = 2;  // larger graphs have no plan
  const auto sdpa = open();
  EXPECT_TRUE(sdpa->offers(s, room));
  EXPECT_EQ(fake_cudnn().tensors.at(kQ).dims[0], 1);
  fake_cudnn().head_bytes = room / 3;  // too little for one group of heads
  EXPECT_FALSE(open()->offers(s, room));
  fake_cudnn().head_bytes = room / 20;  // documents are not divided
  EXPECT_FALSE(open()->offers(shape_of(true, 8), room));
}

/// For the shapes of benchmarks, the plan has matrices for as many heads as fill a GPU, however long rows
/// are.
TEST_F(CudnnGraphs, HaveRoomForDeterministicBackwards) {
  for (const auto& [batch, seq, heads, kv_heads, head_dim] : {std::tuple{64, 1024, 12, 12, 64},
                                                              {16, 1024, 25, 25, 64},
                                                              {1, 8192, 32, 8, 128},
                                                              {1, 64, 12, 12, 64}}) {
    SdpaShape s{.batch = batch, .seq = seq, .heads = heads, .kv_heads = kv_heads, .head_dim = head_dim};
    s.value_dim = head_dim;
    s.q_stride = s.kv_stride = (heads + 2 * kv_heads) * head_dim, s.o_stride = heads * head_dim;
    s.backward = true;
    fake_cudnn() = {};
    fake_cudnn().plan_bytes = int64_t{1} << 20;
    fake_cudnn().head_bytes = int64_t{seq} * seq * 2 + int64_t{seq} * head_dim * 8;
    EXPECT_TRUE(open()->offers(s, kernels::cuda::sdpa_workspace(s).library_bytes)) << seq << " x " << heads;
    EXPECT_LE(kernels::cuda::sdpa_workspace(s).library_bytes, int64_t{700} << 20) << seq << " x " << heads;
  }
}

TEST_F(CudnnGraphs, AreLeftToOursWhereCudnnHasNoPlan) {
  fake_cudnn().has_plans = false;
  EXPECT_FALSE(open()->offers(shape_of(false), int64_t{1} << 40));
  fake_cudnn().has_plans = true;
  fake_cudnn().plan_bytes = int64_t{1} << 41;
  EXPECT_FALSE(open()->offers(shape_of(false), int64_t{1} << 40));
  fake_cudnn().plan_bytes = 0;
  fake_cudnn().devices_major = 8;  // such devices add ragged backwards in any order
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

}  // namespace cudnn_test
}  // namespace hawser::testing
