// The tokenizer in a Hugging Face folder. Hawser runs none yet: it says whether there is one, and writes one
// for its own byte and character models, which AutoTokenizer loads and an import knows again.
#pragma once

#include <cstdint>
#include <string>

#include "engine/checkpoint/hf/hf_model.h"
#include "engine/data/vocabulary.h"

namespace hawser::checkpoint::hf {

/// How a model's text becomes tokens, as far as its files say.
struct Tokenizer {
  std::string file;             ///< such as "tokenizer.json"; "": there is none
  data::Vocabulary vocabulary;  ///< of a model that Hawser exported; none where the tokenizer is another
};

Tokenizer tokenizer_of(const std::string& folder);
Tokenizer tokenizer_of(const ExtraFiles& files);

/// Puts tokenizer.json and tokenizer_config.json of the vocabulary (not none) in the place of any other
/// tokenizer. `context`: most tokens of a row.
void put_tokenizer(const data::Vocabulary& vocabulary, int64_t context, ExtraFiles* files);

}  // namespace hawser::checkpoint::hf
