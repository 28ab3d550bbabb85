// The functions hws_checkpoint_*, hws_engine_export and hws_engine_export_adapter.
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/average.h"
#include "engine/checkpoint/reader.h"
#include "engine/run/convert.h"

#include "capi/src/buffer.h"
#include "capi/src/engine.h"
#include "capi/src/guard.h"
#include "capi/src/op.h"

using namespace hawser::capi;

hws_status hws_checkpoint_save(hws_engine* engine, const char* path) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kNested);
    const hawser::train::Monitor::InPhase in_phase(&use->trainer->monitor(), hawser::train::Phase::kSave);
    use->together([&](auto& trainer) { trainer.saves().save(call.path(path, "path")); });
  });
}

hws_status hws_checkpoint_save_async(hws_engine* engine, const char* path, hws_op** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<Engine> use(call, engine, Access::kNested);
    const std::string where = call.path(path, "path");
    Reservation reservation(Op::kType);  // first, because a save without a handle could not be reported
    auto op = std::make_unique<Op>();
    op->save = use->trainer->saves().save_async(where);
    *out = static_cast<hws_op*>(reservation.publish(std::move(op)));
  });
}

namespace {

bool takes_other_data(const Call& call, uint32_t flags) {
  if ((flags & ~HWS_LOAD_OTHER_DATA) != 0)
    call.invalid("flags", fmt::format("is 0x{:x}; only HWS_LOAD_OTHER_DATA is known", flags));
  return (flags & HWS_LOAD_OTHER_DATA) != 0;
}

}  // namespace

hws_status hws_checkpoint_load(hws_engine* engine, const char* path, uint32_t flags) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kExclusive);
    const bool other_data = takes_other_data(call, flags);
    use->together([&](auto& trainer) { trainer.loads().load(call.path(path, "path"), other_data); });
  });
}

hws_status hws_checkpoint_load_latest(hws_engine* engine, const char* folder, uint32_t flags,
                                      hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<Engine> use(call, engine, Access::kExclusive);
    const bool other_data = takes_other_data(call, flags);
    Reservation reservation(Buffer::kType);  // first, because without a buffer the caller could not learn
                                             // what was loaded
    const std::string loaded = use->together(
        [&](auto& trainer) { return trainer.loads().load_latest(call.path(folder, "folder"), other_data); });
    *out =
        static_cast<hws_buffer*>(reservation.publish(std::make_unique<Buffer>(loaded.data(), loaded.size())));
  });
}

hws_status hws_checkpoint_inspect(const char* path, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(hawser::checkpoint::inspect(call.path(path, "path")), out);
  });
}

hws_status hws_checkpoint_verify(const char* path) {
  return guard(__func__, [&](const Call& call) {
    hawser::checkpoint::Reader::open(call.path(path, "path"))->verify();
  });
}

hws_status hws_checkpoint_latest(const char* folder, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const std::string where = call.path(folder, "folder");
    std::vector<hawser::checkpoint::Damaged> damaged;
    const std::string newest = hawser::checkpoint::newest_valid(where, &damaged);
    if (newest.empty()) hawser::checkpoint::fail_no_valid_checkpoint(where, damaged);
    publish_text(newest, out);
  });
}

hws_status hws_checkpoint_import(const char* hf_folder, const char* path, const char* ignore_keys) {
  return guard(__func__, [&](const Call& call) {
    const std::string from = call.config_path(hf_folder, "hf_folder"), to = call.path(path, "path");
    hawser::train::import_checkpoint(from, to, call.string_list(ignore_keys, "ignore_keys"));
  });
}

hws_status hws_checkpoint_average(const char* paths, const char* weights, const char* path) {
  return guard(__func__, [&](const Call& call) {
    const std::string to = call.path(path, "path");
    const std::vector<std::string> from = call.string_list(paths, "paths");
    const std::vector<double> shares = call.number_list(weights, "weights");
    if (weights != nullptr && shares.size() != from.size())
      call.invalid("weights", fmt::format("has {} numbers for {} paths", shares.size(), from.size()));
    std::vector<hawser::checkpoint::Weighted> of;
    for (size_t i = 0; i < from.size(); ++i) of.push_back({from[i], shares.empty() ? 1.0 : shares[i]});
    hawser::checkpoint::average(of, to);
  });
}

hws_status hws_checkpoint_export(const char* path, const char* to, const char* dtype) {
  return guard(__func__, [&](const Call& call) {
    const std::string from = call.config_path(path, "path"), target = call.path(to, "to");
    hawser::train::export_checkpoint(from, target, call.dtype(dtype, "dtype"));
  });
}

hws_status hws_checkpoint_export_adapter(const char* path, const char* to) {
  return guard(__func__, [&](const Call& call) {
    hawser::train::export_checkpoint_adapter(call.config_path(path, "path"), call.path(to, "to"));
  });
}

hws_status hws_engine_export_adapter(const hws_engine* engine, const char* to) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kShared);
    use->together([&](auto& trainer) { trainer.exports().adapter_to(call.path(to, "to")); });
  });
}

hws_status hws_engine_export(const hws_engine* engine, const char* to, const char* dtype) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kShared);
    use->together(
        [&](auto& trainer) { trainer.exports().model_to(call.path(to, "to"), call.dtype(dtype, "dtype")); });
  });
}
