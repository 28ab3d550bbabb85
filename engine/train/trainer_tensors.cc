// Tensors by name, ours or Hugging Face's.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/train/trainer_impl.h"

namespace hawser::train {
namespace {

/// Calls fn(index in the Hugging Face tensor, index in the flat buffers) for each element of `binding`.
template <typename Fn>
void for_each_element(const checkpoint::hf::Binding& binding, const nn::ParameterTable& table, Fn fn) {
  int64_t total_rows = 0, row = 0;
  for (const std::string& name : binding.parameters) total_rows += table.at(name).shape[0];
  for (const std::string& name : binding.parameters) {
    const nn::Parameter& p = table.at(name);
    const int64_t cols = p.size / p.shape[0];
    for (int64_t i = 0; i < p.size; ++i) {
      const int64_t r = row + i / cols, c = i % cols;
      fn(binding.transposed ? c * total_rows + r : r * cols + c, p.offset + i);
    }
    row += p.shape[0];
  }
}

int64_t binding_size(const checkpoint::hf::Binding& b) {
  int64_t n = 1;
  for (int64_t d : b.hf_shape) n *= d;
  return n;
}

const char* kind_name(TensorKind kind) {
  constexpr const char* kNames[] = {"weight", "gradient", "moment 1", "moment 2"};
  return kNames[static_cast<size_t>(kind)];
}

void check_bytes(std::string_view name, int64_t elements, size_t bytes) {
  if (bytes != static_cast<size_t>(elements) * sizeof(float))
    fail(Code::kInvalidArgument, "tensor \"{}\" has {} elements: {} bytes as f32, not {}", name, elements,
         elements * 4, bytes);
}

}  // namespace

float* TrainerImpl::buffer(TensorKind kind) const {
  const StateBuffers& s = executor_->state();
  switch (kind) {
    case TensorKind::kWeight:
      return s.master;
    case TensorKind::kGradient:
      return s.gradients;
    case TensorKind::kMoment1:
      return s.moment1;
    case TensorKind::kMoment2:
      return s.moment2;
  }
  return nullptr;
}

void TrainerImpl::check_kind(TensorKind kind) const {
  if (static_cast<uint32_t>(kind) > 3)
    fail(Code::kInvalidArgument, "tensor kind {} is none of 0..3", static_cast<int32_t>(kind));
  if (buffer(kind) == nullptr)
    fail(Code::kFailedPrecondition,
         "this engine keeps no {} tensors (it was created for inference, or its optimizer has none)",
         kind_name(kind));
  if (kind == TensorKind::kGradient && !pending_)
    fail(Code::kFailedPrecondition,
         "gradients can be read between forward_backward and commit or discard only");
}

const checkpoint::hf::Binding& TrainerImpl::binding(std::string_view name) const {
  for (const checkpoint::hf::Binding& b : bindings_)
    if (b.hf_name == name || b.hf_name == "transformer." + std::string(name)) return b;
  fail(Code::kNotFound, "there is no tensor \"{}\", neither under our name nor under a Hugging Face name",
       name);
}

void TrainerImpl::tensor_get(TensorKind kind, std::string_view name, float* data, size_t bytes) const {
  check_kind(kind);
  float* const base = buffer(kind);
  if (const nn::Parameter* p = model_.table().find(name)) {
    check_bytes(name, p->size, bytes);
    std::copy_n(base + p->offset, p->size, data);
    return;
  }
  const checkpoint::hf::Binding& b = binding(name);
  check_bytes(name, binding_size(b), bytes);
  for_each_element(b, model_.table(), [&](int64_t hf, int64_t flat) { data[hf] = base[flat]; });
}

void TrainerImpl::tensor_set(TensorKind kind, std::string_view name, const float* data, size_t bytes) {
  check_kind(kind);
  float* const base = buffer(kind);
  if (const nn::Parameter* p = model_.table().find(name)) {
    check_bytes(name, p->size, bytes);
    std::copy_n(data, p->size, base + p->offset);
  } else {
    const checkpoint::hf::Binding& b = binding(name);
    check_bytes(name, binding_size(b), bytes);
    for_each_element(b, model_.table(), [&](int64_t hf, int64_t flat) { base[flat] = data[hf]; });
  }
  if (kind == TensorKind::kWeight) refresh_copy();
}

TensorLocation TrainerImpl::tensor_location(TensorKind kind, std::string_view name) const {
  check_kind(kind);
  const nn::Parameter& p = model_.table().at(name);
  return {buffer(kind) + p.offset, p.shape, arena_};
}

}  // namespace hawser::train
