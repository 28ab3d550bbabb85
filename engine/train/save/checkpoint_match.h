// Whether a checkpoint is one of this engine's. What does not fit is refused (kCheckpointIncompatible) in
// words that say what to do. Manifest and headers are looked at, and no tensor.
#pragma once

#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "engine/train/ranks/ranks.h"

namespace hawser::train {

void require_same_model(const checkpoint::Reader& reader, const std::string& path, const Assembly& ours);
void require_same_vocabulary(const checkpoint::Reader& reader, const std::string& path, const Assembly& ours);
/// `ours`: the fingerprint of this engine's data, with contents.
void require_same_data(const checkpoint::Reader& reader, const std::string& path, const std::string& ours);
/// For /init/from: every weight is there, of either type.
void require_weights(const checkpoint::Reader& reader, const std::string& path, const Ranks& ranks);
/// To go on where a run stopped: weights and moments are there, kept as this engine keeps them, and nothing
/// that its next save would lose.
void require_state(const checkpoint::Reader& reader, const std::string& path, const Ranks& ranks);

}  // namespace hawser::train
