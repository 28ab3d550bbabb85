// ModelText: reads and writes text as a model does. A model's folder defines this in a few files, in
// Transformers' format; a checkpoint contains the same files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/json_fwd.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"

namespace hawser::text {

/// Files by name, not parsed: "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
/// "chat_template.jinja", "generation_config.json" and "config.json". Others are ignored.
using TextFiles = std::map<std::string, std::string>;

/// Returns those of these files that a folder has; follows links. Throws kOutOfRange for a file above 512
/// MiB, and what InputFile::open throws.
TextFiles read_text_files(const std::string& folder);

/// Returns a single tokenizer.json, under that name.
TextFiles read_tokenizer_file(const std::string& path);

/// Returns the digest of a text, or "" if it is empty. The digest identifies tokenizers and templates.
std::string text_digest(const std::string& text);
/// Returns the digest of tokenizer.json, or "" without one. Does not use the text module.
std::string tokenizer_digest(const TextFiles& files);

/// Const functions may be called concurrently, on any thread.
class ModelText {
 public:
  /// `where`: the folder or checkpoint, or the path of a single tokenizer.json, for errors. Throws kNotFound
  /// without tokenizer.json; kDataInvalid, naming the file, for a file that cannot be read; kUnavailable
  /// without the text module.
  ModelText(const TextFiles& files, const std::string& where, const std::string& module_folder = "");

  const Tokenizer& tokenizer() const { return tokenizer_; }
  /// Returns null if the model has no template. A model may have another template for chats with tools.
  const ChatTemplate* chat_template(bool with_tools = false) const {
    return with_tools && tool_template_ ? tool_template_.get() : chat_template_.get();
  }
  /// Tokens by the names that templates use: "bos_token", "eos_token", "pad_token" and others.
  const std::map<std::string, std::string>& special_names() const { return special_names_; }
  /// Returns the id of the token that ends a text: eos_token or, if no eos_token is named, eos_token_id.
  std::optional<uint32_t> end_of_text() const { return end_of_text_; }
  /// Tokens at which generation stops, ascending: eos_token_id of generation_config.json (else of
  /// config.json), eos_token, and the special token that the chat template puts after an answer.
  const std::vector<int32_t>& end_tokens() const { return end_tokens_; }
  /// Digests of tokenizer.json and of the templates; "" without a template.
  const std::string& digest() const { return digest_; }
  const std::string& template_digest() const { return template_digest_; }

 private:
  void read_special_names(const TextFiles& files, const OrderedJson& settings);
  void read_templates(const TextFiles& files, const OrderedJson& settings, const std::string& module_folder);
  void find_end_tokens(const TextFiles& files);
  std::vector<int32_t> end_ids(const TextFiles& files, const char* name) const;
  std::optional<int64_t> end_of_answer() const;
  OrderedJson object_in(const TextFiles& files, const char* name) const;
  std::string path_of(const std::string& name) const;

  const std::string where_;
  const std::string digest_;
  const Tokenizer tokenizer_;
  std::unique_ptr<const ChatTemplate> chat_template_, tool_template_;
  std::string template_digest_;
  std::map<std::string, std::string> special_names_;
  std::optional<uint32_t> end_of_text_;
  std::vector<int32_t> end_tokens_;
};

}  // namespace hawser::text
