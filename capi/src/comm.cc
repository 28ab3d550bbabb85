// The functions hws_comm_* for local ranks and for information about a comm. comm_address.cc and comm_env.cc
// have ranks over TCP, comm_host.cc transports of the host program.
#include "capi/src/comm.h"

#include "capi/src/buffer.h"
#include "capi/src/guard.h"
#include "engine/base/json.h"

using namespace hawser::capi;

hws_status hws_comm_create_local(int32_t ranks, hws_comm** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    call.range(ranks, 1, hawser::comm::kMaxLocalRanks, "ranks");
    publish(std::make_unique<CommObject>("local", hawser::comm::make_local(ranks)), out);
  });
}

hws_status hws_comm_info(const hws_comm* comm, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<CommObject> object(call, comm, Access::kShared);
    const auto ranks = object->comm->local_ranks();
    hawser::OrderedJson json = {{"kind", object->kind},
                                {"world_size", object->comm->world_size()},
                                {"local_ranks", std::vector<int32_t>(ranks.begin(), ranks.end())}};
    if (!object->environment.empty()) {
      json["environment"] = hawser::parse_json<hawser::OrderedJson>(object->environment);
    }
    publish_text(json.dump(), out);
  });
}

void hws_comm_destroy(hws_comm* comm) { destroy_handle(HandleType::kComm, comm); }
