#include "engine/state/initial_weights.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/assembly/base_weights.h"
#include "engine/assembly/precision.h"
#include "engine/base/input_file.h"
#include "engine/base/interrupt.h"
#include "engine/base/json.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf/peft.h"
#include "engine/checkpoint/reader.h"
#include "engine/data/prepared_folder.h"
#include "engine/nn/initial_values.h"
#include "engine/state/base_engine.h"
#include "engine/state/checkpoint_match.h"
#include "engine/state/durable_state.h"
#include "engine/state/finite_weights.h"
#include "engine/state/initial_magnitudes.h"
#include "engine/state/nf4_weights.h"
#include "engine/state/progress.h"
#include "engine/state/references.h"
#include "engine/state/tensors.h"

namespace hawser::train {
namespace {

/// Initialises weights randomly: all, or only those of adapters and of a new head. Values depend on seed,
/// name and element only, so they are the same for every layout.
void draw(const Ranks& ranks, bool all) {
  const config::ResolvedConfig& config = ranks.config();
  ranks.on_each([&](Rank& rank, int32_t) {
    each_part(rank, ranks.table(),
              [&](const nn::Parameter& p, int64_t begin, int64_t end, int64_t at, const GroupState& s) {
                const bool is_new = p.adapter || (ranks.assembly().new_head && p.name == nn::kScoreWeight);
                if ((!all && !is_new) || p.read == nn::Read::kNf4) return;
                produce_values(rank.link(), s.weights.from(at), end - begin,
                               [&](float* values, int64_t first, int64_t n) {
                                 nn::fill_initial(values, p, begin + first, begin + first + n,
                                                  config.init.std, config.seed, rank.stream());
                               });
              });
    if (all) draw_nf4(&rank, ranks.table(), config);
    rank.publish_weights();
  });
}

/// Loads the weights that the checkpoint has, and returns its extra files.
checkpoint::hf::ExtraFiles take_from_checkpoint(const Ranks& ranks, const checkpoint::Reader& reader,
                                                const std::string& path) {
  require_same_base_model(reader, path, ranks.assembly());
  require_weights(reader, path, ranks);
  const config::InitConfig& init = ranks.config().init;
  const bool averages = init.average && path == init.from;
  if (averages) require_averages(reader, path);
  verify_together(ranks, reader);
  load_tensors(ranks, reader, averages ? Take::kAverages : Take::kWeights);
  return reader.description().extra_files;
}

using Import = std::function<checkpoint::hf::ExtraFiles(const checkpoint::hf::ParameterSink& sink,
                                                        const checkpoint::hf::Nf4Sink& nf4,
                                                        const std::function<void()>& taken)>;

/// A single rank reads the folder's tensors directly into its masters. Several ranks share a copy of one
/// tensor at a time.
checkpoint::hf::ExtraFiles import_folder(const Ranks& ranks, const std::string& folder,
                                         const Import& import) {
  const nn::ParameterTable& table = ranks.table();
  const Rank& first = ranks.first();
  const bool whole = first.link().in_place() && first.layout().state_is_whole() && ranks.here() == 1;
  std::map<std::string, std::vector<float>> copy;
  std::map<std::string, const float*> placed;
  const auto place = [&](const std::string& name) {
    check_interrupt();
    const nn::Parameter& p = table.at(name);
    const StateArray& weights = first.executor().state(p.group).weights;
    float* tensor = nullptr;
    if (whole) tensor = weights.from(p.offset).in_place(first.link());
    if (tensor == nullptr) {
      copy[name].resize(static_cast<size_t>(p.size));
      tensor = copy[name].data();
    }
    placed[name] = tensor;
    return tensor;
  };
  std::map<std::string, nn::Nf4Tensor> quantised;
  const auto hand_out = [&] {
    for (const auto& [name, values] : placed)
      require_finite(folder, table.at(name), 0, values, table.at(name).size);
    placed.clear();
    if (copy.empty() && quantised.empty()) return;
    ranks.on_each([&](Rank& rank, int32_t) {
      const auto take = [&](const nn::Parameter& p, int64_t begin, int64_t end, int64_t at,
                            const GroupState& s) {
        write_values(rank.link(), s.weights.from(at), copy.at(p.name).data() + begin, end - begin);
      };
      for (const auto& [name, unused] : copy)
        if (quantised.count(name) == 0) part_of(rank, table.at(name), take);
      for (const auto& [name, tensor] : quantised) write_nf4(rank, table.at(name), tensor);
    });
    copy.clear(), quantised.clear();
  };
  const auto keep = [&](const std::string& name, nn::Nf4Tensor tensor) {
    require_finite(folder, table.at(name), tensor);
    quantised[name] = std::move(tensor);
  };
  checkpoint::hf::ExtraFiles files = import(place, keep, hand_out);
  ranks.on_each([](Rank& rank, int32_t) { rank.publish_weights(); });
  return files;
}

/// True if checkpoints may have to name the folder of this engine's weights: those of its own adapter, or
/// those of an engine that borrows the weights of this inference engine.
bool base_is_named(const Ranks& ranks) {
  return base_is_elsewhere(ranks.config()) || (ranks.inference() && !ranks.config().init.from.empty());
}

InitialWeights import_hf(const Ranks& ranks, const std::string& folder) {
  const bool names_base = base_is_named(ranks);
  const bool wants_digests = names_base || needs_references(ranks.config());
  std::map<std::string, std::string> digests;
  InitialWeights made;
  made.files = import_folder(ranks, folder, [&](const auto& sink, const auto& nf4, const auto& taken) {
    return checkpoint::hf::import_weights(folder, ranks.config().model, ranks.table(), sink, taken,
                                          wants_digests ? &digests : nullptr, nf4);
  });
  if (wants_digests) made.digests = Json(digests).dump();
  if (names_base) made.base_json = base_of_folder(folder, digests);
  return made;
}

/// Takes the weights of an engine that has already read the folder.
InitialWeights take_from_engine(const BaseEngine& on, const Ranks& ranks) {
  copy_from_base(on, ranks);
  ranks.on_each([](Rank& rank, int32_t) { rank.publish_weights(); });
  return {on.progress.extra_files, on.progress.base_json, false, on.progress.digests};
}

/// Loads the weights in a folder. For an adapter's checkpoint, loads first its base, then its own weights.
InitialWeights take_from(const Ranks& ranks, const std::string& folder, const BaseEngine* on) {
  const config::InitConfig& init = ranks.config().init;
  if (!checkpoint::is_checkpoint(folder)) {
    if (init.average && folder == init.from)
      fail(Code::kConfigInvalid,
           "/init/average: {} is a Hugging Face folder, which has no average of its weights; give a "
           "checkpoint, "
           "or remove the field",
           folder);
    return on ? take_from_engine(*on, ranks) : import_hf(ranks, folder);
  }
  const auto reader = checkpoint::Reader::open(folder);
  const std::string base = find_base(*reader, folder, folder == init.from ? init.base : "");
  InitialWeights made;
  if (!base.empty()) {
    made = take_from(ranks, base, on);
    if (!init.any_base) require_same_base(*reader, folder, made.base_json);
  } else if (on) {
    return take_from_engine(*on, ranks);
  } else if (base_is_named(ranks)) {
    made.base_json = base_of_checkpoint(folder, *reader);
  }
  made.files = take_from_checkpoint(ranks, *reader, folder);
  made.has_adapter = parse_json<Json>(reader->description().model_json).contains("adapter");
  made.digests += reader->digest();
  return made;
}

/// Sets the magnitudes of a new adapter.
void begin_magnitudes(const Ranks& ranks) {
  each_magnitude(ranks.table(), [&](const nn::Parameter& p, const nn::Parameter& m) {
    std::vector<float> weights(static_cast<size_t>(p.size));
    collect_weight(ranks, p, weights.data());
    const std::vector<float> norms = initial_magnitudes(p, std::move(weights), compute_type(ranks.config()));
    ranks.on_each([&](Rank& rank, int32_t) {
      part_of(rank, m,
              [&](const nn::Parameter&, int64_t begin, int64_t end, int64_t at, const GroupState& s) {
                write_values(rank.link(), s.weights.from(at), norms.data() + begin, end - begin);
              });
    });
  });
  ranks.on_each([](Rank& rank, int32_t) { rank.publish_weights(); });
}

/// Fills all weights except those that /adapter/from has.
InitialWeights fill_model(const Ranks& ranks, const BaseEngine* on) {
  const std::string& from = ranks.config().init.from;
  if (from.empty() || ranks.table().adapter().on() || ranks.assembly().new_head) draw(ranks, from.empty());
  InitialWeights made;
  if (from.empty()) {
    if (ranks.assembly().tokens) made.files = ranks.assembly().tokens->files();
    return made;
  }
  made = take_from(ranks, from, on);
  if (const auto& tokens = ranks.assembly().tokens) {  // their template may come from prepared rows
    const std::string name = "chat_template.jinja";
    if (const auto own = tokens->files().find(name); own != tokens->files().end())
      made.files[name] = own->second;
  }
  return made;
}

/// Fills all weights, and reads the adapter of /adapter/from.
InitialWeights fill(const Ranks& ranks, const BaseEngine* on) {
  InitialWeights made = fill_model(ranks, on);
  const nn::ModelConfig& model = ranks.config().model;
  if (model.adapter.dora && model.adapter.from.empty() && !made.has_adapter) begin_magnitudes(ranks);
  if (model.adapter.from.empty()) return made;
  checkpoint::hf::ExtraFiles of_adapter =
      import_folder(ranks, model.adapter.from, [&](const auto& sink, const auto&, const auto& taken) {
        return checkpoint::hf::import_adapter(model.adapter.from, ranks.assembly().family, model,
                                              ranks.table(), sink, taken);
      });
  for (auto& [name, text] : of_adapter) made.files[name] = std::move(text);
  if (needs_references(ranks.config()))
    made.digests +=
        data::file_digest(InputFile::open(model.adapter.from + "/" + checkpoint::hf::kAdapterWeightsName));
  return made;
}

}  // namespace

InitialWeights fill_initial_weights(const Ranks& ranks, const BaseEngine* on) {
  InitialWeights made = fill(ranks, on);
  ranks.on_each([&](Rank& rank, int32_t) { begin_averages(rank, ranks.table()); });
  return made;
}

}  // namespace hawser::train
