// Formats numbers for people: 12.3k tok/s, 85 MiB, 1m12s.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::cli {

std::string count_text(double value);                  ///< 950, 12.3k, 1.24M, 7.00B; "-" if not finite
std::string bytes_text(double bytes);                  ///< 512 B, 85 MiB, 1.2 GiB
std::string duration_text(double seconds);             ///< 8s, 1m12s, 2h05m, 3d04h; "-" if not finite
std::string date_text(const std::string& time);        ///< 2026-11-28 01:04 UTC for 2026-11-28T01:04:05Z
std::string counted(int64_t count, const char* noun);  ///< "1 row", "2 rows"
/// A number with at most 12 significant digits, so that 1e-05 is not printed as 9.999999999999999e-06.
std::string number_text(double value);
std::string perplexity_text(double value);  ///< 3 decimals, 1.23e+84 from a million on
std::string loss_text(double loss);         ///< 4 decimals; "nan", "inf"
/// Formats like printf and returns a string.
std::string format_text(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace hawser::cli
