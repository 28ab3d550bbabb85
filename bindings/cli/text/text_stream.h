// TextStream: a decoder of new tokens that returns a character once all its bytes have arrived. It leaves out
// special tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bindings/cli/client.h"

namespace hawser::cli {

using Tokenizer = std::unique_ptr<hws_tokenizer, Destroyer<hws_tokenizer, hws_tokenizer_destroy>>;

/// True if the engine's model has a tokenizer. Models of bytes or characters have none.
bool has_tokenizer(const hws_engine* engine);

/// Returns the tokens that end the model's text.
std::vector<int32_t> end_tokens_of(const hws_tokenizer* tokenizer);

/// Parses token ids such as 1,2,3, also with spaces or line breaks between them. `what` names their source in
/// errors.
std::vector<int32_t> parse_ids(const std::string& what, const std::string& text);

/// Returns the tokens that a buffer holds.
std::vector<int32_t> tokens_in(const Buffer& buffer);

/// Encodes a text from its beginning as the model reads it, with special tokens (hws_text_encode).
std::vector<int32_t> encode(const hws_engine* engine, const std::string& text);
/// Encodes a text by a tokenizer (hws_tokenizer_encode).
std::vector<int32_t> encode(const hws_tokenizer* tokenizer, const std::string& text, uint32_t flags = 0);

/// Renders messages by the model's chat template, up to where its answer begins.
std::string chat_prompt(const hws_tokenizer* tokenizer, const nlohmann::ordered_json& messages);

/// Decodes all tokens and returns the text after the prompt. If the new tokens were decoded alone, they could
/// lose the space that they begin with.
std::string text_after(const std::vector<int32_t>& prompt, const std::vector<int32_t>& tokens,
                       const std::function<std::string(const std::vector<int32_t>&)>& decode);

/// Decodes the tokens that follow a prompt. A tokenizer may decode a token differently at the beginning of a
/// text, so each call decodes all tokens and returns the new part of the text.
class TextStream {
 public:
  /// The tokenizer must outlive this object.
  TextStream(const hws_tokenizer* tokenizer, const std::vector<int32_t>& prompt);
  /// Adds a token and returns the characters that it completes.
  std::string next(int32_t token);
  /// Returns the rest at the end: bytes that never became a character.
  std::string rest();

 private:
  std::string grown(uint32_t flags);

  const hws_tokenizer* tokenizer_;
  std::vector<int32_t> tokens_;
  size_t shown_ = 0;
};

}  // namespace hawser::cli
