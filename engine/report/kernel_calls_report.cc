#include "engine/report/kernel_calls_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace hawser::train {

std::string kernel_label(const KernelCalls& calls) {
  std::string text(calls.kernel);
  const char* const type = calls.type == DType::kF32 ? "fp32" : calls.type == DType::kBf16 ? "bf16" : "fp16";
  if (calls.m > 0)
    text += fmt::format(" {} x {} x {} {}{}", calls.m, calls.n, calls.k, calls.a_transposed ? 'T' : 'N',
                        calls.b_transposed ? 'T' : 'N');
  if (calls.length > 0) text += fmt::format(" {} x {}", calls.length, calls.head_dim);
  return text + " " + type;
}

OrderedJson kernel_calls_json(const KernelCalls& calls) {
  OrderedJson json = {{"kernel", calls.kernel}, {"type", dtype_name(calls.type)}};
  if (calls.m > 0) {
    json["m"] = calls.m, json["n"] = calls.n, json["k"] = calls.k;
    json["a_transposed"] = calls.a_transposed, json["b_transposed"] = calls.b_transposed;
  }
  if (calls.length > 0) json["length"] = calls.length, json["head_dim"] = calls.head_dim;
  json["calls"] = calls.calls;
  json["flops"] = calls.flops;
  json["bytes"] = calls.bytes;
  return json;
}

std::string work_text(const WorkList& work) {
  WorkList rows = work;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const KernelCalls& a, const KernelCalls& b) { return a.bytes > b.bytes; });
  KernelCalls all;
  std::string text = fmt::format("work of a step{:<30} {:>8} {:>12} {:>12}\n", "", "calls", "GFLOP", "GB");
  const auto line = [&](const std::string& name, const KernelCalls& c) {
    text +=
        fmt::format("  {:<42} {:>8} {:>12.3f} {:>12.4f}\n", name, c.calls, 1e-9 * c.flops, 1e-9 * c.bytes);
  };
  for (const KernelCalls& c : rows) {
    line(kernel_label(c), c);
    all.calls += c.calls, all.flops += c.flops, all.bytes += c.bytes;
  }
  line("all", all);
  return text;
}

}  // namespace hawser::train
