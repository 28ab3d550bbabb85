// hws_comm_create_address: translates the host program's description of a job of processes for the engine.
#include <string.h>

#include <array>
#include <cmath>
#include <cstddef>

#include "capi/src/callback.h"
#include "capi/src/comm.h"
#include "capi/src/guard.h"
#include "capi/src/structs.h"

using namespace hawser::capi;
using hawser::comm::AddressOptions;
using hawser::comm::Secret;

namespace {

static_assert(offsetof(hws_comm_address, address) == 16 &&
              offsetof(hws_comm_address, silence_seconds) == kCommAddressSize);

constexpr double kDefaultTimeoutSeconds = 60, kDefaultSilenceSeconds = 10;

/// Returns `given`, or `usual` if it is 0.
double seconds_of(const Call& call, double given, double usual, const char* argument) {
  if (!std::isfinite(given) || given < 0) {
    call.invalid(argument, fmt::format("is {}; give seconds, or 0 for {}", given, usual));
  }
  return given > 0 ? given : usual;
}

std::string optional_text(const Call& call, const char* text, const char* argument) {
  return text == nullptr ? "" : std::string(call.text(text, argument));
}

std::shared_ptr<const Secret> secret_of(const Call& call, const hws_comm_address& given) {
  if (given.secret_file != nullptr && given.secret != nullptr) {
    call.invalid("address->secret", "is set together with `secret_file`; set only one of them");
  }
  if (given.secret_file != nullptr) {
    return hawser::comm::read_secret(call.path(given.secret_file, "address->secret_file"));
  }
  if (given.secret == nullptr) return nullptr;
  std::array<char, Secret::kMostBytes> bytes;
  size_t count = 0;
  const struct Wipe {
    std::array<char, Secret::kMostBytes>& bytes;
    ~Wipe() { explicit_bzero(bytes.data(), bytes.size()); }
  } wipe{bytes};
  const int32_t status = call_host("hws_comm_address.secret", nullptr, Callback::kNone, [&] {
    return given.secret(given.secret_user, bytes.data(), bytes.size(), &count);
  });
  if (status != HWS_OK) {
    call.invalid("address->secret", fmt::format("returned {}", status), hawser::Code::kCallback);
  }
  if (count > bytes.size()) {
    call.invalid("address->secret", fmt::format("reports {} bytes; at most {} fit", count, bytes.size()));
  }
  return std::make_shared<const Secret>(std::string_view(bytes.data(), count), "");
}

}  // namespace

namespace hawser::capi {

UserData secret_data(const hws_comm_address* address) {
  constexpr size_t kNeeded = offsetof(hws_comm_address, secret_destroy) + sizeof(void*);
  if (!is_readable(address, kNeeded)) return UserData(nullptr, nullptr);
  return UserData(address->secret_user, address->secret_destroy);
}

AddressOptions address_options(const Call& call, const hws_comm_address* address, const char* argument) {
  const auto given = copy_in(call, address, kCommAddressSize, argument);
  call.range(given.reserved, 0, 0, "address->reserved");
  call.range(given.trust_network, 0, 1, "address->trust_network");
  call.range(given.without_shared_memory, 0, 1, "address->without_shared_memory");
  if (given.host != nullptr && given.network_interface != nullptr) {
    call.invalid("address->network_interface", "is set together with `host`; set only one of them");
  }
  AddressOptions options;
  options.address = optional_text(call, given.address, "address->address");
  options.rank = given.rank;
  options.world_size = given.world_size;
  options.host = optional_text(call, given.host, "address->host");
  options.interface = optional_text(call, given.network_interface, "address->network_interface");
  options.timeout_seconds =
      seconds_of(call, given.timeout_seconds, kDefaultTimeoutSeconds, "address->timeout_seconds");
  options.silence_seconds =
      seconds_of(call, given.silence_seconds, kDefaultSilenceSeconds, "address->silence_seconds");
  options.job = optional_text(call, given.job, "address->job");
  options.secret = secret_of(call, given);
  options.trust_network = given.trust_network != 0;
  options.shares_memory = given.without_shared_memory == 0;
  return options;
}

}  // namespace hawser::capi

hws_status hws_comm_create_address(const hws_comm_address* address, hws_comm** out) {
  const UserData secret = secret_data(address);  // outlives the guard: its destroy may call the library
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const AddressOptions options = address_options(call, address, "address");
    if (address->address == nullptr) call.invalid("address->address", "is NULL; give the address of rank 0");
    Reservation reservation(CommObject::kType);  // first, because the other ranks must not see this rank if
                                                 // there is no handle
    auto comm = std::make_unique<CommObject>("address", hawser::comm::make_address(options));
    *out = static_cast<hws_comm*>(reservation.publish(std::move(comm)));
  });
}
