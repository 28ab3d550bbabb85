// Saves the full state of GPT-2 124M (weights and both moments, 1.5 GB in fp32). Measures how long training
// waits for a synchronous save and for an asynchronous one (the first, and later ones), how long until it is
// durable, and how much training slows down during the write, compared with the rates of this machine's disk
// and memory, measured in the same run before each kind of save.
//
//   bench_checkpoint [--folder .] [--threads 2] [--saves 5]
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/median.h"
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

/// Returns the bytes per second of plain writes of `bytes` and an fsync, which is the upper limit of a
/// durable save.
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

/// Returns the bytes per second of one thread that copies `bytes` into memory that it has touched before.
double copy_rate(int64_t bytes) {
  std::vector<char> from(static_cast<size_t>(bytes), 1), to(static_cast<size_t>(bytes), 2);
  const double seconds = seconds_of([&] { std::memcpy(to.data(), from.data(), to.size()); });
  return to[to.size() / 2] == 1 ? static_cast<double>(bytes) / seconds : 0;
}

class Run {
 public:
  /// If `async`, the engine's config sets asynchronous saves, so that it allocates the copy at the start.
  Run(std::string folder, int threads, int saves, bool async)
      : folder_(std::move(folder)),
        saves_(saves),
        engine_(json({{"preset", "gpt2-124m"},
                      {"batch", {{"micro_batch", kRows}, {"grad_accum_steps", 1}, {"sequence", kCols}}},
                      {"checkpoint", {{"path", folder_ + "/run"}, {"async", async}}},
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
    return json::parse(engine_.info()).at("memory").at("save_copy_bytes").get<int64_t>();
  }
  /// Measures the bytes per second of the disk at present.
  double disk() {
    std::vector<double> rates;
    for (int i = 0; i < 3; ++i) rates.push_back(disk_rate(folder_, state_bytes()));
    std::printf("the disk writes and flushes as many bytes at %.0f MB/s (median of 3; best %.0f)\n",
                1e-6 * median(rates), 1e-6 * *std::max_element(rates.begin(), rates.end()));
    return median(rates);
  }
  void save_at_once() {
    const double limit = disk();
    std::vector<double> waits;
    for (int i = 0; i < saves_; ++i) {
      waits.push_back(seconds_of([&] {
        golden::check(hws_checkpoint_save(engine_.handle(), path().c_str()), "hws_checkpoint_save");
      }));
      fs::remove_all(path());
    }
    report("at once", waits, waits, limit);
  }
  /// Makes only the first asynchronous save; returns how long training waited.
  double first_wait() {
    const double wait = save_beside_once(nullptr).wait;
    fs::remove_all(path());
    return wait;
  }
  void save_beside() {
    const double limit = disk();
    std::vector<double> waits, durable, alone;
    double lost = 0;
    int64_t steps = 0;
    for (int i = 0; i < saves_; ++i) {
      for (int s = 0; s < 3; ++s) alone.push_back(step());
      std::vector<double> beside;
      const Beside save = save_beside_once(&beside);
      fs::remove_all(path());
      waits.push_back(save.wait);
      durable.push_back(save.durable);
      for (const double seconds : beside) lost += seconds, ++steps;
    }
    lost -= static_cast<double>(steps) * median(alone);
    report("asynchronous", waits, durable, limit);
    double writing = 0;
    for (size_t i = 0; i < durable.size(); ++i) writing += durable[i] - waits[i];
    std::printf(
        "a step takes %.0f ms alone; %.0f s of writing cost %lld steps beside it %.2f s: training is %.0f %% "
        "slower\n",
        1e3 * median(alone), writing, static_cast<long long>(steps), lost, 100 * lost / writing);
  }

 private:
  struct Beside {
    double wait, durable;
  };
  /// Starts one save, and runs steps until it has ended.
  Beside save_beside_once(std::vector<double>* steps) {
    hws_op* op = nullptr;
    const Clock::time_point begin = Clock::now();
    const double wait = seconds_of([&] {
      golden::check(hws_checkpoint_save_async(engine_.handle(), path().c_str(), &op),
                    "hws_checkpoint_save_async");
    });
    std::atomic<double> ended_after{0};
    std::jthread waits([&] {  // measures the end of the save exactly, although a step may last longer
      hws_op_wait(op, -1);
      ended_after = std::chrono::duration<double>(Clock::now() - begin).count();
    });
    while (steps != nullptr && ended_after == 0) steps->push_back(step());
    waits.join();
    golden::check(hws_op_wait(op, -1), "hws_op_wait");
    hws_op_destroy(op);
    return {wait, ended_after};
  }
  double step() { return engine_.train_step(batch_).seconds; }
  std::string path() const { return folder_ + "/checkpoint"; }
  void report(const char* what, const std::vector<double>& waits, const std::vector<double>& durable,
              double limit) {
    const double rate = static_cast<double>(state_bytes()) / median(durable);
    std::printf(
        "%s: training waits %.2f s (first %.2f), durable after %.2f s: %.0f MB/s, %.0f %% of the disk\n",
        what, median(waits), waits.front(), median(durable), rate * 1e-6, 100 * rate / limit);
  }

  std::string folder_;
  int saves_;
  golden::EngineSession engine_;
  golden::TokenBatch batch_;
};

int main_with(int argc, char** argv) {
  std::string folder = ".";
  int threads = 2, saves = 5;
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
    {
      Run run(scratch, threads, saves, true);
      const int64_t bytes = run.state_bytes();
      std::printf("GPT-2 124M, full state %.2f GB, %d threads; one thread copies %.1f GB/s\n",
                  static_cast<double>(bytes) * 1e-9, threads, copy_rate(bytes / 4) * 1e-9);
      run.save_at_once();
      run.save_beside();
    }
    Run run(scratch, threads, saves, false);
    std::printf("first asynchronous save of an engine that was not told of it: training waits %.2f s\n",
                run.first_wait());
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
