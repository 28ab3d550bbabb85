// The base of an adapter: frozen weights that are in a folder of their own (/init/from, /init/base). A
// checkpoint leaves them out. Instead it has, as JSON,
//   {"from": FOLDER, "tensors": {NAME: DIGEST}}    for a Hugging Face folder, with the digest of each
//                                                  tensor's bytes as stored
//   {"from": FOLDER, "digest": DIGEST}             for a checkpoint, with the digest of its manifest, which
//                                                  has the digests of its files
#pragma once

#include <map>
#include <string>

#include "engine/checkpoint/reader.h"
#include "engine/config/resolved_config.h"

namespace hawser::train {

std::string base_of_folder(const std::string& folder, const std::map<std::string, std::string>& digests);
std::string base_of_checkpoint(const std::string& folder, const checkpoint::Reader& reader);

/// Returns the folder of the base of the adapter in checkpoint `path`: `given` (/init/base), or else the
/// folder that the checkpoint names; "" if the checkpoint leaves out nothing. Throws what fail_needless_base
/// throws, and kNotFound (with how to name another folder) if the folder has no model.
std::string find_base(const checkpoint::Reader& reader, const std::string& path, const std::string& given);

/// Returns the folder of the weights that a config's adapter works on: init.from, or the base of that
/// checkpoint.
std::string base_folder(const config::InitConfig& init);

/// Throws kConfigInvalid: /init/base is for an adapter's checkpoint that leaves out its base, and `from` is
/// not such a checkpoint.
[[noreturn]] void fail_needless_base(const std::string& from);

/// Throws kCheckpointIncompatible if `ours` has other tensors than the base that the adapter in `path` was
/// trained on.
void require_same_base(const checkpoint::Reader& reader, const std::string& path, const std::string& ours);

}  // namespace hawser::train
