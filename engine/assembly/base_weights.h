// The base of an adapter: frozen weights that are in a folder of their own (/init/from, /init/base). A
// checkpoint leaves them out. Instead it has, as JSON,
//   {"from": FOLDER, "tensors": {NAME: DIGEST}}    of a Hugging Face folder: of each tensor's bytes as stored
//   {"from": FOLDER, "digest": DIGEST}             of a checkpoint: of its manifest, which has those of its
//                                                  files
#pragma once

#include <map>
#include <string>

#include "engine/checkpoint/reader.h"
#include "engine/config/resolved_config.h"

namespace hawser::train {

std::string base_of_folder(const std::string& folder, const std::map<std::string, std::string>& digests);
std::string base_of_checkpoint(const std::string& folder, const checkpoint::Reader& reader);

/// Where the base of the adapter in checkpoint `path` is: `given` (/init/base), or else where the checkpoint
/// says. "" if it leaves out nothing. Throws like fail_needless_base, kNotFound (says how to name another
/// folder) if nothing that holds a model is there.
std::string find_base(const checkpoint::Reader& reader, const std::string& path, const std::string& given);

/// The folder of the weights that a config's adapter works on: init.from, or the base of that checkpoint.
std::string base_folder(const config::InitConfig& init);

/// Throws kConfigInvalid: /init/base is for an adapter's checkpoint that leaves out its base, and `from` is
/// none.
[[noreturn]] void fail_needless_base(const std::string& from);

/// Throws kCheckpointIncompatible if `ours` has other tensors than the base that the adapter in `path` was
/// trained on.
void require_same_base(const checkpoint::Reader& reader, const std::string& path, const std::string& ours);

}  // namespace hawser::train
