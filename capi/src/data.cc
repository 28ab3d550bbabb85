// hws_data_* and hws_text_*: what goes into a model, and text as its tokens.
#include "capi/src/buffer.h"
#include "capi/src/engine.h"
#include "capi/src/guard.h"

using namespace hawser::capi;

hws_status hws_data_push(hws_engine* engine, const hws_batch* batch) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kNested);
    use->trainer->push(batch_view(call, batch, true));
  });
}

hws_status hws_data_info(const hws_engine* engine, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(Use<Engine>(call, engine, Access::kShared)->trainer->reports().data_json(), out);
  });
}

hws_status hws_text_encode(const hws_engine* engine, const char* text, size_t size, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<Engine> use(call, engine, Access::kShared);
    call.array(text, size, "text");
    const std::string_view bytes = size == 0 ? std::string_view() : std::string_view(text, size);
    const std::vector<int32_t> tokens = use->trainer->ranks().assembly().vocabulary.encode(bytes);
    publish_bytes(tokens.data(), tokens.size() * sizeof(int32_t), out);
  });
}

hws_status hws_text_decode(const hws_engine* engine, const int32_t* tokens, size_t count, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<Engine> use(call, engine, Access::kShared);
    call.array(tokens, count, "tokens");
    publish_text(use->trainer->ranks().assembly().vocabulary.decode(tokens, static_cast<int64_t>(count)),
                 out);
  });
}
