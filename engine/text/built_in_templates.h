// Built-in templates: chat templates for models whose folder has none. Each writes the published format of a
// family.
#pragma once

#include <span>
#include <string_view>

namespace hawser::text {

struct BuiltInTemplate {
  std::string_view name;
  std::string_view source;  ///< Jinja
  /// Tokens that the format uses, separated by spaces. A tokenizer without them would spell them out.
  std::string_view tokens;
};

/// Returns the templates "plain", "chatml", "llama2" and "llama3".
std::span<const BuiltInTemplate> built_in_templates();
/// Returns null if no template has this name.
const BuiltInTemplate* find_built_in_template(std::string_view name);

}  // namespace hawser::text
