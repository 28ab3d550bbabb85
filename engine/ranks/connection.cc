#include "engine/ranks/connection.h"

#include "engine/assembly/engine_plans.h"
#include "engine/base/error.h"

namespace hawser::train {

void Connection::connect(const config::ResolvedConfig& config) {
  if (world() != config.mesh.world())
    fail(Code::kConfigInvalid, "/mesh has {} ranks ({}), but {} {}; make them equal", config.mesh.world(),
         degrees_text(config.mesh),
         comm_ ? "the comm connects" : "an engine without a comm (hws_engine_create_ranks) has", world());
  if (world() == 1) return;
  comm::CommOptions options;
  options.timeout_seconds = config.comm.timeout_seconds;
  options.bandwidth_limit = config.comm.bandwidth_limit;
  options.kernels = &choose_kernels(config);
  for (const int32_t rank : comm_->local_ranks()) ends_.push_back(comm_->connect(rank, options));
}

}  // namespace hawser::train
