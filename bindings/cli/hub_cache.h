// Finds models by their names on the Hugging Face Hub, such as Qwen/Qwen3-0.6B, in the cache that `hf
// download` and Transformers fill. The command reads the cache; the library takes only paths.
#pragma once

#include <string>

#include "bindings/cli/client.h"

namespace hawser::cli {

/// Returns the folder of the model `name`: `name` itself if it is a path or no name of the Hub, or if the
/// cache has no such model; otherwise the snapshot that refs/main of the cached model names. Throws Failure
/// (HWS_NOT_FOUND) if the cached model has no such snapshot.
std::string model_folder(const std::string& name);

/// Like model_folder, but throws Failure (HWS_NOT_FOUND) if there is nothing of that path or name.
std::string existing_model(const std::string& name);

/// Returns ORG/NAME for a folder of the Hub's cache (.../models--ORG--NAME/...); "" for any other path.
std::string hub_name(const std::string& path);

/// Throws Failure (HWS_NOT_FOUND) if `folder` is a snapshot of the cache whose download is not finished: a
/// file of the model is missing, and its blob is incomplete or gone.
void check_download(const std::string& folder);

/// Returns advice if `name`, which does not exist, looks like a model of the Hub; otherwise "".
std::string hub_hint(const std::string& name);

/// Replaces names of the Hub in the config's fields for model folders by the cached folders. Throws Failure
/// (HWS_NOT_FOUND) if such a name is not in the cache.
void find_cached_models(hws_config* config);

}  // namespace hawser::cli
