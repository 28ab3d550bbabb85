// Training templates: variants of published chat templates that can be trained on. Some models' own templates
// render a turn differently once later turns follow: they leave out the reasoning of earlier answers, or move
// the system's text to the last question. The answers of such a chat cannot be located. A training template
// is the model's own template with these parts replaced, so that
//
//   - the rendering of a chat's first turns is the beginning of the rendering of more turns;
//   - each answer has the tokens that the model's own template gives it while it is the last turn, after the
//     prompt that the model's own template gives for it;
//   - a reasoning that the template's prompt opens ("<think>") is printed, and closed if the answer has none.
//
// Only training uses it. The model keeps its own template, also when it is exported.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "engine/text/chat_template.h"

namespace hawser::text {

struct TrainingTemplate {
  std::string_view family;  ///< "qwen3", "qwq", "deepseek-r1" or "mistral"
  std::string_view reason;  ///< what the model's own template does: "leaves out ..."
  std::string source;       ///< Jinja
  std::unique_ptr<const ChatTemplate> chat_template;
};

/// Recognises a model's own template by the expressions that rewrite turns. Renders short chats with the own
/// and the changed template to check the properties above. Returns null for a template that is not known,
/// that marks answers itself ({% generation %}), or whose changed form lacks these properties.
std::unique_ptr<const TrainingTemplate> find_training_template(
    const ChatTemplate& own, const std::map<std::string, std::string>& special_names, int64_t now,
    const std::string& module_folder);

}  // namespace hawser::text
