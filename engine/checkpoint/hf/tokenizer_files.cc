// Tokenizer files: written for models with Hawser's byte or character vocabulary. The byte tokenizer is
// GPT-2's byte-level BPE without merges; the character tokenizer is a BPE whose words are characters. Both
// map any text to tokens one by one, and back without loss.
#include "engine/checkpoint/hf/tokenizer_files.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/utf8.h"
#include "engine/checkpoint/file_io.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kVocabularyKey = "hawser_vocabulary";  // a key in tokenizer_config.json
constexpr const char* kTokenizers[] = {kTokenizer, "tokenizer.model", "vocab.json"};
constexpr const char* kOthers[] = {"tokenizer.model",         "vocab.json",        "merges.txt",
                                   "special_tokens_map.json", "added_tokens.json", "spiece.model"};
constexpr int64_t kMostConfigBytes = int64_t{16} << 20;  // a vocabulary has at most 1.1 million characters

/// Returns the vocabulary that our export recorded; none for any other text.
data::Vocabulary noted_vocabulary(const std::string& tokenizer_config) {
  const OrderedJson json = parse_json_or_discard<OrderedJson>(tokenizer_config);
  if (!json.is_object() || !json.contains(kVocabularyKey)) return {};
  return data::Vocabulary::from_json(json.at(kVocabularyKey).dump());
}

/// Returns the character for a byte in a byte-level tokenizer. Printable bytes map to themselves, the others
/// in order to characters from U+0100 on.
std::string byte_token(int byte) {
  const auto prints = [](int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
  uint32_t point = static_cast<uint32_t>(byte);
  if (!prints(byte)) {
    point = 256;
    for (int b = 0; b < byte; ++b) point += prints(b) ? 0 : 1;
  }
  std::string text;
  append_code_point(point, &text);
  return text;
}

OrderedJson words_of(const data::Vocabulary& vocabulary) {
  OrderedJson words = OrderedJson::object();
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    const bool bytes = vocabulary.kind() == data::VocabularyKind::kBytes;
    words[bytes ? byte_token(token) : vocabulary.decode(&token, 1)] = token;
  }
  return words;
}

std::string tokenizer_text(const data::Vocabulary& vocabulary) {
  const bool bytes = vocabulary.kind() == data::VocabularyKind::kBytes;
  const OrderedJson byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  const OrderedJson json = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", OrderedJson::array()},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", bytes ? byte_level : OrderedJson()},
                            {"post_processor", nullptr},
                            {"decoder", bytes ? byte_level : OrderedJson{{"type", "Fuse"}}},
                            {"model",
                             {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", words_of(vocabulary)},
                              {"merges", OrderedJson::array()}}}};
  return json.dump(2) + "\n";
}

}  // namespace

Tokenizer tokenizer_of(const std::string& path) {
  const Folder folder = Folder::open(path);
  const auto has = [&](const char* name) { return folder.has_file(name, Links::kFollow); };
  const auto found = std::find_if(std::begin(kTokenizers), std::end(kTokenizers), has);
  if (found == std::end(kTokenizers)) return {};
  Tokenizer tokenizer{*found, {}};
  if (!has(kTokenizerConfig)) return tokenizer;
  const File file = folder.open_file(kTokenizerConfig, Links::kFollow);
  if (file.size() > kMostConfigBytes) return tokenizer;
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, text.data(), file.size());
  tokenizer.vocabulary = noted_vocabulary(text);
  return tokenizer;
}

Tokenizer tokenizer_of(const ExtraFiles& files) {
  const auto found = std::find_if(std::begin(kTokenizers), std::end(kTokenizers),
                                  [&](const char* name) { return files.count(name) != 0; });
  if (found == std::end(kTokenizers)) return {};
  const auto config = files.find(kTokenizerConfig);
  return {*found, config == files.end() ? data::Vocabulary() : noted_vocabulary(config->second)};
}

void put_tokenizer(const data::Vocabulary& vocabulary, int64_t context, ExtraFiles* files) {
  HWS_CHECK(vocabulary.kind() != data::VocabularyKind::kNone);
  for (const char* name : kOthers) files->erase(name);
  (*files)[kTokenizer] = tokenizer_text(vocabulary);
  const OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                              {"model_max_length", context},
                              {"clean_up_tokenization_spaces", false},
                              {kVocabularyKey, parse_json<OrderedJson>(vocabulary.to_json())}};
  (*files)[kTokenizerConfig] = config.dump(2) + "\n";
}

}  // namespace hawser::checkpoint::hf
