// New tokens as text: a character is shown once its bytes are whole. Special tokens are left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/cli/client.h"

namespace hawser::cli {

using Tokenizer = std::unique_ptr<hws_tokenizer, Destroyer<hws_tokenizer, hws_tokenizer_destroy>>;

/// Whether the engine's model has a tokenizer, so that its text needs one. Models of bytes and characters do
/// not.
bool has_tokenizer(const hws_engine* engine);

/// What ends the model's text.
std::vector<int32_t> end_tokens_of(const hws_tokenizer* tokenizer);

/// Token ids such as 1,2,3, also with spaces or line breaks between them. `what`: where they stand, for
/// errors.
std::vector<int32_t> parse_ids(const std::string& what, const std::string& text);

/// The tokens that a buffer holds.
std::vector<int32_t> tokens_in(const Buffer& buffer);

/// What follows a prompt. A tokenizer may decode a token otherwise at the beginning of a text, so all is
/// decoded and the new part handed out.
class TextStream {
 public:
  /// The tokenizer must outlive this.
  TextStream(const hws_tokenizer* tokenizer, const std::vector<int32_t>& prompt);
  /// What the token makes whole.
  std::string next(int32_t token);
  /// What is left at the end: bytes that never became a character.
  std::string rest();

 private:
  std::string grown(uint32_t flags);

  const hws_tokenizer* tokenizer_;
  std::vector<int32_t> tokens_;
  size_t shown_ = 0;
};

}  // namespace hawser::cli
