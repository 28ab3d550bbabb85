// golden_check: runs one folder of reference values made with Hugging Face Transformers and PyTorch through
// the C API alone: import, logits, gradients under their Hugging Face names, the training steps, export.
// Prints error over tolerance per tensor.
//
//   golden_check DIR [--precision fp32|bf16|fp16] [--device cpu|cuda] [--config FILE] [--max-isa LEVEL]
//                [--set POINTER=VALUE]...
//
// FILE is a file of DIR to read in place of its config.json (such as config.v4.json). LEVEL is a cpu.max_isa
// of the config, which selects kernels of a lower level than the machine has, or "each": all levels of the
// machine. POINTER is a field of the config, such as /mesh/tp; ranks are threads. Exit code: 0 if all errors
// are within tolerance; 1 if some are not, or a call failed; 2 for wrong usage or a folder that is not a
// golden case.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/golden/check_adapter.h"
#include "tests/golden/engine_session.h"
#include "tests/golden/golden_case.h"
#include "tests/golden/report.h"
#include "tests/golden/safetensors_file.h"

namespace hawser::golden {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string folder, precision = "fp32", device = "cpu", config = "config.json", max_isa;
  std::string adapter;                            // PEFT folder, or empty
  nlohmann::json set = nlohmann::json::object();  // values by pointer

  int64_t degree(const char* axis) const { return set.value(std::string("/mesh/") + axis, int64_t{1}); }
  int64_t data_ranks() const { return degree("dp_replicate") * degree("dp_shard"); }
  /// Returns the number of ranks. Ranks of these axes also divide the experts.
  int32_t ranks() const {
    return static_cast<int32_t>(data_ranks() * degree("pp") * degree("cp") * degree("tp"));
  }
  /// Each stage of a pipeline takes two micro-batches, unless --set gives another number.
  int64_t micro_batches() const {
    const int64_t stages = degree("pp");
    return set.value("/batch/grad_accum_steps", stages > 1 ? 2 * stages : int64_t{1});
  }
  /// Returns the micro-batches of all data-parallel ranks together.
  int64_t parts() const { return data_ranks() * micro_batches(); }
};

/// Returns the batch with masked rows appended, so that it divides into equal parts.
TokenBatch padded(TokenBatch batch, int64_t parts) {
  while (batch.rows % parts != 0) {
    const auto copy_row = [&](std::vector<int32_t>& values) {
      for (int64_t i = 0; i < batch.cols && !values.empty(); ++i)
        values.push_back(values[static_cast<size_t>(i)]);
    };
    copy_row(batch.tokens), copy_row(batch.document_begin);
    batch.targets.resize(batch.tokens.size(), -100);
    ++batch.rows;
  }
  return batch;
}

/// A temporary folder that is removed with this object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (fs::temp_directory_path() / "golden_check_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error(pattern + ": cannot be made");
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// File with the dequantised numbers of a 4-bit base, with which the case was computed.
constexpr const char* kDequantised = "dequantised.safetensors";

/// Creates the model folder as published: copies of the weights, and the chosen config under the name
/// config.json. The reference values stay outside, so that an import finds nothing that a published model
/// would not have.
void copy_model(const Arguments& arguments, const std::string& folder) {
  fs::create_directory(folder);
  for (const auto& entry : fs::directory_iterator(arguments.folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("model")) fs::copy_file(entry.path(), fs::path(folder) / name);
  }
  if (const fs::path stands_for = fs::path(arguments.folder) / kDequantised; fs::exists(stands_for))
    fs::copy_file(stands_for, fs::path(folder) / "model.safetensors", fs::copy_options::overwrite_existing);
  fs::copy_file(fs::path(arguments.folder) / arguments.config, fs::path(folder) / "config.json");
}

/// Returns the config of the training run that every golden case describes.
std::string engine_config(const Arguments& arguments, const std::string& model, const TokenBatch& batch) {
  nlohmann::json config = {
      {"init", {{"from", model}}},
      {"precision", arguments.precision},
      {"device", arguments.device},
      {"model", {{"dropout", {{"embedding", 0.0}, {"attention", 0.0}, {"residual", 0.0}}}}},
      {"batch",
       {{"micro_batch", padded(batch, arguments.parts()).rows / arguments.parts()},
        {"grad_accum_steps", arguments.micro_batches()},
        {"sequence", batch.cols}}},
      {"optimizer",
       {{"kind", "adamw"},
        {"learning_rate", kLearningRate},
        {"beta1", 0.9},
        {"beta2", 0.95},
        {"eps", 1e-8},
        {"weight_decay", 0.1},
        {"clip_norm", 1.0}}},
      {"schedule", {{"kind", "constant"}, {"warmup_steps", 0}}},
  };
  // Steps must not overflow, because the case has every step. Few targets have large gradients.
  if (arguments.precision == "fp16") config["loss_scale"]["fixed"] = 256;
  if (!arguments.max_isa.empty()) config["cpu"]["max_isa"] = arguments.max_isa;
  if (!arguments.adapter.empty()) config["adapter"]["from"] = arguments.adapter;
  for (const auto& [pointer, value] : arguments.set.items())
    config[nlohmann::json::json_pointer(pointer)] = value;
  return config.dump();
}

/// True for the causal mask that old GPT-2 files hold as a constant; it is not a weight, and Transformers
/// recomputes it.
bool is_mask(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

void check_exported(const Tensors& expected, const Tensors& exported, const std::string& what,
                    Report& report) {
  for (const auto& [name, tensor] : expected) {
    if (is_mask(name)) continue;
    const auto found = exported.find(name);
    if (found == exported.end()) {
      report.require(what + " " + name, false, "missing");
      continue;
    }
    const StoredTensor& other = found->second;
    report.require(what + " " + name,
                   other.dtype == tensor.dtype && other.shape == tensor.shape && other.bytes == tensor.bytes,
                   other.dtype + " " + shape_text(other.shape) + " instead of " + tensor.dtype + " " +
                       shape_text(tensor.shape) + ", or other bytes");
  }
  for (const auto& [name, tensor] : exported) {
    if (!expected.contains(name) && !is_mask(name))
      report.require(what + " " + name, false, "not in the folder that was imported");
  }
}

/// Compares logits, loss and gradients of one batch; weights stay unchanged. Leaves the step pending.
hws_step_result check_pass(EngineSession& engine, const ExpectedPass& expected, const Tolerances& tolerances,
                           const std::string& what, int64_t parts, Report& report) {
  report.compare(
      what + "logits",
      relative_error(engine.logits(expected.batch, expected.logits.shape[2]), expected.logits.as_doubles()),
      tolerances.of("logits"));
  const std::vector<double> loss = {expected.loss};
  const double loss_tolerance = tolerances.of("losses");
  report.compare(what + "loss of eval",
                 relative_error(std::vector<double>{engine.eval(expected.batch)}, loss), loss_tolerance);
  const hws_step_result result = engine.forward_backward(padded(expected.batch, parts));
  report.compare(what + "loss", relative_error(std::vector<double>{result.loss}, loss), loss_tolerance);
  for (const auto& [name, gradient] : expected.gradients) {
    report.compare(
        what + "grad." + name,
        relative_error(engine.tensor(HWS_TENSOR_GRADIENT, name, gradient.count()), gradient.as_doubles()),
        tolerances.of("grad." + name));
  }
  return result;
}

void check_training(EngineSession& engine, const GoldenCase& golden, const Tolerances& tolerances,
                    int64_t parts, Report& report) {
  std::vector<double> losses, norms;
  const auto record = [&](const hws_step_result& result) {
    losses.push_back(result.loss);
    norms.push_back(result.grad_norm);
  };
  record(check_pass(engine, golden.first, tolerances, "", parts, report));
  engine.commit();
  for (size_t step = 1; step < golden.steps.size(); ++step)
    record(engine.train_step(padded(golden.steps[step], parts)));
  report.compare("losses", relative_error(losses, golden.losses), tolerances.of("losses"));
  report.compare("grad_norms", relative_error(norms, golden.grad_norms), tolerances.of("grad_norms"));
  for (const auto& [name, weight] : golden.after) {
    report.compare(
        "after." + name,
        relative_error(engine.tensor(HWS_TENSOR_WEIGHT, name, weight.count()), weight.as_doubles()),
        tolerances.of("after." + name));
  }
}

/// Returns the name of the tensor that `name` repeats, or an empty name: a layer that predicts further tokens
/// has copies of the embedding and of the head.
std::string repeated_by(const std::string& name) {
  if (!name.starts_with("model.layers.")) return "";
  if (name.ends_with(".embed_tokens.weight")) return "model.embed_tokens.weight";
  return name.ends_with(".shared_head.head.weight") ? "lm_head.weight" : "";
}

/// Checks that the trained weights, exported as f32, are those that hws_tensor_get returns, with the copies
/// of the folder that was imported.
void check_trained_export(const EngineSession& engine, const GoldenCase& golden, const Tensors& imported,
                          const std::string& folder, Report& report) {
  engine.export_to(folder, "f32");
  Tensors weights;
  for (const auto& [name, after] : golden.after) {
    const std::vector<float> values = engine.tensor(HWS_TENSOR_WEIGHT, name, after.count());
    const char* bytes = reinterpret_cast<const char*>(values.data());
    weights[name] = {"F32", after.shape, {bytes, bytes + values.size() * sizeof(float)}};
  }
  for (const auto& [name, tensor] : imported)
    if (const std::string original = repeated_by(name); !original.empty())
      weights[name] = weights.at(original);
  check_exported(weights, read_model_folder(folder), "export after training:", report);
  const auto config = nlohmann::json::parse(read_text(folder + "/config.json"));
  report.require("export after training: config.json", config.contains("model_type"), "has no model_type");
}

/// Throws std::runtime_error for a folder that is not a golden case, ApiError if the library refuses it.
bool run(Arguments arguments) {
  const GoldenCase golden = read_case(arguments.folder);
  Tolerances tolerances(arguments.folder, arguments.precision);
  tolerances.allow_noise(golden);
  const Tensors stored = read_model_folder(arguments.folder);
  const ScratchFolder scratch;
  const std::string model = scratch / "model";
  copy_model(arguments, model);
  Report report;
  const bool adapter = has_adapter(arguments.folder);
  try {
    if (adapter) {
      EngineSession base(engine_config(arguments, model, golden.first.batch), arguments.ranks());
      check_base(base, read_adapter_case(arguments.folder), golden, tolerances, report);
      arguments.adapter = arguments.folder + "/adapter";
    }
    EngineSession engine(engine_config(arguments, model, golden.first.batch), arguments.ranks());
    if (adapter) {
      engine.export_adapter_to(scratch / "untouched");
      check_exported(read_safetensors(arguments.adapter + "/adapter_model.safetensors"),
                     read_safetensors(scratch / "untouched" + "/adapter_model.safetensors"),
                     "adapter:", report);
    } else {
      engine.export_to(scratch / "untouched", "");
      check_exported(stored, read_model_folder(scratch / "untouched"), "export:", report);
    }
    check_training(engine, golden, tolerances, arguments.parts(), report);
    if (adapter)
      check_trained_adapter(engine, read_adapter_case(arguments.folder), golden, tolerances,
                            scratch / "trained", report);
    else
      check_trained_export(engine, golden, stored, scratch / "trained", report);
    if (fs::exists(arguments.folder + "/packed.safetensors")) {
      const ExpectedPass packed = read_packed(arguments.folder);
      EngineSession packed_engine(engine_config(arguments, model, packed.batch), arguments.ranks());
      check_pass(packed_engine, packed, tolerances, "packed ", arguments.parts(), report);
    }
  } catch (const std::exception& error) {
    report.require("the library", false, error.what());
  }
  report.print(arguments.folder + " " + arguments.precision + " " + arguments.device + " " +
               arguments.config + (arguments.max_isa.empty() ? "" : " " + arguments.max_isa) +
               (arguments.set.empty() ? "" : " " + arguments.set.dump()));
  return report.passed();
}

/// Returns the levels of --max-isa: one level, or all levels from the lowest to the machine's.
std::vector<std::string> levels_of(const std::string& max_isa) {
  if (max_isa != "each") return {max_isa};
  hws_buffer* text = nullptr;
  check(hws_library_info(&text), "hws_library_info");
  const std::string best = nlohmann::json::parse(take_text(text)).at("cpu_level").get<std::string>();
  const std::vector<std::string> architectures[] = {
      {"generic", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16"},
      {"generic", "armv8-a", "armv8.2-a+bf16"}};
  for (const std::vector<std::string>& levels : architectures) {
    const auto found = std::find(levels.begin(), levels.end(), best);
    if (found != levels.end()) return {levels.begin(), found + 1};
  }
  return {best};
}

int usage(const std::string& problem) {
  std::fprintf(stderr,
               "golden_check: %s\n"
               "usage: golden_check DIR [--precision fp32|bf16|fp16] [--device cpu|cuda] [--config FILE] "
               "[--max-isa LEVEL] [--set POINTER=VALUE]...\n",
               problem.c_str());
  return 2;
}

int main_with(int argc, char** argv) {
  Arguments arguments;
  const std::map<std::string, std::string*> options = {{"--precision", &arguments.precision},
                                                       {"--device", &arguments.device},
                                                       {"--config", &arguments.config},
                                                       {"--max-isa", &arguments.max_isa}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto option = options.find(word);
    if (option != options.end()) {
      if (i + 1 == argc) return usage(word + " needs a value");
      *option->second = argv[++i];
    } else if (word == "--set") {
      const std::string setting = i + 1 < argc ? argv[++i] : "";
      const size_t equals = setting.find('=');
      if (!setting.starts_with("/") || equals == std::string::npos) return usage("--set needs POINTER=VALUE");
      const std::string value = setting.substr(equals + 1);
      const bool json = nlohmann::json::accept(value);
      arguments.set[setting.substr(0, equals)] = json ? nlohmann::json::parse(value) : nlohmann::json(value);
    } else if (word.starts_with("-") || !arguments.folder.empty()) {
      return usage("unexpected argument " + word);
    } else {
      arguments.folder = word;
    }
  }
  if (arguments.folder.empty()) return usage("which folder?");
  if (arguments.precision != "fp32" && arguments.precision != "bf16" && arguments.precision != "fp16") {
    return usage("--precision is fp32, bf16 or fp16, not " + arguments.precision);
  }
  try {
    bool passed = true;
    for (const std::string& level : levels_of(arguments.max_isa)) {
      Arguments at_level = arguments;
      at_level.max_isa = level;
      passed = run(at_level) && passed;
    }
    return passed ? 0 : 1;
  } catch (const std::exception& error) {
    return usage(arguments.folder + ": " + error.what());
  }
}

}  // namespace
}  // namespace hawser::golden

int main(int argc, char** argv) { return hawser::golden::main_with(argc, argv); }
