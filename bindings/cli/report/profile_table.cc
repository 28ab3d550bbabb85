#include "bindings/cli/report/profile_table.h"

#include <algorithm>

#include "bindings/cli/quantity.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kLine = "%-42s %8lld %10.2f %6.1f%% %9s %8s %8s\n";

std::string number_or_dash(double value, const char* format) {
  return value > 0 ? format_text(format, value) : "-";  // NOLINT: both formats take one double
}

/// The machine's limits for one rank, in FLOPs and bytes per second; 0 if unknown.
struct Limits {
  double fp32_flops = 0, bf16_flops = 0, bytes = 0;

  Limits(const ordered_json& measured, size_t ranks) {
    if (!measured.is_object()) return;
    const auto each = [&](const char* key) {
      return measured.value(key, 0.0) * 1e9 / static_cast<double>(std::max<size_t>(1, ranks));
    };
    fp32_flops = each("fp32_gflops"), bf16_flops = each("bf16_gflops"), bytes = each("bandwidth_gbs");
  }

  /// Returns the least time in seconds that this row's calls can take; 0 if unknown.
  double seconds(const ordered_json& row) const {
    const double flops = row.at("flops"), peak = row.at("type") == "BF16" ? bf16_flops : fp32_flops;
    if (flops > 0) return peak > 0 ? flops / peak : 0;
    return bytes > 0 ? row.at("bytes").get<double>() / bytes : 0;
  }
};

std::string name_of(const ordered_json& row) {
  std::string name = row.at("kernel").get<std::string>();
  if (row.contains("m")) {
    const auto letter = [&](const char* key) { return row.at(key).get<bool>() ? 'T' : 'N'; };
    name +=
        format_text(" %lld x %lld x %lld %c%c", row.at("m").get<long long>(), row.at("n").get<long long>(),
                    row.at("k").get<long long>(), letter("a_transposed"), letter("b_transposed"));
  }
  if (row.contains("length"))
    name +=
        format_text(" %lld x %lld", row.at("length").get<long long>(), row.at("head_dim").get<long long>());
  return name + (row.at("type") == "F32" ? " fp32" : row.at("type") == "BF16" ? " bf16" : " fp16");
}

/// The table of one rank. Its times are milliseconds of one step.
class Table {
 public:
  /// `name` is the rank's name; "" if it is the only rank.
  Table(const ordered_json& rank, const std::string& name, const Limits& limits)
      : limits_(limits), steps_(std::max(1.0, rank.at("steps").get<double>())), seconds_(rank.at("seconds")) {
    const std::string head = name.empty() ? "kernel (of one step)" : "kernel (of one step, " + name + ")";
    text_ = format_text("%-42s %8s %10s %7s %9s %8s %8s\n", head.c_str(), "calls", "ms", "share", "GFLOP/s",
                        "GB/s", "of limit");
  }

  void kernel(const ordered_json& row) {
    const double seconds = row.at("seconds"), least = limits_.seconds(row);
    least_ += least;
    line(name_of(row), row.at("calls"), seconds, row.at("flops"), row.at("bytes"),
         seconds > 0 ? least / seconds : 0);
  }
  void line(const std::string& name, double calls, double seconds, double flops, double bytes, double share) {
    const double rate = seconds > 0 ? 1e-9 / seconds : 0;
    const double of_step = seconds_ > 0 ? 100 * seconds / seconds_ : 0;
    text_ += format_text(kLine, name.c_str(), static_cast<long long>(calls / steps_ + 0.5),
                         1e3 * seconds / steps_, of_step, number_or_dash(flops * rate, "%.1f").c_str(),
                         number_or_dash(bytes * rate, "%.1f").c_str(),
                         number_or_dash(100 * share, "%.0f%%").c_str());
  }
  /// Adds the line of the whole step. Its limit is the sum over all kernels, because they run one after the
  /// other.
  void total() { line("step", 0, seconds_, 0, 0, seconds_ > 0 ? least_ / seconds_ : 0); }
  const std::string& text() const { return text_; }

 private:
  const Limits& limits_;
  double steps_, seconds_, least_ = 0;
  std::string text_;
};

std::string name_of_rank(const ordered_json& rank) {
  return format_text("rank %d", rank.at("rank").get<int>());
}

/// Returns a line for each rank: the time of its step, in kernels, and waiting for other ranks.
std::string totals(const ordered_json& ranks) {
  std::string text =
      format_text("\n%-42s %10s %10s %10s\n", "all ranks here", "ms a step", "kernels", "waiting");
  for (const ordered_json& rank : ranks) {
    const double each = 1e3 / std::max(1.0, rank.at("steps").get<double>());
    double kernels = 0;
    for (const ordered_json& row : rank.at("kernels")) kernels += row.at("seconds").get<double>();
    text += format_text("%-42s %10.2f %10.2f %10.2f\n", name_of_rank(rank).c_str(),
                        rank.at("seconds").get<double>() * each, kernels * each,
                        rank.at("waited_seconds").get<double>() * each);
  }
  return text;
}

}  // namespace

std::string profile_table(const ordered_json& profile, const ordered_json& measured) {
  const ordered_json& ranks = profile.at("ranks");
  const ordered_json& rank = ranks.at(0);
  const Limits limits(measured, ranks.size());
  // A process of a job holds one rank too, but that rank has a number.
  const bool alone = ranks.size() == 1 && rank.at("communication").at("calls") == 0;
  Table table(rank, alone ? "" : name_of_rank(rank), limits);
  double rest = rank.at("seconds").get<double>() - rank.at("waited_seconds").get<double>();
  for (const ordered_json& row : rank.at("kernels")) {
    table.kernel(row);
    rest -= row.at("seconds").get<double>();
  }
  const ordered_json& sent = rank.at("communication");
  if (sent.at("calls") > 0) {
    table.line("communication (beside the above)", sent.at("calls"), sent.at("seconds"), 0, sent.at("bytes"),
               0);
    table.line("waiting for communication", 0, rank.at("waited_seconds"), 0, 0, 0);
  }
  if (const ordered_json& within = rank.at("exchanges"); within.at("calls") > 0) {
    table.line("exchanges within blocks", within.at("calls"), within.at("seconds"), 0, within.at("bytes"), 0);
    rest -= within.at("seconds").get<double>();
  }
  table.line("between kernels", 0, std::max(0.0, rest), 0, 0, 0);
  table.total();
  return table.text() + (ranks.size() > 1 ? totals(ranks) : "");
}

}  // namespace hawser::cli
