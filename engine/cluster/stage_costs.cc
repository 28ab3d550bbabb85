#include "engine/cluster/stage_costs.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/cluster/kernel_seconds.h"
#include "engine/plan/step_work.h"

namespace hawser::cluster {
namespace {

using parallel::HopKind;
using parallel::Sent;
using plan::Instruction;
using plan::Op;
using plan::Plan;

bool is_sum(comm::Operation operation) {
  return operation == comm::Operation::kReduceScatter || operation == comm::Operation::kAllReduce;
}

/// Returns the efficiency of a level for an operation; 1 if the cluster does not state it.
double efficiency(const NetworkLevel& level, comm::Operation operation) {
  const auto found = level.efficiency.find(std::string_view(comm::operation_name(operation)));
  return found != level.efficiency.end() ? found->second : 1;
}

double needed(double rate, const char* field, const Plan& plan) {
  if (rate > 0) return rate;
  fail(Code::kInvalidArgument, "the cluster does not state {}, which plan {} needs; add the field", field,
       plan.name);
}

/// Returns the seconds of a copy between the arena and another memory of the rank. The arena of a CPU is in
/// the host's memory.
double copy_seconds(const Cluster& cluster, const Plan& plan, const Instruction& n) {
  const HostRates& host = cluster.host;
  const auto bytes = static_cast<double>(moved_bytes(plan, n));
  const bool out = n.op == Op::kOffload, linked = cluster.device.kind == device::Kind::kCuda;
  bool disk = false;
  for (const plan::Use& use : n.uses) disk |= plan.slot(use.slot).space == plan::Space::kDisk;
  double seconds = 0;  // of the slower of the device's link and the disk
  if (linked || !disk)
    seconds = bytes / (out ? needed(host.from_device, "/host/from_device_bytes_per_second", plan)
                           : needed(host.to_device, "/host/to_device_bytes_per_second", plan));
  if (disk)
    seconds = std::max(seconds, bytes / (out ? needed(host.disk_write, "/disk/write_bytes_per_second", plan)
                                             : needed(host.disk_read, "/disk/read_bytes_per_second", plan)));
  return seconds;
}

double update_seconds(const HostRates& host, const Plan& plan, const Instruction& n) {
  double bytes = 0;
  for (const plan::Use& use : n.uses) bytes += static_cast<double>(plan.slot(use.slot).bytes);
  return bytes / needed(host.update, "/host/update_bytes_per_second", plan);
}

/// The seconds of each entry of Plan::work, computed once.
class WorkSeconds {
 public:
  WorkSeconds(const Cluster& cluster, const Plan& plan)
      : device_(cluster.device), stack_(cluster.stack), plan_(plan) {
    for (const Work& work : plan.work)
      works_.push_back(
          {of(work.calls, false), of(work.calls, true), of(work.adding, false), of(work.adding, true)});
  }

  double of(const Instruction& n, bool launched) const {
    if (n.op == Op::kAddGrad) return seconds_of(device_, plan::add_grad(plan_, n), launched);
    if (n.op == Op::kReshard) return copied(n);
    if (n.work < 0) return 0;
    return works_[static_cast<size_t>(n.work)][(n.accumulate ? 2 : 0) + (launched ? 1 : 0)];
  }

 private:
  double of(const WorkList& calls, bool launched) const {
    double seconds = 0;
    for (const KernelCalls& planned : calls)
      for (const KernelCalls& c : in_stack(stack_, planned)) seconds += seconds_of(device_, c, launched);
    return seconds;
  }
  /// Returns the seconds of a copy of a shard, which is read and written.
  double copied(const Instruction& n) const {
    const plan::SlotId to = n[plan::Operand::kSecondary];
    return to < 0 ? 0
                  : 2 * static_cast<double>(plan_.slot(to).bytes) /
                        (device_.bytes_per_second * device_.efficiency);
  }

  const DeviceRates& device_;
  const Stack& stack_;
  const Plan& plan_;
  std::vector<std::array<double, 4>> works_;  // by adding and launched
};

/// Returns for each instruction whether a graph launches it.
std::vector<bool> in_graphs(const Plan& plan) {
  std::vector<bool> graphs(plan.instructions.size());
  if (plan.no_graphs != plan::NoGraphs::kNone) return graphs;
  for (const plan::Segment& s : plan.segments)
    for (size_t i = s.begin; i < s.end; ++i) graphs[i] = true;
  return graphs;
}

void add_exchange_rates(NetworkCosts* network, const Stack& stack, const Instruction& n,
                        plan::CostTable* costs) {
  for (const ExchangeNote& note : n.exchanges) {
    const auto same = [&](const plan::ExchangeRate& r) { return r.is_of(note); };
    if (std::any_of(costs->exchange_rates.begin(), costs->exchange_rates.end(), same)) continue;
    const Sent sent = parallel::sent_in(note);
    const TransferRate rate = network->rate(sent);
    const double share = is_sum(sent.operation) ? stack.exchange_bytes : 1;
    costs->exchange_rates.push_back(
        {note.group, note.operation, rate.latency, share * rate.seconds_per_byte});
  }
}

}  // namespace

const parallel::Route& NetworkCosts::route(const Sent& sent) {
  const Key key{sent.group, sent.operation, sent.sum_group, sent.lane};
  const auto known = routes_.find(key);
  if (known != routes_.end()) return known->second;
  const std::vector<int64_t> members = members_of(sent.group, layout_, sent.lane);
  return routes_.emplace(key, route_of(sent, members, cluster_.topology())).first->second;
}

TransferRate NetworkCosts::rate(const Sent& sent) {
  const parallel::Route& way = route(sent);
  TransferRate rate;
  for (const parallel::Hop& hop : way.hops) {
    const comm::Operation operation = hop.kind == HopKind::kGather   ? comm::Operation::kAllGather
                                      : hop.kind == HopKind::kDirect ? sent.operation
                                                                     : comm::Operation::kReduceScatter;
    double slowest = 0, latency = 0;
    for (size_t l = 0; l < cluster_.levels.size(); ++l) {
      if (hop.parts[l] == 0) continue;
      const NetworkLevel& level = cluster_.levels[l];
      const double share = static_cast<double>(hop.parts[l]) / static_cast<double>(way.whole);
      slowest = std::max(slowest, share / (level.bytes_per_second * efficiency(level, operation)));
      latency = std::max(latency, level.latency);
    }
    rate.latency += latency, rate.seconds_per_byte += slowest;
  }
  return rate;
}

plan::CostTable stage_costs(const Cluster& cluster, const StageProblem& stage) {
  const Plan& plan = *stage.plan;
  const WorkSeconds work(cluster, plan);
  const std::vector<bool> graphs = in_graphs(plan);
  const bool launches = cluster.device.launch_seconds > 0;
  NetworkCosts network(cluster, *stage.layout);
  plan::CostTable costs;
  costs.bytes_per_second = 1;  // every transfer has its own seconds
  costs.seconds.resize(plan.instructions.size());
  costs.transfer_seconds.resize(plan.instructions.size());
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& n = plan.instructions[i];
    if (plan::is_move(n.op)) {
      costs.transfer_seconds[i] = copy_seconds(cluster, plan, n);
    } else if (n.on_host()) {
      costs.transfer_seconds[i] = update_seconds(cluster.host, plan, n);
    } else {
      const Sent sent = sent_by(plan, n, *stage.strategy);
      if (sent.bytes > 0)
        costs.transfer_seconds[i] =
            network.rate(sent).seconds(sent_share(cluster.stack, n.op) * static_cast<double>(sent.bytes));
      if (!n.is_transfer()) costs.seconds[i] = work.of(n, launches && !graphs[i]);
      add_exchange_rates(&network, cluster.stack, n, &costs);
    }
  }
  if (launches && plan.no_graphs == plan::NoGraphs::kNone)
    for (const plan::Segment& s : plan.segments) costs.seconds[s.begin] += cluster.device.launch_seconds;
  if (!cluster.stack.is_hawser()) {
    recompute_more(cluster.stack, plan, &costs);
    expose_transfers(cluster.stack, plan, &costs);
  }
  return costs;
}

std::vector<SentRow> sent_rows(const Cluster& cluster, const StageProblem& stage) {
  NetworkCosts network(cluster, *stage.layout);
  std::vector<SentRow> rows;
  const auto add = [&](const Sent& sent) {
    if (sent.bytes == 0) return;
    const parallel::Route& route = network.route(sent);
    const std::vector<parallel::LevelBytes> hops = bytes_by_hop(route, sent.bytes);
    for (size_t h = 0; h < hops.size(); ++h) {
      const HopKind kind = route.hops[h].kind;
      auto row = std::find_if(rows.begin(), rows.end(), [&](const SentRow& r) {
        return r.group == sent.group && r.operation == sent.operation && r.hop == kind;
      });
      if (row == rows.end()) row = rows.insert(row, {sent.group, sent.operation, kind, {}});
      for (size_t l = 0; l < hops[h].size(); ++l) row->bytes[l] += hops[h][l];
    }
  };
  for (const Instruction& n : stage.plan->instructions) {
    if (plan::is_move(n.op) || n.on_host()) continue;
    add(sent_by(*stage.plan, n, *stage.strategy));
    for (const ExchangeNote& note : n.exchanges) add(parallel::sent_in(note));
  }
  return rows;
}

}  // namespace hawser::cluster
