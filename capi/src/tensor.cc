// The functions hws_tensor_*: parameters, gradients and moments as copies and as zero-copy DLPack views
// (dlpack.h).
#include "capi/src/buffer.h"
#include "capi/src/dlpack.h"
#include "capi/src/engine.h"
#include "capi/src/guard.h"

using namespace hawser::capi;
using hawser::train::TensorKind;

namespace {

static_assert(HWS_TENSOR_WEIGHT == static_cast<int32_t>(TensorKind::kWeight));
static_assert(HWS_TENSOR_GRADIENT == static_cast<int32_t>(TensorKind::kGradient));
static_assert(HWS_TENSOR_MOMENT1 == static_cast<int32_t>(TensorKind::kMoment1));
static_assert(HWS_TENSOR_MOMENT2 == static_cast<int32_t>(TensorKind::kMoment2));
static_assert(HWS_TENSOR_AVERAGE == static_cast<int32_t>(TensorKind::kAverage));

TensorKind tensor_kind(const Call& call, int32_t kind) {
  call.range(kind, HWS_TENSOR_WEIGHT, HWS_TENSOR_AVERAGE, "kind");
  return static_cast<TensorKind>(kind);
}

/// Checks an array of f32 elements; the trainer checks that their number is that of the tensor.
const float* floats(const Call& call, const void* data, size_t bytes) {
  const auto* elements = static_cast<const float*>(data);
  call.pointer(elements, "data");
  if (bytes % sizeof(float) != 0) {
    call.invalid("bytes",
                 fmt::format("is {}, not a multiple of {}; tensors are copied as f32", bytes, sizeof(float)));
  }
  call.array(elements, bytes / sizeof(float), "data");
  return elements;
}

}  // namespace

hws_status hws_tensor_list(const hws_engine* engine, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(Use<Engine>(call, engine, Access::kShared)->trainer->tensors().json(), out);
  });
}

hws_status hws_tensor_get(const hws_engine* engine, int32_t kind, const char* name, void* data,
                          size_t bytes) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kShared);
    const TensorKind which = tensor_kind(call, kind);
    const std::string_view tensor = call.text(name, "name");
    floats(call, data, bytes);
    use->together(
        [&](auto& trainer) { trainer.tensors().get(which, tensor, static_cast<float*>(data), bytes); });
  });
}

hws_status hws_tensor_set(hws_engine* engine, int32_t kind, const char* name, const void* data,
                          size_t bytes) {
  return guard(__func__, [&](const Call& call) {
    const Use<Engine> use(call, engine, Access::kExclusive);
    const TensorKind which = tensor_kind(call, kind);
    const std::string_view tensor = call.text(name, "name");
    use->together(
        [&](auto& trainer) { trainer.tensors().set(which, tensor, floats(call, data, bytes), bytes); });
  });
}

hws_status hws_tensor_view(const hws_engine* engine, int32_t kind, const char* name,
                           DLManagedTensorVersioned** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    const Use<Engine> use(call, engine, Access::kShared);
    const TensorKind which = tensor_kind(call, kind);
    *out = make_dlpack_view(use->trainer->tensors().location(which, call.text(name, "name")));
  });
}

hws_status hws_tensor_statistics(const hws_engine* engine, hws_buffer** out) {
  return guard(__func__, [&](const Call& call) {
    call.out(out);
    publish_text(Use<Engine>(call, engine, Access::kShared)->trainer->tensors().statistics_json(), out);
  });
}
