// Conversion between checkpoints and Hugging Face folders (hws_checkpoint_import, hws_checkpoint_export): an
// engine for inference that takes one and writes the other.
#pragma once

#include <string>
#include <vector>

namespace hawser::train {

/// Throws kNotFound for what is no Hugging Face folder, and what init.from and a save throw.
void import_checkpoint(const std::string& hf_folder, const std::string& path,
                       const std::vector<std::string>& ignore_keys);
/// Throws kNotFound for what is no checkpoint, and what init.from and an export throw.
void export_checkpoint(const std::string& path, const std::string& hf_folder, const std::string& dtype);

}  // namespace hawser::train
