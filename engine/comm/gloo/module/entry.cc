// The one function that leaves libhawser_gloo.so. Every exception ends here, in a status and a text.
#include <cstring>
#include <exception>

#include "engine/base/error.h"
#include "engine/comm/gloo/module/mesh.h"

namespace hawser::comm {
namespace {

constexpr auto kGone = static_cast<int32_t>(Code::kUnavailable);

Mesh& mesh_of(void* user) { return *static_cast<Mesh*>(user); }

template <class Call>
int32_t guarded(void* user, int32_t peer, const Call& call) {
  Mesh& mesh = mesh_of(user);
  mesh.message.clear();
  try {
    return call(mesh);
  } catch (const std::exception& error) {
    mesh.message = fmt::format("the connection to rank {} broke: {}", peer, error.what());
    return kGone;
  }
}

int32_t open(const GlooRequest* request, HostTransport* transport, char* error, int64_t error_bytes) {
  try {
    transport->user = new Mesh(*request);
  } catch (const std::exception& e) {
    std::strncpy(error, e.what(), static_cast<size_t>(error_bytes - 1));
    error[error_bytes - 1] = '\0';
    return kGone;
  }
  transport->send = [](void* user, int32_t to, const void* data, int64_t bytes, double seconds) {
    return guarded(user, to, [&](Mesh& mesh) { return mesh.send(to, data, bytes, seconds); });
  };
  transport->recv = [](void* user, int32_t from, void* data, int64_t bytes, double seconds) {
    return guarded(user, from, [&](Mesh& mesh) { return mesh.recv(from, data, bytes, seconds); });
  };
  transport->exchange = [](void* user, int32_t peer, const void* out, int64_t out_bytes, void* in,
                           int64_t in_bytes, double seconds) {
    return guarded(user, peer,
                   [&](Mesh& mesh) { return mesh.exchange(peer, out, out_bytes, in, in_bytes, seconds); });
  };
  transport->abort = [](void* user, int32_t code, const char*) { mesh_of(user).abort(code); };
  transport->message = [](void* user) { return mesh_of(user).message.c_str(); };
  transport->destroy = [](void* user) { delete &mesh_of(user); };
  return 0;
}

constexpr GlooModule kModule = {HAWSER_GLOO_BUILD_ID, &open};

}  // namespace
}  // namespace hawser::comm

extern "C" __attribute__((visibility("default"))) const hawser::comm::GlooModule* hawser_gloo_module() {
  return &hawser::comm::kModule;
}
