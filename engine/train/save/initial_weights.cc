#include "engine/train/save/initial_weights.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/base/interrupt.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/hf/peft.h"
#include "engine/checkpoint/reader.h"
#include "engine/nn/initial_values.h"
#include "engine/train/save/checkpoint_match.h"
#include "engine/train/save/durable_state.h"

namespace hawser::train {
namespace {

/// Values depend on seed, name and element only, so they are the same for every layout. `all`: not only those of adapters.
void draw(const Ranks& ranks, bool all) {
  const config::ResolvedConfig& config = ranks.config();
  ranks.on_each([&](Rank& rank, int32_t) {
    each_part(rank, ranks.table(),
              [&](const nn::Parameter& p, int64_t begin, int64_t end, int64_t at, const GroupState& s) {
                if (!all && !p.adapter) return;
                produce_values(rank.link(), s.weights.from(at), end - begin,
                               [&](float* values, int64_t first, int64_t n) {
                                 nn::fill_initial(values, p, begin + first, begin + first + n,
                                                  config.init.std, config.seed, rank.stream());
                               });
              });
    rank.publish_weights();
  });
}

checkpoint::hf::ExtraFiles take_from_checkpoint(const Ranks& ranks, const std::string& path) {
  const auto reader = checkpoint::Reader::open(path);
  require_same_model(*reader, path, ranks.assembly());
  require_weights(*reader, path, ranks);
  verify_together(ranks, *reader);
  load_tensors(ranks, *reader, false);
  return reader->description().extra_files;
}

using Import = std::function<checkpoint::hf::ExtraFiles(const checkpoint::hf::ParameterSink& sink,
                                                        const std::function<void()>& taken)>;

/// A single rank reads the folder's tensors directly into its masters. Several ranks share a copy of one
/// tensor at a time.
checkpoint::hf::ExtraFiles import_folder(const Ranks& ranks, const Import& import) {
  const nn::ParameterTable& table = ranks.table();
  const Rank& first = ranks.first();
  const bool whole = first.link().in_place() && state_type(ranks.config()) == DType::kF32 &&
                     first.layout().state_is_whole() && ranks.here() == 1;
  std::map<std::string, std::vector<float>> copy;
  const auto place = [&](const std::string& name) {
    check_interrupt();
    const nn::Parameter& p = table.at(name);
    if (whole) return first.executor().state(p.group).weights.from(p.offset).in_place(first.link());
    std::vector<float>& tensor = copy[name];
    tensor.resize(static_cast<size_t>(p.size));
    return tensor.data();
  };
  const auto hand_out = [&] {
    if (copy.empty()) return;
    ranks.on_each([&](Rank& rank, int32_t) {
      const auto take = [&](const nn::Parameter& p, int64_t begin, int64_t end, int64_t at,
                            const GroupState& s) {
        write_values(rank.link(), s.weights.from(at), copy.at(p.name).data() + begin, end - begin);
      };
      for (const auto& [name, unused] : copy) part_of(rank, table.at(name), take);
    });
    copy.clear();
  };
  checkpoint::hf::ExtraFiles files = import(place, hand_out);
  ranks.on_each([](Rank& rank, int32_t) { rank.publish_weights(); });
  return files;
}

checkpoint::hf::ExtraFiles import_hf(const Ranks& ranks, const std::string& folder) {
  return import_folder(ranks, [&](const auto& sink, const auto& taken) {
    return checkpoint::hf::import_weights(folder, ranks.config().model, ranks.table(), sink, taken);
  });
}

/// Those of the model without what /adapter/from has.
checkpoint::hf::ExtraFiles fill_model(const Ranks& ranks) {
  const std::string& from = ranks.config().init.from;
  if (from.empty() || ranks.table().adapter().on()) draw(ranks, from.empty());
  if (from.empty())
    return ranks.assembly().tokens ? ranks.assembly().tokens->files() : checkpoint::hf::ExtraFiles();
  checkpoint::hf::ExtraFiles files =
      checkpoint::is_checkpoint(from) ? take_from_checkpoint(ranks, from) : import_hf(ranks, from);
  if (const auto& tokens = ranks.assembly().tokens) {  // whose template may be that of prepared rows
    const std::string name = "chat_template.jinja";
    if (const auto own = tokens->files().find(name); own != tokens->files().end()) files[name] = own->second;
  }
  return files;
}

}  // namespace

checkpoint::hf::ExtraFiles fill_initial_weights(const Ranks& ranks) {
  checkpoint::hf::ExtraFiles files = fill_model(ranks);
  const nn::ModelConfig& model = ranks.config().model;
  if (model.adapter.from.empty()) return files;
  checkpoint::hf::ExtraFiles of_adapter = import_folder(ranks, [&](const auto& sink, const auto& taken) {
    return checkpoint::hf::import_adapter(model.adapter.from, ranks.assembly().family, model, ranks.table(),
                                          sink, taken);
  });
  for (auto& [name, text] : of_adapter) files[name] = std::move(text);
  return files;
}

}  // namespace hawser::train
