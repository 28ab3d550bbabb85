// SampleAnswer: a record of what the model in training answers to one prompt of /telemetry/samples after a
// step, for samples.jsonl and the report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hawser::cli {

struct SampleAnswer {
  int64_t step = 0;
  int64_t sample = 0;       ///< number of the prompt, from 0
  std::string prompt_json;  ///< the prompt as the config has it: {"text"} or {"messages"}
  std::string answer;
  int64_t tokens = 0;   ///< of the answer
  bool ended = false;   ///< an end token ended it, not the limit of tokens
  std::string problem;  ///< why there is no answer; "": there is one
};

/// One line of JSON without a line break. Text that is not UTF-8 gets replacement characters.
std::string to_json(const SampleAnswer& answer);
/// Returns false if the line is not a complete answer (such as the last one after a crash).
bool from_json(const std::string& line, SampleAnswer* answer);

/// Returns the prompt as text for people: the text, or one line for each message.
std::string prompt_text(const SampleAnswer& answer);

}  // namespace hawser::cli
