// Model card: the README.md that the Hugging Face Hub shows for an exported folder.
#pragma once

#include <string>

namespace hawser::cli {

/// Writes README.md into `folder`, which was exported from the run folder `run`: what was trained on which
/// data, its losses, the config, and the Hub's fields (license and base_model of the folder that was
/// fine-tuned). adapter: the folder holds only the adapter. Does nothing if `run` is not a run folder or the
/// folder has a README.md. Throws Failure if the file cannot be written.
void write_model_card(const std::string& run, const std::string& folder, bool adapter);

}  // namespace hawser::cli
