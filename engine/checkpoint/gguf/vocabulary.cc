#include "engine/checkpoint/gguf/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/gguf/pre_tokenizer.h"
#include "engine/checkpoint/json_text.h"

namespace hawser::checkpoint::gguf {
namespace {

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kSpace = "\u2581";  // SentencePiece's sign for a blank

// The format's numbers for kinds of tokens.
constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

[[noreturn]] void no_such_tokenizer(const std::string& what) {
  fail(Code::kFailedPrecondition, "llama.cpp has no tokenizer like tokenizer.json: {}", what);
}

Json parse(const hf::ExtraFiles& files, const char* name) {
  const auto file = files.find(name);
  if (file == files.end()) return Json::object();
  Json json = parse_json_or_discard<Json>(file->second);
  if (!json.is_object()) fail(Code::kCheckpointCorrupt, "{} is not a JSON object", name);
  return json;
}

/// Returns the value of a key; null without the key.
const Json& value_or_null(const Json& object, const char* key) {
  static const Json null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

class Vocabulary {
 public:
  Vocabulary(const hf::ExtraFiles& files, int64_t size)
      : files_(files),
        json_(parse(files, kTokenizer)),
        config_(parse(files, "tokenizer_config.json")),
        generation_(parse(files, "generation_config.json")),
        model_(json_.at("model")),
        tokens_(static_cast<size_t>(size)),
        types_(static_cast<size_t>(size), kUnused) {
    if (model_.value("type", "BPE") != "BPE")
      no_such_tokenizer("its model is " + model_.value("type", "") + ", not BPE");
  }

  void add_to(Metadata* metadata) {
    fill_tokens();
    if (model_.value("byte_fallback", false)) {
      add_sentencepiece(metadata);
    } else if (is_byte_level()) {
      add_byte_level(metadata);
    } else {
      add_characters(metadata);
    }
    metadata->add("tokenizer.ggml.token_type", types_);
    add_special_tokens(metadata);
    add_chat_template(metadata);
  }

 private:
  void put(int64_t id, const std::string& text, int32_t type) {
    if (id < 0 || id >= std::ssize(tokens_))
      fail(Code::kFailedPrecondition,
           "token {} of tokenizer.json has the id {}, but the model has a vocabulary of {}; GGUF needs a row "
           "of the table for each token",
           in_quotes(text), id, tokens_.size());
    tokens_[static_cast<size_t>(id)] = text;
    types_[static_cast<size_t>(id)] = type;
    ids_[text] = static_cast<int32_t>(id);
  }

  void fill_tokens() {
    for (size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = fmt::format("[PAD{}]", i);
    for (const auto& [text, id] : model_.at("vocab").items()) put(id.get<int64_t>(), text, kNormal);
    for (const Json& added : value_or_null(json_, "added_tokens")) {
      for (const char* flag : {"single_word", "lstrip", "rstrip"})
        if (added.value(flag, false))
          no_such_tokenizer(fmt::format("its added token {} has {}",
                                        in_quotes(added.at("content").get<std::string>()), flag));
      put(added.at("id").get<int64_t>(), added.at("content").get<std::string>(),
          added.value("special", false) ? kControl : kUserDefined);
    }
  }

  bool has_merges() const { return !value_or_null(model_, "merges").empty(); }

  bool is_byte_level() const {
    const Json& pre = value_or_null(json_, "pre_tokenizer");
    return pre.is_object() && pre.dump().find("\"ByteLevel\"") != std::string::npos;
  }

  /// Returns the two tokens that a merge joins. Older files write them as one string.
  static std::pair<std::string, std::string> merge_parts(const Json& merge) {
    if (merge.is_array()) return {merge.at(0).get<std::string>(), merge.at(1).get<std::string>()};
    const std::string text = merge.get<std::string>();
    const size_t blank = text.find(' ', 1);
    if (blank == text.npos)
      fail(Code::kCheckpointCorrupt, "tokenizer.json: {} is not a merge", in_quotes(text));
    return {text.substr(0, blank), text.substr(blank + 1)};
  }

  void check_normalizer(const std::string& allowed) const {
    const Json& normalizer = value_or_null(json_, "normalizer");
    if (normalizer.is_null()) return;
    const std::string type = normalizer.value("type", "");
    if (type != allowed) no_such_tokenizer("the normalizer " + normalizer.dump());
  }

  void add_byte_level(Metadata* metadata) {
    check_normalizer("NFC");
    const Json& pre = json_.at("pre_tokenizer");
    const std::string name = pre_tokenizer_name(pre, model_.value("ignore_merges", false));
    const bool splits = pre.value("type", "") != "ByteLevel" || pre.value("use_regex", true);
    if (!splits && has_merges()) no_such_tokenizer("BPE over bytes that does not split text into words");
    metadata->add("tokenizer.ggml.model", "gpt2");
    metadata->add("tokenizer.ggml.pre", name);
    metadata->add("tokenizer.ggml.tokens", tokens_);
    std::vector<std::string> merges;
    for (const Json& merge : value_or_null(model_, "merges")) {
      const auto [left, right] = merge_parts(merge);
      merges.push_back(left + " " + right);
    }
    metadata->add("tokenizer.ggml.merges", merges);
  }

  /// llama.cpp has no merges here: it joins the two neighbours whose joint piece has the highest score. So a
  /// piece's score follows from its first merge.
  void add_sentencepiece(Metadata* metadata) {
    const bool prefix = adds_prefix();
    constexpr float kNever = -1e9f;  // of pieces that no merge makes
    std::vector<float> scores(tokens_.size(), kNever);
    std::unordered_set<std::string> merges;
    int64_t rank = 0;
    for (const Json& merge : value_or_null(model_, "merges")) {
      const auto [left, right] = merge_parts(merge);
      const auto joint = ids_.find(left + right);
      if (joint == ids_.end())
        fail(Code::kCheckpointCorrupt, "tokenizer.json merges {} and {} into no token", in_quotes(left),
             in_quotes(right));
      merges.insert(left + " " + right);
      float& score = scores[static_cast<size_t>(joint->second)];
      if (score == kNever) score = -static_cast<float>(rank++);
    }
    check_all_splits_merge(merges);
    for (const auto& [text, id] : ids_) {
      int32_t& type = types_[static_cast<size_t>(id)];
      if (text.size() == 6 && text.starts_with("<0x") && text.ends_with(">") && type == kNormal) type = kByte;
      if (type == kUserDefined) replace_spaces(&tokens_[static_cast<size_t>(id)]);
    }
    if (const std::optional<int32_t> unknown = id_of(value_or_null(model_, "unk_token"))) {
      types_[static_cast<size_t>(*unknown)] = kUnknown;
      metadata->add("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(*unknown));
    }
    add_pieces(scores, prefix, metadata);
  }

  /// SentencePiece joins any two neighbours whose joint piece exists, so merges made from it contain each
  /// split of each piece.
  void check_all_splits_merge(const std::unordered_set<std::string>& merges) const {
    for (const auto& [text, id] : ids_) {
      if (types_[static_cast<size_t>(id)] != kNormal) continue;
      for (size_t at = 1; at < text.size(); ++at) {
        const std::string left = text.substr(0, at), right = text.substr(at);
        if (is_normal(left) && is_normal(right) && merges.count(left + " " + right) == 0)
          no_such_tokenizer(
              fmt::format("it never merges {} and {}, which SentencePiece would, because {} is a token",
                          in_quotes(left), in_quotes(right), in_quotes(text)));
      }
    }
  }
  bool is_normal(const std::string& text) const {
    const auto found = ids_.find(text);
    return found != ids_.end() && types_[static_cast<size_t>(found->second)] == kNormal;
  }

  void add_pieces(const std::vector<float>& scores, bool prefix, Metadata* metadata) {
    metadata->add("tokenizer.ggml.model", "llama");
    metadata->add("tokenizer.ggml.pre", "default");
    metadata->add("tokenizer.ggml.tokens", tokens_);
    metadata->add("tokenizer.ggml.scores", scores);
    metadata->add("tokenizer.ggml.add_space_prefix", prefix);
  }

  static void replace_spaces(std::string* text) {
    for (size_t at = text->find(kSpace); at != text->npos; at = text->find(kSpace, at))
      text->replace(at, 3, " ");
  }

  /// True if a blank is added before a text. Throws for normalizers and pre-tokenizers other than
  /// SentencePiece's.
  bool adds_prefix() const {
    const Json& normalizer = value_or_null(json_, "normalizer");
    const Json& pre = value_or_null(json_, "pre_tokenizer");
    const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}};
    const Json prepend = {{"type", "Prepend"}, {"prepend", kSpace}};
    const Json both = {{"type", "Sequence"}, {"normalizers", {prepend, replace}}};
    const Json split = {{"type", "Split"},
                        {"pattern", {{"String", " "}}},
                        {"behavior", "MergedWithPrevious"},
                        {"invert", false}};
    if (normalizer == both && pre.is_null()) return true;
    if (normalizer == replace && (pre.is_null() || pre == split)) return false;
    if (normalizer.is_null() && pre.is_object() && pre.value("type", "") == "Metaspace" &&
        pre.value("replacement", "") == kSpace && !pre.value("split", true)) {
      const std::string scheme = pre.value("prepend_scheme", "always");
      return scheme != "never";
    }
    no_such_tokenizer("the normalizer " + normalizer.dump() + " with the pre_tokenizer " + pre.dump());
  }

  /// A vocabulary of characters without merges, as Hawser makes one: pieces of one character each.
  void add_characters(Metadata* metadata) {
    if (has_merges() || !value_or_null(json_, "pre_tokenizer").is_null())
      no_such_tokenizer("BPE that is neither over bytes nor has byte_fallback");
    check_normalizer("");
    if (ids_.count(kSpace) != 0 && ids_.count(" ") != 0)
      no_such_tokenizer("characters that include both a blank and U+2581");
    if (const auto blank = ids_.find(" "); blank != ids_.end())
      tokens_[static_cast<size_t>(blank->second)] = kSpace;
    add_pieces(std::vector<float>(tokens_.size(), 0), false, metadata);
  }

  std::optional<int32_t> id_of(const Json& token) const {
    const Json& text = token.is_object() && token.contains("content") ? token.at("content") : token;
    if (!text.is_string()) return std::nullopt;
    const auto found = ids_.find(text.get<std::string>());
    return found == ids_.end() ? std::nullopt : std::optional<int32_t>(found->second);
  }

  std::optional<int32_t> named(const char* key) const { return id_of(value_or_null(config_, key)); }

  /// Tokens that the post-processor adds before and after a text.
  struct Around {
    std::vector<int32_t> before, after;
  };
  void read_template(const Json& processor, Around* around) const {
    if (processor.is_null()) return;
    const std::string type = processor.value("type", "");
    if (type == "ByteLevel") return;
    if (type == "Sequence") {
      for (const Json& inner : processor.at("processors")) read_template(inner, around);
      return;
    }
    if (type != "TemplateProcessing") no_such_tokenizer("the post_processor " + type);
    bool text = false;
    for (const Json& piece : processor.at("single")) {
      if (piece.contains("Sequence")) {
        text = true;
        continue;
      }
      const std::optional<int32_t> id = id_of(piece.at("SpecialToken").at("id"));
      if (!id) fail(Code::kCheckpointCorrupt, "tokenizer.json: the post_processor names an unknown token");
      (text ? around->after : around->before).push_back(*id);
    }
  }

  void add_special_tokens(Metadata* metadata) const {
    Around around;
    read_template(value_or_null(json_, "post_processor"), &around);
    if (around.before.size() > 1 || around.after.size() > 1)
      no_such_tokenizer("a post_processor that adds several tokens");
    std::optional<int32_t> bos = named("bos_token"), eos = named("eos_token");
    if (!around.before.empty()) bos = around.before[0];
    if (!around.after.empty()) eos = around.after[0];
    std::vector<int32_t> ends = end_tokens();
    if (!eos && !ends.empty()) eos = ends[0];
    const auto id = [&](const char* key, std::optional<int32_t> value) {
      if (value) metadata->add(fmt::format("tokenizer.ggml.{}_token_id", key), static_cast<uint32_t>(*value));
    };
    id("bos", bos);
    id("eos", eos);
    id("padding", named("pad_token"));
    for (const int32_t end : ends)
      if (eos && end != *eos) {
        id("eot", end);
        break;
      }
    metadata->add("tokenizer.ggml.add_bos_token", !around.before.empty());
    metadata->add("tokenizer.ggml.add_eos_token", !around.after.empty());
  }

  /// The tokens that end an answer (generation_config.json).
  std::vector<int32_t> end_tokens() const {
    std::vector<int32_t> ends;
    const Json& value = value_or_null(generation_, "eos_token_id");
    const auto add = [&](const Json& id) {
      if (!id.is_number_integer()) return;
      const int64_t number = id.get<int64_t>();
      if (number >= 0 && number < std::ssize(tokens_)) ends.push_back(static_cast<int32_t>(number));
    };
    if (value.is_array()) {
      std::for_each(value.begin(), value.end(), add);
    } else {
      add(value);
    }
    return ends;
  }

  void add_chat_template(Metadata* metadata) const {
    constexpr const char* kKey = "tokenizer.chat_template";
    if (const auto file = files_.find("chat_template.jinja"); file != files_.end())
      return metadata->add(kKey, file->second);
    const Json& value = value_or_null(config_, "chat_template");
    if (value.is_string()) return metadata->add(kKey, value.get<std::string>());
    if (!value.is_array()) return;
    std::vector<std::string> names;
    for (const Json& item : value) {
      const std::string name = item.at("name").get<std::string>(),
                        text = item.at("template").get<std::string>();
      if (name == "default") {
        metadata->add(kKey, text);
      } else {
        metadata->add(fmt::format("{}.{}", kKey, name), text);
        names.push_back(name);
      }
    }
    if (!names.empty()) metadata->add("tokenizer.chat_templates", names);
  }

  const hf::ExtraFiles& files_;
  const Json json_, config_, generation_;
  const Json& model_;
  std::vector<std::string> tokens_;
  std::vector<int32_t> types_;
  std::map<std::string, int32_t> ids_;
};

}  // namespace

void add_vocabulary(const hf::ExtraFiles& files, int64_t vocab_size, Metadata* metadata) {
  if (files.count(kTokenizer) == 0) {
    metadata->add("tokenizer.ggml.model", "no_vocab");
    return;
  }
  try {
    Vocabulary(files, vocab_size).add_to(metadata);
  } catch (const Json::exception& error) {
    fail(Code::kCheckpointCorrupt, "tokenizer.json or tokenizer_config.json of the model: {}", error.what());
  }
}

}  // namespace hawser::checkpoint::gguf
