// ModelTokens: the tokenizer of a model, opened at its first use. An engine that handles only token ids
// therefore needs no text module.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/vocabulary.h"
#include "engine/text/model_text.h"

namespace hawser::train {

/// Reads the files about text (tokenizer, chat template) in a model's folder or checkpoint, or a
/// tokenizer.json alone. A checkpoint of a model of bytes or characters yields the tokenizer that its export
/// would have. Throws kNotFound if `path` does not exist.
text::TextFiles text_files_of(const std::string& path);

class ModelTokens final : public data::TextTokens {
 public:
  /// `where`: the folder or checkpoint, for errors. vocab_size: rows of the model's embedding.
  ModelTokens(text::TextFiles files, std::string where, int64_t vocab_size);

  /// Throws what ModelText throws, and kDataInvalid for a tokenizer with more tokens than the embedding has
  /// rows.
  std::shared_ptr<const text::ModelText> text() const;
  const text::TextFiles& files() const { return files_; }

  int64_t size() const override { return text()->tokenizer().vocabulary_size(); }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::vector<int32_t> encode(const InputFile& file) const override;
  std::string decode(const int32_t* tokens, int64_t n) const override;
  const std::string& digest() const override { return digest_; }

 private:
  const text::TextFiles files_;
  const std::string where_, digest_;
  const int64_t vocab_size_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const text::ModelText> text_;
};

}  // namespace hawser::train
