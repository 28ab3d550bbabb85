// Measures the time from process start to the first training step of the quickstart model: loading the
// library, reading the config and the data, initial weights, threads, memory. Restarts itself several times.
// The result is the time to the end of the first step, minus a warm step. A step takes ten times as long as
// the start, so on a busy machine its variance hides the difference of medians. Therefore the program also
// prints the fastest first step minus the fastest warm step.
//
//   bench_startup [TEXT_FILE]      (default: a generated text)
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/bench/median.h"
#include "tests/golden/engine_session.h"

namespace hawser::bench {
namespace {

using golden::check;

constexpr int kProcesses = 15, kWarmSteps = 6;

/// Returns seconds on the clock that all processes of the machine share.
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Runs in the measured process: prints seconds from `start` to the engine, to the end of the first step, and
/// of the median warm step.
int measured_process(double start, const std::string& text_file) {
  const nlohmann::json json = {{"preset", "quickstart"}, {"data", {{"path", text_file}}}};
  const std::string text = json.dump();
  hws_config* config = nullptr;
  hws_engine* engine = nullptr;
  check(hws_config_parse(text.data(), text.size(), HWS_FORMAT_JSON, &config), "hws_config_parse");
  check(hws_engine_create(config, 0, &engine), "hws_engine_create");
  hws_config_destroy(config);
  const double created = now();
  check(hws_engine_train_step(engine, nullptr), "hws_engine_train_step");
  const double stepped = now();
  std::vector<double> warm;
  for (int step = 0; step < kWarmSteps; ++step) {
    const double begin = now();
    check(hws_engine_train_step(engine, nullptr), "hws_engine_train_step");
    warm.push_back(now() - begin);
  }
  hws_engine_destroy(engine);
  std::printf("%.9f %.9f %.9f\n", created - start, stepped - start, median(warm));
  return 0;
}

struct Startup {
  double created = 0, stepped = 0, warm = 0;
};

/// Starts the program directly, because the time of a shell in between would be measured too.
Startup start_once(const std::string& program, const std::string& text_file) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("a pipe cannot be made");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  char start[64];
  std::snprintf(start, sizeof(start), "%.9f", now());
  const char* const arguments[] = {program.c_str(), "--measured", start, text_file.c_str(), nullptr};
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, program.c_str(), &actions, nullptr, const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  FILE* const out = fdopen(ends[0], "r");
  Startup result;
  const int fields =
      failed == 0 ? std::fscanf(out, "%lf %lf %lf", &result.created, &result.stepped, &result.warm) : 0;
  std::fclose(out);
  int status = failed;
  if (failed == 0) waitpid(child, &status, 0);
  if (status != 0 || fields != 3) throw std::runtime_error("the measured process failed");
  return result;
}

std::string generated_text() {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("bench_startup_" + std::to_string(getpid()) + ".txt");
  std::ofstream out(path);
  for (int line = 0; line < 20000; ++line)
    out << "line " << line << " of a text that is long enough to train on\n";
  return path;
}

int measure(const std::string& given_text) {
  const std::string text = given_text.empty() ? generated_text() : given_text;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<double> created, stepped, warm, besides;
  for (int i = 0; i < kProcesses; ++i) {
    const Startup once = start_once(program, text);
    created.push_back(once.created);
    stepped.push_back(once.stepped);
    warm.push_back(once.warm);
    besides.push_back(once.stepped - once.warm);
  }
  if (given_text.empty()) std::filesystem::remove(text);
  const auto fastest = [](const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); };
  std::printf(
      "start-up of the quickstart model, medians (fastest) of %d processes: engine ready after %.1f (%.1f) "
      "ms, "
      "first step done after %.1f (%.1f) ms, a warm step takes %.1f (%.1f) ms; start to first step besides "
      "the "
      "step: %.1f ms, of the fastest %.1f ms (wanted <= 20)\n",
      kProcesses, 1e3 * median(created), 1e3 * fastest(created), 1e3 * median(stepped),
      1e3 * fastest(stepped), 1e3 * median(warm), 1e3 * fastest(warm), 1e3 * median(besides),
      1e3 * (fastest(stepped) - fastest(warm)));
  return 0;
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) {
  try {
    if (argc == 4 && std::string(argv[1]) == "--measured") {
      return hawser::bench::measured_process(std::atof(argv[2]), argv[3]);
    }
    return hawser::bench::measure(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_startup: %s\n", error.what());
    return 1;
  }
}
