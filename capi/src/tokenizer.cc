// The functions hws_tokenizer_*: the tokenizer and chat template of a model behind a handle.
#include <ctime>

#include "capi/src/buffer.h"
#include "capi/src/engine.h"
#include "capi/src/guard.h"
#include "engine/assembly/model_tokens.h"
#include "engine/base/json.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/hf/tokenizer_files.h"
#include "engine/checkpoint/json_text.h"
#include "engine/text/learn_bpe.h"
#include "engine/text/model_text.h"
#include "engine/text/training_row.h"

using namespace hawser::capi;
using hawser::Code;
using hawser::OrderedJson;
using hawser::text::ModelText;

namespace {

class TokenizerObject : public Object {
 public:
  static constexpr HandleType kType = HandleType::kTokenizer;
  std::shared_ptr<const ModelText> text;  ///< thread-safe; never null
};

void publish_text_of(std::shared_ptr<const ModelText> text, hws_tokenizer** out) {
  auto object = std::make_unique<TokenizerObject>();
  object->text = std::move(text);
  publish(std::move(object), out);
}

/// The tokenizer of the engine's model. Models of bytes or characters get the one that their export would
/// have.
std::shared_ptr<const ModelText> text_of(const hawser::train::Trainer& trainer) {
  const hawser::train::Assembly& assembly = trainer.ranks().assembly();
  if (assembly.tokens) return assembly.tokens->text();
  if (assembly.vocabulary.kind() == hawser::data::VocabularyKind::kNone)
    hawser::fail(
        Code::kFailedPrecondition,
        "the model has no tokenizer: its folder has no tokenizer.json; give one to the folder, or use token "
        "ids");
  hawser::text::TextFiles files;
  hawser::checkpoint::hf::put_tokenizer(assembly.vocabulary, assembly.config.model.context, &files);
  return std::make_shared<const ModelText>(files, "the model");
}

OrderedJson info_of(const ModelText& text) {
  OrderedJson json;
  json["vocab_size"] = text.tokenizer().vocabulary_size();
  json["end_of_text"] = text.end_of_text() ? OrderedJson(*text.end_of_text()) : OrderedJson();
  json["end_tokens"] = text.end_tokens();
  json["special_tokens"] = text.special_names();
  json["chat_template"] = text.chat_template() != nullptr;
  json["digest"] = text.digest();
  json["template_digest"] = text.chat_template() ? OrderedJson(text.template_digest()) : OrderedJson();
  return json;
}

void check_flags(const Call& call, uint32_t flags, uint32_t known, const char* names) {
  if ((flags & ~known) != 0)
    call.invalid("flags", fmt::format("is {:#x}; this function knows {}", flags, names));
}

/// Removes replacement characters at the end of the text. They stand for an incomplete character, which later
/// tokens may complete.
std::string_view whole_characters(std::string_view text) {
  constexpr std::string_view kUnknown = "\xEF\xBF\xBD";
  while (text.ends_with(kUnknown)) text.remove_suffix(kUnknown.size());
  return text;
}

/// The variables of the template: messages and tools in its form, the other values of `chat`, and the special
/// tokens.
OrderedJson variables_of(const ModelText& text, const OrderedJson& chat) {
  const hawser::text::TrainingRow row = hawser::text::training_row(chat, "the chat");
  OrderedJson variables = {{"documents", nullptr}, {"add_generation_prompt", false}};
  for (const auto& [name, token] : text.special_names()) variables[name] = token;
  for (const auto& [name, value] : chat.items()) variables[name] = value;
  variables["messages"] = row.messages;
  variables["tools"] = row.tools;
  return variables;
}

/// Writes a file that must not exist. If that fails, no file is left.
void write_new(const std::string& path, const std::string& text) {
  const auto [parent, name] = hawser::checkpoint::split_path(path);
  const auto folder = hawser::checkpoint::Folder::open(parent);
  const std::string temporary = name + "." + hawser::checkpoint::unique_suffix() + ".tmp";
  try {
    hawser::checkpoint::File file = folder.create_file(temporary);
    file.write(text.data(), static_cast<int64_t>(text.size()));
    file.sync();
    file.close();
    folder.rename_new(temporary, name);
  } catch (...) {
    folder.remove_tree(temporary);
    throw;
  }
}

}  // namespace

hws_status hws_tokenizer_open(const char* path, hws_tokenizer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const std::string where = call.path(path, "path");
    publish_text_of(std::make_shared<const ModelText>(hawser::train::text_files_of(where), where), out);
  });
}

hws_status hws_engine_tokenizer(const hws_engine* engine, hws_tokenizer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text_of(text_of(*Use<Engine>(call, engine, Access::kShared)->trainer), out);
  });
}

hws_status hws_tokenizer_info(const hws_tokenizer* tokenizer, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(info_of(*Use<TokenizerObject>(call, tokenizer, Access::kShared)->text).dump(), out);
  });
}

hws_status hws_tokenizer_encode(const hws_tokenizer* tokenizer, const char* text, size_t size, uint32_t flags,
                                hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<TokenizerObject> use(call, tokenizer, Access::kShared);
    call.array(text, size, "text");
    check_flags(call, flags, HWS_TEXT_ADD_SPECIAL, "HWS_TEXT_ADD_SPECIAL");
    const std::string_view bytes = size == 0 ? std::string_view() : std::string_view(text, size);
    const std::vector<uint32_t> ids =
        use->text->tokenizer().encode(bytes, (flags & HWS_TEXT_ADD_SPECIAL) != 0);
    publish_bytes(ids.data(), ids.size() * sizeof(int32_t), out);
  });
}

hws_status hws_tokenizer_decode(const hws_tokenizer* tokenizer, const int32_t* tokens, size_t count,
                                uint32_t flags, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<TokenizerObject> use(call, tokenizer, Access::kShared);
    call.array(tokens, count, "tokens");
    check_flags(call, flags, HWS_TEXT_SKIP_SPECIAL | HWS_TEXT_WHOLE,
                "HWS_TEXT_SKIP_SPECIAL and HWS_TEXT_WHOLE");
    std::vector<uint32_t> ids;
    for (size_t i = 0; i < count; ++i) {
      if (tokens[i] < 0)
        call.invalid("tokens", fmt::format("has {} at index {}, which is not a token id", tokens[i], i));
      ids.push_back(static_cast<uint32_t>(tokens[i]));
    }
    const std::string text = use->text->tokenizer().decode(ids, (flags & HWS_TEXT_SKIP_SPECIAL) != 0);
    publish_text((flags & HWS_TEXT_WHOLE) != 0 ? whole_characters(text) : text, out);
  });
}

hws_status hws_tokenizer_render(const hws_tokenizer* tokenizer, const char* chat, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<TokenizerObject> use(call, tokenizer, Access::kShared);
    const std::string_view json = call.text(chat, "chat", Call::kValueLimit);
    const ModelText& text = *use->text;
    if (text.chat_template() == nullptr)
      hawser::fail(Code::kFailedPrecondition,
                   "the model has no chat template: neither a chat_template.jinja nor a chat_template in its "
                   "tokenizer_config.json");
    hawser::checkpoint::check_json_object(json, "the chat", Code::kDataInvalid);
    const auto given = hawser::parse_json<OrderedJson>(json);
    if (!given.contains("messages"))
      hawser::fail(Code::kDataInvalid, "the chat has no \"messages\", an array of {{\"role\", \"content\"}}");
    const OrderedJson variables = variables_of(text, given);
    const bool tools = !variables["tools"].is_null();
    publish_text(text.chat_template(tools)->render(variables.dump(), std::time(nullptr)).text, out);
  });
}

hws_status hws_tokenizer_train(const char* files, int64_t vocab_size, const char* special_tokens,
                               const char* path) {
  return guard(__func__, [&](const Call& call) {
    const std::vector<std::string> from = call.string_list(files, "files");
    const std::vector<std::string> specials = call.string_list(special_tokens, "special_tokens");
    const std::string to = call.path(path, "path");
    call.range(vocab_size, 1, INT32_MAX, "vocab_size");
    if (hawser::checkpoint::path_exists(to))
      hawser::fail(Code::kAlreadyExists, "{} exists; give a path that does not", to);
    write_new(to, hawser::text::learn_bpe(from, vocab_size, specials));
  });
}

void hws_tokenizer_destroy(hws_tokenizer* tokenizer) { destroy_handle(HandleType::kTokenizer, tokenizer); }
