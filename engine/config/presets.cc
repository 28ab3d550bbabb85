// Presets: looks up presets by name. Their texts are engine/config/presets/*.json, which the build embeds
// (embed.cmake).
#include "engine/config/presets.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/config/problems.h"
#include "engine/config/suggest.h"
#include "engine/config/tree.h"

namespace hawser::config {

struct EmbeddedPreset {
  const char* name;
  const char* text;
};
extern const EmbeddedPreset kPresets[];  // sorted by name
extern const size_t kPresetCount;

std::string_view find_preset(std::string_view name) {
  for (size_t i = 0; i < kPresetCount; ++i) {
    if (name == kPresets[i].name) return kPresets[i].text;
  }
  return {};
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kPresetCount; ++i) names.emplace_back(kPresets[i].name);
  return names;
}

std::string preset_json(std::string_view name) {
  const std::string_view text = find_preset(name);
  if (text.empty()) {
    const std::string near = nearest_name(name, preset_names());
    fail(Code::kNotFound, "there is no preset {}; {}", quote(name),
         near.empty() ? fmt::format("there are: {}", fmt::join(preset_names(), ", "))
                      : fmt::format("did you mean \"{}\"?", near));
  }
  return write_json(read_json(text, schema_field(), "", Origin::kFile), schema_field(), 2);
}

}  // namespace hawser::config
