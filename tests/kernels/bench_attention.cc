// Benchmark of the attention core alone, causal, 12 heads: GFLOP/s of forward, backward and both, and their
// share of the peak rate of arithmetic in registers, measured in the same run. Masked pairs do not count as
// work.
//
//   bench_attention [--threads 1] [--head-dim 64] [--precision fp32|bf16] [--level v4+bf16] [--sequence T]
//                   [--dropout P]
// Default: both precisions, T = 64, 128, 512, 1024 and 4096, the best level. q, k and v are fp32, as in the
// engine under either precision.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/device/cpu/host_memory.h"
#include "engine/device/cpu/thread_pool.h"
#include "kernels/include/levels.h"
#include "kernels/include/table.h"
#include "tests/bench/machine_limits.h"

namespace hawser::bench {
namespace {

using kernels::AttentionBackward;
using kernels::AttentionForward;
using kernels::KernelTable;

constexpr int64_t kHeads = 12;
constexpr double kSeconds = 0.7;  // per figure

struct Unmap {
  int64_t bytes;
  void operator()(float* p) const { device::unmap_memory(reinterpret_cast<char*>(p), bytes); }
};
using Floats = std::unique_ptr<float, Unmap>;

/// Allocates floats in huge pages, like the engine's arena: on small pages, each row of a head would be on
/// its own page.
Floats floats(int64_t n) {
  const int64_t bytes = 4 * n + 64;
  char* const p = device::map_memory(bytes);
  if (p == nullptr) std::abort();
  return Floats(reinterpret_cast<float*>(p), Unmap{bytes});
}

Floats normals(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats x = floats(n);
  for (int64_t i = 0; i < n; ++i) x.get()[i] = normal(random);
  return x;
}

/// Seconds of one call: the fastest tenth of as many calls as fit into kSeconds (at least 5).
template <class Call>
double seconds_of(const Call& call) {
  using Clock = std::chrono::steady_clock;
  call();
  std::vector<double> times;
  double total = 0;
  while (total < kSeconds || times.size() < 5) {
    const auto begin = Clock::now();
    call();
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    total += times.back();
  }
  const auto tenth = times.begin() + static_cast<ptrdiff_t>(times.size() / 10);
  std::nth_element(times.begin(), tenth, times.end());
  return *tenth;
}

/// One problem with all its memory: q, k and v are in one buffer, as the projections write them.
class Problem {
 public:
  Problem(const KernelTable& table, Stream& stream, int64_t sequence, int64_t head_dim, bool bf16,
          float dropout)
      : table_(table), stream_(stream) {
    const int64_t width = kHeads * head_dim, batch = std::max<int64_t>(1, 256 / sequence);
    const int64_t rows = batch * sequence;
    for (int64_t b = 0; b < batch; ++b) samples_.push_back(static_cast<uint64_t>(b));
    kernels::AttentionShape& s = forward_.s;
    s.batch = batch;
    s.seq_q = s.seq_k = s.kv_batch_rows = sequence;
    s.heads = s.kv_heads = kHeads;
    s.head_dim = head_dim;
    s.q_stride = s.kv_stride = 3 * width;
    s.o_stride = width;
    s.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    s.round_to = bf16 ? DType::kBf16 : DType::kF32;
    s.dropout = {dropout, 7, samples_.data()};
    qkv_ = normals(rows * 3 * width, 1), dout_ = normals(rows * width, 2);
    dqkv_ = floats(rows * 3 * width), o_ = floats(rows * width), lse_ = floats(rows * kHeads);
    forward_.o = o_.get(), forward_.lse = lse_.get();
    forward_.q = qkv_.get(), forward_.k = qkv_.get() + width, forward_.v = qkv_.get() + 2 * width;
    backward_.s = s;
    backward_.dq = dqkv_.get(), backward_.dk = dqkv_.get() + width, backward_.dv = dqkv_.get() + 2 * width;
    backward_.dout = dout_.get(), backward_.o = o_.get(), backward_.lse = lse_.get();
    backward_.q = forward_.q, backward_.k = forward_.k, backward_.v = forward_.v;
    const int64_t bytes = std::max(table.attention_forward_workspace_bytes(forward_, stream.num_workers),
                                   table.attention_backward_workspace_bytes(backward_, stream.num_workers));
    workspace_ = floats(bytes / 4 + 16);
    workspace_bytes_ = bytes;
    forward_.workspace = backward_.workspace = workspace_.get();
    operations_ = static_cast<double>(batch * kHeads * head_dim) * static_cast<double>(sequence) *
                  static_cast<double>(sequence + 1) / 2;
  }

  double forward_seconds() const {
    return seconds_of([&] { table_.attention_forward(forward_, stream_); });
  }
  double backward_seconds() const {
    return seconds_of([&] { table_.attention_backward(backward_, stream_); });
  }
  double forward_operations() const { return 4 * operations_; }
  double backward_operations() const { return 10 * operations_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  const KernelTable& table_;
  Stream& stream_;
  std::vector<uint64_t> samples_;
  AttentionForward forward_;
  AttentionBackward backward_;
  Floats qkv_, dout_, dqkv_, o_, lse_, workspace_;
  int64_t workspace_bytes_ = 0;
  double operations_ = 0;
};

const KernelTable* level_named(const std::string& name) {
  for (int32_t level = 0; level < kernels::kCpuLevels; ++level) {
    if (!kernels::has_cpu_level(static_cast<kernels::CpuLevel>(level))) continue;
    const KernelTable& table = kernels::cpu_kernels(static_cast<kernels::CpuLevel>(level));
    if (name == table.name || "x86-64-" + name == table.name) return &table;
  }
  return nullptr;
}

void run(const KernelTable& table, Stream& stream, const std::map<std::string, std::string>& options,
         const MachineLimits& limits) {
  const int64_t head_dim = std::atoll(options.at("--head-dim").c_str());
  const auto dropout = static_cast<float>(std::atof(options.at("--dropout").c_str()));
  std::printf("%-5s %6s %22s %22s %22s %10s\n", "", "T", "forward GFLOP/s", "backward", "both", "workspace");
  for (const bool bf16 : {false, true}) {
    const std::string precision = bf16 ? "bf16" : "fp32";
    if (!options.at("--precision").empty() && options.at("--precision") != precision) continue;
    const double most = bf16 ? limits.bf16_flops : limits.fp32_flops;
    for (const int64_t sequence : {64, 128, 512, 1024, 4096}) {
      if (!options.at("--sequence").empty() && options.at("--sequence") != std::to_string(sequence)) continue;
      const Problem problem(table, stream, sequence, head_dim, bf16, dropout);
      const double forward = problem.forward_seconds(), backward = problem.backward_seconds();
      const double rates[] = {
          problem.forward_operations() / forward, problem.backward_operations() / backward,
          (problem.forward_operations() + problem.backward_operations()) / (forward + backward)};
      std::printf("%-5s %6lld", precision.c_str(), static_cast<long long>(sequence));
      for (const double rate : rates) std::printf("%13.0f (%4.1f %%)", rate * 1e-9, 100 * rate / most);
      std::printf("%7.1f MB\n", static_cast<double>(problem.workspace_bytes()) * 1e-6);
      std::fflush(stdout);
    }
  }
}

int main_with(int argc, char** argv) {
  std::map<std::string, std::string> options = {{"--threads", "1"}, {"--head-dim", "64"}, {"--precision", ""},
                                                {"--level", ""},    {"--sequence", ""},   {"--dropout", "0"}};
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc || !options.contains(argv[i])) {
      std::fprintf(stderr, "bench_attention: unknown option or no value: %s\n", argv[i]);
      return 2;
    }
    options[argv[i]] = argv[i + 1];
  }
  const KernelTable* table = options["--level"].empty() ? &kernels::cpu_kernels(kernels::best_cpu_level())
                                                        : level_named(options["--level"]);
  if (table == nullptr) {
    std::fprintf(stderr, "bench_attention: this machine or build has no level %s\n",
                 options["--level"].c_str());
    return 2;
  }
  const int threads = std::max(1, std::atoi(options["--threads"].c_str()));
  device::ThreadPool pool(threads);
  const MachineLimits limits = measure_limits(threads);
  std::printf("level %s, %d threads; between registers %.0f GFLOP/s fp32, %.0f bf16; %lld heads of %s\n",
              table->name, threads, limits.fp32_flops * 1e-9, limits.bf16_flops * 1e-9,
              static_cast<long long>(kHeads), options["--head-dim"].c_str());
  run(*table, pool.stream(), options, limits);
  return 0;
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) { return hawser::bench::main_with(argc, argv); }
