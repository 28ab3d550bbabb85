// Formats quantities for the live line and the report.
#include "bindings/cli/quantity.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace hawser::cli {

std::string format_text(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

std::string count_text(double value) {
  if (!std::isfinite(value)) return "-";
  const char* units[] = {"", "k", "M", "B", "T"};
  int unit = 0;
  while (std::fabs(value) >= 999.5 && unit < 4) {
    value /= 1000.0;
    ++unit;
  }
  if (unit == 0) return format_text("%.0f", value);
  return format_text(value < 9.995 ? "%.2f%s" : value < 99.95 ? "%.1f%s" : "%.0f%s", value, units[unit]);
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1023.5 && unit < 4) {
    bytes /= 1024.0;
    ++unit;
  }
  return format_text(unit == 0 || bytes >= 9.95 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  const int64_t s = whole % 60, m = whole / 60 % 60, h = whole / 3600 % 24, d = whole / 86400;
  if (d > 0) return format_text("%lldd%02lldh", static_cast<long long>(d), static_cast<long long>(h));
  if (h > 0) return format_text("%lldh%02lldm", static_cast<long long>(h), static_cast<long long>(m));
  if (m > 0) return format_text("%lldm%02llds", static_cast<long long>(m), static_cast<long long>(s));
  return format_text("%llds", static_cast<long long>(s));
}

std::string date_text(const std::string& time) {
  return time.size() < 16 ? time : time.substr(0, 10) + " " + time.substr(11, 5) + " UTC";
}

std::string counted(int64_t count, const char* noun) {
  const std::string text(noun);
  const char* const plural = count == 1 ? "" : text.ends_with("ch") ? "es" : "s";
  return format_text("%lld %s%s", static_cast<long long>(count), noun, plural);
}

std::string number_text(double value) { return format_text("%.12g", value); }

std::string perplexity_text(double value) { return format_text(value < 1e6 ? "%.3f" : "%.3g", value); }

std::string loss_text(double loss) { return format_text("%.4f", loss); }

}  // namespace hawser::cli
