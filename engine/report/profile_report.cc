// Reports the time of profiled steps by kernel and shape, as JSON and as a table. Readers compute shares of
// the machine's limits from flops and a matrix-product peak, or from bytes and a bandwidth.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/json.h"
#include "engine/report/kernel_calls_report.h"
#include "engine/report/traces.h"

namespace hawser::train {
namespace {

std::vector<KernelProfile::Row> slowest_first(const KernelProfile& profile) {
  std::vector<KernelProfile::Row> rows = profile.rows();
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return rows;
}

OrderedJson rank_json(int32_t rank, const StepTrace& trace) {
  const StepTrace::Sums& sums = trace.sums();
  OrderedJson json = {{"rank", rank}, {"steps", sums.steps}, {"seconds", sums.seconds}};
  json["waited_seconds"] = sums.waited;
  json["communication"] = {
      {"calls", sums.transfers}, {"seconds", sums.communicating}, {"bytes", sums.sent_bytes}};
  json["exchanges"] = {{"calls", sums.exchanges},
                       {"seconds", sums.exchanging},
                       {"bytes", sums.exchanged_bytes},
                       {"beside_seconds", sums.beside}};
  json["kernels"] = OrderedJson::array();
  for (const KernelProfile::Row& row : slowest_first(*trace.profile())) {
    OrderedJson& of_row = json["kernels"].emplace_back(kernel_calls_json(row.sums));
    of_row["seconds"] = row.seconds;
  }
  return json;
}

std::string rank_text(int32_t rank, const StepTrace& trace) {
  const StepTrace::Sums& sums = trace.sums();
  std::string text =
      fmt::format("rank {}: {} steps, {:.6f} s\n{:<44} {:>8} {:>11} {:>7} {:>9} {:>8}\n", rank, sums.steps,
                  sums.seconds, "kernel", "calls", "seconds", "share", "GFLOP/s", "GB/s");
  const auto line = [&](const std::string& name, int64_t calls, double seconds, double flops, double bytes) {
    const double per = seconds > 0 ? 1e-9 / seconds : 0;
    text += fmt::format("{:<44} {:>8} {:>11.6f} {:>5.1f} % {:>9.1f} {:>8.1f}\n", name, calls, seconds,
                        sums.seconds > 0 ? 100 * seconds / sums.seconds : 0, flops * per, bytes * per);
  };
  double rest = sums.seconds - sums.waited;
  for (const KernelProfile::Row& row : slowest_first(*trace.profile())) {
    line(kernel_label(row.sums), row.sums.calls, row.seconds, row.sums.flops, row.sums.bytes);
    rest -= row.seconds;
  }
  if (sums.transfers > 0) {
    line("communication (beside the above)", sums.transfers, sums.communicating, 0,
         static_cast<double>(sums.sent_bytes));
    line("waiting for communication", sums.transfers, sums.waited, 0, 0);
  }
  if (sums.exchanges > 0) {
    line("exchanges within blocks", sums.exchanges, sums.exchanging, 0,
         static_cast<double>(sums.exchanged_bytes));
    rest -= sums.exchanging - sums.beside;
    if (sums.beside > 0) line("  beside computation", 0, sums.beside, 0, 0);
  }
  line("between kernels", 0, std::max(0.0, rest), 0, 0);
  return text;
}

}  // namespace

std::string Traces::profile_report(bool json) const {
  if (traces_.empty() || trace(0).profile() == nullptr)
    fail(Code::kFailedPrecondition,
         "nothing was profiled: switch the trace on with HWS_TRACE_KERNELS (hws_engine_set_trace) and take a "
         "step");
  if (trace(0).sums().steps == 0)
    fail(Code::kFailedPrecondition,
         "nothing was profiled: no step was taken since the profile was asked for");
  OrderedJson report;
  std::string text;
  for (int32_t i = 0; i < ranks_.here(); ++i) {
    if (json) report["ranks"].push_back(rank_json(ranks_.at(i).number(), trace(i)));
    text += rank_text(ranks_.at(i).number(), trace(i));
  }
  return json ? report.dump() : text;
}

}  // namespace hawser::train
