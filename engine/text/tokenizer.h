// Tokenizer: splits text into ids as a tokenizer.json defines, exactly like Hugging Face's tokenizers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/text_module.h"

namespace hawser::text {

/// The bytes [begin, end) of a text.
struct TextSpan {
  uint64_t begin = 0, end = 0;
  bool operator==(const TextSpan&) const = default;
};

/// A token of the vocabulary.
struct Token {
  std::string text;
  bool special = false;  ///< a special token such as <s>, which decoding may skip
};

/// Const functions may be called concurrently, on any thread. Texts are UTF-8; other bytes are kDataInvalid,
/// with their offset. The interrupt poll of the calling thread ends encoding and training with kCancelled.
class Tokenizer {
 public:
  /// Reads the text of a tokenizer.json. `name`: its name in errors, such as its path. Ignores its truncation
  /// and padding. Throws kDataInvalid naming the fault, and kUnavailable without the text module.
  Tokenizer(std::string_view json, std::string name, const std::string& module_folder = "");
  ~Tokenizer();
  Tokenizer(Tokenizer&& other) noexcept;
  Tokenizer& operator=(Tokenizer&& other) noexcept;

  /// Number of ids: the greatest id plus 1, including added tokens.
  int64_t vocabulary_size() const { return vocabulary_size_; }
  /// Throws kDataInvalid if no token has this id.
  Token token(int64_t id) const;
  std::optional<int64_t> id(std::string_view token) const;

  /// Returns the ids of a text. with_special: includes those that the post-processor adds, such as a first
  /// <s>.
  std::vector<uint32_t> encode(std::string_view text, bool with_special) const;
  /// Returns the ids of a pair of texts.
  std::vector<uint32_t> encode_pair(std::string_view first, std::string_view second, bool with_special) const;
  /// Appends the ids, and for each id the bytes of `text` that it represents; {0, 0} for an added token.
  void encode_with_spans(std::string_view text, bool with_special, std::vector<uint32_t>* ids,
                         std::vector<TextSpan>* spans) const;
  std::string decode(std::span<const uint32_t> ids, bool skip_special) const;

  /// Returns the next piece of text, or nothing at the end.
  using Texts = std::function<std::optional<std::string>()>;
  /// Trains a byte-level BPE of `vocabulary` tokens, `specials` first, and returns its tokenizer.json. Equal
  /// texts give equal bytes. Holds all distinct words of the texts in memory.
  static std::string train_bpe(const Texts& texts, uint32_t vocabulary,
                               const std::vector<std::string>& specials,
                               const std::string& module_folder = "");

 private:
  friend class TextDecoder;
  void encode(std::string_view first, const std::string_view* second, bool with_special,
              std::vector<uint32_t>* ids, std::vector<uint64_t>* spans) const;

  std::string name_;
  const TextModule* module_;
  TextTokenizer* tokenizer_ = nullptr;
  int64_t vocabulary_size_ = 0;
};

/// TextDecoder: converts ids to text one by one. A character is returned when its bytes are complete.
class TextDecoder {
 public:
  /// The tokenizer must outlive this.
  TextDecoder(const Tokenizer& tokenizer, bool skip_special);
  ~TextDecoder();
  TextDecoder(const TextDecoder&) = delete;
  TextDecoder& operator=(const TextDecoder&) = delete;
  /// Returns the text that `id` completes; "" if there is none yet.
  std::string next(uint32_t id);

 private:
  const Tokenizer& tokenizer_;
  TextStream* stream_ = nullptr;
};

}  // namespace hawser::text
