#include "bindings/cli/version.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "bindings/cli/client.h"
#include "bindings/cli/parse_json.h"

namespace hawser::cli {

std::string version_text() {
  const auto info = parse_json(text_of(hws_library_info));
  const auto found = info.at("modules").get<std::vector<std::string>>();
  std::string modules;
  for (const char* module : {"text", "cuda", "identity"}) {
    const bool has = std::find(found.begin(), found.end(), module) != found.end();
    modules += (modules.empty() ? "" : ", ") + std::string(module) + (has ? "" : " (not found)");
  }
  return "hawser " + std::string(hws_library_version()) + "\ncommit: " + kCommit +
         "\nCPU level: " + info.at("cpu_level").get<std::string>() + "\nmodules: " + modules;
}

}  // namespace hawser::cli
