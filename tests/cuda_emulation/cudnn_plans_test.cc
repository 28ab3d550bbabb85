// Our attention graphs against the real cuDNN, without a GPU: cuDNN makes plans for a device that is
// described by its properties. Every preset's attention must get a plan in the workspace that our memory
// plan reserves, or be listed here as a case for our own kernels. cudnn_plans.sh runs this program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "engine/assembly/assemble.h"
#include "engine/config/config_tree.h"
#include "kernels/cuda/cudnn/functions.h"
#include "kernels/cuda/cudnn/plan.h"

namespace {

int described_major = 9, described_processors = 132;

}  // namespace

// The frontend asks the runtime for the device of a graph; there is none, so the answers are those of the
// described one.
extern "C" cudaError_t __wrap_cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
extern "C" cudaError_t __wrap_cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  properties->major = described_major;
  properties->multiProcessorCount = described_processors;
  return cudaSuccess;
}

namespace hawser::testing {
namespace {

using namespace kernels::cuda;

struct Gpu {
  const char* name;
  int major, processors, shared_memory;  // shared memory of a block, in bytes
  int64_t l2_bytes, memory_bytes;
  int clock_khz, memory_clock_khz;
};

// The figures are from NVIDIA's data sheets and the CUDA programming guide's table of compute capabilities.
const std::vector<Gpu> kGpus = {
    {"NVIDIA A100-SXM4-80GB", 8, 108, 166912, 41943040, 85000000000, 1410000, 1593000},
    {"NVIDIA H100 80GB HBM3", 9, 132, 232448, 52428800, 85000000000, 1980000, 2619000},
    {"NVIDIA B200", 10, 148, 232448, 132644864, 192000000000, 1965000, 3996000},
};

std::shared_ptr<cudnn_frontend::DeviceProperties> properties_of(const Gpu& gpu) {
  const std::string json = fmt::format(
      R"({{"cudaDeviceId":0,"deviceId":0,"deviceVer":{0},"driverVer":13000,"smVersion":{0},)"
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
      R"("multiProcessorCount":{1},"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
      R"("maxSharedMemoryPerBlockOptin":{2},"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
      R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"smClockRateKHz":{3},"memClockRateKHz":{4},"l2CacheSize":{5},)"
      R"("totalGlobalMem":{6},"deviceName":"{7}"}})",
      gpu.major * 100, gpu.processors, gpu.shared_memory, gpu.clock_khz, gpu.memory_clock_khz, gpu.l2_bytes,
      gpu.memory_bytes, gpu.name);
  auto properties = std::make_shared<cudnn_frontend::DeviceProperties>();
  auto result = properties->deserialize(std::vector<uint8_t>(json.begin(), json.end()));
  EXPECT_TRUE(result.is_good()) << result.get_message();
  return properties;
}

struct Case {
  std::string name;
  SdpaShape shape;
};

/// The attention of each preset's layers over rows of up to 8192 tokens: forward and backward, one document
/// in each row and several.
std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const std::string& preset : config::preset_names()) {
    const auto tree = config::ConfigTree::from_preset(preset);
    const nn::ModelConfig model = train::assemble(tree).config.model;
    const int64_t seq = std::min<int64_t>(model.context, 8192), batch = std::max<int64_t>(1, 8192 / seq);
    for (const int64_t window : std::set<int64_t>(model.window.begin(), model.window.end())) {
      kernels::AttentionShape s;
      s.type = DType::kBf16;
      s.batch = batch, s.seq_q = s.seq_k = s.kv_batch_rows = seq;
      s.heads = model.heads, s.kv_heads = model.kv_heads;
      s.head_dim = model.head_dim, s.value_dim = model.value_dim();
      s.q_stride = s.kv_stride = (model.heads + 2 * model.kv_heads) * model.head_dim;
      if (model.is_latent()) {
        s.q_stride = model.heads * model.head_dim;
        s.kv_stride = model.heads * (model.head_dim + s.value_dim);
      }
      s.o_stride = model.heads * s.value_dim;
      s.window = window;
      s.scale = static_cast<float>(model.attention_scale);
      s.softcap = static_cast<float>(model.attention_softcap);
      const int32_t begin = 0;
      for (const int64_t documents : {0, 64}) {
        s.kv_begin = documents > 0 ? &begin : nullptr, s.documents = documents;
        for (const bool backward : {false, true}) {
          SdpaShape shape;
          const std::string name =
              fmt::format("{}{}{}{}", preset, window > 0 ? ", window" : "",
                          documents > 0 ? ", documents" : "", backward ? ", backward" : "");
          if (sdpa_shape(s, backward, &shape)) cases.push_back({name, shape});
        }
      }
    }
  }
  return cases;
}

/// True for the cases that cuDNN 9.19 leaves to our own kernels.
bool has_no_plan(const Gpu& gpu, const SdpaShape& s, bool deterministic) {
  if (!s.backward) return false;
  const int64_t largest = std::max(s.head_dim, s.value_dim);
  // The backward of documents needs [seq, seq] matrices, which cannot be divided (kernels/cuda/cudnn/plan.h).
  // They fit only if rows are short.
  const bool long_documents = s.documents > 0 && s.seq > 128;
  switch (gpu.major) {
    case 8:  // documents have no deterministic plan at all
      return largest > 128 || (s.documents > 0 && deterministic) || long_documents;
    case 9:
      return long_documents && deterministic;
    default:  // wider heads must be those of latent attention
      return largest > 128 && s.head_dim == s.value_dim;
  }
}

class CudnnPlans : public ::testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    char why[256] = "";
    api_ = cudnn::open_cudnn({why, sizeof why});
    ASSERT_NE(api_, nullptr) << why;
    cudnn::call_through(api_);
    described_major = GetParam().major, described_processors = GetParam().processors;
    target_.properties = properties_of(GetParam());
  }

  const cudnn::Api* api_ = nullptr;
  cudnn::PlanTarget target_;
};

TEST_P(CudnnPlans, FitTheWorkspaceThatIsReserved) {
  for (Case& c : cases()) {
    for (const bool deterministic : {true, false}) {
      if (!deterministic && !c.shape.backward) continue;
      const int64_t reserved = sdpa_workspace(c.shape).library_bytes;
      const cudnn::Plan plan = cudnn::make_plan(c.shape, reserved, deterministic, target_);
      const bool has_plan = plan.graph != nullptr && plan.workspace_bytes <= reserved;
      fmt::print("{:<40} {:<13} {:>8.1f} of {:>8.1f} MiB, {} x {} of {} x {} heads{}\n", c.name,
                 deterministic ? "deterministic" : "any order",
                 static_cast<double>(plan.workspace_bytes) / (1 << 20),
                 static_cast<double>(reserved) / (1 << 20), plan.part.batch, plan.part.heads, c.shape.batch,
                 c.shape.heads, has_plan ? "" : "  no plan");
      std::fflush(stdout);
      EXPECT_EQ(has_plan, !has_no_plan(GetParam(), c.shape, deterministic)) << c.name << ": " << plan.refusal;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlans, ::testing::ValuesIn(kGpus),
                         [](const auto& gpu) { return fmt::format("sm_{}0", gpu.param.major); });

}  // namespace
}  // namespace hawser::testing
