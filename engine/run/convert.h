// Converts Hugging Face folders to checkpoints, and checkpoints to such folders and to GGUF files
// (hws_checkpoint_import, hws_checkpoint_export, _export_adapter): an inference engine loads one and writes
// the other.
#pragma once

#include <string>
#include <vector>

namespace hawser::train {

/// Throws kNotFound if `hf_folder` is not a Hugging Face folder, and the errors of init.from and of a save.
void import_checkpoint(const std::string& hf_folder, const std::string& path,
                       const std::vector<std::string>& ignore_keys);
/// `path` is a checkpoint or a Hugging Face folder. Throws kNotFound if it is neither, and the errors of
/// init.from and of an export (save/export.h).
void export_checkpoint(const std::string& path, const std::string& to, const std::string& dtype);
void export_checkpoint_adapter(const std::string& path, const std::string& to);

}  // namespace hawser::train
