// Implements the commands about models on disk and devices: inspect, verify, convert, device.
#include <nlohmann/json.hpp>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/measure_cluster.h"
#include "bindings/cli/model_card.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

/// Prints "name: value" lines. Lists and objects of more than a line follow indented.
void print_tree(const ordered_json& node, int indent) {
  for (const auto& [key, value] : node.items()) {
    if (value.is_object() && !value.empty()) {
      output().print("%*s%s:\n", indent, "", key.c_str());
      print_tree(value, indent + 2);
    } else {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      output().print("%*s%s: %s\n", indent, "", key.c_str(), text.c_str());
    }
  }
}

void print_tensors(const ordered_json& tensors) {
  output().print("tensors: %zu\n", tensors.size());
  for (const auto& [key, tensor] : tensors.items()) {
    const std::string name = tensor.contains("name") ? tensor["name"].get<std::string>() : key;
    const std::string dtype = tensor.contains("dtype") ? tensor["dtype"].get<std::string>() : "";
    output().print("  %-44s %-5s %s\n", name.c_str(), dtype.c_str(),
                   tensor.value("shape", ordered_json()).dump().c_str());
  }
}

/// A Hugging Face folder has no step and no digests, so only its model is shown.
int inspect_hugging_face(const std::string& folder, bool json) {
  const Config config = make<Config>(hws_config_from_model, folder.c_str());
  const ordered_json model = resolved_tree(config.get()).at("model");
  if (json) {
    output().line(ordered_json({{"hugging_face", folder}, {"model", model}}).dump());
    return kExitOk;
  }
  output().print("Hugging Face folder: %s\nmodel:\n", folder.c_str());
  print_tree(model, 2);
  output().print("hawser convert %s CHECKPOINT makes a checkpoint of it\n", folder.c_str());
  return kExitOk;
}

}  // namespace

int run_inspect(const std::string& checkpoint, bool json) {
  const ModelPath model = find_model(checkpoint);
  if (model.kind == ModelKind::kHuggingFace) return inspect_hugging_face(model.path, json);
  const std::string text = text_of(hws_checkpoint_inspect, model.path.c_str());
  if (json) {
    output().line(text);
    return kExitOk;
  }
  ordered_json tree = parse_json(text);
  ordered_json tensors = ordered_json::object();
  if (tree.contains("tensors") && tree["tensors"].is_structured()) {
    tensors = tree["tensors"];
    tree.erase("tensors");
  }
  output().print("checkpoint: %s\n", model.path.c_str());
  print_tree(tree, 0);
  if (!tensors.empty()) print_tensors(tensors);
  return kExitOk;
}

int run_verify(const std::string& checkpoint) {
  const ModelPath model = find_model(checkpoint);
  if (model.kind == ModelKind::kHuggingFace)
    refuse(checkpoint +
           " is a Hugging Face folder, which has no digests to check; make a checkpoint of it first: hawser "
           "convert " +
           checkpoint + " CHECKPOINT");
  check(hws_checkpoint_verify(model.path.c_str()));
  output().print("%s: every digest matches\n", model.path.c_str());
  return kExitOk;
}

namespace {

int import_model(const ConvertOptions& options, const std::string& folder) {
  const auto refuse_for_import = [&](const char* option, const std::string& reason) {
    refuse(std::string(option) + " is for " + reason + ". Leave " + option + " out");
  };
  const std::string is_folder = options.source + " is a Hugging Face folder";
  if (!options.dtype.empty())
    refuse_for_import("--dtype", "exports; " + is_folder + ", which is imported with its own types");
  if (options.adapter) refuse_for_import("--adapter", "checkpoints; " + is_folder);
  const std::string keys = ordered_json(options.ignore_keys).dump();
  check(hws_checkpoint_import(folder.c_str(), options.destination.c_str(), keys.c_str()));
  output().print("%s -> checkpoint %s\n", folder.c_str(), options.destination.c_str());
  return kExitOk;
}

/// An engine for inference whose weights are the averages in the checkpoint, unrounded.
Engine open_average(const std::string& checkpoint) {
  const ordered_json json = {{"init", {{"from", checkpoint}, {"average", true}}},
                             {"batch", {{"micro_batch", 1}, {"sequence", 1}}}};
  const std::string text = json.dump();
  const Config config =
      make<Config>(hws_config_parse, static_cast<const void*>(text.data()), text.size(), HWS_FORMAT_JSON);
  return make<Engine>(hws_engine_create, config.get(), HWS_ENGINE_INFERENCE);
}

void export_model(const ConvertOptions& options, const std::string& model) {
  const char* to = options.destination.c_str();
  if (options.average && options.adapter)
    check(hws_engine_export_adapter(open_average(model).get(), to));
  else if (options.average)
    check(hws_engine_export(open_average(model).get(), to, options.dtype.c_str()));
  else if (options.adapter)
    check(hws_checkpoint_export_adapter(model.c_str(), to));
  else
    check(hws_checkpoint_export(model.c_str(), to, options.dtype.c_str()));
}

}  // namespace

int run_convert(const ConvertOptions& options) {
  const ModelPath model = find_model(options.source);
  if (exists(options.destination)) {
    throw Failure(HWS_ALREADY_EXISTS,
                  options.destination + " already exists; choose another name or remove it");
  }
  const bool gguf = options.destination.ends_with(".gguf");
  if (options.dtype == "q8_0" && !gguf)
    refuse("--dtype q8_0 is for GGUF files; give a destination that ends in .gguf");
  if (options.average && model.kind == ModelKind::kHuggingFace)
    refuse("--average is for checkpoints; " + options.source +
           " is a Hugging Face folder, which has no average of its weights. Leave --average out");
  if (model.kind == ModelKind::kHuggingFace && !gguf) return import_model(options, model.path);
  if (!options.ignore_keys.empty())
    refuse("--ignore-key is for imports of a Hugging Face folder into a checkpoint. Leave --ignore-key out");
  if (options.adapter && !options.dtype.empty())
    refuse("--dtype is for models; an adapter keeps its types. Leave --dtype out");
  export_model(options, model.path);
  const char* kind = options.adapter ? (gguf ? "GGUF adapter" : "PEFT folder")
                                     : (gguf ? "GGUF file" : "Hugging Face folder");
  output().print("%s -> %s %s\n", model.path.c_str(), kind, options.destination.c_str());
  if (!gguf) write_model_card(options.source, options.destination, options.adapter);
  return kExitOk;
}

int run_device(const DeviceOptions& options) {
  if (!options.measure.empty()) {
    if (exists(options.measure))
      throw Failure(HWS_ALREADY_EXISTS,
                    options.measure + " already exists; choose another name or remove it");
    replace_file(options.measure, measure_cluster(options.threads).dump(2) + "\n");
    output().print("wrote %s; predict a step with: hawser plan CONFIG --cluster %s\n",
                   options.measure.c_str(), options.measure.c_str());
    return kExitOk;
  }
  const auto devices = parse_json(text_of(hws_device_list));
  const auto measured = parse_json(text_of(hws_device_measure, options.threads, options.seconds));
  if (options.json) {
    output().line(ordered_json({{"devices", devices}, {"measured", measured}}).dump(2));
    return kExitOk;
  }
  for (const auto& device : devices) {
    print_tree(device, 0);
    output().print("\n");
  }
  output().print("measured:\n");
  print_tree(measured, 2);
  return kExitOk;
}

}  // namespace hawser::cli
