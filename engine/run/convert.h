// Converts between checkpoints and Hugging Face folders (hws_checkpoint_import, hws_checkpoint_export,
// _export_adapter): an inference engine loads one and writes the other.
#pragma once

#include <string>
#include <vector>

namespace hawser::train {

/// Throws kNotFound if `hf_folder` is not a Hugging Face folder, and the errors of init.from and of a save.
void import_checkpoint(const std::string& hf_folder, const std::string& path,
                       const std::vector<std::string>& ignore_keys);
/// Throws kNotFound if `path` is not a checkpoint, and the errors of init.from and of an export.
void export_checkpoint(const std::string& path, const std::string& hf_folder, const std::string& dtype);
void export_checkpoint_adapter(const std::string& path, const std::string& peft_folder);

}  // namespace hawser::train
