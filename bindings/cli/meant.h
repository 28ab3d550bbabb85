// What somebody may have meant: by a word that is no option, field, preset or file here.
#pragma once

#include <string>
#include <vector>

namespace hawser::cli {

/// The field of the config that `word` (such as "lr", "mlp_width" or "num-train-epochs") stands for.
struct MeantField {
  std::string pointer;  ///< "": none comes close
  bool section = false;
  std::string advice;  ///< how it differs, or what to do where there is no field; may be ""
};
MeantField field_meant_by(const std::string& word);

/// For the words that a command did not expect, the first of which is an option: what to write in their
/// place, after "; "; "" if nothing comes close.
std::string option_hint(const std::vector<std::string>& words);

/// "; did you mean NAME?" for a file beside `path`, which is none, with nearly its name; else "".
std::string file_hint(const std::string& path);

/// Throws Failure for a file or folder that is no config but something else that a user may have: text to
/// train on, weights, the folder of a run.
void refuse_other_than_config(const std::string& path);

}  // namespace hawser::cli
