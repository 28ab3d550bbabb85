// Answers: the outputs of a model without training: logits, log-probabilities, an evaluation and generated
// text.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/run/inference.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {

struct Answers {
  std::vector<float> logits, logprobs;
  std::vector<int32_t> text;
  double loss = 0;
};

/// Collects the outputs for rows with fewer columns than in training; three columns leave chunks empty.
inline Answers ask(train::Trainer& trainer, const Problem& problem, int64_t cols) {
  Problem shorter = problem;
  shorter.sequence = cols;
  const Rows rows = rows_of(shorter, 3, 0);
  const size_t count = static_cast<size_t>(3 * cols);
  Answers a;
  a.logits.resize(count * 53), a.logprobs.resize(count);
  train::Inference& inference = trainer.inference();
  inference.forward(rows.view(), a.logits.data(), a.logits.size() * sizeof(float));
  inference.logprobs(rows.view(), a.logprobs.data(), a.logprobs.size() * sizeof(float));
  const train::BatchView view = rows.view();
  a.loss = inference.eval(&view, 0).loss;
  train::GenerateRequest request;
  const std::vector<int32_t> prompt = {5, 17, 3};
  request.prompt = prompt.data(), request.prompt_length = 3, request.max_tokens = 20;
  request.temperature = 0, request.seed = 4;
  inference.generate(request, [&](int32_t token) { return a.text.push_back(token), true; });
  return a;
}

}  // namespace hawser::testing
