// Measures saved activations in records of fp8 (/recompute/compress): an engine without records and one with
// them take steps in turn. Prints the planned bytes of activations at the peak of a step, the median step of
// each, and the median of the ratios of neighbouring steps.
//
//   bench_compress [--preset gpt2-124m] [--rows 4] [--tokens 256] [--threads 2] [--steps 5]
//                  [--precision fp32|bf16]
#include <exception>

#include "tests/bench/in_turn.h"

namespace hawser::bench {
namespace {

using nlohmann::json;

void run(const Workload& w, const std::string& precision, const json& compress) {
  const json plain = config_of(w, precision);
  json compressed = plain;
  compressed["recompute"]["compress"] = compress;
  std::printf("compress %s: ", compress.dump().c_str());
  for (const json& info : steps_in_turn(w, plain, compressed, [](auto*, int32_t, auto*) {}).info) {
    const json& memory = info.at("memory");
    std::printf("; planned %.1f MB, activations %.1f MB", memory.at("planned_bytes").get<double>() * 1e-6,
                memory.at("planned").at("activations").get<double>() * 1e-6);
  }
  std::printf("\n");
  std::fflush(stdout);
}

int main_with(int argc, char** argv) {
  Workload w;
  w.cols = 256, w.steps = 5;
  for (int i = 1; i + 1 < argc; i += 2) w.read(argv[i], argv[i + 1]);
  try {
    for (const std::string& precision : w.precisions)
      for (const json& compress : {json{"mlp_hidden"}, json{"mlp_hidden", "qkv", "attention"}})
        run(w, precision, compress);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_compress: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) { return hawser::bench::main_with(argc, argv); }
