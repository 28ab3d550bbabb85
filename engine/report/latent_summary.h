// What a plan says of latent attention: what generation keeps of a token, and what context-parallel ranks
// send of it.
#pragma once

#include <string>

#include "engine/base/dtype.h"
#include "engine/mesh/mesh_config.h"
#include "engine/nn/model_config.h"

namespace hawser::train {

/// Lines of the plan; "" for another model. `local`: a rank's share.
std::string latent_summary(const nn::ModelConfig& local, const mesh::MeshConfig& mesh, DType compute);

}  // namespace hawser::train
