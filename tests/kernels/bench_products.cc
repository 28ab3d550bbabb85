// Benchmark of matrix products with the shapes of training steps: the rate of each form and type, and its
// share of the peak rate of fp32 arithmetic in registers. The peak is measured before and after each product,
// because the rate of a shared machine changes. All products take turns, so that their operands are in no
// cache.
//
//   bench_products [--threads 1] [--model 124M|0.5B|8B] [--precision fp32|bf16] [--level x86-64-v3]
//                  [--rounds 9]
//
// Forms: NT is the forward product, NN the input gradient, TN the weight gradient, which accumulates in f32.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/device/cpu/host_memory.h"
#include "engine/device/cpu/thread_pool.h"
#include "kernels/include/table.h"
#include "tests/bench/machine_limits.h"
#include "tests/bench/median.h"
#include "tests/kernels/bench_options.h"

namespace hawser::bench {
namespace {

using kernels::KernelTable;
using kernels::Matmul;

constexpr double kCallOperations =
    4e8;  ///< a measurement repeats smaller products up to this many operations

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Layer {
  const char *model, *name;
  int64_t rows, in, out;
};

/// Rows of a step, and the widths of a layer's weight.
constexpr Layer kLayers[] = {
    {"124M", "qkv", 128, 768, 2304},  {"124M", "qkv", 256, 768, 2304},  {"124M", "out", 256, 768, 768},
    {"124M", "up", 256, 768, 3072},   {"124M", "down", 256, 3072, 768}, {"124M", "head", 256, 768, 50257},
    {"124M", "up", 1024, 768, 3072},  {"124M", "qkv", 4096, 768, 2304}, {"0.5B", "up", 512, 896, 9728},
    {"0.5B", "down", 512, 4864, 896}, {"0.5B", "out", 512, 896, 896},   {"8B", "out", 128, 4096, 4096},
    {"8B", "out", 512, 4096, 4096},   {"8B", "qkv", 1024, 4096, 6144},
};

/// Memory in huge pages, like the engine's arena.
void* memory(int64_t bytes) {
  void* const p = device::map_memory(bytes);
  if (p == nullptr) std::abort();
  return p;
}

/// Returns n values between -1 and 1.
void* values(int64_t n, DType type) {
  const bool wide = type == DType::kF32;
  void* const p = memory(n * (wide ? 4 : 2));
  uint32_t x = 1;
  for (int64_t i = 0; i < n; ++i) {
    x = x * 1664525 + 1013904223;
    const float value = static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31f;
    if (wide) {
      static_cast<float*>(p)[i] = value;
    } else {
      static_cast<uint16_t*>(p)[i] = static_cast<uint16_t>(__builtin_bit_cast(uint32_t, value) >> 16);
    }
  }
  return p;
}

struct Product {
  std::string name;
  Matmul args;
  std::vector<double> rates, shares;
};

/// Returns the product of one form. The logits and their gradient are f32.
Product product(const Layer& layer, const std::string& form, DType type) {
  Product made;
  Matmul& m = made.args;
  const bool forward = form == "NT", weight = form == "TN", head = std::string(layer.name) == "head";
  m.m = weight ? layer.out : layer.rows;
  m.n = forward ? layer.out : layer.in;
  m.k = forward ? layer.in : weight ? layer.rows : layer.out;
  m.a_transposed = weight, m.b_transposed = forward, m.accumulate = weight;
  m.a_type = head && !forward ? DType::kF32 : type;
  m.b_type = type;
  m.c_type = weight || (head && forward) ? DType::kF32 : type;
  m.lda = weight ? m.m : m.k, m.ldb = forward ? m.k : m.n, m.ldc = m.n;
  m.a = values(m.m * m.k, m.a_type), m.b = values(m.n * m.k, m.b_type), m.c = values(m.m * m.n, m.c_type);
  char name[96];
  std::snprintf(name, sizeof name, "%-5s %-5s %6lld x %6lld x %6lld %s %s", layer.model, layer.name,
                static_cast<long long>(m.m), static_cast<long long>(m.n), static_cast<long long>(m.k),
                form.c_str(), type == DType::kBf16 ? "bf16" : "fp32");
  made.name = name;
  return made;
}

/// Measures for a short time the peak rate of fp32 arithmetic in registers on all workers.
double peak(Stream& stream) {
  constexpr int64_t kRounds = 25'000;
  std::vector<double> done(static_cast<size_t>(stream.num_workers));
  const double begin = seconds();
  stream.run(
      &stream, stream.num_workers,
      [](void* to, int64_t task, int32_t) { static_cast<double*>(to)[task] = spend_fp32(kRounds); },
      done.data());
  const double elapsed = seconds() - begin;
  double all = 0;
  for (const double each : done) all += each;
  return all / elapsed;
}

void measure(const KernelTable& table, Stream& stream, Product& product) {
  const Matmul& m = product.args;
  const double operations =
      2.0 * static_cast<double>(m.m) * static_cast<double>(m.n) * static_cast<double>(m.k);
  const int repeats = std::max(1, static_cast<int>(kCallOperations / operations));
  const double before = peak(stream), begin = seconds();
  for (int i = 0; i < repeats; ++i) table.matmul(m, stream);
  const double rate = operations * repeats / (seconds() - begin), after = peak(stream);
  product.rates.push_back(rate * 1e-9);
  product.shares.push_back(200 * rate / (before + after));
}

void run(const KernelTable& table, Stream& stream, const Options& options) {
  std::vector<Product> products;
  for (const Layer& layer : kLayers) {
    if (!options.at("--model").empty() && options.at("--model") != layer.model) continue;
    for (const DType type : {DType::kF32, DType::kBf16}) {
      const std::string precision = type == DType::kBf16 ? "bf16" : "fp32";
      if (!options.at("--precision").empty() && options.at("--precision") != precision) continue;
      for (const char* form : {"NT", "NN", "TN"}) products.push_back(product(layer, form, type));
    }
  }
  int64_t bytes = 0;
  for (const Product& each : products)
    bytes = std::max(bytes, table.matmul_workspace_bytes(each.args, stream.num_workers));
  void* const workspace = memory(bytes + 64);
  for (Product& each : products) each.args.workspace = workspace;
  for (int round = 0; round < std::atoi(options.at("--rounds").c_str()); ++round)
    for (Product& each : products) measure(table, stream, each);
  std::printf("%-41s %9s %9s %9s %9s\n", "m x n x k", "GFLOP/s", "share %", "least", "most");
  for (const Product& each : products) {
    const auto [least, most] = std::minmax_element(each.shares.begin(), each.shares.end());
    std::printf("%s %9.1f %9.1f %9.1f %9.1f\n", each.name.c_str(), median(each.rates), median(each.shares),
                *least, *most);
  }
}

int main_with(int argc, char** argv) {
  Options options = {
      {"--threads", "1"}, {"--level", ""}, {"--precision", ""}, {"--model", "124M"}, {"--rounds", "9"}};
  if (!read_options(argc, argv, &options)) return 2;
  const KernelTable* const table = level_named(options["--level"]);
  if (table == nullptr) return 2;
  const int threads = std::max(1, std::atoi(options["--threads"].c_str()));
  device::ThreadPool pool(threads);
  std::printf("level %s, %d threads; between registers %.0f GFLOP/s in fp32\n", table->name, threads,
              peak(pool.stream()) * 1e-9);
  run(*table, pool.stream(), options);
  return 0;
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) { return hawser::bench::main_with(argc, argv); }
