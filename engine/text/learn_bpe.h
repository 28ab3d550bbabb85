// A model's own vocabulary: a byte-level BPE, learned from files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/text/model_text.h"

namespace hawser::text {

/// Learns from UTF-8 files, in their order. The result is a tokenizer.json of at most `vocabulary` tokens,
/// `specials` first; equal files give equal bytes. Throws kDataInvalid for other bytes, with their offset,
/// and for a vocabulary without room for 256 bytes and the special tokens.
std::string learn_bpe(const std::vector<std::string>& paths, int64_t vocabulary,
                      const std::vector<std::string>& specials, const std::string& module_folder = "");

/// The files of a model that learns its own vocabulary: tokenizer.json with <|endoftext|>, which ends a text,
/// and the marks of ChatML, which a chat needs later; what Transformers wants beside it; what ends
/// generation.
TextFiles learn_model_text(const std::vector<std::string>& paths, int64_t vocabulary, int64_t context,
                           const std::string& module_folder = "");

}  // namespace hawser::text
