// Where the executor finds the state of its rank: pointers into the persistent slots, made once.
#include <algorithm>

#include "engine/train/executor.h"

namespace hawser::train {
Executor::Executor(Setup setup, const plan::Plan& plan)
    : s_(std::move(setup)), pointers_(s_.model->table().groups().size()) {
  const auto named = [&](const char* name) { return at(plan, plan::find_slot(plan, name)); };
  if (char* const memory = named("lookup_gradient"))
    lookup_gradient_ = nn::LookupGradient(s_.staging.lookup_gradient(memory), memory, s_.lookup_gradient);
  rope_table_ = reinterpret_cast<float*>(named("rope_table"));
  scalars_ = reinterpret_cast<StepScalars*>(named("scalars"));
  sums_ = reinterpret_cast<StepSums*>(named("norm"));
  host_scalars_ = s_.staging.scalars(scalars_);
  host_sums_ = s_.staging.sums(sums_);
  if (s_.groups->dp) agreement_.resize(static_cast<size_t>(agreement_words(s_.groups->dp->size())));
  bind_state(plan);
  for (size_t id = 0; id < plan.slots.size(); ++id) {
    if (!plan.slots[id].persistent) continue;
    acquire(plan, plan.slots[id]);
    point_groups(plan, static_cast<plan::SlotId>(id));
  }
  if (s_.link->in_place())
    device::poison(s_.arena->data() + plan.persistent_bytes, s_.arena->bytes() - plan.persistent_bytes);
}

void Executor::bind_state(const plan::Plan& plan) {
  using plan::Role;
  const std::vector<nn::ParameterGroup>& groups = s_.model->table().groups();
  gaps_.resize(static_cast<size_t>(s_.layout->blocks()));
  for (size_t i = 0; i < groups.size(); ++i) {
    const parallel::GroupLayout& layout = s_.layout->group(static_cast<int32_t>(i));
    const auto block = static_cast<int32_t>(groups[i].block);
    const auto slot = [&](Role role) { return at(plan, plan::find_state(plan, role, block)); };
    const bool sharded = s_.layout->weights_sharded();
    char* weights = slot(sharded ? Role::kWeightShards : Role::kWeights);
    weights += sharded ? layout.weight_shard : layout.weights + layout.state.begin * dtype_bytes(layout.type);
    GroupState state{layout.state, {weights, layout.state_type}, nullptr, {}, {}};
    if (layout.has_master) {
      state.weights.data = slot(Role::kMaster) + layout.master;
      state.copy = weights;
    }
    const auto moment = [&](Role role) -> StateArray {
      char* const begin = slot(role);
      return {begin && layout.trainable ? begin + layout.moments : nullptr, layout.state_type};
    };
    state.moment1 = moment(Role::kMoment1), state.moment2 = moment(Role::kMoment2);
    state_.push_back(state);

    if (!layout.trainable) continue;
    int64_t end = 0;
    const int64_t written = s_.layout->rounds_gradients() ? layout.gradient_window : layout.gradients;
    const auto gap_until = [&](int64_t begin) {
      if (begin > end) gaps_[groups[i].block].push_back({written + end * 4, (begin - end) * 4});
    };
    for (const nn::Parameter& p : s_.model->table().all()) {
      if (p.group != static_cast<int32_t>(i)) continue;
      gap_until(p.offset);
      end = p.offset + p.size;
    }
    gap_until(layout.elements);
  }
}

}  // namespace hawser::train
