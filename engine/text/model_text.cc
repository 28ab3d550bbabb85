#include "engine/text/model_text.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/input_file.h"
#include "engine/base/json.h"
#include "engine/text/answer_tail.h"

namespace hawser::text {
namespace {

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kSettings = "tokenizer_config.json";
constexpr const char* kSpecialTokens = "special_tokens_map.json";
constexpr const char* kTemplate = "chat_template.jinja";
constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kModel = "config.json";
constexpr const char* kFiles[] = {kTokenizer, kSettings, kSpecialTokens, kTemplate, kGeneration, kModel};
constexpr int64_t kMostBytes = int64_t{512} << 20;

/// Returns the text of a token, which may be a string or an object with flags.
std::optional<std::string> token_text(const OrderedJson& token) {
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string())
    return token["content"].get<std::string>();
  return std::nullopt;
}

const std::string& required(const TextFiles& files, const std::string& where) {
  const auto found = files.find(kTokenizer);
  if (found == files.end())
    fail(Code::kNotFound,
         "{} has no {}, so Hawser cannot tokenize text for it; save the tokenizer in that form (in "
         "Transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)), or give token ids",
         where, kTokenizer);
  return found->second;
}

std::string read(const std::string& path) {
  const InputFile file = InputFile::open(path);
  if (file.size() > kMostBytes)
    fail(Code::kOutOfRange, "{} has {} bytes; at most {} can be read", path, file.size(), kMostBytes);
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, text.data(), file.size());
  return text;
}

}  // namespace

TextFiles read_text_files(const std::string& folder) {
  TextFiles files;
  for (const char* name : kFiles) {
    try {
      files[name] = read(folder + "/" + name);
    } catch (const Error& error) {
      if (error.code() != Code::kNotFound) throw;
      files.erase(name);
    }
  }
  return files;
}

TextFiles read_tokenizer_file(const std::string& path) { return {{kTokenizer, read(path)}}; }

std::string text_digest(const std::string& text) {
  if (text.empty()) return "";
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("xxh3-128:{:016x}{:016x}", hash.high64, hash.low64);
}

std::string tokenizer_digest(const TextFiles& files) {
  const auto found = files.find(kTokenizer);
  return found == files.end() ? "" : text_digest(found->second);
}

ModelText::ModelText(const TextFiles& files, const std::string& where, const std::string& module_folder)
    : where_(where),
      digest_(tokenizer_digest(files)),
      tokenizer_(required(files, where), path_of(kTokenizer), module_folder) {
  const OrderedJson settings = object_in(files, kSettings);
  read_special_names(files, settings);
  read_templates(files, settings, module_folder);
  find_end_tokens(files);
}

std::string ModelText::path_of(const std::string& name) const {
  std::error_code unknown;
  return std::filesystem::is_regular_file(where_, unknown) ? where_ : where_ + "/" + name;
}

/// Returns the JSON object in a file; an empty object if there is no such file.
OrderedJson ModelText::object_in(const TextFiles& files, const char* name) const {
  const auto found = files.find(name);
  if (found == files.end()) return OrderedJson::object();
  OrderedJson json;
  try {
    json = parse_json<OrderedJson>(found->second);
  } catch (const OrderedJson::exception& error) {
    fail(Code::kDataInvalid, "{} is not JSON: {}", path_of(name), error.what());
  }
  if (!json.is_object()) fail(Code::kDataInvalid, "{} is not a JSON object", path_of(name));
  return json;
}

/// Reads names as Transformers does. The settings name the tokens; special_tokens_map.json overrides them in
/// older folders, whose settings do not list all added tokens.
void ModelText::read_special_names(const TextFiles& files, const OrderedJson& settings) {
  const auto add = [&](const OrderedJson& names) {
    for (const auto& [name, token] : names.items()) {
      const std::optional<std::string> text = token_text(token);
      if (text && name.ends_with("_token")) special_names_[name] = *text;
    }
  };
  add(settings);
  for (const char* list : {"extra_special_tokens", "model_specific_special_tokens"})
    if (settings.contains(list) && settings[list].is_object()) add(settings[list]);
  if (!settings.contains("added_tokens_decoder")) add(object_in(files, kSpecialTokens));
}

/// Reads templates. A template file overrides the settings, which may hold one template or several with
/// names.
void ModelText::read_templates(const TextFiles& files, const OrderedJson& settings,
                               const std::string& module_folder) {
  std::string usual, with_tools, name = path_of(kTemplate);
  if (const auto file = files.find(kTemplate); file != files.end()) {
    usual = file->second;
  } else if (settings.contains("chat_template")) {
    name = fmt::format("chat_template of {}", path_of(kSettings));
    const OrderedJson& value = settings["chat_template"];
    if (value.is_string()) usual = value.get<std::string>();
    if (value.is_array())
      for (const OrderedJson& one : value) {
        if (!one.is_object() || !one.contains("template") || !one["template"].is_string()) continue;
        const OrderedJson which = one.value("name", OrderedJson());
        if (which == "default") usual = one["template"].get<std::string>();
        if (which == "tool_use") with_tools = one["template"].get<std::string>();
      }
  }
  if (!usual.empty()) chat_template_ = std::make_unique<ChatTemplate>(usual, name, module_folder);
  if (!with_tools.empty()) tool_template_ = std::make_unique<ChatTemplate>(with_tools, name, module_folder);
  template_digest_ = text_digest(usual + with_tools);
}

/// Returns eos_token_id of a file, which may be one id or several; returns none if the file does not exist.
std::vector<int32_t> ModelText::end_ids(const TextFiles& files, const char* name) const {
  std::vector<int32_t> result;
  const OrderedJson ids = object_in(files, name).value("eos_token_id", OrderedJson());
  for (const OrderedJson& id : ids.is_array() ? ids : OrderedJson::array({ids})) {
    if (id.is_null()) continue;
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      fail(Code::kDataInvalid, "{}: eos_token_id is {}; it must be a token id or a list of them",
           path_of(name), ids.dump());
    result.push_back(id.get<int32_t>());
  }
  return result;
}

/// A text ends with eos_token. If the folder's settings name none, it ends with eos_token_id of config.json
/// or, if that is missing, of generation_config.json.
void ModelText::find_end_tokens(const TextFiles& files) {
  end_tokens_ = end_ids(files, files.contains(kGeneration) ? kGeneration : kModel);
  if (const auto name = special_names_.find("eos_token"); name != special_names_.end()) {
    if (const auto id = tokenizer_.id(name->second)) end_of_text_ = static_cast<uint32_t>(*id);
  } else {
    for (const char* file : {kModel, kGeneration}) {
      const std::vector<int32_t> ids = end_ids(files, file);
      if (end_of_text_ || ids.empty() || ids.front() >= tokenizer_.vocabulary_size()) continue;
      end_of_text_ = static_cast<uint32_t>(ids.front());
      special_names_["eos_token"] = tokenizer_.token(ids.front()).text;
    }
  }
  if (end_of_text_) end_tokens_.push_back(static_cast<int32_t>(*end_of_text_));
  if (const auto id = end_of_answer()) end_tokens_.push_back(static_cast<int32_t>(*id));
  std::sort(end_tokens_.begin(), end_tokens_.end());
  end_tokens_.erase(std::unique(end_tokens_.begin(), end_tokens_.end()), end_tokens_.end());
}

/// Returns the special token that follows the answer in a short chat. A model that was trained on such chats
/// generates it, even if its generation_config.json names another token.
std::optional<int64_t> ModelText::end_of_answer() const {
  if (!chat_template_) return std::nullopt;
  const std::optional<std::string> tail = answer_tail(*chat_template_, special_names_, 0);
  if (!tail) return std::nullopt;
  for (const uint32_t id : tokenizer_.encode(*tail, false))
    if (tokenizer_.token(id).special) return id;
  return std::nullopt;
}

}  // namespace hawser::text
