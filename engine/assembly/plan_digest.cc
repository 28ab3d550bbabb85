#include "engine/assembly/plan_digest.h"

#include "engine/base/hash.h"

namespace hawser::train {
namespace {

uint64_t hash_of(const plan::Plan& plan) {
  Hash hash;
  hash.add(plan.commit).add(plan.instructions.size());
  for (const plan::Instruction& n : plan.instructions) {
    hash.add(n.op).add(n.micro_batch).add(n.block).add(n.bucket).add(n.lane).add(n.accumulate).add(n.experts);
    hash.add(n.sent_bytes).add(n.uses.size());
    hash.add(n.overlaps_next);
    hash.add(n.exchanges.size());
    for (const ExchangeNote& note : n.exchanges)
      hash.add(std::string_view(note.group)).add(std::string_view(note.operation)).add(note.bytes);
    for (const plan::Use& use : n.uses) {
      const plan::Slot& slot = plan.slot(use.slot);
      hash.add(use.operand).add(use.written).add(slot.role).add(slot.block).add(slot.persistent);
      hash.add(slot.category == plan::Category::kWorkspace ? 0 : slot.bytes);
    }
  }
  return hash.value();
}

uint64_t hash_of_parameters(const nn::ParameterTable& table, const parallel::ShardLayout& layout) {
  Hash hash;
  for (const nn::Parameter& p : table.all()) {
    hash.add(p.name).add(p.block).add(p.group).add(p.offset).add(p.trainable).add(p.shape.size());
    for (const int64_t dim : p.shape) hash.add(dim);
  }
  for (size_t g = 0; g < table.groups().size(); ++g) {
    const parallel::GroupLayout& group = layout.group(static_cast<int32_t>(g));
    hash.add(group.elements).add(group.here).add(group.shard).add(group.secondary_shard);
    hash.add(group.type).add(group.state_type).add(group.has_master).add(group.trainable);
    hash.add(group.scales);
  }
  return hash.value();
}

uint64_t hash_of_groups(const EnginePlans& plans, const parallel::StateLayout& layout,
                        const parallel::Strategies& strategies) {
  Hash hash;
  const auto add = [&](const std::vector<mesh::SubAxis>& axes) {
    hash.add(axes.size());
    for (const mesh::SubAxis& axis : axes)
      hash.add(axis.axis).add(axis.half).add(axis.outer_degree).add(degree(layout.mesh(), axis));
  };
  add(layout.data_axes());
  add(layout.reduction().scatter);
  add(layout.reduction().across);
  add(layout.secondary_axes());
  const parallel::DataParallelStrategy& s = plans.strategy;
  hash.add(s.stage).add(s.tree).add(s.sum_group).add(s.wire).add(s.records).add(s.per_micro_batch);
  hash.add(plans.peers);
  strategies.add_to(&hash);
  hash.add(s.expert_sum_group);
  return hash.value();
}

}  // namespace

const char* part_name(PlanPart part) {
  switch (part) {
    case PlanPart::kTrain:
      return "plan of training steps";
    case PlanPart::kEval:
      return "plan of evaluation";
    case PlanPart::kLogits:
      return "plan of logits";
    case PlanPart::kGenerate:
      return "plan of generation";
    case PlanPart::kParameters:
      return "layout of parameters";
    case PlanPart::kGroups:
      return "grouping of ranks";
    case PlanPart::kCount:
      break;
  }
  return "";
}

PlanDigest digest_of(const std::vector<EnginePlans>& stages, const nn::Model& model,
                     const config::ResolvedConfig& config, bool inference) {
  const EnginePlans& plans = stages.front();
  const parallel::Strategies strategies = strategies_of(config);
  const parallel::ShardLayout layout(model.table(),
                                     layout_options(config, strategies, plans.strategy, 0, inference));
  const auto of_stages = [&](const plan::Plan EnginePlans::*plan) {
    Hash hash;
    for (const EnginePlans& stage : stages) hash.add(hash_of(stage.*plan));
    return hash.value();
  };
  PlanDigest digest;
  Hash smaller;
  for (const EnginePlans& stage : stages)
    for (const plan::Plan& plan : stage.smaller_train) smaller.add(plan.micro_batches).add(hash_of(plan));
  for (const config::RampSize& size : config.batch.ramp) smaller.add(size.from_rows).add(size.global_batch);
  digest[PlanPart::kTrain] = Hash().add(of_stages(&EnginePlans::train)).add(smaller.value()).value();
  digest[PlanPart::kEval] =
      Hash().add(of_stages(&EnginePlans::eval)).add(of_stages(&EnginePlans::eval_pipeline)).value();
  digest[PlanPart::kLogits] = of_stages(&EnginePlans::logits);
  digest[PlanPart::kGenerate] = of_stages(&EnginePlans::generate);
  digest[PlanPart::kParameters] = hash_of_parameters(model.table(), layout);
  digest[PlanPart::kGroups] = hash_of_groups(plans, layout.over_mesh(), strategies);
  return digest;
}

}  // namespace hawser::train
