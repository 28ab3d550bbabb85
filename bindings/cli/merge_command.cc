#include "bindings/cli/merge_command.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "bindings/cli/commands.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/model_card.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

struct MergeOptions {
  std::string source, destination, dtype;
  std::string onto;  ///< --onto: another copy of the base; "": the one that the adapter was trained on
};

/// The rows of tokens on which all models are compared.
struct Rows {
  int64_t count = 2, columns = 0, words = 0;

  Rows(int64_t context, int64_t vocabulary) : columns(std::min<int64_t>(context, 64)), words(vocabulary) {}

  std::vector<int32_t> tokens() const {
    std::vector<int32_t> ids;
    uint64_t state = 1;
    for (int64_t i = 0; i < count * columns; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth, MMIX
      ids.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(words)));
    }
    return ids;
  }
};

/// Creates an engine for inference in f32. With `as_stored` an adapter is applied to the weights as the
/// folder stores them, even if it was trained on them in nf4.
Engine open_with(const ordered_json& init, const Rows& rows, bool as_stored = false) {
  ordered_json config = {{"init", init},
                         {"batch", {{"micro_batch", rows.count}, {"sequence", rows.columns}}}};
  if (as_stored) config["adapter"] = {{"base", "stored"}};
  const std::string text = config.dump();
  const Config parsed =
      make<Config>(hws_config_parse, static_cast<const void*>(text.data()), text.size(), HWS_FORMAT_JSON);
  return make<Engine>(hws_engine_create, parsed.get(), static_cast<uint32_t>(HWS_ENGINE_INFERENCE));
}

std::vector<float> logits_of(hws_engine* engine, const Rows& rows) {
  const std::vector<int32_t> tokens = rows.tokens();
  hws_batch batch = {};
  batch.struct_size = sizeof batch;
  batch.rows = rows.count, batch.cols = rows.columns, batch.tokens = tokens.data();
  hws_sizes sizes{};
  sizes.struct_size = sizeof sizes;
  check(hws_engine_sizes(engine, &sizes));
  std::vector<float> logits(tokens.size() * static_cast<size_t>(sizes.outputs));
  check(hws_engine_forward(engine, &batch, logits.data(), logits.size() * sizeof(float)));
  return logits;
}

struct Difference {
  double largest = 0, spread = 0;  ///< spread: standard deviation of the logits
};

Difference compare(const std::vector<float>& before, const std::vector<float>& after) {
  double sum = 0, squares = 0, largest = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double x = before[i], distance = std::abs(x - after[i]);
    if (!(distance <= largest)) largest = distance;  // NaN stays
    sum += x, squares += x * x;
  }
  const double n = static_cast<double>(before.size()), mean = sum / n;
  return {largest, std::sqrt(std::max(0.0, squares / n - mean * mean))};
}

/// Refuses a merged model whose logits differ by more than the rounding of its weights explains.
void require_close(const Difference& d, const std::string& folder) {
  constexpr double kMost = 0.1;  // of the logits' spread; bf16 weights differ by some hundredths of it
  if (d.largest <= kMost * d.spread) return;
  throw Failure(HWS_INTERNAL,
                folder + " was written, but its logits differ from those of base and adapter by up to " +
                    std::to_string(d.largest) + " (they spread over " + std::to_string(d.spread) +
                    "): do not use it. If --dtype f32 gives a close one, the type cannot hold these weights");
}

/// Writes the model of a run with its adapter merged into the weights, loads it and compares its logits with
/// those of the base with the adapter.
int run_merge(const MergeOptions& options) {
  const ModelPath model = find_model(options.source);
  if (model.kind == ModelKind::kHuggingFace)
    refuse(options.source +
           " is a Hugging Face folder: there is no adapter to merge. Give a run or a checkpoint");
  const auto about = parse_json(text_of(hws_checkpoint_inspect, model.path.c_str()));
  if (!about.contains("model") || !about["model"].contains("adapter"))
    throw Failure(HWS_FAILED_PRECONDITION,
                  options.source + " has no adapter to merge; `hawser convert` writes a model as it is");
  if (exists(options.destination))
    throw Failure(HWS_ALREADY_EXISTS,
                  options.destination + " already exists; choose another name or remove it");
  ordered_json init = {{"from", model.path}};
  if (!options.onto.empty())
    init["base"] = absolute_path(find_model(options.onto).path), init["any_base"] = true;
  const Rows rows(about["model"].at("context").get<int64_t>(),
                  about["model"].at("vocab_size").get<int64_t>());
  const bool in_nf4 = options.onto.empty() && about["model"]["adapter"].value("base", std::string()) == "nf4";
  std::vector<float> before;
  {
    const Engine engine = open_with(init, rows, !options.onto.empty());
    before = logits_of(engine.get(), rows);
    check(hws_engine_export(engine.get(), options.destination.c_str(), options.dtype.c_str()));
  }
  write_model_card(options.source, options.destination, false);
  const Engine merged = open_with({{"from", options.destination}}, rows);
  const Difference d = compare(before, logits_of(merged.get(), rows));
  require_close(d, options.destination);
  const std::string base = !options.onto.empty()    ? options.onto
                           : about.contains("base") ? about["base"].value("from", std::string())
                                                    : options.source;
  output().print("%s, merged into %s%s -> Hugging Face folder %s\n", options.source.c_str(), base.c_str(),
                 in_nf4 ? " as it was trained on, decoded from nf4" : "", options.destination.c_str());
  output().print("loaded again: logits differ by at most %.2g; they spread over %.2g\n", d.largest, d.spread);
  return kExitOk;
}

}  // namespace

void add_merge_command(CLI::App* app, std::function<int()>* action) {
  auto m = std::make_shared<MergeOptions>();
  CLI::App* merge =
      app->add_subcommand("merge", "Write a model with its adapter merged, as a Hugging Face folder");
  merge->add_option("run", m->source, "Run folder or checkpoint")->type_name("RUN")->required();
  merge->add_option("destination", m->destination, "New folder to write")->type_name("DIR")->required();
  merge->add_option("--dtype", m->dtype, "Weight type (default: as imported, or f32)")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  merge
      ->add_option("--onto", m->onto,
                   "Model to merge into (default: the base that the adapter was trained on)")
      ->type_name("MODEL");
  merge->callback([=] { *action = [m] { return run_merge(*m); }; });
}

}  // namespace hawser::cli
