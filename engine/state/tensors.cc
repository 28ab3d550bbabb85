#include "engine/state/tensors.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/hf/peft.h"
#include "engine/optim/optimizer.h"
#include "engine/state/nf4_weights.h"

namespace hawser::train {
namespace {

/// True if the Hugging Face tensor holds the whole parameter, which may be in several parts of it.
bool holds_all_of(const checkpoint::hf::Binding& binding, const nn::Parameter& p) {
  int64_t held = 0;
  for (const checkpoint::hf::BindingPart& part : binding.parts)
    if (part.parameter == p.name) held += part.size;
  return held == p.size;
}

/// Calls fn(parameter, tensor, partly, each_element) for each parameter in a Hugging Face tensor. `tensor`
/// is a buffer of the parameter's size; `partly` is true if the Hugging Face tensor has only a part of the
/// parameter. each_element(g) calls g(index in the Hugging Face tensor, the matching element of `tensor`) for
/// each element of the parameter that the Hugging Face tensor has.
template <typename Fn>
void for_each_parameter(const checkpoint::hf::Binding& binding, const nn::ParameterTable& table, Fn fn) {
  std::map<std::string, std::vector<const checkpoint::hf::BindingPart*>> parts;
  for (const checkpoint::hf::BindingPart& part : binding.parts) parts[part.parameter].push_back(&part);
  std::vector<float> tensor;
  for (const auto& [name, own] : parts) {
    const nn::Parameter& p = table.at(name);
    tensor.resize(static_cast<size_t>(p.size));
    fn(p, tensor, !holds_all_of(binding, p), [&parts = own, &tensor](auto each) {
      for (const checkpoint::hf::BindingPart* part : parts)
        for (int64_t i = 0; i < part->size; ++i)
          each(part->place(i), tensor[static_cast<size_t>(part->begin + i)]);
    });
  }
}

const char* tensor_kind_name(TensorKind kind) {
  if (kind == TensorKind::kWeight) return "weight";
  if (kind == TensorKind::kGradient) return "gradient";
  return plan::kStates[state_of_kind(kind)].label;
}

void check_bytes(std::string_view name, int64_t elements, size_t bytes) {
  if (bytes != static_cast<size_t>(elements) * sizeof(float))
    fail(Code::kInvalidArgument, "tensor \"{}\" has {} elements: {} bytes as f32, not {}", name, elements,
         elements * 4, bytes);
}

/// Returns the family in the config.json of the imported files, else one that can express the model; "" if
/// none can.
std::string hf_family(const nn::ModelConfig& model, const checkpoint::hf::ExtraFiles& extra) {
  const auto config = extra.find("config.json");
  if (config == extra.end()) return checkpoint::hf::family_of(model);
  return parse_json<Json>(config->second).value("model_type", std::string());
}

/// Returns the arrays that the optimizer of a parameter keeps.
optim::StateTypes kept_states(const Ranks& ranks, const nn::Parameter& p) {
  return optim::states_of(optim::states_by_kind(ranks.config().optimizer, DType::kF32),
                          ranks.table().group_of(p));
}

void check_kept(const Ranks& ranks, TensorKind kind, const nn::Parameter& p) {
  if (kind != TensorKind::kWeight && p.balances)
    fail(Code::kFailedPrecondition,
         "parameter \"{}\" follows the load of experts (/moe/balance_rate), not a gradient: it has no {}",
         p.name, tensor_kind_name(kind));
  if (kind != TensorKind::kWeight && !p.trainable)
    fail(Code::kFailedPrecondition,
         "parameter \"{}\" is frozen (/optimizer/frozen, /adapter/train): it has no {}", p.name,
         tensor_kind_name(kind));
  if (kind >= TensorKind::kFirstState && !kept_states(ranks, p)[state_of_kind(kind)])
    fail(Code::kFailedPrecondition, "parameter \"{}\" has no {}: optimizer \"{}\" does not keep one", p.name,
         tensor_kind_name(kind), optim::rule_of(optim::kind_of(ranks.table().group_of(p))).name);
}

/// Copies the elements that each owner has read into `out` to all processes. A cut of columns is many runs,
/// which are sent as one.
void share(const Rank& rank, const nn::Parameter& p, float* out) {
  const parallel::ShardLayout& layout = rank.layout();
  const parallel::GroupLayout& group = layout.group(p.group);
  comm::ProcessGroup& world = *rank.groups().dp;
  std::vector<float> packed;
  for (int32_t owner = 0; owner < world.size(); ++owner) {
    if (coordinate(layout.options().mesh, owner, group.replica_axes) > 0) continue;
    const std::vector<mesh::ElementRun> runs = layout.state_of(p, owner);
    packed.clear();
    for (const mesh::ElementRun& run : runs) packed.insert(packed.end(), out + run.begin, out + run.end);
    if (packed.empty()) continue;
    world.wait(world.broadcast(packed.data(), static_cast<int64_t>(packed.size() * sizeof(float)), owner));
    const float* from = packed.data();
    for (const mesh::ElementRun& run : runs) {
      std::copy_n(from, run.size(), out + run.begin);
      from += run.size();
    }
  }
}

/// Calls read(rank, run, destination) for each run of elements of each owner, and fills `out` in all
/// processes.
template <typename Read>
void gather(const Ranks& ranks, const nn::Parameter& p, float* out, Read read) {
  ranks.on_each([&](Rank& rank, int32_t) {
    if (rank.layout().group(p.group).owns_state())
      for (const mesh::ElementRun& run : rank.layout().state_of(p, rank.number()))
        read(rank, run, out + run.begin);
    if (!ranks.all_local()) share(rank, p, out);
  });
}

}  // namespace

Tensors::Tensors(const Ranks& ranks, Progress* progress) : ranks_(ranks), progress_(*progress) {
  const nn::ModelConfig& model = ranks.config().model;
  const std::string family = hf_family(model, progress_.extra_files);
  if (family.empty()) return;
  bindings_ = checkpoint::hf::bindings(family, model, ranks.table());
  for (checkpoint::hf::Binding& b : checkpoint::hf::adapter_bindings(bindings_, ranks.table()))
    bindings_.push_back(std::move(b));
}

/// Returns the state from element state(group).range.begin on; null if this rank has none.
StateArray Tensors::state_of(const Rank& rank, TensorKind kind, int32_t group) const {
  const GroupState& s = rank.executor().state(group);
  switch (kind) {
    case TensorKind::kWeight:
      return s.weights;
    case TensorKind::kGradient:
      if (const parallel::GroupLayout& g = rank.layout().group(group);
          ranks_.inference() || !g.here || !g.trainable)
        return {};
      return rank.executor().gradients(rank.train_plan(progress_.result.rows), group);
    default:
      return s.states[state_of_kind(kind)];
  }
}

bool Tensors::keeps(TensorKind kind, const nn::Parameter& p) const {
  if (kind == TensorKind::kWeight) return true;
  if (ranks_.inference() || !p.trainable) return false;
  return kind == TensorKind::kGradient || kept_states(ranks_, p)[state_of_kind(kind)];
}

void Tensors::check_kind(TensorKind kind) const {
  if (static_cast<uint32_t>(kind) >= kTensorKinds)
    fail(Code::kInvalidArgument, "tensor kind {} must be 0 to {}", static_cast<int32_t>(kind),
         kTensorKinds - 1);
  const auto keeps_it = [&](const nn::Parameter& p) { return keeps(kind, p); };
  if (std::ranges::none_of(ranks_.table().all(), keeps_it))
    fail(Code::kFailedPrecondition,
         "this engine keeps no {} tensors (it was created for inference, or its optimizer has none)",
         tensor_kind_name(kind));
  if (kind == TensorKind::kGradient && !progress_.pending)
    fail(Code::kFailedPrecondition,
         "gradients can be read only between forward_backward and commit or discard");
}

void Tensors::collect(TensorKind kind, const nn::Parameter& p, float* out) const {
  check_kept(ranks_, kind, p);
  if (kind == TensorKind::kWeight) return collect_weight(ranks_, p, out);
  gather(ranks_, p, out, [&](const Rank& rank, const mesh::ElementRun& run, float* to) {
    read_values(rank.link(), to, state_of(rank, kind, p.group).from(run.at), run.size());
  });
  if (kind != TensorKind::kGradient || progress_.result.loss_scale == 1) return;
  const auto unscaled = static_cast<float>(1 / progress_.result.loss_scale);  // exact: powers of two
  for (int64_t i = 0; i < p.size; ++i) out[i] *= unscaled;
}

void collect_weight(const Ranks& ranks, const nn::Parameter& p, float* out) {
  gather(ranks, p, out,
         [&](const Rank& rank, const mesh::ElementRun& run, float* to) { read_weights(rank, p, run, to); });
}

namespace {

void require_not_negative(const nn::Parameter& p, const float* data) {
  for (int64_t i = 0; i < p.size; ++i)
    if (data[i] < 0)
      fail(Code::kInvalidArgument,
           "moment 2 of \"{}\" has {:g} at element {}: it is a mean of squares, and optimizer \"adamw8\" "
           "keeps "
           "no sign of it; give numbers of at least 0",
           p.name, data[i], i);
}

/// Writes all of a rank's elements of a parameter at once, because each write encodes the records that it
/// changes anew.
void write_parts(const Rank& rank, const nn::Parameter& p, const StateArray& state, const float* data) {
  const std::vector<mesh::ElementRun> runs = rank.layout().state_of(p, rank.number());
  if (!is_state_block(state.type)) {
    for (const mesh::ElementRun& run : runs)
      write_values(rank.link(), state.from(run.at), data + run.begin, run.size());
    return;
  }
  if (runs.empty()) return;
  int64_t begin = runs.front().at, end = begin;
  for (const mesh::ElementRun& run : runs)
    begin = std::min(begin, run.at), end = std::max(end, run.at + run.size());
  std::vector<float> values(static_cast<size_t>(end - begin));
  read_values(rank.link(), values.data(), state.from(begin), end - begin);
  for (const mesh::ElementRun& run : runs)
    std::copy_n(data + run.begin, run.size(), values.begin() + (run.at - begin));
  write_values(rank.link(), state.from(begin), values.data(), end - begin);
}

}  // namespace

/// Every rank that has a part of the tensor copies that part.
void Tensors::scatter(TensorKind kind, const nn::Parameter& p, const float* data) {
  progress_.require_trained_weights();
  check_kept(ranks_, kind, p);
  if (p.in_base() && base_is_elsewhere(ranks_.config()))
    fail(Code::kFailedPrecondition,
         "parameter \"{}\" belongs to the frozen base, which checkpoints leave out because {} has it: change "
         "it there",
         p.name, ranks_.config().init.from);
  if (p.read == nn::Read::kNf4)
    fail(Code::kFailedPrecondition,
         "parameter \"{}\" is kept in nf4 (/adapter/base), which cannot hold these numbers exactly: change "
         "the model that "
         "it is read from (/init/from)",
         p.name);
  if (ranks_.has_borrowers())
    fail(Code::kFailedPrecondition,
         "parameter \"{}\" is used by engines created on this one (hws_engine_create_on): destroy them first",
         p.name);
  if (kind >= TensorKind::kFirstState && kept_states(ranks_, p)[state_of_kind(kind)] == DType::kU8Block)
    require_not_negative(p, data);
  progress_.weights_changed = true;
  ranks_.on_each([&](Rank& rank, int32_t) {
    rank.executor().drop_fetched();  // the update fetches what is written now
    write_parts(rank, p, state_of(rank, kind, p.group), data);
    if (kind == TensorKind::kWeight) rank.publish_weights();
  });
}

const checkpoint::hf::Binding& Tensors::binding(std::string_view name) const {
  for (const checkpoint::hf::Binding& b : bindings_)
    if (b.hf_name == name || b.hf_name == "transformer." + std::string(name)) return b;
  fail(Code::kNotFound, "there is no tensor \"{}\": it is neither a Hawser name nor a Hugging Face name",
       name);
}

void Tensors::get(TensorKind kind, std::string_view name, float* data, size_t bytes) const {
  check_kind(kind);
  if (const nn::Parameter* p = ranks_.table().find(name)) {
    check_bytes(name, p->size, bytes);
    return collect(kind, *p, data);
  }
  const checkpoint::hf::Binding& b = binding(name);
  check_bytes(name, b.size(), bytes);
  for_each_parameter(b, ranks_.table(),
                     [&](const nn::Parameter& p, std::vector<float>& tensor, bool, auto each_element) {
                       collect(kind, p, tensor.data());
                       each_element([&](int64_t hf, float& value) { data[hf] = value; });
                     });
}

void Tensors::set(TensorKind kind, std::string_view name, const float* data, size_t bytes) {
  check_kind(kind);
  if (const nn::Parameter* p = ranks_.table().find(name)) {
    check_bytes(name, p->size, bytes);
    return scatter(kind, *p, data);
  }
  const checkpoint::hf::Binding& b = binding(name);
  check_bytes(name, b.size(), bytes);
  for_each_parameter(b, ranks_.table(),
                     [&](const nn::Parameter& p, std::vector<float>& tensor, bool partly, auto each_element) {
                       if (partly) collect(kind, p, tensor.data());
                       each_element([&](int64_t hf, float& value) { value = data[hf]; });
                       scatter(kind, p, tensor.data());
                     });
}

TensorLocation Tensors::location(TensorKind kind, std::string_view name) const {
  check_kind(kind);
  const nn::Parameter& p = ranks_.table().at(name);
  check_kept(ranks_, kind, p);
  if (p.read == nn::Read::kNf4)
    fail(Code::kUnimplemented,
         "tensor \"{}\" is kept in nf4 (/adapter/base), so it has no view; copy it with hws_tensor_get",
         p.name);
  if (!ranks_.first().link().in_place())
    fail(Code::kUnimplemented,
         "tensor \"{}\" is in device memory (/device), so it has no view; copy it with "
         "hws_tensor_get",
         name);
  if (ranks_.first().layout().state_sharded())
    fail(Code::kUnimplemented,
         "tensor \"{}\" is sharded over {} ranks (/zero/stage), so it has no view; copy it with "
         "hws_tensor_get",
         name, ranks_.first().layout().group(p.group).parts);
  if (kind >= TensorKind::kFirstState && is_state_block(*kept_states(ranks_, p)[state_of_kind(kind)]))
    fail(Code::kUnimplemented,
         "{} of \"{}\" is kept in 8 bits (/optimizer/kind adamw8), so it has no view; copy it with "
         "hws_tensor_get",
         tensor_kind_name(kind), p.name);
  const parallel::GroupLayout& group = ranks_.first().layout().group(p.group);
  if (!group.here || group.copy)
    fail(Code::kUnimplemented,
         "tensor \"{}\" is on another stage than the first rank here (/mesh/pp), so it has no view; copy it "
         "with "
         "hws_tensor_get",
         name);
  const mesh::MeshConfig& mesh = ranks_.config().mesh;
  if (p.room != p.size)
    fail(Code::kUnimplemented,
         "tensor \"{}\" is divided among {} ranks (/mesh/{}), so it has no view; copy it with hws_tensor_get",
         name, p.cut.experts ? mesh.ep : mesh.tp, p.cut.experts ? "ep" : "tp");
  if (kind == TensorKind::kGradient && progress_.result.loss_scale != 1)
    fail(Code::kUnimplemented,
         "the gradient of \"{}\" is stored as a multiple of the loss scale, {:g} (/loss_scale), so it has no "
         "view; copy it with hws_tensor_get",
         name, progress_.result.loss_scale);
  const StateArray tensor = state_of(ranks_.first(), kind, p.group).from(p.offset);
  if (tensor.outside != nullptr)
    fail(Code::kUnimplemented,
         "tensor \"{}\" is outside the arena between its uses (/offload), so it has no view; copy it "
         "with hws_tensor_get",
         name);
  return {tensor.data, tensor.type, p.shape, ranks_.first().executor().memory_of(p.group)};
}

std::string Tensors::json() const {
  OrderedJson json = OrderedJson::array();
  for (const nn::Parameter& p : ranks_.table().all()) {
    OrderedJson hf;
    for (const checkpoint::hf::Binding& b : bindings_)
      if (holds_all_of(b, p)) hf = b.hf_name;  // experts may lie in many tensors
    json.push_back({{"name", p.name},
                    {"shape", p.shape},
                    {"count", p.size},
                    {"decay", p.decay},
                    {"trainable", p.trainable},
                    {"hugging_face_name", hf}});
  }
  return json.dump();
}

std::string Tensors::statistics_json() const {
  check_kind(TensorKind::kGradient);
  OrderedJson json = OrderedJson::array();
  std::vector<float> gradient;
  for (const nn::Parameter& p : ranks_.table().all()) {
    if (!p.trainable) continue;
    gradient.resize(static_cast<size_t>(p.size));
    collect(TensorKind::kGradient, p, gradient.data());
    double squares = 0, largest = 0;
    int64_t non_finite = 0;
    for (const float value : gradient) {
      const double g = static_cast<double>(value);
      if (!std::isfinite(g)) {
        ++non_finite;
        continue;
      }
      squares += g * g;
      largest = std::max(largest, std::abs(g));
    }
    json.push_back(
        {{"name", p.name}, {"norm", std::sqrt(squares)}, {"largest", largest}, {"non_finite", non_finite}});
  }
  return json.dump();
}

}  // namespace hawser::train
