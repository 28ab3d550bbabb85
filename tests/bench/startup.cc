// From the start of a process to its first training step of the quickstart model: loading the library,
// reading the config and the data, initial weights, threads, memory. Starts itself anew several times and
// prints the medians; the wanted figure is everything up to the end of the first step, less what a step costs
// once it is warm.
//
//   bench_startup [TEXT_FILE]      (default: a generated text)
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

#include "tests/golden/engine_session.h"

namespace hawser::bench {
namespace {

using golden::check;

constexpr int kProcesses = 11, kWarmSteps = 6;

/// Seconds on the clock that all processes of the machine share.
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The process that is measured: prints seconds from `start` to the engine, to the end of the first step, and
/// of a warm step.
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

Startup start_once(const std::string& program, const std::string& text_file) {
  char start[64];
  std::snprintf(start, sizeof(start), "%.9f", now());
  FILE* pipe = popen(("'" + program + "' --measured " + start + " '" + text_file + "'").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("a process cannot be started");
  Startup result;
  const int fields = std::fscanf(pipe, "%lf %lf %lf", &result.created, &result.stepped, &result.warm);
  if (pclose(pipe) != 0 || fields != 3) throw std::runtime_error("the measured process failed");
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
  std::printf(
      "start-up of the quickstart model, medians of %d processes: engine ready after %.1f ms, first step "
      "done "
      "after %.1f ms, a warm step takes %.1f ms; start to first step besides the step: %.1f ms (wanted <= "
      "100)\n",
      kProcesses, 1e3 * median(created), 1e3 * median(stepped), 1e3 * median(warm), 1e3 * median(besides));
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
