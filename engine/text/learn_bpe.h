// BPE training: trains a byte-level BPE on files, as a model's own vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/text/model_text.h"

namespace hawser::text {

/// Trains on UTF-8 files, in their order. Returns a tokenizer.json of at most `vocabulary` tokens, `specials`
/// first; equal files give equal bytes. Throws kDataInvalid for invalid UTF-8, with the offset, and for a
/// vocabulary too small for 256 bytes and the special tokens.
std::string learn_bpe(const std::vector<std::string>& paths, int64_t vocabulary,
                      const std::vector<std::string>& specials, const std::string& module_folder = "");

/// Returns the files of a model with a BPE trained on `paths`: tokenizer.json with <|endoftext|>, which ends
/// a text, and ChatML's tokens, which a chat needs later; the settings that Transformers expects; and the
/// token that ends generation.
TextFiles learn_model_text(const std::vector<std::string>& paths, int64_t vocabulary, int64_t context,
                           const std::string& module_folder = "");

}  // namespace hawser::text
