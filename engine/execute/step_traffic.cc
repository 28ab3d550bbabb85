#include "engine/execute/step_traffic.h"

#include "engine/base/json.h"

namespace hawser::train {

StepTraffic::StepTraffic(const parallel::DataParallelGroups& groups)
    : groups_{groups.dp.get(),       groups.shard.get(),
              groups.replica.get(),  groups.secondary.get(),
              groups.tp_sums.get(),  groups.kv_sums.get(),
              groups.cp.get(),       groups.tp.get(),
              groups.cp_hosts.get(), groups.ep.get(),
              groups.edp.get(),      groups.edp_replica.get(),
              groups.matrices.get(), groups.expert_matrices.get()} {
  for (size_t lane = 0; lane < plan::kLanes; ++lane)
    groups_[kGroups - plan::kLanes + lane] = groups.stages[lane].get();
}

void StepTraffic::end() {
  const Totals now = total();
  for (size_t g = 0; g < kGroups; ++g) {
    for (size_t o = 0; o < now[g].by_operation.size(); ++o) {
      const comm::Traffic::Entry &from = before_[g].by_operation[o], &to = now[g].by_operation[o];
      step_[g].by_operation[o].calls += to.calls - from.calls;
      step_[g].by_operation[o].bytes += to.bytes - from.bytes;
      step_[g].by_operation[o].wire_bytes += to.wire_bytes - from.wire_bytes;
      step_[g].by_operation[o].charged_bytes += to.charged_bytes - from.charged_bytes;
    }
  }
}

StepTraffic::Totals StepTraffic::total() const {
  Totals totals;
  for (size_t g = 0; g < kGroups; ++g)
    if (groups_[g]) totals[g] = groups_[g]->traffic();
  return totals;
}

OrderedJson StepTraffic::json(const Totals& totals) const {
  OrderedJson json = OrderedJson::object();
  for (size_t g = 0; g < kGroups; ++g) {
    for (size_t o = 0; o < totals[g].by_operation.size(); ++o) {
      const comm::Traffic::Entry& entry = totals[g].by_operation[o];
      if (entry.calls > 0)
        json[groups_[g]->name()][comm::operation_name(static_cast<comm::Operation>(o))] = {
            {"calls", entry.calls}, {"bytes", entry.bytes}, {"wire_bytes", entry.wire_bytes}};
    }
  }
  return json;
}

comm::Traffic::Entry sum(const StepTraffic::Totals& totals) {
  comm::Traffic::Entry sum;
  for (const comm::Traffic& group : totals) {
    for (const comm::Traffic::Entry& entry : group.by_operation) {
      sum.calls += entry.calls;
      sum.bytes += entry.bytes;
      sum.wire_bytes += entry.wire_bytes;
      sum.charged_bytes += entry.charged_bytes;
    }
  }
  return sum;
}

}  // namespace hawser::train
