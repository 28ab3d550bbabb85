// Measures training that follows a teacher (/teacher): an engine without a teacher, and one whose batches
// have log-probabilities of a teacher, take steps in turn. Prints the median step of each and the median of
// the ratios of neighbouring steps, at temperature 1, which needs one softmax, and at 2, which needs two.
//
//   bench_teacher [--top 64] [--preset gpt2-124m] [--rows 4] [--tokens 64] [--threads 2] [--steps 10]
//                 [--precision fp32|bf16]
#include <cmath>
#include <exception>

#include "tests/bench/in_turn.h"

namespace hawser::bench {
namespace {

using nlohmann::json;

/// Adds `top` distinct ids to each target, with random log-probabilities.
void add_teacher(golden::TokenBatch* batch, int64_t top, int32_t vocab, std::mt19937* random) {
  std::uniform_real_distribution<float> logit(0.0f, 8.0f);
  batch->teacher_top = top;
  for (int64_t i = 0; i < batch->rows * batch->cols; ++i) {
    const auto first = static_cast<int64_t>((*random)() % static_cast<uint32_t>(vocab));
    float sum = 0;
    for (int64_t j = 0; j < top; ++j) {
      batch->teacher_ids.push_back(static_cast<int32_t>((first + 97 * j) % vocab));
      batch->teacher_logprobs.push_back(logit(*random));
      sum += std::exp(batch->teacher_logprobs.back());
    }
    for (auto p = batch->teacher_logprobs.end() - top; p != batch->teacher_logprobs.end(); ++p)
      *p -= std::log(sum);
  }
}

void run(const Workload& w, const std::string& precision, int64_t top, double temperature) {
  const json plain = config_of(w, precision);
  json taught = plain;
  taught["teacher"] = {{"top", top}, {"temperature", temperature}, {"weight", 0.5}};
  std::printf("top %lld, temperature %g: ", static_cast<long long>(top), temperature);
  steps_in_turn(w, plain, taught, [&](golden::TokenBatch* batch, int32_t vocab, std::mt19937* random) {
    add_teacher(batch, top, vocab, random);
  });
  std::printf("\n");
  std::fflush(stdout);
}

int main_with(int argc, char** argv) {
  Workload w;
  int64_t top = 64;
  for (int i = 1; i + 1 < argc; i += 2) {
    w.read(argv[i], argv[i + 1]);
    if (std::string(argv[i]) == "--top") top = std::max(1, std::atoi(argv[i + 1]));
  }
  try {
    for (const std::string& precision : w.precisions)
      for (const double temperature : {1.0, 2.0}) run(w, precision, top, temperature);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_teacher: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) { return hawser::bench::main_with(argc, argv); }
