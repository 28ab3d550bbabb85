// Bad input, one row each: what is done, which status comes back, and the words that its message must have
// (what is wrong, where, the value, what to do). The same rows make capi/errors.md, with the messages as they
// are, so the page cannot say what the library does not.
#pragma once

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
  std::function<int32_t(Site& site)> act;  ///< does it; returns the status
  bool varies = false;  ///< the message depends on the machine: the page has the words alone
};

struct Area {
  std::string title;
  std::string introduction;  ///< Markdown
  std::vector<Case> cases;
};

Area config_area();         ///< what parsing and naming fields refuses
Area rules_area();          ///< configs whose fields contradict each other
Area binary_config_area();  ///< FlatBuffers
Area data_area();           ///< token files and texts
Area megatron_area();       ///< .idx and .bin
Area checkpoint_area();     ///< manifest.json and shards
Area safetensors_area();    ///< headers that lie
Area hugging_face_area();   ///< config.json, index and weights
Area call_area();           ///< arguments and order of calls
Area command_area();        ///< the command line; status: its exit status

std::vector<Area> library_areas();  ///< all but the last

/// What came back.
struct Outcome {
  int32_t status = 0;
  std::string message;  ///< with the site's folder as "..."
  std::string details;
};

/// Does it at a site of its own.
Outcome run(const Case& row);
/// "" when the outcome is as the row says, else what differs.
std::string difference(const Case& row, const Outcome& outcome);

}  // namespace hawser::bad_input
