// Presets: looks up presets by name. Their texts are engine/config/presets/*.json, which the build embeds
// (embed.cmake).
#include "engine/config/presets.h"

#include "engine/config/embedded_texts.h"
#include "engine/config/tree.h"

namespace hawser::config {

extern const EmbeddedText kPresets[];
extern const size_t kPresetCount;

namespace {

EmbeddedTexts presets() { return {"preset", kPresets, kPresetCount}; }

}  // namespace

std::string_view find_preset(std::string_view name) { return presets().find(name); }

std::vector<std::string> preset_names() { return presets().names(); }

std::string preset_json(std::string_view name) {
  return write_json(read_json(presets().at(name), schema_field(), "", Origin::kFile), schema_field(), 2);
}

}  // namespace hawser::config
