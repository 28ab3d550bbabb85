#include "engine/train/assembly/assemble.h"

#include <iterator>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf/hf_model.h"

namespace hawser::train {
namespace {

using Json = OrderedJson;

/// The JSON value at `pointer`, or null.
Json get(const config::ConfigTree& tree, const char* pointer) {
  std::string text;
  return tree.get(pointer, &text) ? Json::parse(text) : Json();
}

/// What init.from holds: a checkpoint's or a Hugging Face folder's model section and vocabulary.
struct Imported {
  Json overlay;  // {"model": {...}}
  data::Vocabulary vocabulary;
};

Imported read_model(const std::string& path, const std::vector<std::string>& ignore_keys) {
  if (checkpoint::is_checkpoint(path)) {
    const auto reader = checkpoint::Reader::open(path);
    const checkpoint::Description& d = reader->description();
    return {{{"model", Json::parse(d.model_json)}}, data::Vocabulary::from_json(d.vocabulary_json)};
  }
  if (checkpoint::hf::is_hf_folder(path))
    return {Json::parse(checkpoint::hf::model_json(checkpoint::hf::read_config_text(path), ignore_keys)), {}};
  fail(Code::kNotFound,
       "/init/from \"{}\" is neither a checkpoint (manifest.json) nor a Hugging Face folder (config.json and "
       "model.safetensors)",
       path);
}

std::vector<std::string> text_files(const config::ConfigTree& tree) {
  std::vector<std::string> paths;
  const Json path = get(tree, "/data/path");
  if (path.is_string()) paths.push_back(path.get<std::string>());
  for (const char* pointer : {"/data/sources", "/data/validation_sources"})
    for (const Json& source : get(tree, pointer)) paths.push_back(source.value("path", std::string()));
  return paths;
}

/// Lays what files say over the tree and returns the vocabulary. Rank of who knows it: init.from, then the
/// data.
data::Vocabulary lay_over_files(config::ConfigTree* tree) {
  data::Vocabulary vocabulary;
  const Json from = get(*tree, "/init/from");
  if (from.is_string() && !from.get<std::string>().empty()) {
    const Json ignore = get(*tree, "/init/ignore_keys");
    Imported imported =
        read_model(from.get<std::string>(),
                   ignore.is_array() ? ignore.get<std::vector<std::string>>() : std::vector<std::string>());
    vocabulary = imported.vocabulary;
    tree->overlay(imported.overlay.dump(), config::Origin::kImported);
  }
  const std::vector<std::string> files = text_files(*tree);
  if (vocabulary.kind() != data::VocabularyKind::kNone) {
    const bool bytes = vocabulary.kind() == data::VocabularyKind::kBytes;
    if (!files.empty())
      tree->overlay(Json{{"data", {{"vocabulary", bytes ? "bytes" : "characters"}}}}.dump(),
                    config::Origin::kImported);
    return vocabulary;
  }
  const Json kind = get(*tree, "/data/vocabulary");
  if (kind == "bytes") return data::Vocabulary::bytes();
  if (kind != "characters" || files.empty()) return vocabulary;
  vocabulary = data::Vocabulary::characters_of(files);
  tree->overlay(Json{{"model", {{"vocab_size", vocabulary.size()}}}}.dump(), config::Origin::kRule);
  return vocabulary;
}

}  // namespace

config::ConfigTree assemble_config(const config::ConfigTree& config) {
  config::ConfigTree tree = config;
  lay_over_files(&tree);
  return tree;
}

Assembly assemble(const config::ConfigTree& config) {
  Assembly a{config, {}, {}, {}};
  a.vocabulary = lay_over_files(&a.tree);
  a.config = config::resolve(a.tree);
  a.model_json = Json::parse(config::resolved_json(a.tree)).at("model").dump();
  return a;
}

config::ConfigTree config_from_model(const std::string& path) {
  Json json = {{"init", {{"from", path}}}};
  if (checkpoint::is_checkpoint(path)) {
    // The sizes and the precision that the model was trained with serve to run it, too.
    const Json trained = Json::parse(checkpoint::Reader::open(path)->description().config_json);
    for (const char* key : {"precision", "batch"})
      if (trained.contains(key)) json[key] = trained[key];
    if (trained.contains("preset")) json["preset"] = trained["preset"];
  }
  config::ConfigTree tree = config::ConfigTree::from_json(json.dump());
  assemble_config(tree);  // so that a wrong path is answered here
  return tree;
}

}  // namespace hawser::train
