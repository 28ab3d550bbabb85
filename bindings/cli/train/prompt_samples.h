// PromptSamples: the prompts of /telemetry/samples, which the model in training answers at each validation.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/report/sample_answer.h"
#include "bindings/cli/text/text_stream.h"

namespace hawser::cli {

class PromptSamples {
 public:
  /// Encodes the prompts of a config with every field. Throws Failure, which names the prompt, for a model
  /// that cannot answer it, and for a prompt that is empty, that the chat template refuses or that leaves no
  /// room for an answer in a row.
  PromptSamples(const hws_engine* engine, const nlohmann::ordered_json& resolved);

  /// True if the prompts are due after this step: it has a validation, or is the last one. The same on all
  /// ranks.
  bool due(const hws_train_record& record) const;
  /// Answers all prompts after a step, always with the likeliest token. Changes nothing of the training.
  /// Collective if ranks are in several processes. After Ctrl-C returns nothing, and the run has been
  /// cancelled.
  std::vector<SampleAnswer> answer(hws_engine* engine, int64_t step) const;

 private:
  struct Prompt {
    std::string json;
    std::vector<int32_t> tokens;
  };
  std::vector<int32_t> encode(const hws_engine* engine, const nlohmann::ordered_json& prompt) const;
  bool answer_one(hws_engine* engine, const Prompt& prompt, SampleAnswer* answer) const;
  std::string decoded(const hws_engine* engine, const std::vector<int32_t>& tokens) const;

  std::vector<Prompt> prompts_;
  int64_t most_tokens_ = 0;  // of an answer
  int64_t window_ = 0;       // tokens of a row: a prompt with its answer
  Tokenizer tokenizer_;      // null for a model of bytes or characters
  std::vector<int32_t> end_tokens_;
};

}  // namespace hawser::cli
