// The functions hws_data_* and hws_text_*: the input of a model, and text as its tokens.
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

namespace {

static_assert(offsetof(hws_source_batch, step) == 8 && offsetof(hws_source_batch, tokens) == 40);

constexpr int32_t kFilled = 0;

/// Requests a batch from the host program. Returns false at the end of its data.
bool fill_from_host(Slot* slot, const Source& source, hawser::train::SourceRequest* request) {
  hws_source_batch batch = {};
  batch.struct_size = sizeof batch;
  batch.step = request->step;
  batch.samples = request->samples;
  batch.rows = request->rows;
  batch.cols = request->cols;
  batch.tokens = request->room.tokens;
  batch.targets = request->room.targets;
  batch.document_begin = request->room.document_begin;
  batch.weights = request->room.weights;
  const auto run = [&] { return source.fn(source.user.get(), &batch); };
  const int32_t answer = call_host("hws_data_set_source", slot, Callback::kConstOnly, run);
  if (answer != kFilled && answer != HWS_SOURCE_END) {
    hawser::fail(hawser::Code::kCallback, "hws_data_set_source: the source returned {} for step {}", answer,
                 batch.step);
  }
  request->documents = batch.has_documents != 0;
  request->weights = batch.has_weights != 0;
  return answer == kFilled;
}

}  // namespace

hws_status hws_data_set_source(hws_engine* engine, hws_source_fn callback, void* user,
                               void (*destroy)(void*)) {
  UserData data(user, destroy);
  std::shared_ptr<Source> before, source;  // declared here so that the one no longer used is destroyed after
                                           // the engine is released
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kExclusive);
    hawser::train::HostSource::Fill ask;
    if (callback != nullptr) {
      source = std::make_shared<Source>(Source{callback, std::move(data)});
      ask = [slot = use.slot(), from = source.get()](hawser::train::SourceRequest* request) {
        return fill_from_host(slot, *from, request);
      };
    }
    use->trainer->set_source(std::move(ask));
    before = std::exchange(use->source, std::move(source));
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
