// Saving the full state of GPT-2 124M (weights and both moments, 1.5 GB in fp32): how long training waits for
// a save at once and for an asynchronous one, how long until it is durable, and what steps cost while it is
// written, beside what the disk and the memory of this machine can do, measured in the same run.
//
//   bench_checkpoint [--folder .] [--threads 2] [--saves 3]
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/golden/engine_session.h"

namespace hawser::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int64_t kRows = 4, kCols = 64, kVocab = 50257;

double seconds_of(const auto& work) {
  const Clock::time_point begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Bytes per second of plain writes of `bytes` and an fsync: the least that a durable save costs.
double disk_rate(const std::string& folder, int64_t bytes) {
  const std::string path = folder + "/rate";
  std::vector<char> chunk(size_t{16} << 20, 'x');
  const double seconds = seconds_of([&] {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(chunk.size()))
      if (::write(fd, chunk.data(), chunk.size()) != static_cast<ssize_t>(chunk.size()))
        throw std::runtime_error("cannot write " + path);
    if (::fsync(fd) != 0 || ::close(fd) != 0) throw std::runtime_error("cannot flush " + path);
  });
  fs::remove(path);
  return static_cast<double>(bytes) / seconds;
}

/// Bytes per second of one thread that copies `bytes` into memory that it has touched before.
double copy_rate(int64_t bytes) {
  std::vector<char> from(static_cast<size_t>(bytes), 1), to(static_cast<size_t>(bytes), 2);
  const double seconds = seconds_of([&] { std::memcpy(to.data(), from.data(), to.size()); });
  return to[to.size() / 2] == 1 ? static_cast<double>(bytes) / seconds : 0;
}

class Run {
 public:
  Run(std::string folder, int threads, int saves)
      : folder_(std::move(folder)),
        saves_(saves),
        engine_(json({{"preset", "gpt2-124m"},
                      {"batch", {{"micro_batch", kRows}, {"grad_accum_steps", 1}, {"sequence", kCols}}},
                      {"cpu", {{"threads", threads}}}})
                    .dump()) {
    for (int64_t i = 0; i < kRows * kCols; ++i) {
      batch_.tokens.push_back(static_cast<int32_t>(i * 7919 % kVocab));
      batch_.targets.push_back(static_cast<int32_t>((i + 1) * 7919 % kVocab));
    }
    batch_.rows = kRows, batch_.cols = kCols;
    step();
  }

  int64_t state_bytes() {
    return json::parse(engine_.info()).at("memory").at("staging_bytes").get<int64_t>();
  }
  void save_at_once() {
    std::vector<double> waits;
    for (int i = 0; i < saves_; ++i) {
      waits.push_back(seconds_of([&] {
        golden::check(hws_checkpoint_save(engine_.handle(), path().c_str()), "hws_checkpoint_save");
      }));
      fs::remove_all(path());
    }
    report("at once", waits, waits);
  }
  void save_beside() {
    std::vector<double> waits, durable, alone, beside;
    for (int i = 0; i < 5; ++i) alone.push_back(step());
    for (int i = 0; i <= saves_; ++i) {
      hws_op* op = nullptr;
      const Clock::time_point begin = Clock::now();
      const double wait = seconds_of([&] {
        golden::check(hws_checkpoint_save_async(engine_.handle(), path().c_str(), &op),
                      "hws_checkpoint_save_async");
      });
      int32_t ended = 0;
      while (golden::check(hws_op_poll(op, &ended), "hws_op_poll"), ended == 0) beside.push_back(step());
      golden::check(hws_op_wait(op, -1), "hws_op_wait");
      hws_op_destroy(op);
      fs::remove_all(path());
      if (i == 0) {
        std::printf("asynchronous, first: training waits %6.2f s (the memory of the copy is new)\n", wait);
        continue;
      }
      waits.push_back(wait);
      durable.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    report("asynchronous", waits, durable);
    std::printf("a step takes %.0f ms alone, %.0f ms while a checkpoint is written (median of %zu)\n",
                1e3 * median(alone), 1e3 * median(beside), beside.size());
  }

 private:
  double step() { return engine_.train_step(batch_).seconds; }
  std::string path() const { return folder_ + "/checkpoint"; }
  void report(const char* what, const std::vector<double>& waits, const std::vector<double>& durable) {
    std::printf("%s: training waits %6.2f s, durable after %6.2f s (%.0f MB/s)\n", what, median(waits),
                median(durable), static_cast<double>(state_bytes()) / median(durable) * 1e-6);
  }

  std::string folder_;
  int saves_;
  golden::EngineSession engine_;
  golden::TokenBatch batch_;
};

int main_with(int argc, char** argv) {
  std::string folder = ".";
  int threads = 2, saves = 3;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--folder") folder = argv[i + 1];
    if (option == "--threads") threads = std::atoi(argv[i + 1]);
    if (option == "--saves") saves = std::max(1, std::atoi(argv[i + 1]));
  }
  std::string scratch = folder + "/hawser-bench-XXXXXX";
  if (mkdtemp(scratch.data()) == nullptr) {
    std::fprintf(stderr, "bench_checkpoint: cannot write to %s\n", folder.c_str());
    return 1;
  }
  int result = 0;
  try {
    Run run(scratch, threads, saves);
    const int64_t bytes = run.state_bytes();
    std::printf("GPT-2 124M, full state %.2f GB, %d threads, in %s\n", static_cast<double>(bytes) * 1e-9,
                threads, folder.c_str());
    double disk = 0;
    for (int i = 0; i < 3; ++i) disk = std::max(disk, disk_rate(scratch, bytes));
    const double memory = copy_rate(bytes / 4);
    std::printf(
        "limits: the disk writes and flushes %.0f MB/s (best of 3): %.2f s; one thread copies %.1f GB/s: "
        "%.2f s\n",
        disk * 1e-6, static_cast<double>(bytes) / disk, memory * 1e-9, static_cast<double>(bytes) / memory);
    run.save_at_once();
    run.save_beside();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_checkpoint: %s\n", error.what());
    result = 1;
  }
  fs::remove_all(scratch);
  return result;
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) { return hawser::bench::main_with(argc, argv); }
