// Checkpoint match: checks whether a checkpoint belongs to this engine. If not, refuses it
// (kCheckpointIncompatible) with a message that says what to do. Reads the manifest and headers, but no
// tensor data.
#pragma once

#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "engine/ranks/ranks.h"

namespace hawser::train {

void require_same_model(const checkpoint::Reader& reader, const std::string& path, const Assembly& ours);
/// Checks the model for /init/from: the checkpoint may lack an adapter, and may be a language model if this
/// engine gets a new score head.
void require_same_base_model(const checkpoint::Reader& reader, const std::string& path, const Assembly& ours);
void require_same_vocabulary(const checkpoint::Reader& reader, const std::string& path, const Assembly& ours);
/// Applies even if other data is allowed, because weights fit the tokens of one tokenizer only.
void require_same_tokenizer(const checkpoint::Reader& reader, const std::string& path, const Assembly& ours);
/// `ours` is the fingerprint of this engine's data with contents.
void require_same_data(const checkpoint::Reader& reader, const std::string& path, const std::string& ours);
/// For /init/from: requires every weight, in either data type.
void require_weights(const checkpoint::Reader& reader, const std::string& path, const Ranks& ranks);
/// For /init/average: requires averages of weights (/optimizer/average).
void require_averages(const checkpoint::Reader& reader, const std::string& path);
/// To resume a run: requires weights and moments in the types this engine keeps, the kind of optimizer that
/// the moments belong to, and nothing that the next save would lose.
void require_state(const checkpoint::Reader& reader, const std::string& path, const Ranks& ranks);

}  // namespace hawser::train
