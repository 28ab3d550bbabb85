// Vocabulary: the tokenizer of a model's folder as metadata of a GGUF file.
#pragma once

#include <string>

#include "engine/checkpoint/gguf/format.h"
#include "engine/checkpoint/hf/hf_model.h"

namespace hawser::checkpoint::gguf {

/// Adds the vocabulary, merges or scores, special tokens and chat template. `files` are those of an exported
/// folder (tokenizer.json, tokenizer_config.json, chat_template.jinja, generation_config.json); without a
/// tokenizer.json the file says that it has no vocabulary, and llama.cpp takes token ids only. Ids up to
/// vocab_size that the tokenizer lacks get unused tokens.
///
/// Two kinds of BPE are expressed: over bytes, as in GPT-2, Llama 3 and Qwen, and SentencePiece's with byte
/// fallback, as in Llama 2, Mistral and Gemma. llama.cpp splits text by a rule that a file names, so a
/// tokenizer with another rule is refused. It has no Unicode normalisation: NFC (Qwen) is left out, and text
/// that is not in NFC gets other tokens there.
///
/// Throws kFailedPrecondition for a tokenizer that llama.cpp does not have, with the part that it lacks, and
/// kCheckpointCorrupt for a file that is no tokenizer.
void add_vocabulary(const hf::ExtraFiles& files, int64_t vocab_size, Metadata* metadata);

}  // namespace hawser::checkpoint::gguf
