// ChatTemplate: the Jinja template of a model's folder, which turns messages into one text as Transformers
// does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/text_module.h"
#include "engine/text/tokenizer.h"

namespace hawser::text {

/// A rendered chat.
struct RenderedChat {
  std::string text;
  std::vector<TextSpan> learned;  ///< spans of {% generation %}, the text to train on; empty without it
};

/// Const functions may be called concurrently, on any thread.
class ChatTemplate {
 public:
  /// Reads a template. `name`: its name in errors, such as its path. Throws kDataInvalid with the line.
  ChatTemplate(std::string_view source, std::string name, const std::string& module_folder = "");
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  const std::string& source() const { return source_; }
  /// True if the template marks the text to train on with {% generation %}.
  bool has_generation() const { return has_generation_; }
  /// Renders with the variables of a JSON object: messages, tools, add_generation_prompt, bos_token and
  /// others. `now`: the time that strftime_now prints, in seconds since 1970, in UTC. Throws kDataInvalid
  /// with the template's own message if the template refuses the variables, and also if it takes too many
  /// steps, too much memory or too long. Throws kCancelled if the caller's poll ends the call.
  RenderedChat render(const std::string& variables, int64_t now) const;

 private:
  const std::string source_;
  std::string name_;
  const TextModule* module_;
  TextTemplate* template_ = nullptr;
  bool has_generation_ = false;
};

}  // namespace hawser::text
