// Pre-tokenizers: llama.cpp's names for the ways in which a byte-level BPE splits text into words.
#pragma once

#include <string>

#include "engine/base/json.h"

namespace hawser::checkpoint::gguf {

/// Returns the value of tokenizer.ggml.pre for the "pre_tokenizer" of a tokenizer.json. ignore_merges: a word
/// that is a token is never split into merges. Throws kFailedPrecondition if llama.cpp has no such splitting.
std::string pre_tokenizer_name(const Json& pre_tokenizer, bool ignore_merges);

}  // namespace hawser::checkpoint::gguf
