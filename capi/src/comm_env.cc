// hws_comm_create_env and hws_comm_read_env: the only functions that read the environment, and only when
// called.
#include <cstdlib>

#include "capi/src/buffer.h"
#include "capi/src/callback.h"
#include "capi/src/comm.h"
#include "capi/src/guard.h"
#include "engine/base/json.h"
#include "engine/comm/identity/handshake.h"
#include "engine/comm/launch/environment.h"

using namespace hawser::capi;
using hawser::comm::AddressOptions;
using hawser::comm::LaunchEnvironment;

namespace {

LaunchEnvironment read_environment() {
  return hawser::comm::read_launch_environment([](const char* name) { return std::getenv(name); });
}

hawser::OrderedJson as_json(const LaunchEnvironment& found) {
  hawser::OrderedJson read = hawser::OrderedJson::array();
  for (const auto& [name, value] : found.read) read.push_back({{"name", name}, {"value", value}});
  hawser::OrderedJson local = nullptr;
  if (found.local_world_size > 0) local = found.local_world_size;
  return {{"launcher", found.launcher},
          {"job", found.job},
          {"rank", found.rank},
          {"world_size", found.world_size},
          {"local_world_size", local},
          {"address", found.address},
          {"host", found.host},
          {"network_interface", found.interface},
          {"secret_file", found.secret_file},
          {"trust_network", found.trust_network},
          {"shared_memory", found.shares_memory},
          {"read", read}};
}

/// The options given by the host program, completed with those that the launcher set.
AddressOptions combine(AddressOptions options, const LaunchEnvironment& found) {
  options.rank = found.rank;
  options.world_size = found.world_size;
  if (options.address.empty()) options.address = found.address;
  if (options.host.empty() && options.interface.empty()) {
    options.host = found.host;
    options.interface = found.host.empty() ? found.interface : "";
  }
  options.job = options.job.empty() ? found.job : found.job + " " + options.job;
  if (options.job.size() > hawser::comm::kMostJobBytes) {
    options.job = fmt::format("{:.100} ~{}", options.job, std::hash<std::string>()(options.job));
  }
  if (options.secret == nullptr && !found.secret_file.empty()) {
    options.secret = hawser::comm::read_secret(found.secret_file);
  }
  options.trust_network = options.trust_network || found.trust_network;
  options.shares_memory = options.shares_memory && found.shares_memory;
  return options;
}

}  // namespace

hws_status hws_comm_create_env(const hws_comm_address* overrides, hws_comm** out) {
  const UserData secret = secret_data(overrides);  // outlives the guard, as in hws_comm_create_address
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    AddressOptions options;
    if (overrides != nullptr) {
      options = address_options(call, overrides, "overrides");
      call.range(options.rank, 0, 0, "overrides->rank");
      call.range(options.world_size, 0, 0, "overrides->world_size");
    }
    const LaunchEnvironment found = read_environment();
    Reservation reservation(CommObject::kType);
    auto comm = std::make_unique<CommObject>("env", hawser::comm::make_address(combine(options, found)),
                                             as_json(found).dump());
    *out = static_cast<hws_comm*>(reservation.publish(std::move(comm)));
  });
}

hws_status hws_comm_read_env(hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(as_json(read_environment()).dump(), out);
  });
}
