// hws_data_prepare and hws_data_preview: they turn text into rows of tokens, without an engine.
#include "engine/prepare/prepare.h"

#include "capi/src/buffer.h"
#include "capi/src/callback.h"
#include "capi/src/guard.h"

using namespace hawser::capi;

hws_status hws_data_prepare(const char* request, hws_prepare_fn callback, void* user, void (*destroy)(void*),
                            hws_buffer** out) {
  const UserData data(user, destroy);
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const auto parsed =
        hawser::train::parse_prepare_request(call.text(request, "request", Call::kValueLimit));
    const auto tell = [&](const hawser::train::PrepareProgress& now) {
      if (callback == nullptr) return;
      const std::string json = fmt::format(R"({{"done_bytes":{},"total_bytes":{},"rows":{}}})",
                                           now.done_bytes, now.total_bytes, now.rows);
      call_host(call.function(), nullptr, Callback::kNone,
                [&] { return callback(data.get(), json.c_str(), json.size()), 0; });
    };
    publish_text(hawser::train::prepare(parsed, tell), out);
  });
}

hws_status hws_data_preview(const char* folder, int64_t row, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(hawser::train::preview(call.path(folder, "folder"), row), out);
  });
}
