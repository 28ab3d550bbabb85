// Scores: how likely a model finds a text, cut and counted as lm-evaluation-harness (0.4) does, so that
// numbers compare.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/client.h"

namespace hawser::cli {

class Scorer {
 public:
  /// The model sees at most `sequence` tokens. `prefix`: the token before the first one of a text, -1: none,
  /// so that the first token is not predicted. Both handles must outlive this.
  Scorer(hws_engine* engine, int64_t sequence, int32_t prefix)
      : engine_(engine), sequence_(sequence), prefix_(prefix) {}

  /// The sum of the log-probabilities, nats, of the tokens behind the first `context` ones (at least 1). A
  /// text that is too long loses its beginning.
  double continuation(const std::vector<int32_t>& tokens, size_t context) const;

  struct Rolled {
    double logprob = 0;  ///< sum, nats
    int64_t tokens = 0;  ///< predicted
  };
  /// A text of any length: each token is predicted once, in windows of `sequence` tokens. The first one
  /// begins with the prefix; the last one sees as many tokens before it as fit. most_windows: 0: all.
  Rolled rolling(const std::vector<int32_t>& tokens, int64_t most_windows) const;

 private:
  /// Of the last `predicted` of tokens[1..]; the model sees all but the last token.
  double sum(const int32_t* tokens, size_t count, size_t predicted) const;

  hws_engine* const engine_;
  const int64_t sequence_;
  const int32_t prefix_;
};

/// A question with answers, of which one is right.
struct Question {
  std::string query;
  std::vector<std::string> choices;
  size_t gold = 0;
};

/// Reads a JSONL file of questions. The keys of each line say its form: hellaswag (activity_label, ctx_a,
/// ctx_b, endings, label), ARC (question, choices, answerKey), PIQA (goal, sol1, sol2, label), or query,
/// choices, gold. Throws Failure (HWS_DATA_INVALID) with file and line.
std::vector<Question> read_questions(const std::string& path);

/// The characters of a text: code points.
size_t characters(std::string_view text);

}  // namespace hawser::cli
