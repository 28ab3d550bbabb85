// DataConfig: the settings for where tokens come from and how rows are made from them. The schema
// (capi/schema/config.fbs) has the names of enums, which have the same numbers here; a test compares the
// names with those that this layer writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hawser::data {

/// kNone: the program pushes batches.
enum class DataFormat { kNone = -1, kText, kTokens, kMegatron, kPrepared };
enum class VocabularyKind { kNone = -1, kBytes, kCharacters, kTokenizer };
enum class TokenType { kU16, kU32 };
// The names of their values in configs.
inline constexpr const char* kDataFormatNames[] = {"text", "tokens", "megatron", "prepared"};
inline constexpr const char* kVocabularyKindNames[] = {"bytes", "characters", "tokenizer"};
inline constexpr const char* kTokenTypeNames[] = {"u16", "u32"};

struct DataSource {
  std::string path;  ///< text file, raw token file, Megatron prefix (without .bin/.idx), or prepared folder
  double weight = 1.0;
  std::string name = {};  ///< name of a validation source's own loss; "": the file's name
};

struct DataConfig {
  DataFormat format = DataFormat::kNone;
  std::vector<DataSource> sources;
  std::vector<DataSource> validation_sources;  ///< empty: a split of the training sources
  VocabularyKind vocabulary = VocabularyKind::kNone;
  int64_t learned_tokens = 0;  ///< kTokenizer: size of a BPE to train on the text; 0: no training
  TokenType token_type = TokenType::kU16;
  double validation_fraction = 0.1;  ///< the last share of each source
  bool packing = false;              ///< document mask: attention does not cross documents
  int64_t separator = -1;            ///< token that ends a document; -1: none
  bool shuffle = true;
  bool pairs = false;  ///< rows are pairs of answers, the chosen one first (/objective)
  bool as_is = false;  ///< accept any file as text, and ignore the model's tokenizer
  /// Rows of a global batch, if shuffled rows of one document are to be grouped by length; 0: they are not.
  /// It follows from the batch, so the config has no key for it.
  int64_t length_group = 0;
};

void each_key(DataSource& s, auto&& visit) {
  visit("path", s.path);
  visit("weight", s.weight);
  visit("name", s.name);
}
/// Calls visit(key, member, applies) for each key of the config's data section except `vocabulary` and
/// `vocab_size`, which are read together (config/decode.cc). `applies` is true if the format has the key.
void each_key(DataConfig& d, auto&& visit) {
  visit("format", d.format, true);
  visit("sources", d.sources, true);
  visit("validation_sources", d.validation_sources, true);
  visit("token_type", d.token_type, d.format == DataFormat::kTokens);
  visit("validation_fraction", d.validation_fraction, true);
  visit("packing", d.packing, true);
  visit("separator", d.separator, d.format == DataFormat::kTokens);
  visit("shuffle", d.shuffle, true);
  visit("as_is", d.as_is, true);
}

}  // namespace hawser::data
