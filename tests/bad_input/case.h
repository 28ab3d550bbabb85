// Case: one row of bad input: an action, the expected status, and the words that its message must contain
// (the fault, its place, the value, the remedy). The same rows generate capi/errors.md with the actual
// messages, so the page cannot differ from the library.
#pragma once

#include <hawser.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hawser::bad_input {

class Site;

struct Case {
  std::string what;  ///< for the page, Markdown
  int32_t status;    ///< HWS_*, or the exit status of the command
  std::vector<std::string> words;
  std::function<int32_t(Site& site)> act;  ///< performs the action; returns the status
  bool varies = false;  ///< the message depends on the machine, so the page has only the words
};

struct Area {
  std::string title;
  std::string introduction;  ///< Markdown
  std::vector<Case> cases;
};

Area config_area();         ///< errors of parsing and of field names
Area rules_area();          ///< configs whose fields contradict each other
Area memory_area();         ///< the same of recompute and offload
Area binary_config_area();  ///< FlatBuffers
Area data_area();           ///< token files and texts
Area text_area();           ///< rows, templates, tokenizers; needs the text module
Area megatron_area();       ///< .idx and .bin
Area checkpoint_area();     ///< manifest.json and shards
Area safetensors_area();    ///< invalid headers
Area hugging_face_area();   ///< config.json, index and weights
Area adapter_area();        ///< adapters, PEFT folders
Area objective_area();      ///< pairs, and data that their objectives do not read
Area teacher_area();        ///< rows of a teacher
Area pair_area();           ///< pairs in files; needs the text module
Area call_area();           ///< arguments and order of calls
Area command_area();        ///< the command line; status: its exit status

std::vector<Case> ahead_cases();            ///< rows of rules_area
std::vector<Case> quantized_cases();        ///< the same
std::vector<Case> optimizer_rules_cases();  ///< the same
std::vector<Case> precision_cases();        ///< the same
std::vector<Case> ramp_cases();             ///< the same

std::vector<Area> library_areas();  ///< all but the last

/// A row with `patch` merged into sound_config, which is planned.
Case bad(const std::string& patch, std::vector<std::string> words, int32_t status = HWS_CONFIG_INVALID);

/// The result of a row.
struct Outcome {
  int32_t status = 0;
  std::string message;  ///< with the site's folder as "..."
  std::string details;
};

/// Returns the outcome of a row of the area. A row runs once in a process, at a site of its own.
const Outcome& outcome_of(const Area& area, const Case& row);
/// Returns "" if the outcome is as expected, else the difference.
std::string difference(const Case& row, const Outcome& outcome);

}  // namespace hawser::bad_input
