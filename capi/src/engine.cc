// The functions hws_engine_create, _create_ranks, _create_on, _destroy, _info, _sizes, _learning_rate and
// _cancel.
#include "capi/src/engine.h"

#include <new>

#include "capi/src/buffer.h"
#include "capi/src/comm.h"
#include "capi/src/config.h"
#include "capi/src/guard.h"

using namespace hawser::capi;

namespace {

static_assert(offsetof(hws_sizes, outputs) == kSizesSize && offsetof(hws_sizes, vocab_size) == 8);

void create(const Call& call, const hws_config* config, const std::shared_ptr<hawser::comm::Comm>& comm,
            uint32_t flags, hws_engine** out, const hawser::train::Trainer* base = nullptr) {
  if ((flags & ~HWS_ENGINE_INFERENCE) != 0) {
    call.invalid("flags", fmt::format("is 0x{:x}; only HWS_ENGINE_INFERENCE is known", flags));
  }
  const hawser::config::ConfigTree tree = Use<Config>(call, config, Access::kShared)->tree;
  Reservation reservation(Engine::kType);
  const bool inference = (flags & HWS_ENGINE_INFERENCE) != 0;
  auto trainer = hawser::train::Trainer::create(tree, inference, reservation.cancel(), comm, base);
  auto engine = std::make_unique<Engine>(reservation.slot(), std::move(trainer));
  *out = static_cast<hws_engine*>(reservation.publish(std::move(engine)));
}

void create_ranks(const Call& call, const hws_config* config,
                  const std::shared_ptr<hawser::comm::Comm>& ranks, uint32_t flags, hws_engine** out,
                  const hawser::train::Trainer* base = nullptr) {
  try {
    create(call, config, ranks, flags, out, base);
  } catch (const std::bad_alloc&) {  // thrown before a trainer could notify the other processes, or after
    ranks->abort(hawser::Error::out_of_memory());
    throw;
  }
}

}  // namespace

hws_status hws_engine_create(const hws_config* config, uint32_t flags, hws_engine** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    create(call, config, nullptr, flags, out);
  });
}

hws_status hws_engine_create_ranks(const hws_config* config, const hws_comm* comm, uint32_t flags,
                                   hws_engine** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    create_ranks(call, config, Use<CommObject>(call, comm, Access::kShared)->comm, flags, out);
  });
}

hws_status hws_engine_create_on(const hws_engine* base, const hws_config* config, const hws_comm* comm,
                                uint32_t flags, hws_engine** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<Engine> use(call, base, Access::kShared);
    if (comm == nullptr) return create(call, config, nullptr, flags, out, use->trainer.get());
    create_ranks(call, config, Use<CommObject>(call, comm, Access::kShared)->comm, flags, out,
                 use->trainer.get());
  });
}

void hws_engine_destroy(hws_engine* engine) { destroy_handle(HandleType::kEngine, engine); }

hws_status hws_engine_info(const hws_engine* engine, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(Use<Engine>(call, engine, Access::kShared)->trainer->reports().info_json(), out);
  });
}

hws_status hws_engine_sizes(const hws_engine* engine, hws_sizes* sizes) {
  return guard(__func__, [&](const Call& call) {
    call.pointer(sizes, "sizes");
    const CopyOut<hws_sizes> out(call, sizes, kSizesSize, "sizes");
    const Use<Engine> use(call, engine, Access::kAlways);
    const hawser::config::ResolvedConfig& from = use->trainer->config();
    hws_sizes host = {};
    host.vocab_size = from.model.vocab_size;
    host.sequence = from.batch.sequence;
    host.global_batch = from.batch.global_batch;
    host.outputs = from.model.outputs();
    out.write(host);
  });
}

hws_status hws_engine_learning_rate(const hws_engine* engine, double* rate) {
  return guard(__func__, [&](const Call& call) {
    call.pointer(rate, "rate");
    *rate = Use<Engine>(call, engine, Access::kShared)->trainer->learning_rate();
  });
}

// It may run in a signal handler, so it uses no guard and stores no error text.
hws_status hws_engine_cancel(const hws_engine* engine) {
  return static_cast<int32_t>(cancel_handle(HandleType::kEngine, engine));
}
