#include "engine/train/step_traffic.h"

#include "engine/base/json.h"

namespace hawser::train {

StepTraffic::StepTraffic(const parallel::DataParallelGroups& groups)
    : groups_{groups.dp.get(), groups.shard.get(), groups.replica.get(), groups.secondary.get()} {}

void StepTraffic::end() {
  const Totals now = total();
  for (size_t g = 0; g < kGroups; ++g) {
    for (size_t o = 0; o < now[g].by_operation.size(); ++o) {
      const comm::Traffic::Entry &from = before_[g].by_operation[o], &to = now[g].by_operation[o];
      step_[g].by_operation[o].calls += to.calls - from.calls;
      step_[g].by_operation[o].bytes += to.bytes - from.bytes;
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
            {"calls", entry.calls}, {"bytes", entry.bytes}};
    }
  }
  return json;
}

int64_t sent_bytes(const StepTraffic::Totals& totals) {
  int64_t bytes = 0;
  for (const comm::Traffic& group : totals)
    for (const comm::Traffic::Entry& entry : group.by_operation) bytes += entry.bytes;
  return bytes;
}

}  // namespace hawser::train
