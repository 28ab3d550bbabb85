#include "engine/assembly/assemble.h"

#include <iterator>
#include <limits>

#include "engine/assembly/base_weights.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf/family.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/checkpoint/hf/peft.h"
#include "engine/checkpoint/hf/quantised.h"
#include "engine/checkpoint/hf/tokenizer_files.h"
#include "engine/checkpoint/reader.h"
#include "engine/config/problems.h"
#include "engine/data/content.h"
#include "engine/data/dataset.h"
#include "engine/data/prepared_folder.h"

namespace hawser::train {
namespace {

/// The JSON value at `pointer`, or null.
OrderedJson get(const config::ConfigTree& tree, const char* pointer) {
  std::string text;
  return tree.get(pointer, &text) ? parse_json<OrderedJson>(text) : OrderedJson();
}

constexpr const char* kTokenizerFile = "tokenizer.json";

/// The parts that init.from imports: the model section and vocabulary of a checkpoint or Hugging Face folder.
struct Imported {
  OrderedJson overlay;  // {"model": {...}}
  data::Vocabulary vocabulary;
  std::string tokenizer;  // file name of the model's tokenizer; "" if it has none
  std::string family;     // model_type of its Hugging Face folder; "" if it is a checkpoint
};

/// The results of reading the files that a config names.
struct FromFiles {
  data::Vocabulary vocabulary;  // of bytes or characters
  std::string tokenizer_of;     // the model whose tokenizer.json makes the tokens; "" without one
  std::string family;
  bool new_head = false;
};

/// Returns the model_type in the text of a config.json.
std::string family_in(const std::string& config_json) {
  return parse_json<OrderedJson>(config_json).value("model_type", std::string());
}

/// Splits a checkpoint's model section into the sections `model` and, if there is one, `adapter`.
OrderedJson split_model(const std::string& model_json) {
  OrderedJson model = parse_json<OrderedJson>(model_json), sections = OrderedJson::object();
  if (model.contains("adapter")) sections["adapter"] = model["adapter"];
  model.erase("adapter");
  sections["model"] = std::move(model);
  return sections;
}

Imported read_model(const std::string& path, const std::vector<std::string>& ignore_keys,
                    const std::string& base) {
  if (checkpoint::is_checkpoint(path)) {
    const auto reader = checkpoint::Reader::open(path);
    find_base(*reader, path, base);  // throws if `base` is wrong
    const checkpoint::Description& d = reader->description();
    const checkpoint::hf::Tokenizer came_with = checkpoint::hf::tokenizer_of(d.extra_files);
    const auto own = data::Vocabulary::from_json(d.vocabulary_json);
    const bool known = own.kind() != data::VocabularyKind::kNone;
    const auto config = d.extra_files.find("config.json");
    return {split_model(d.model_json), known ? own : came_with.vocabulary, came_with.file,
            config == d.extra_files.end() ? "" : family_in(config->second)};
  }
  if (!base.empty()) fail_needless_base(path);
  if (checkpoint::hf::is_hf_folder(path)) {
    const checkpoint::hf::Tokenizer came_with = checkpoint::hf::tokenizer_of(path);
    const std::string text = checkpoint::hf::read_config_text(path);
    return {parse_json<OrderedJson>(checkpoint::hf::model_json(text, ignore_keys)), came_with.vocabulary,
            came_with.file, family_in(text)};
  }
  fail(Code::kNotFound,
       "/init/from \"{}\" is neither a checkpoint (manifest.json) nor a Hugging Face folder (config.json and "
       "model.safetensors)",
       path);
}

bool is_text(const config::ConfigTree& tree) {
  return get(tree, "/data/format") == "text" || get(tree, "/data/vocabulary").is_string();
}

/// Refuses to train a model with a tokenizer on other tokens of a text: it would learn nonsense without any
/// error.
void check_tokens(const config::ConfigTree& tree, const std::string& from, const std::string& tokenizer) {
  if (!is_text(tree)) return;
  const OrderedJson kind = get(tree, "/data/vocabulary");
  if (tokenizer != kTokenizerFile)
    config::throw_if_any(
        {{"/data/format",
          fmt::format("the model in {} was trained on the tokens of its {}, a form that Hawser does not read",
                      from, tokenizer),
          "write a tokenizer.json (in Transformers: "
          "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)), "
          "give token ids (format \"tokens\"), or set data.as_is to true to train on bytes or characters all "
          "the same"}});
  if (kind.is_string() && kind != "tokenizer")
    config::throw_if_any(
        {{"/data/vocabulary",
          fmt::format("the model in {} was trained on the tokens of its {}, not on {}", from, tokenizer,
                      kind == "bpe" ? "a newly learned vocabulary" : kind.get<std::string>()),
          "leave data.vocabulary out, or set data.as_is to true to train on bytes or characters all the "
          "same"}});
}

std::vector<std::string> text_files(const config::ConfigTree& tree) {
  std::vector<std::string> paths;
  const OrderedJson path = get(tree, "/data/path");
  if (path.is_string()) paths.push_back(path.get<std::string>());
  for (const char* pointer : {"/data/sources", "/data/validation_sources"})
    for (const OrderedJson& source : get(tree, pointer)) paths.push_back(source.value("path", std::string()));
  return paths;
}

void lay_over_vocabulary(config::ConfigTree* tree, const char* name) {
  tree->overlay(OrderedJson{{"data", {{"vocabulary", name}}}}.dump(), config::Origin::kImported);
}

/// The distinct characters of the files.
data::Vocabulary count_characters(config::ConfigTree* tree, const std::vector<std::string>& files) {
  if (get(*tree, "/data/as_is") != true)
    for (const std::string& file : files) data::check_is_text(file);
  data::Vocabulary vocabulary = data::Vocabulary::characters_of(files);
  tree->overlay(OrderedJson{{"model", {{"vocab_size", vocabulary.size()}}}}.dump(), config::Origin::kRule);
  return vocabulary;
}

/// Takes the vocabulary or tokenizer of the model that init.from names. Returns false if the model has none,
/// or if data.as_is asks for other tokens than those of its tokenizer.
bool take_text_of(const Imported& imported, const std::string& from, config::ConfigTree* tree,
                  FromFiles* found) {
  const bool text = is_text(*tree);
  if (imported.vocabulary.kind() != data::VocabularyKind::kNone) {
    const bool bytes = imported.vocabulary.kind() == data::VocabularyKind::kBytes;
    found->vocabulary = imported.vocabulary;
    if (!text_files(*tree).empty()) lay_over_vocabulary(tree, bytes ? "bytes" : "characters");
    return true;
  }
  if (imported.tokenizer.empty() || (text && get(*tree, "/data/as_is") == true)) return false;
  check_tokens(*tree, from, imported.tokenizer);
  if (imported.tokenizer == kTokenizerFile) found->tokenizer_of = from;
  if (imported.tokenizer == kTokenizerFile && text) lay_over_vocabulary(tree, "tokenizer");
  return true;
}

/// Removes the head's keys from a language model that is to end in a score. Returns true if it did.
bool take_off_head(const config::ConfigTree& tree, OrderedJson* model) {
  if (model->contains("head") && get(tree, "/model/head") == "language")
    config::throw_if_any(
        {{"/model/head", "\"language\", but the model of init.from has a score head and no token logits",
          "leave it out, or set init.from to a language model"}});
  const bool wanted = get(tree, "/objective/kind") == "reward" || get(tree, "/model/head") == "score";
  if (!wanted || model->contains("head")) return false;
  for (const char* key : {"tied_head", "logit_softcap"}) model->erase(key);
  return true;
}

/// Completes the tree from files: first from init.from, then from the data.
FromFiles lay_over_files(config::ConfigTree* tree) {
  FromFiles found;
  const OrderedJson from = get(*tree, "/init/from"), base = get(*tree, "/init/base");
  if (from.is_string() && !from.get<std::string>().empty()) {
    const OrderedJson ignore = get(*tree, "/init/ignore_keys");
    Imported imported =
        read_model(from.get<std::string>(),
                   ignore.is_array() ? ignore.get<std::vector<std::string>>() : std::vector<std::string>(),
                   base.is_string() ? base.get<std::string>() : "");
    found.family = imported.family;
    found.new_head = take_off_head(*tree, &imported.overlay["model"]);
    tree->overlay(imported.overlay.dump(), config::Origin::kImported);
    if (take_text_of(imported, from.get<std::string>(), tree, &found)) return found;
  } else if (base.is_string()) {
    fail_needless_base("");
  }
  const OrderedJson kind = get(*tree, "/data/vocabulary");
  const std::vector<std::string> files = text_files(*tree);
  if (kind == "tokenizer")
    config::throw_if_any({{"/data/vocabulary", "/init/from names no model with a tokenizer",
                           "set it to a model's folder, or use \"bytes\", \"characters\" or \"bpe\" here"}});
  if (kind == "bytes") found.vocabulary = data::Vocabulary::bytes();
  if (kind == "characters" && !files.empty()) found.vocabulary = count_characters(tree, files);
  return found;
}

/// Takes the chat template with which the rows were prepared; the model uses it from now on. Throws if they
/// were prepared with another tokenizer.
void take_prepared_template(const std::string& prepared, const std::string& model, text::TextFiles* files) {
  if (data::read_manifest(prepared).tokenizer != text::tokenizer_digest(*files))
    config::throw_if_any(
        {{"/data/path",
          fmt::format("the rows in {} were prepared with another tokenizer than that of {}", prepared, model),
          "prepare them with this model"}});
  text::TextFiles theirs = text::read_text_files(prepared);
  if (const auto own = theirs.find("chat_template.jinja"); own != theirs.end())
    (*files)[own->first] = std::move(own->second);
}

/// Opens the tokenizer of the model, or else of prepared rows; it becomes the vocabulary. Returns null if
/// neither has one.
std::shared_ptr<const ModelTokens> open_tokenizer(const config::ConfigTree& tree, FromFiles* found) {
  const std::vector<std::string> paths = text_files(tree);
  const std::string prepared =
      get(tree, "/data/format") == "prepared" && !paths.empty() ? paths.front() : std::string();
  if (found->tokenizer_of.empty() && found->vocabulary.kind() == data::VocabularyKind::kNone)
    found->tokenizer_of = prepared;
  if (found->tokenizer_of.empty()) return nullptr;
  text::TextFiles files = text_files_of(found->tokenizer_of);
  if (!prepared.empty()) take_prepared_template(prepared, found->tokenizer_of, &files);
  const OrderedJson size = get(tree, "/model/vocab_size");  // imported with the model, or the config's own
  auto tokens = std::make_shared<const ModelTokens>(
      std::move(files), found->tokenizer_of,
      size.is_number_integer() ? size.get<int64_t>() : std::numeric_limits<int64_t>::max());
  found->vocabulary = data::Vocabulary::of_tokenizer(tokens);
  return tokens;
}

/// Returns the imported family if it can express the model, otherwise a family that can; "" if none can.
std::string family_for(const std::string& imported, const nn::ModelConfig& model) {
  const bool fits = !imported.empty() && checkpoint::hf::obstacle(imported, model).empty();
  return fits ? imported : checkpoint::hf::family_of(model);
}

/// Completes the tree from the PEFT folder of adapter.from.
void lay_over_adapter(config::ConfigTree* tree, const std::string& family) {
  const OrderedJson from = get(*tree, "/adapter/from");
  if (!from.is_string()) return;
  const std::string text = checkpoint::hf::read_adapter_config(from.get<std::string>());
  config::ConfigTree bare = *tree;
  bare.set("/adapter", "{}");
  for (const char* section : {"/optimizer", "/train", "/schedule"}) bare.set(section, "{}");
  const nn::ModelConfig model = config::resolve(bare).model;
  const std::string of = family_for(family, model);
  if (of.empty())
    fail(Code::kFailedPrecondition,
         "/adapter/from: no Hugging Face family that Hawser knows can express this model ({})",
         checkpoint::hf::obstacles(model));
  tree->overlay(checkpoint::hf::adapter_json(text, of, model), config::Origin::kImported);
}

/// True if an NF4 base stores its absmax nested (quantised). It does unless its folder has plain ones.
bool has_nested_absmax(const config::InitConfig& init) {
  if (init.from.empty()) return true;
  const std::string folder = base_folder(init);
  return !checkpoint::hf::is_hf_folder(folder) ||
         !checkpoint::hf::has_plain_absmax(checkpoint::hf::read_config_text(folder));
}

/// Counts the rows of a pass over the training data, if epochs need their number.
void count_epoch(config::ConfigTree* tree, const data::Vocabulary& vocabulary) {
  if (get(*tree, "/train/epochs").is_null() || !get(*tree, "/train/epoch_samples").is_null()) return;
  config::ConfigTree known = *tree;  // without the sections that depend on the number of steps
  for (const char* section : {"/train", "/schedule"}) known.set(section, "{}");
  config::ResolvedConfig c;
  try {
    c = config::resolve(known);
  } catch (const Error& error) {
    if (error.code() == Code::kConfigInvalid) return;  // resolving the full config reports all problems
    throw;
  }
  if (c.data.format == config::DataFormat::kNone || c.data.sources.empty()) return;
  if (c.data.learned_tokens > 0)
    config::throw_if_any(
        {{"/train/epochs",
          "rows per epoch are unknown, because the vocabulary is learned when the run starts",
          "give train.steps instead"}});
  const auto dataset = data::Dataset::open(c.data, vocabulary, c.seed, c.batch.sequence, c.model.vocab_size);
  tree->overlay(OrderedJson{{"train", {{"epoch_samples", dataset->train_samples()}}}}.dump(),
                config::Origin::kRule);
}

}  // namespace

config::ConfigTree assemble_config(const config::ConfigTree& config) {
  config::ConfigTree tree = config;
  FromFiles found = lay_over_files(&tree);
  open_tokenizer(tree, &found);
  lay_over_adapter(&tree, found.family);
  count_epoch(&tree, found.vocabulary);
  return tree;
}

Assembly assemble(const config::ConfigTree& config) {
  Assembly a{config, {}, {}, {}, {}, {}, {}};
  FromFiles found = lay_over_files(&a.tree);
  a.tokens = open_tokenizer(a.tree, &found);
  a.vocabulary = found.vocabulary;
  a.family = found.family;
  a.new_head = found.new_head;
  lay_over_adapter(&a.tree, a.family);
  count_epoch(&a.tree, a.vocabulary);
  a.config = config::resolve(a.tree);
  a.family = family_for(a.family, a.config.model);
  OrderedJson resolved = parse_json<OrderedJson>(config::resolved_json(a.tree));
  a.model_json = resolved.at("model").dump();
  nn::AdapterConfig& adapter = a.config.model.adapter;
  if (!adapter.on()) return a;
  if (adapter.nf4) adapter.nf4_nested = has_nested_absmax(a.config.init);
  resolved.at("adapter").erase("from");
  // Leaves out keys that are not in use, so that older checkpoints, which lack them, compare as equal.
  if (!adapter.nf4) resolved.at("adapter").erase("base");
  if (!adapter.dora) resolved.at("adapter").erase("dora");
  a.adapter_json = resolved.at("adapter").dump();
  return a;
}

std::string Assembly::stored_model_json() const {
  if (adapter_json.empty()) return model_json;
  OrderedJson json = parse_json<OrderedJson>(model_json);
  json["adapter"] = parse_json<OrderedJson>(adapter_json);
  return json.dump();
}

std::string hugging_face_form(const Assembly& a) {
  return a.family.empty() ? fmt::format("none ({})", checkpoint::hf::obstacles(a.config.model))
                          : checkpoint::hf::architecture(a.family, a.config.model.head);
}

config::ConfigTree config_from_model(const std::string& path) {
  OrderedJson json = {{"init", {{"from", path}}}};
  if (checkpoint::is_checkpoint(path)) {
    // Run the model with the sizes and precision that it was trained with.
    // The preset's other sections belong to training; its data section, for example, has no path.
    const OrderedJson trained =
        parse_json<OrderedJson>(checkpoint::Reader::open(path)->description().config_json);
    OrderedJson chosen = OrderedJson::object();
    for (const char* key : {"preset", "precision", "batch"})
      if (trained.contains(key)) chosen[key] = trained[key];
    chosen = parse_json<OrderedJson>(config::ConfigTree::from_json(chosen.dump()).to_json_without_preset());
    for (const char* key : {"precision", "batch"})
      if (chosen.contains(key)) json[key] = chosen[key];
    // Without the run's mesh, the same global_batch needs another number of accumulation steps.
    if (json.contains("batch") && json["batch"].contains("global_batch"))
      json["batch"].erase("grad_accum_steps");
  }
  config::ConfigTree tree = config::ConfigTree::from_json(json.dump());
  assemble_config(tree);  // so that a wrong path is reported here
  return tree;
}

}  // namespace hawser::train
