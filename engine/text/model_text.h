// ModelText: how a model reads and writes text. Its folder says so in a few files, as Transformers keeps
// them; a checkpoint carries the same files.
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

/// Files by name, unread: "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
/// "chat_template.jinja", "generation_config.json" and "config.json". Others are ignored.
using TextFiles = std::map<std::string, std::string>;

/// Those that a folder has; links are followed. Throws kOutOfRange for a file
/// above 512 MiB, and what InputFile::open throws.
TextFiles read_text_files(const std::string& folder);

/// A tokenizer.json by itself, under that name.
TextFiles read_tokenizer_file(const std::string& path);

/// Digest of the text, "" if it is empty. Tells tokenizers and templates apart.
std::string text_digest(const std::string& text);
/// That of tokenizer.json; "" without one. Needs no text module.
std::string tokenizer_digest(const TextFiles& files);

/// Const functions may be called beside each other, on any thread.
class ModelText {
 public:
  /// `where`: the folder or checkpoint, or the path of a tokenizer.json by itself, for errors. Throws
  /// kNotFound without tokenizer.json; kDataInvalid, naming the file, for one that cannot be read;
  /// kUnavailable without the text module.
  ModelText(const TextFiles& files, const std::string& where, const std::string& module_folder = "");

  const Tokenizer& tokenizer() const { return tokenizer_; }
  /// Null if the model has none. A model may have another template for chats with tools.
  const ChatTemplate* chat_template(bool with_tools = false) const {
    return with_tools && tool_template_ ? tool_template_.get() : chat_template_.get();
  }
  /// "bos_token", "eos_token", "pad_token" and others, as templates know them.
  const std::map<std::string, std::string>& special_names() const { return special_names_; }
  /// The id of the token that ends a text: eos_token or, if no eos_token is named, eos_token_id.
  std::optional<uint32_t> end_of_text() const { return end_of_text_; }
  /// All that end what the model says, ascending: eos_token_id of generation_config.json (else of
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
