// Scorer: a class that computes log-probabilities of texts. It cuts texts and counts tokens as
// lm-evaluation-harness (0.4) does, so that results can be compared.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/client.h"

namespace hawser::cli {

class Scorer {
 public:
  /// The model sees at most `sequence` tokens. `prefix` is the token before the first one of a text; without
  /// one (-1) the first token is not predicted. The engine must outlive this object.
  Scorer(hws_engine* engine, int64_t sequence, int32_t prefix)
      : engine_(engine), sequence_(sequence), prefix_(prefix) {}

  /// Returns the sum of the log-probabilities, in nats, of the tokens after the first `context` tokens (at
  /// least 1). A text that is too long loses its beginning.
  double continuation(const std::vector<int32_t>& tokens, size_t context) const;

  struct Rolled {
    double logprob = 0;  ///< sum of log-probabilities, nats
    int64_t tokens = 0;  ///< number of predicted tokens
  };
  /// Scores a text of any length: each token is predicted once, in windows of `sequence` tokens. The first
  /// window begins with the prefix. The last window sees as many earlier tokens as fit. Scores at most
  /// `most_windows` windows; 0 means all.
  Rolled rolling(const std::vector<int32_t>& tokens, int64_t most_windows) const;

 private:
  /// Returns the sum for the last `predicted` tokens. The model sees all tokens except the last one.
  double sum(const int32_t* tokens, size_t count, size_t predicted) const;

  hws_engine* const engine_;
  const int64_t sequence_;
  const int32_t prefix_;
};

/// A question with several answers, of which one is right.
struct Question {
  std::string query;
  std::vector<std::string> choices;
  size_t gold = 0;
};

/// Reads a JSONL file of questions. The keys of each line determine its form: hellaswag (activity_label,
/// ctx_a, ctx_b, endings, label), ARC (question, choices, answerKey), PIQA (goal, sol1, sol2, label), or
/// query, choices, gold. Throws Failure (HWS_DATA_INVALID) with file and line.
std::vector<Question> read_questions(const std::string& path);

/// Returns the number of characters (code points) of a text.
size_t characters(std::string_view text);

}  // namespace hawser::cli
