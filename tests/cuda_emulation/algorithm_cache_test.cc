// Timed algorithms and the file that keeps them: the fastest is used and written, the next engine reads it
// and times nothing, damaged or foreign files change nothing, and a full disk is reported.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "kernels/cuda/matmul_cublaslt.h"
#include "kernels/cuda/table.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_stream.h"
#include "tests/cuda_emulation/streams.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace algorithm_cache_test {

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
    cublaslt_record().fastest[0] = 1;
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

  /// A product c = a b of m x 6 x 8.
  struct Product {
    std::vector<float> a, b, c;
    std::vector<char> workspace;
    Matmul args;
    Product(int64_t m, bool accumulate)
        : a(static_cast<size_t>(m * 8), 2), b(48, 3), c(static_cast<size_t>(m * 6), 1) {
      args.a = a.data(), args.b = b.data(), args.c = c.data();
      args.m = m, args.n = args.ldb = args.ldc = 6, args.k = args.lda = 8;
      args.accumulate = accumulate;
      workspace.resize(static_cast<size_t>(kernels::cuda::matmul_workspace_bytes(args, 1)));
      args.workspace = workspace.data();
    }
  };

  std::unique_ptr<CublasLt> open(const char* gpu = "GPU of tests") {
    auto* const cache = new AlgorithmCache;
    EXPECT_TRUE(cache->open(path_.c_str(), {gpu, 130100, true}, stream_.sticky)) << stream_.sticky.message;
    const kernels::cuda::AlgorithmChoice choice = {.cache = cache};
    return std::make_unique<CublasLt>(cuda_emulation::emulated_cublaslt(), choice, stream_.sticky);
  }

  /// Prepares and multiplies with a separate library object; returns the number of the suggestion that it
  /// used.
  uint64_t multiply(int64_t m, const char* gpu = "GPU of tests", bool accumulate = false) {
    const auto library = open(gpu);
    Product timed(m, accumulate), product(m, accumulate);
    library->prepare(timed.args, stream_);
    EXPECT_TRUE(library->multiply(product.args, stream_));
    for (const float x : product.c) EXPECT_EQ(x, accumulate ? 49 : 48);
    EXPECT_EQ(stream_.sticky.code, 0) << stream_.sticky.message;
    return cublaslt_record().last_algorithm[0];
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("algorithms");
  cuda_emulation::EmulatedStream stream_;
};

TEST_F(AlgorithmCacheFile, KeepsTheFastestForTheNextEngine) {
  EXPECT_EQ(multiply(4), 1u);
  EXPECT_EQ(multiply(4, "GPU of tests", true), 1u);
  const std::string two_lines = text();
  EXPECT_EQ(std::count(two_lines.begin(), two_lines.end(), '\n'), 2);
  cublaslt_record().fastest[0] = 2;
  const int64_t products = cublaslt_record().products;
  EXPECT_EQ(multiply(4), 1u);  // read, not timed
  EXPECT_EQ(cublaslt_record().products, products + 1);
  EXPECT_EQ(text(), two_lines);
}

TEST_F(AlgorithmCacheFile, GrowsByWhatIsPreparedOnly) {
  Product product(4, false);
  EXPECT_TRUE(open()->multiply(product.args, stream_));
  EXPECT_EQ(cublaslt_record().last_algorithm[0], 0u);
  EXPECT_FALSE(std::ifstream(path_).good());
}

TEST_F(AlgorithmCacheFile, IsTimedOnRandomOperandsOnce) {
  Product product(4, false);
  const auto library = open();
  library->prepare(product.args, stream_);
  const int64_t products = cublaslt_record().products;
  const std::vector<float> once = product.a;
  for (const std::vector<float>& operand : {product.a, product.b}) {
    for (const float x : operand) EXPECT_TRUE(x >= -1 && x < 1 && x != 0) << x;
  }
  library->prepare(product.args, stream_);
  EXPECT_EQ(cublaslt_record().products, products);
  EXPECT_EQ(product.a, once);
  ASSERT_EQ(library->prepared().end() - library->prepared().begin(), 1);
  EXPECT_LT(library->prepared().begin()->nanoseconds, 1'000'000'000);
}

TEST_F(AlgorithmCacheFile, ServesManyGpus) {
  EXPECT_EQ(multiply(4), 1u);
  cublaslt_record().fastest[0] = 2;
  EXPECT_EQ(multiply(4, "another GPU"), 2u);
  EXPECT_EQ(multiply(4), 1u);
}

/// These lines have products in another format.
TEST_F(AlgorithmCacheFile, ServesOtherVersionsOfItself) {
  EXPECT_EQ(multiply(4), 1u);
  std::string other = text();
  other.replace(0, std::strlen("hawser-cublaslt-3"), "hawser-cublaslt-2");
  std::ofstream(path_) << other;
  cublaslt_record().fastest[0] = 2;
  EXPECT_EQ(multiply(4), 2u);
  EXPECT_EQ(text().substr(0, other.size()), other);
}

TEST_F(AlgorithmCacheFile, IsAskedAgainWhereTheLibraryNoLongerTakesIt) {
  EXPECT_EQ(multiply(4), 1u);
  cublaslt_record().known = false;
  cublaslt_record().fastest[0] = 2;
  EXPECT_EQ(multiply(4), 2u);
}

TEST_F(AlgorithmCacheFile, IsRefusedWhereItIsDamaged) {
  multiply(4);
  const std::string sound = text();
  for (const std::string& damaged : {std::string("nonsense\n"), sound + sound.substr(0, sound.size() / 2),
                                     sound + sound.substr(0, 60) + "\n"}) {
    std::ofstream(path_) << damaged;
    AlgorithmCache cache;
    StickyError failure;
    EXPECT_FALSE(cache.open(path_.c_str(), {"GPU of tests", 130100, true}, failure)) << damaged;
    const std::string message = failure.message;
    for (const std::string& part :
         {std::string("/cuda/algorithm_cache"), path_, std::string("line"), std::string("remove the file")})
      EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

/// Returns the error of preparing one product with the cache.
std::string message_of(CublasLt& library, const Matmul& args, cuda_emulation::EmulatedStream& stream) {
  library.prepare(args, stream);
  return std::exchange(stream.sticky, {}).message;
}

TEST_F(AlgorithmCacheFile, MustBeWritableWhereItIsAddedTo) {
  Product product(4, false);
  const std::string nowhere = folder_.file("no/such/folder");
  auto* const cache = new AlgorithmCache;
  ASSERT_TRUE(cache->open(nowhere.c_str(), {"GPU of tests", 130100, true}, stream_.sticky));
  CublasLt library(cuda_emulation::emulated_cublaslt(), {.cache = cache}, stream_.sticky);
  const std::string message = message_of(library, product.args, stream_);
  for (const std::string& part : {std::string("/cuda/algorithm_cache: cannot add to"), nowhere})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

/// While this object exists, files of this process cannot grow beyond `bytes`, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(size_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

TEST_F(AlgorithmCacheFile, SaysSoWhereTheDiskIsFullAndStaysSound) {
  EXPECT_EQ(multiply(4), 1u);
  const std::string one_line = text();
  for (const size_t room : {size_t{0}, size_t{10}}) {
    Product product(5, false);
    const auto library = open();
    std::string message;
    {
      const FullDisk full(one_line.size() + room);
      message = message_of(*library, product.args, stream_);
      EXPECT_EQ(multiply(4), 1u);  // an entry that exists needs no room
    }
    EXPECT_NE(message.find("cannot add to: " + path_), std::string::npos) << message;
    EXPECT_EQ(text(), one_line);
  }
}

}  // namespace algorithm_cache_test
}  // namespace hawser::testing
