// Tensors by name, ours or Hugging Face's.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/train/trainer_impl.h"

namespace hawser::train {
namespace {

/// Calls fn(parameter, a tensor of its size, each_element) for each parameter of a Hugging Face tensor, where
/// each_element(g) calls g(index in the Hugging Face tensor, that element of the tensor).
template <typename Fn>
void for_each_part(const checkpoint::hf::Binding& binding, const nn::ParameterTable& table, Fn fn) {
  int64_t total_rows = 0, row = 0;
  for (const std::string& name : binding.parameters) total_rows += table.at(name).shape[0];
  std::vector<float> tensor;
  for (const std::string& name : binding.parameters) {
    const nn::Parameter& p = table.at(name);
    const int64_t cols = p.size / p.shape[0];
    tensor.resize(static_cast<size_t>(p.size));
    fn(p, tensor, [&](auto each) {
      for (int64_t i = 0; i < p.size; ++i) {
        const int64_t r = row + i / cols, c = i % cols;
        each(binding.transposed ? c * total_rows + r : r * cols + c, tensor[static_cast<size_t>(i)]);
      }
    });
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

/// From element state(group).range.begin on; null where this rank keeps none.
StateArray TrainerImpl::state_of(const Rank& rank, TensorKind kind, int32_t group) const {
  const GroupState& s = rank.executor().state(group);
  switch (kind) {
    case TensorKind::kWeight:
      return s.weights;
    case TensorKind::kGradient:
      if (inference_ || !rank.layout().group(group).trainable) return {};
      return rank.executor().gradients(plans_.train, group);
    case TensorKind::kMoment1:
      return s.moment1;
    case TensorKind::kMoment2:
      return s.moment2;
  }
  return {};
}

void TrainerImpl::check_kind(TensorKind kind) const {
  if (static_cast<uint32_t>(kind) > 3)
    fail(Code::kInvalidArgument, "tensor kind {} is none of 0..3", static_cast<int32_t>(kind));
  const int64_t moments = inference_ ? 0 : optim::moment_count(config_.optimizer);
  const int64_t kept[] = {1, inference_ ? 0 : 1, moments > 0, moments > 1};
  if (kept[static_cast<size_t>(kind)] == 0)
    fail(Code::kFailedPrecondition,
         "this engine keeps no {} tensors (it was created for inference, or its optimizer has none)",
         kind_name(kind));
  if (kind == TensorKind::kGradient && !pending_)
    fail(Code::kFailedPrecondition,
         "gradients can be read between forward_backward and commit or discard only");
}

namespace {

void check_trainable(TensorKind kind, const nn::Parameter& p) {
  if (kind != TensorKind::kWeight && !p.trainable)
    fail(Code::kFailedPrecondition, "parameter \"{}\" is frozen (/optimizer/frozen): it has no {}", p.name,
         kind_name(kind));
}

}  // namespace

/// The whole tensor, from all who hold a part of it. Collective where ranks are elsewhere.
void TrainerImpl::collect(TensorKind kind, const nn::Parameter& p, float* out) const {
  check_trainable(kind, p);
  on_ranks([&](Rank& rank, int32_t) {
    const GroupState& s = rank.executor().state(p.group);
    const int64_t begin = std::max(p.offset, s.range.begin), end = std::min(p.offset + p.size, s.range.end);
    if (begin < end && (rank.layout().owns_state() || !all_here()))
      read_values(rank.link(), out + (begin - p.offset),
                  state_of(rank, kind, p.group).from(begin - s.range.begin), end - begin);
    if (all_here() || !rank.layout().state_sharded()) return;
    comm::ProcessGroup& group = rank.groups().shard_of_host();
    for (int32_t r = 0; r < group.size(); ++r) {
      const mesh::FlatRange part = rank.layout().state_on(p.group, group.members()[static_cast<size_t>(r)]);
      const int64_t from = std::max(p.offset, part.begin), to = std::min(p.offset + p.size, part.end);
      if (from < to) group.wait(group.broadcast(out + (from - p.offset), (to - from) * 4, r));
    }
  });
}

/// Everyone who keeps a part takes it.
void TrainerImpl::scatter(TensorKind kind, const nn::Parameter& p, const float* data) {
  check_trainable(kind, p);
  on_ranks([&](Rank& rank, int32_t) {
    const GroupState& s = rank.executor().state(p.group);
    const int64_t begin = std::max(p.offset, s.range.begin), end = std::min(p.offset + p.size, s.range.end);
    if (begin < end)
      write_values(rank.link(), state_of(rank, kind, p.group).from(begin - s.range.begin),
                   data + (begin - p.offset), end - begin);
    if (kind == TensorKind::kWeight) rank.publish_weights();
  });
}

const checkpoint::hf::Binding& TrainerImpl::binding(std::string_view name) const {
  for (const checkpoint::hf::Binding& b : bindings_)
    if (b.hf_name == name || b.hf_name == "transformer." + std::string(name)) return b;
  fail(Code::kNotFound, "there is no tensor \"{}\", neither under our name nor under a Hugging Face name",
       name);
}

void TrainerImpl::tensor_get(TensorKind kind, std::string_view name, float* data, size_t bytes) const {
  check_kind(kind);
  if (const nn::Parameter* p = model_.table().find(name)) {
    check_bytes(name, p->size, bytes);
    return collect(kind, *p, data);
  }
  const checkpoint::hf::Binding& b = binding(name);
  check_bytes(name, binding_size(b), bytes);
  for_each_part(b, model_.table(),
                [&](const nn::Parameter& p, std::vector<float>& tensor, auto each_element) {
                  collect(kind, p, tensor.data());
                  each_element([&](int64_t hf, float& value) { data[hf] = value; });
                });
}

void TrainerImpl::tensor_set(TensorKind kind, std::string_view name, const float* data, size_t bytes) {
  check_kind(kind);
  if (const nn::Parameter* p = model_.table().find(name)) {
    check_bytes(name, p->size, bytes);
    return scatter(kind, *p, data);
  }
  const checkpoint::hf::Binding& b = binding(name);
  check_bytes(name, binding_size(b), bytes);
  for_each_part(b, model_.table(),
                [&](const nn::Parameter& p, std::vector<float>& tensor, auto each_element) {
                  each_element([&](int64_t hf, float& value) { value = data[hf]; });
                  scatter(kind, p, tensor.data());
                });
}

TensorLocation TrainerImpl::tensor_location(TensorKind kind, std::string_view name) const {
  check_kind(kind);
  const nn::Parameter& p = model_.table().at(name);
  check_trainable(kind, p);
  if (!first().link().in_place())
    fail(Code::kUnimplemented,
         "tensor \"{}\" lies in the memory of a device (/device): there is no view of it; copy it with "
         "hws_tensor_get",
         name);
  if (first().layout().state_sharded())
    fail(Code::kUnimplemented,
         "tensor \"{}\" lies in shards on {} ranks (/zero/stage): there is no view of it; copy it with "
         "hws_tensor_get",
         name, first().layout().parts());
  const StateArray tensor = state_of(first(), kind, p.group).from(p.offset);
  return {tensor.data, tensor.type, p.shape, first().arena()};
}

}  // namespace hawser::train
