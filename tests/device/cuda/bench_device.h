// Bench: a GPU on which a benchmark runs kernels, measures them by the device's events, and prints one JSON
// line for each, with its share of the limit that the same run found.
#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine/nn/kernel_work.h"
#include "tests/device/cuda/opened_device.h"

namespace hawser::testing {

class Bench {
 public:
  explicit Bench(bool deterministic) : gpu_(0, deterministic), order_(deterministic ? "" : ", any order") {}

  /// Returns n normal values without zeros, which use less power and run faster.
  void* values(int64_t n, DType type) {
    float* const as_f32 = gpu_.on_device<float>(n);
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.02f);
    std::vector<float> piece(static_cast<size_t>(std::min<int64_t>(n, 1 << 20)));
    for (float& value : piece) value = normal(random);
    for (int64_t at = 0; at < n; at += static_cast<int64_t>(piece.size())) {
      piece.resize(static_cast<size_t>(std::min<int64_t>(n - at, static_cast<int64_t>(piece.size()))));
      gpu_.write(as_f32 + at, piece);
    }
    if (type == DType::kF32) return as_f32;
    void* const narrow = gpu_.on_device<char>(n * dtype_bytes(type));
    gpu_->kernels().convert({narrow, as_f32, type, DType::kF32, n}, stream());
    gpu_.ok(gpu_->synchronize(kCompute));
    return narrow;
  }
  void write(int32_t* to, const std::vector<int32_t>& values) { gpu_.write(to, values); }
  char* bytes(int64_t n) { return gpu_.on_device<char>(std::max<int64_t>(n, 1)); }
  const kernels::KernelTable& table() { return gpu_->kernels(); }
  Stream& stream() { return gpu_->stream(kCompute); }
  device::Device& device() { return *gpu_; }

  /// Returns the seconds of one call: the median of windows of many calls.
  double seconds(const std::function<void()>& call) {
    std::vector<double> windows;
    for (int i = 0; i < 3; ++i) call();
    for (int window = 0; window < kWindows; ++window) {
      gpu_.ok(gpu_->record(begin_, kCompute));
      for (int round = 0; round < kRounds; ++round) call();
      gpu_.ok(gpu_->record(end_, kCompute));
      gpu_.ok(gpu_->wait_on_host(end_));
      double seconds = 0;
      gpu_.ok(gpu_->elapsed(begin_, end_, &seconds));
      windows.push_back(seconds / kRounds);
    }
    std::sort(windows.begin(), windows.end());
    return windows[windows.size() / 2];
  }

  /// Measures a kernel that memory limits, by the bytes of its operands.
  template <auto kKernel, typename Args>
  void memory_bound(const char* name, const Args& args) {
    const double rate = nn::work_of(args).bytes / seconds([&] { (table().*kKernel)(args, stream()); });
    begin_line(name);
    std::printf("\"unit\": \"GB/s\", \"value\": %.0f, \"limit\": %.0f, \"share\": %.3f}\n", rate * 1e-9,
                copy_rate_ * 1e-9, rate / copy_rate_);
  }
  /// Measures a product with this many operations.
  void compute_bound(const char* name, double operations, const std::function<void()>& call) {
    const double rate = operations / seconds(call);
    product_rate_ = std::max(product_rate_, rate);
    begin_line(std::string(name) + order_);
    std::printf("\"unit\": \"TFLOP/s\", \"value\": %.1f, \"limit\": %.1f, \"share\": %.3f}\n", rate * 1e-12,
                product_rate_ * 1e-12, rate / product_rate_);
  }
  void measure_copy() {
    constexpr int64_t kBytes = int64_t{1} << 30;
    char* const from = bytes(kBytes);
    char* const to = bytes(kBytes);
    copy_rate_ = 2.0 * kBytes / seconds([&] { gpu_.ok(gpu_->copy_inside(to, from, kBytes, kCompute)); });
    begin_line("copy");
    std::printf("\"unit\": \"GB/s\", \"value\": %.0f}\n", copy_rate_ * 1e-9);
  }

 private:
  static constexpr int kRounds = 20, kWindows = 5;

  /// Prints the kernel and the libraries that computed it. A missing library may be reported only after the
  /// first call.
  void begin_line(const std::string& kernel) {
    const std::string choices = gpu_->choices();
    std::printf("{\"kernel\": \"%s\", \"gpu\": \"%s\", \"libraries\": \"%s\", \"device_without\": \"%s\", ",
                kernel.c_str(), gpu_->info().name, choices.substr(0, choices.find('\n')).c_str(),
                gpu_->info().without);
  }

  OpenedDevice gpu_;
  const char* const order_;  ///< suffix of the kernel's name if its order is not the deterministic one
  device::Event* const begin_ = gpu_.event();
  device::Event* const end_ = gpu_.event();
  double copy_rate_ = 0, product_rate_ = 0;
};

}  // namespace hawser::testing
