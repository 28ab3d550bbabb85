#include "bindings/cli/report/flight.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bindings/cli/parse_json.h"

namespace hawser::cli {

void keep_flight(const hws_engine* engine, const std::string& folder, int32_t rank, bool leads,
                 const Failure& failure) noexcept {
  try {
    auto record = parse_json(text_of(hws_engine_flight, engine, HWS_FORMAT_JSON));
    if (record.at("ranks").empty()) return;
    record["error"] = failure.what();
    if (leads) std::fputs(text_of(hws_engine_flight, engine, HWS_FORMAT_TEXT).c_str(), stderr);
    if (folder.empty() || !std::filesystem::is_directory(folder)) return;
    const auto path =
        std::filesystem::path(folder) / (kFlightFileStart + std::to_string(std::max(rank, 0)) + ".json");
    std::ofstream(path) << record.dump() << "\n";
    if (leads)
      std::fprintf(stderr, "hawser: note: `hawser flight %s` compares the last calls of the ranks\n",
                   folder.c_str());
  } catch (...) {
  }
}

}  // namespace hawser::cli
