// hws_comm_*: local and address comms, and what a comm says of itself. Transports of the host's are in
// comm_host.cc.
#include "capi/src/comm.h"

#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "capi/src/buffer.h"
#include "capi/src/guard.h"
#include "capi/src/structs.h"
#include "engine/comm/gloo/address.h"

using namespace hawser::capi;
using hawser::comm::AddressOptions;

namespace {

static_assert(sizeof(hws_comm_address) == kCommAddressSize && offsetof(hws_comm_address, address) == 16);

constexpr double kDefaultTimeoutSeconds = 60;
constexpr const char* kLoopback = "127.0.0.1";

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

/// The address that peers connect to where the host names none: on one machine the loopback, else that of the
/// rendezvous, which only rank 0 is sure to have.
std::string own_host(const Call& call, const AddressOptions& options) {
  const std::string host = options.address.substr(0, options.address.rfind(':'));
  if (is_loopback(host)) return kLoopback;
  if (options.rank != 0) {
    call.invalid("address->host",
                 fmt::format("is NULL; rank {} meets the others at {}, so say at which address of "
                             "its own they reach it (or on which `network_interface`)",
                             options.rank, options.address));
  }
  return host;
}

AddressOptions from_host(const Call& call, const hws_comm_address* address) {
  const auto given = copy_in(call, address, kCommAddressSize, "address");
  call.range(given.reserved, 0, 0, "address->reserved");
  if (!std::isfinite(given.timeout_seconds) || given.timeout_seconds < 0) {
    call.invalid("address->timeout_seconds", fmt::format("is {}; give seconds, or 0 for {}",
                                                         given.timeout_seconds, kDefaultTimeoutSeconds));
  }
  if (given.host != nullptr && given.network_interface != nullptr) {
    call.invalid("address->network_interface", "is set beside `host`; one of them says where to listen");
  }
  AddressOptions options;
  options.address = call.text(given.address, "address->address");
  options.rank = given.rank;
  options.world_size = given.world_size;
  if (given.network_interface != nullptr) {
    options.interface = call.text(given.network_interface, "address->network_interface");
  } else {
    options.host =
        given.host != nullptr ? std::string(call.text(given.host, "address->host")) : own_host(call, options);
  }
  options.timeout_seconds = given.timeout_seconds > 0 ? given.timeout_seconds : kDefaultTimeoutSeconds;
  return options;
}

}  // namespace

int32_t hws_comm_create_local(int32_t ranks, hws_comm** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish(std::make_unique<CommObject>("local", hawser::comm::make_local(ranks)), out);
  });
}

int32_t hws_comm_create_address(const hws_comm_address* address, hws_comm** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const AddressOptions options = from_host(call, address);
    Reservation reservation(CommObject::kType);  // before the others are told that this rank is there
    auto comm = std::make_unique<CommObject>("address", hawser::comm::make_address(options));
    *out = static_cast<hws_comm*>(reservation.publish(std::move(comm)));
  });
}

int32_t hws_comm_info(const hws_comm* comm, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<CommObject> object(call, comm, Access::kShared);
    const auto ranks = object->comm->local_ranks();
    const nlohmann::ordered_json json = {{"kind", object->kind},
                                         {"world_size", object->comm->world_size()},
                                         {"local_ranks", std::vector<int32_t>(ranks.begin(), ranks.end())}};
    publish_text(json.dump(), out);
  });
}

void hws_comm_destroy(hws_comm* comm) { destroy_handle(HandleType::kComm, comm); }
