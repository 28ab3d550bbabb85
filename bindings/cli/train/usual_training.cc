#include "bindings/cli/train/usual_training.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "bindings/cli/file_failure.h"
#include "bindings/cli/hub_cache.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/quantity.h"
#include "bindings/cli/text/prepare.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kFewestRows = 100;  ///< with fewer rows, each one counts for more in training
constexpr int64_t kValidations = 10;  ///< at least so many in a run

/// Returns the header of a safetensors file; a discarded value if it cannot be read.
ordered_json safetensors_header(const std::string& path) {
  constexpr uint64_t kMost = uint64_t{100} << 20;  // the format's own limit
  const ordered_json none(ordered_json::value_t::discarded);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return none;  // opening a FIFO would wait
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  unsigned char size_bytes[8];
  if (!file || std::fread(size_bytes, 1, 8, file.get()) != 8) return none;
  uint64_t size = 0;
  for (int i = 7; i >= 0; --i) size = size << 8 | size_bytes[i];
  if (size > kMost) return none;
  std::string text(size, '\0');
  if (std::fread(text.data(), 1, size, file.get()) != size) return none;
  return parse_json_or_discard(text);
}

/// Returns the path of the weights, of the first file if there are several; "" if there are none.
std::string first_weights(const std::string& folder) {
  if (const std::string one = folder + "/model.safetensors"; exists(one)) return one;
  const std::string index = folder + "/model.safetensors.index.json";
  if (!exists(index)) return "";
  const ordered_json json = parse_json_or_discard(read_file(index));
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) return "";
  for (const auto& [name, file] : json["weight_map"].items())
    if (file.is_string()) return folder + "/" + file.get<std::string>();
  return "";
}

/// True if --set names the field, a section that holds it, or a part of it.
bool sets_field(const ConfigOptions& options, const std::string& field) {
  return std::any_of(options.sets.begin(), options.sets.end(), [&](const std::string& set) {
    const std::string pointer = set.substr(0, set.find('='));
    return pointer == field || field.starts_with(pointer + "/") || pointer.starts_with(field + "/");
  });
}

void set_number(hws_config* config, const char* pointer, const std::string& value) {
  check(hws_config_set(config, pointer, value.c_str()));
}

/// Returns the number with the fewest digits of which the library holds out exactly `held` of `units` rows.
std::string share_of(int64_t held, int64_t units) {
  for (int digits = 1; digits < 12; ++digits) {
    const double scale = std::pow(10.0, digits),
                 exact = static_cast<double>(held) / static_cast<double>(units);
    const std::string text = format_text("%.*f", digits, std::floor(exact * scale) / scale);
    const double kept = std::floor(static_cast<double>(units) * (1.0 - std::stod(text)));
    if (units - static_cast<int64_t>(kept) == held) return text;
  }
  return format_text("%.12f", static_cast<double>(held) / static_cast<double>(units));
}

/// The rows that the run trains on.
struct PreparedRows {
  int64_t given = 0;  ///< rows of the user's file, or pairs
  int64_t units = 0;  ///< prepared rows, or pairs; a unit is held out as a whole
  int64_t sequence = 0;
  bool pairs = false;
};

/// Reads the counts of prepared rows. Returns false if there are none.
bool read_counts(const std::string& folder, PreparedRows* rows) {
  if (!is_prepared(folder)) return false;
  const ordered_json manifest = parse_json_or_discard(read_file(folder + "/prepared.json"));
  if (!manifest.is_object() || !manifest.contains("report")) return false;
  const ordered_json& report = manifest["report"];
  rows->given = report.value("rows", int64_t{0});
  rows->pairs = report.value("pairs", false);
  rows->units = manifest.value("rows", int64_t{0}) / (rows->pairs ? 2 : 1);
  rows->sequence = manifest.value("sequence", int64_t{0});
  return rows->units > 0;
}

ordered_json fields_set(const hws_config* config) {
  return parse_json(text_of(hws_config_serialize, config, HWS_FORMAT_JSON));
}

int64_t resolved_integer(const ordered_json& tree, const char* pointer) {
  return tree.at(ordered_json::json_pointer(pointer)).get<int64_t>();
}

/// Sets the validations of a run whose length is set. Returns what was chosen.
std::string choose_validations(hws_config* config, const std::string& held_out) {
  const int64_t steps = resolved_integer(resolved_tree(config), "/train/steps");
  const int64_t every = std::max<int64_t>(1, steps / kValidations);
  set_number(config, "/train/eval_every", std::to_string(every));
  return "validation every " + (every == 1 ? std::string("step") : std::to_string(every) + " steps") +
         held_out + ", the best kept as checkpoints/best";
}

/// Chooses which rows are held out and how often they are used. Returns what was chosen and why.
std::string choose_held_out(hws_config* config, const ConfigOptions& options, const PreparedRows& rows) {
  const bool chooses = sets_field(options, "/train/eval_every");
  if (sets_field(options, "/data/validation_fraction") || sets_field(options, "/data/validation_sources") ||
      sets_field(options, "/train/patience")) {
    const ordered_json data = resolved_tree(config).at("data");
    const bool none =
        data.at("validation_fraction") == 0 && data.value("validation_sources", ordered_json()).empty();
    return chooses || none ? "" : choose_validations(config, "");
  }
  if (chooses) return "";
  const int64_t held = rows.units / 10;
  if (rows.given >= kFewestRows && held > 0) {
    set_number(config, "/data/validation_fraction", share_of(held, rows.units));
    return choose_validations(
        config, format_text(" on %.3g%% of the rows",
                            100.0 * static_cast<double>(held) / static_cast<double>(rows.units)));
  }
  set_number(config, "/data/validation_fraction", "0");
  const std::string why =
      rows.given < kFewestRows
          ? (rows.given == 1 ? "there is only " : "there are only ") + std::to_string(rows.given)
          : "packed, they fill only " + std::to_string(rows.units) + " of " + std::to_string(rows.sequence) +
                " tokens";
  return "no rows held out for validation, because " + why +
         " (--set /data/validation_fraction=0.1 holds some out)";
}

}  // namespace

std::string half_type_of(const std::string& folder) {
  if (exists(folder + "/manifest.json") || !exists(folder + "/config.json")) return "";
  const std::string weights = first_weights(folder);
  const ordered_json header =
      weights.empty() || !exists(weights) ? ordered_json() : safetensors_header(weights);
  if (!header.is_object()) return "";
  double bf16 = 0, fp16 = 0, fp32 = 0;
  for (const auto& [name, tensor] : header.items()) {
    if (!tensor.is_object() || !tensor.contains("dtype") || !tensor.contains("shape")) continue;
    double elements = 1;
    for (const ordered_json& dim : tensor["shape"]) elements *= dim.is_number() ? dim.get<double>() : 0;
    if (tensor["dtype"] == "BF16") bf16 += elements;
    if (tensor["dtype"] == "F16") fp16 += elements;
    if (tensor["dtype"] == "F32") fp32 += elements;
  }
  if (bf16 + fp16 <= fp32) return "";
  return bf16 >= fp16 ? "bf16" : "fp16";
}

std::string choose_training(hws_config* config, const ConfigOptions& options) {
  const std::string folder = model_folder(options.config);
  if (!is_folder(folder)) return "";
  std::vector<std::string> chosen;
  if (PreparedRows rows; read_counts(options.data, &rows)) {
    const bool asked = sets_field(options, "/train/steps") || sets_field(options, "/train/epochs");
    const ordered_json::json_pointer epochs("/train/epochs");
    if (!asked && !fields_set(config).contains(epochs))
      set_number(config, "/train/epochs", rows.pairs ? "1" : "3");
    const std::string validation = choose_held_out(config, options, rows);
    if (!asked) {
      const double passes = fields_set(config).at(epochs).get<double>();
      const int64_t steps = resolved_integer(resolved_tree(config), "/train/steps");
      chosen.push_back(format_text(
          "%g %s over the rows in %lld %s, because neither /train/epochs nor /train/steps is set", passes,
          passes == 1 ? "pass" : "passes", static_cast<long long>(steps), steps == 1 ? "step" : "steps"));
    }
    if (!validation.empty()) chosen.push_back(validation);
  }
  if (const std::string half = half_type_of(folder);
      !half.empty() && !sets_field(options, "/precision") && resolved_tree(config).at("precision") == "bf16")
    chosen.push_back("precision bf16 with fp32 master weights, because the folder's weights are " + half);
  std::string line;
  for (const std::string& one : chosen) line += (line.empty() ? "chosen: " : "; ") + one;
  return line;
}

}  // namespace hawser::cli
