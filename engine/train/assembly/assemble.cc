#include "engine/train/assembly/assemble.h"

#include <iterator>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf/family.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/checkpoint/hf/tokenizer_files.h"
#include "engine/checkpoint/reader.h"
#include "engine/config/problems.h"
#include "engine/data/content.h"
#include "engine/data/dataset.h"

namespace hawser::train {
namespace {

/// The JSON value at `pointer`, or null.
OrderedJson get(const config::ConfigTree& tree, const char* pointer) {
  std::string text;
  return tree.get(pointer, &text) ? OrderedJson::parse(text) : OrderedJson();
}

/// What init.from contributes: the model section and vocabulary of a checkpoint or Hugging Face folder.
struct Imported {
  OrderedJson overlay;  // {"model": {...}}
  data::Vocabulary vocabulary;
  std::string tokenizer;  // file name of the model's tokenizer; "" if it has none
  std::string family;     // model_type of its Hugging Face folder; "" if it is a checkpoint
};

/// The model_type in a config.json that has already been parsed.
std::string family_in(const std::string& config_json) {
  return OrderedJson::parse(config_json).value("model_type", std::string());
}

Imported read_model(const std::string& path, const std::vector<std::string>& ignore_keys) {
  if (checkpoint::is_checkpoint(path)) {
    const auto reader = checkpoint::Reader::open(path);
    const checkpoint::Description& d = reader->description();
    const checkpoint::hf::Tokenizer came_with = checkpoint::hf::tokenizer_of(d.extra_files);
    const auto own = data::Vocabulary::from_json(d.vocabulary_json);
    const bool known = own.kind() != data::VocabularyKind::kNone;
    const auto config = d.extra_files.find("config.json");
    return {{{"model", OrderedJson::parse(d.model_json)}},
            known ? own : came_with.vocabulary,
            came_with.file,
            config == d.extra_files.end() ? "" : family_in(config->second)};
  }
  if (checkpoint::hf::is_hf_folder(path)) {
    const checkpoint::hf::Tokenizer came_with = checkpoint::hf::tokenizer_of(path);
    const std::string text = checkpoint::hf::read_config_text(path);
    return {OrderedJson::parse(checkpoint::hf::model_json(text, ignore_keys)), came_with.vocabulary,
            came_with.file, family_in(text)};
  }
  fail(Code::kNotFound,
       "/init/from \"{}\" is neither a checkpoint (manifest.json) nor a Hugging Face folder (config.json and "
       "model.safetensors)",
       path);
}

/// Refuses to train a model with a tokenizer on the bytes of a text. Bytes are different tokens, so the model
/// would learn nonsense without any error.
void check_tokens(const config::ConfigTree& tree, const std::string& from, const std::string& tokenizer) {
  const bool text = get(tree, "/data/format") == "text" || get(tree, "/data/vocabulary").is_string();
  if (!text || tokenizer.empty() || get(tree, "/data/as_is") == true) return;
  config::throw_if_any(
      {{"/data/format",
        fmt::format("the model in {} was trained on the tokens of its {}, which Hawser cannot make from text "
                    "yet; the bytes or characters of a text are other tokens",
                    from, tokenizer),
        "make token ids with the model's own tokenizer, store them as u16 or u32, and use format \"tokens\"; "
        "or "
        "set data.as_is to true to train on bytes or characters all the same"}});
}

std::vector<std::string> text_files(const config::ConfigTree& tree) {
  std::vector<std::string> paths;
  const OrderedJson path = get(tree, "/data/path");
  if (path.is_string()) paths.push_back(path.get<std::string>());
  for (const char* pointer : {"/data/sources", "/data/validation_sources"})
    for (const OrderedJson& source : get(tree, pointer)) paths.push_back(source.value("path", std::string()));
  return paths;
}

/// Fills the tree in from files and returns the vocabulary. init.from comes before the data. `*family`
/// receives the model_type of the Hugging Face folder, or "".
data::Vocabulary lay_over_files(config::ConfigTree* tree, std::string* family) {
  data::Vocabulary vocabulary;
  const OrderedJson from = get(*tree, "/init/from");
  if (from.is_string() && !from.get<std::string>().empty()) {
    const OrderedJson ignore = get(*tree, "/init/ignore_keys");
    Imported imported =
        read_model(from.get<std::string>(),
                   ignore.is_array() ? ignore.get<std::vector<std::string>>() : std::vector<std::string>());
    vocabulary = imported.vocabulary;
    *family = imported.family;
    if (vocabulary.kind() == data::VocabularyKind::kNone)
      check_tokens(*tree, from.get<std::string>(), imported.tokenizer);
    tree->overlay(imported.overlay.dump(), config::Origin::kImported);
  }
  const std::vector<std::string> files = text_files(*tree);
  if (vocabulary.kind() != data::VocabularyKind::kNone) {
    const bool bytes = vocabulary.kind() == data::VocabularyKind::kBytes;
    if (!files.empty())
      tree->overlay(OrderedJson{{"data", {{"vocabulary", bytes ? "bytes" : "characters"}}}}.dump(),
                    config::Origin::kImported);
    return vocabulary;
  }
  const OrderedJson kind = get(*tree, "/data/vocabulary");
  if (kind == "bytes") return data::Vocabulary::bytes();
  if (kind != "characters" || files.empty()) return vocabulary;
  if (get(*tree, "/data/as_is") != true)
    for (const std::string& file : files) data::check_is_text(file);
  vocabulary = data::Vocabulary::characters_of(files);
  tree->overlay(OrderedJson{{"model", {{"vocab_size", vocabulary.size()}}}}.dump(), config::Origin::kRule);
  return vocabulary;
}

/// Counts the rows of a pass over the training data, if epochs need their number.
void count_epoch(config::ConfigTree* tree, const data::Vocabulary& vocabulary) {
  if (get(*tree, "/train/epochs").is_null() || !get(*tree, "/train/epoch_samples").is_null()) return;
  config::ConfigTree known = *tree;  // what depends on the steps is not known yet
  for (const char* section : {"/train", "/schedule"}) known.set(section, "{}");
  config::ResolvedConfig c;
  try {
    c = config::resolve(known);
  } catch (const Error& error) {
    if (error.code() == Code::kConfigInvalid) return;  // whoever resolves the whole config tells all problems
    throw;
  }
  if (c.data.format == config::DataFormat::kNone || c.data.sources.empty()) return;
  const auto dataset = data::Dataset::open(c.data, vocabulary, c.seed, c.batch.sequence, c.model.vocab_size);
  tree->overlay(OrderedJson{{"train", {{"epoch_samples", dataset->train_samples()}}}}.dump(),
                config::Origin::kRule);
}

}  // namespace

config::ConfigTree assemble_config(const config::ConfigTree& config) {
  config::ConfigTree tree = config;
  std::string family;
  count_epoch(&tree, lay_over_files(&tree, &family));
  return tree;
}

Assembly assemble(const config::ConfigTree& config) {
  Assembly a{config, {}, {}, {}, {}};
  a.vocabulary = lay_over_files(&a.tree, &a.family);
  count_epoch(&a.tree, a.vocabulary);
  a.config = config::resolve(a.tree);
  if (a.family.empty() || !checkpoint::hf::obstacle(a.family, a.config.model).empty())
    a.family = checkpoint::hf::family_of(a.config.model);
  a.model_json = OrderedJson::parse(config::resolved_json(a.tree)).at("model").dump();
  return a;
}

std::string hugging_face_form(const Assembly& a) {
  return a.family.empty() ? fmt::format("none ({})", checkpoint::hf::obstacles(a.config.model))
                          : checkpoint::hf::architecture(a.family);
}

config::ConfigTree config_from_model(const std::string& path) {
  OrderedJson json = {{"init", {{"from", path}}}};
  if (checkpoint::is_checkpoint(path)) {
    // Run the model with the sizes and precision that it was trained with.
    const OrderedJson trained = OrderedJson::parse(checkpoint::Reader::open(path)->description().config_json);
    for (const char* key : {"precision", "batch"})
      if (trained.contains(key)) json[key] = trained[key];
    if (trained.contains("preset")) json["preset"] = trained["preset"];
  }
  config::ConfigTree tree = config::ConfigTree::from_json(json.dump());
  assemble_config(tree);  // so that a wrong path is reported here
  return tree;
}

}  // namespace hawser::train
