// References: the log-probability of each row of the config's pairs under the reference model (/objective).
//
// They are computed once, when an engine is created: its weights are then those that training begins with,
// also if a checkpoint is loaded next. That is the reference: of a new adapter the base, of one that
// continues from another that one. /objective/reference names another model, which is loaded, asked, and gone
// before the engine is made. A run keeps them in its folder of checkpoints, with a digest of model and data,
// so that a resumed run reads them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/assembly/assemble.h"
#include "engine/config/config_tree.h"
#include "engine/data/dataset.h"
#include "engine/ranks/ranks.h"

namespace hawser::train {

struct References {
  std::string identity;         ///< digest of what they follow from; "": there are none
  std::vector<float> logprobs;  ///< of all stored rows (data::Split::kStored), until the dataset takes them
  bool read = false;            ///< from the folder of a run; else computed
  double seconds = 0;
};

/// Whether an engine for training reads references of its own data.
bool needs_references(const config::ResolvedConfig& config);

/// Reads them from the folder `kept`, if it has them for this model and these data, or computes them with the
/// weights of `ranks`. `model` says which weights these are, `data` is the fingerprint with contents.
/// Collective, on the thread that made the call, whose poll may end it. Throws kNumeric for a row whose
/// log-probability is not finite, kCheckpointCorrupt for a file that is damaged.
References make_references(const Ranks& ranks, const data::Dataset& dataset, const std::string& model,
                           const std::string& data, const std::string& kept);

/// Writes them to the folder, unless it has them. On one process. Throws kIo, kPermission.
void keep_references(const References& references, const std::vector<float>& logprobs,
                     const std::string& folder);

/// The config of an engine that runs the model of /objective/reference, on the same data and ranks. Throws
/// kNotFound for what is no model, kConfigInvalid for one with another vocabulary.
config::ConfigTree reference_config(const Assembly& assembly);

}  // namespace hawser::train
