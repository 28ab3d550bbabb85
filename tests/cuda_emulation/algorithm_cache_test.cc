// Timed algorithms and the file that keeps them: what is fastest is taken and written, the next engine reads
// it and times nothing, and files that are damaged or not ours change nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "kernels/cuda/matmul_cublaslt.h"
#include "kernels/cuda/table.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_stream.h"
#include "tests/cuda_emulation/streams.h"
#include "tests/train/small_config.h"

namespace hawser::testing {
namespace {

using cuda_emulation::cublaslt_record;
using kernels::Matmul;
using kernels::cuda::AlgorithmCache;
using kernels::cuda::CublasLt;
using kernels::cuda::StickyError;

class AlgorithmCacheFile : public ::testing::Test {
 protected:
  void SetUp() override {
    cublaslt_record() = {};
    cublaslt_record().suggestions = 3;
    cublaslt_record().fastest = 1;
    cuda_emulation::set_eager(true);
    ASSERT_EQ(cudaStreamCreateWithPriority(&stream_.handle, cudaStreamNonBlocking, 0), cudaSuccess);
  }
  void TearDown() override {
    cudaStreamDestroy(stream_.handle);
    cuda_emulation::set_eager(false);
  }

  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }

  /// c = a b, m x 6 x 8, through a library of its own; returns which suggestion ran last.
  uint64_t multiply(int64_t m, bool times, const char* gpu = "GPU of tests", bool accumulate = false) {
    auto* const cache = new AlgorithmCache;
    EXPECT_TRUE(cache->open(path_.c_str(), {gpu, 130100, true}, times, stream_.sticky))
        << stream_.sticky.message;
    CublasLt library(cuda_emulation::emulated_cublaslt(), {.cache = cache, .times = times}, stream_.sticky);
    std::vector<float> a(static_cast<size_t>(m * 8), 2), b(48, 3), c(static_cast<size_t>(m * 6), 1);
    Matmul args;
    args.a = a.data(), args.b = b.data(), args.c = c.data();
    args.m = m, args.n = args.ldb = args.ldc = 6, args.k = args.lda = 8;
    args.accumulate = accumulate;
    std::vector<char> workspace(static_cast<size_t>(kernels::cuda::matmul_workspace_bytes(args, 1)));
    args.workspace = workspace.data();
    EXPECT_TRUE(library.multiply(args, stream_));
    for (const float x : c) EXPECT_EQ(x, accumulate ? 49 : 48);
    EXPECT_EQ(stream_.sticky.code, 0) << stream_.sticky.message;
    return cublaslt_record().last_algorithm;
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("algorithms");
  cuda_emulation::EmulatedStream stream_;
};

TEST_F(AlgorithmCacheFile, KeepsTheFastestForTheNextEngine) {
  EXPECT_EQ(multiply(4, true), 1u);
  EXPECT_EQ(multiply(4, true, "GPU of tests", true), 1u);  // its result is added once, whatever was timed
  const std::string two_lines = text();
  EXPECT_EQ(std::count(two_lines.begin(), two_lines.end(), '\n'), 2);
  cublaslt_record().fastest = 2;
  const int64_t products = cublaslt_record().products;
  EXPECT_EQ(multiply(4, true), 1u);  // read, not timed
  EXPECT_EQ(cublaslt_record().products, products + 1);
  EXPECT_EQ(multiply(4, false), 1u);
  EXPECT_EQ(text(), two_lines);
}

TEST_F(AlgorithmCacheFile, LeavesTheFirstSuggestionToEnginesThatDoNotTime) {
  EXPECT_EQ(multiply(4, false), 0u);
  EXPECT_FALSE(std::ifstream(path_).good());
}

TEST_F(AlgorithmCacheFile, ServesManyGpus) {
  EXPECT_EQ(multiply(4, true), 1u);
  cublaslt_record().fastest = 2;
  EXPECT_EQ(multiply(4, true, "another GPU"), 2u);
  EXPECT_EQ(multiply(4, false, "another GPU"), 2u);
  EXPECT_EQ(multiply(4, false), 1u);
}

/// Lines whose products are written in another way.
TEST_F(AlgorithmCacheFile, ServesOtherVersionsOfItself) {
  EXPECT_EQ(multiply(4, true), 1u);
  std::string other = text();
  other.replace(0, std::strlen("hawser-cublaslt-2"), "hawser-cublaslt-1");
  std::ofstream(path_) << other;
  cublaslt_record().fastest = 2;
  EXPECT_EQ(multiply(4, true), 2u);
  EXPECT_EQ(text().substr(0, other.size()), other);
}

TEST_F(AlgorithmCacheFile, IsAskedAgainWhereTheLibraryNoLongerTakesIt) {
  EXPECT_EQ(multiply(4, true), 1u);
  cublaslt_record().known = false;
  cublaslt_record().fastest = 2;
  EXPECT_EQ(multiply(4, true), 2u);
}

TEST_F(AlgorithmCacheFile, IsRefusedWhereItIsDamaged) {
  multiply(4, true);
  const std::string sound = text();
  for (const std::string& damaged : {std::string("nonsense\n"), sound + sound.substr(0, sound.size() / 2),
                                     sound + sound.substr(0, 60) + "\n"}) {
    std::ofstream(path_) << damaged;
    AlgorithmCache cache;
    StickyError failure;
    EXPECT_FALSE(cache.open(path_.c_str(), {"GPU of tests", 130100, true}, true, failure)) << damaged;
    const std::string message = failure.message;
    for (const std::string& part :
         {std::string("/cuda/algorithm_cache"), path_, std::string("line"), std::string("remove the file")})
      EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST_F(AlgorithmCacheFile, MustBeWritableWhereItIsToBeAddedTo) {
  AlgorithmCache cache;
  StickyError failure;
  const std::string nowhere = folder_.file("no/such/folder");
  EXPECT_FALSE(cache.open(nowhere.c_str(), {"GPU of tests", 130100, true}, true, failure));
  EXPECT_NE(std::string(failure.message).find(nowhere), std::string::npos) << failure.message;
}

}  // namespace
}  // namespace hawser::testing
