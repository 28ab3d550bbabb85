// Tokenizer files: detect the tokenizer in a Hugging Face folder (text/model_text.h opens it), and write one
// for Hawser's own byte and character models, which AutoTokenizer loads and an import recognises.
#pragma once

#include <cstdint>
#include <string>

#include "engine/checkpoint/hf/hf_model.h"
#include "engine/data/vocabulary.h"

namespace hawser::checkpoint::hf {

/// Tokenization of a model's text, according to its files.
struct Tokenizer {
  std::string file;             ///< such as "tokenizer.json"; "" if there is none
  data::Vocabulary vocabulary;  ///< for a model exported by Hawser; otherwise none
};

Tokenizer tokenizer_of(const std::string& folder);
Tokenizer tokenizer_of(const ExtraFiles& files);

/// Adds tokenizer.json and tokenizer_config.json for the vocabulary (not none), replacing any other
/// tokenizer. `context`: maximum tokens of a row.
void put_tokenizer(const data::Vocabulary& vocabulary, int64_t context, ExtraFiles* files);

}  // namespace hawser::checkpoint::hf
