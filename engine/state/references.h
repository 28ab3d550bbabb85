// References: the log-probability of each row of the config's pairs under the reference model (/objective).
//
// The log-probabilities are computed once, when an engine is created, even if a checkpoint is loaded next.
// The reference is thus the model with which training begins: the base under a new adapter, or the base with
// the adapter from which training continues. If /objective/reference names another model, that model is
// loaded, evaluated and freed before the engine is created. An engine for inference on a run's checkpoint
// does the same with the model that the run began with, so that it can evaluate pairs. A run stores the
// log-probabilities in its folder of checkpoints, with a digest of model and data, so that a resumed run can
// read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/assembly/assemble.h"
#include "engine/config/config_tree.h"
#include "engine/data/dataset.h"
#include "engine/ranks/ranks.h"

namespace hawser::train {

struct References {
  std::string identity;         ///< digest of model, data and precision; "" if there are none
  std::vector<float> logprobs;  ///< of all stored rows (data::Split::kStored), until the dataset takes them
  bool read = false;            ///< true: read from the folder of a run; false: computed
  double seconds = 0;
};

/// True if the objective needs references for the config's data.
bool needs_references(const config::ResolvedConfig& config);

/// Reads references from the folder `kept`, if it has them for this model and these data, or computes them
/// with the weights of `ranks`, from row `first` on; those before it become 0. `model` identifies these
/// weights; `data` is the fingerprint with contents. Runs on the thread of the host program's call, whose
/// interrupt poll and progress callback can end it. Throws kNumeric if the log-probability of a row is not
/// finite, and kCheckpointCorrupt for a damaged file. Collective.
References make_references(const Ranks& ranks, const data::Dataset& dataset, const std::string& model,
                           const std::string& data, const std::string& kept, int64_t first);

/// Writes the log-probabilities to the folder, unless it has them. One process calls it. Throws kIo and
/// kPermission.
void keep_references(const References& references, const std::vector<float>& logprobs,
                     const std::string& folder);

/// Returns the config of an engine that runs the reference on the same data and ranks: the model of
/// /objective/reference, or for inference on a checkpoint the model with which its run began. Returns
/// nothing without such a model: the reference of an engine for training is then the model that it begins
/// with. Throws what other_model throws.
std::optional<config::ConfigTree> reference_config(const Assembly& assembly, bool inference);

}  // namespace hawser::train
