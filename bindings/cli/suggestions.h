// Suggestions: functions that guess what the user meant by an argument that is not an option, field, preset
// or file.
#pragma once

#include <string>
#include <vector>

namespace hawser::cli {

/// The config field that `word` (such as "lr", "mlp_width" or "num-train-epochs") stands for.
struct FieldSuggestion {
  std::string pointer;  ///< "" if none is close
  bool section = false;
  std::string advice;  ///< how its meaning differs, or what to do if there is no such field; may be ""
};
FieldSuggestion field_meant_by(const std::string& word);

/// Returns "; " and what to write instead of the unexpected arguments `unknown`, if the first is an option;
/// "" if nothing is close. `words` are all arguments: the one after an option is its value.
std::string option_hint(const std::vector<std::string>& unknown, const std::vector<std::string>& words);

/// Returns the word that is nearest to `word` in spelling; "" if none is close.
std::string nearest_word(const std::string& word, const std::vector<std::string>& words);

/// Returns the error for `word`, which is none of `commands`, with the command that it probably stands for.
std::string no_such_command(const std::string& word, const std::vector<std::string>& commands);

/// Returns "; did you mean NAME?" if `path` does not exist but a file in its folder has nearly that name;
/// otherwise "".
std::string file_hint(const std::string& path);

/// Throws Failure for a file or folder that is not a config but a known other thing: text to train on,
/// weights, the folder of a run.
void refuse_other_than_config(const std::string& path);

}  // namespace hawser::cli
