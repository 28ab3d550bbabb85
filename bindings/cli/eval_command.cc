// `hawser eval`: the mean loss of a model over a whole file.
#include <cmath>
#include <nlohmann/json.hpp>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/interrupt.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/open_model.h"
#include "bindings/cli/output.h"
#include "bindings/cli/ranks.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kDefaultSequence = 1024;  // for models that do not record how they were trained

/// Turns "train on this file" into "all of this file is validation data".
void validate_on_everything(hws_config* config) {
  const auto tree = ordered_json::parse(text_of(hws_config_serialize, config, HWS_FORMAT_JSON));
  const ordered_json sources = {{{"path", tree["data"]["path"]}}};
  check(hws_config_set(config, "/data/validation_sources", sources.dump().c_str()));
}

}  // namespace

int run_eval(const EvalOptions& options) {
  const ModelPath model = find_model(options.checkpoint);
  int64_t sequence = options.sequence;
  if (sequence > 0 && sequence > model_context(model)) {
    refuse("--sequence " + std::to_string(sequence) + ": the model's context is " +
           std::to_string(model_context(model)) + " tokens; give at most that");
  }
  if (sequence == 0) sequence = trained_sequence(model);
  if (sequence == 0) sequence = kDefaultSequence;
  Config config = model_config(model, sequence, options.threads);
  apply_data(&config, options.data);
  validate_on_everything(config.get());
  apply_sets(config.get(), options.sets);
  const Engine engine = make_engine(config.get(), HWS_ENGINE_INFERENCE, {});
  const auto info = ordered_json::parse(text_of(hws_engine_info, engine.get()));
  sequence = info.at("sequence").get<int64_t>();  // the context, if that is shorter
  double loss = 0.0;
  int64_t tokens = 0;
  const InterruptScope interrupt;
  check(hws_engine_eval(engine.get(), nullptr, options.max_batches, &loss, &tokens));
  const ordered_json sets =
      ordered_json::parse(text_of(hws_engine_metrics, engine.get())).at("validation_losses");
  if (options.json) {
    ordered_json result = {{"checkpoint", model.path},     {"data", options.data}, {"loss", loss},
                           {"perplexity", std::exp(loss)}, {"tokens", tokens},     {"sequence", sequence}};
    if (!sets.empty()) result["losses"] = sets;
    output().line(result.dump());
  } else {
    output().print(
        "%s on %s\nloss %.6f nats per token (%.4f bits, perplexity %.3f) over %lld tokens in rows of %lld\n",
        model.path.c_str(), options.data.c_str(), loss, loss / std::log(2.0), std::exp(loss),
        static_cast<long long>(tokens), static_cast<long long>(sequence));
    for (const auto& [name, set_loss] : sets.items())
      output().print("%s: loss %s\n", name.c_str(), set_loss.dump().c_str());
  }
  return kExitOk;
}

}  // namespace hawser::cli
