// `hawser flight`: shows the last calls of several ranks side by side, and which rank never entered which
// call.
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/file_failure.h"
#include "bindings/cli/load_config.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/report/flight.h"

namespace hawser::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// The last call of one rank in one group, of those calls that all members make.
struct Last {
  int64_t sequence = -1;
  std::string operation, state;
  double entered = 0, ended = 0;
};
struct Group {
  std::string name;
  std::vector<int32_t> members;
  std::map<int32_t, Last> ranks;
};

bool is_point_to_point(const std::string& operation) { return operation == "send" || operation == "recv"; }

void add_rank(const ordered_json& rank, std::map<std::string, Group>* groups) {
  std::vector<Group*> own;
  std::map<std::string, int> made;  // numbers groups with the same name by their order of creation
  for (const auto& group : rank.at("groups")) {
    const std::string key = group.dump();
    Group& all = (*groups)[key + "#" + std::to_string(made[key]++)];
    all.name = group.at("name").get<std::string>();
    all.members = group.at("members").get<std::vector<int32_t>>();
    own.push_back(&all);
  }
  const auto number = rank.at("rank").get<int32_t>();
  for (Group* group : own) group->ranks[number];
  for (const auto& call : rank.at("calls")) {
    if (is_point_to_point(call.at("operation").get<std::string>()) || call.at("state") == "queued") continue;
    Last& last = own.at(call.at("group").get<size_t>())->ranks[number];
    const auto time = [&](const char* key) {
      return call.at(key).is_number() ? call.at(key).get<double>() : 0;
    };
    last = {call.at("sequence").get<int64_t>(), call.at("operation").get<std::string>(),
            call.at("state").get<std::string>(), time("entered"), time("ended")};
  }
}

/// Returns the call of the rank that has got furthest, or nullptr.
const Last* furthest(const Group& group) {
  const Last* result = nullptr;
  for (const auto& [rank, last] : group.ranks) {
    if (last.sequence >= 0 && (result == nullptr || last.sequence > result->sequence)) result = &last;
  }
  return result;
}

void print_group(const Group& group, double end) {
  const Last* top = furthest(group);
  if (top == nullptr || group.members.size() < 2) return;
  output().print("group %s\n", group.name.c_str());
  for (const int32_t rank : group.members) {
    const auto found = group.ranks.find(rank);
    if (found == group.ranks.end()) {
      output().print("  rank %-5d left no record\n", rank);
      continue;
    }
    const Last& last = found->second;
    if (last.sequence < 0) {
      output().print("  rank %-5d entered no call\n", rank);
      continue;
    }
    const double since = last.ended > 0 ? last.ended : last.entered;
    output().print("  rank %-5d %s %lld %s, %.3f s before the end\n", rank, last.operation.c_str(),
                   static_cast<long long>(last.sequence), last.state.c_str(), since > 0 ? end - since : 0.0);
  }
  for (const auto& [rank, last] : group.ranks) {
    if (last.sequence < top->sequence) {
      output().print("  rank %d never entered %s %lld of group %s\n", rank, top->operation.c_str(),
                     static_cast<long long>(top->sequence), group.name.c_str());
    }
  }
}

std::vector<fs::path> records_in(const std::vector<std::string>& paths) {
  std::set<fs::path> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.insert(path);
      continue;
    }
    const fs::directory_iterator entries(path, error);
    if (error) fail_file("cannot list " + path, error.value());
    for (const auto& entry : entries) {
      const std::string name = entry.path().filename();
      if (name.starts_with(kFlightFileStart) && name.ends_with(".json")) files.insert(entry.path());
    }
  }
  if (files.empty()) refuse("no " + std::string(kFlightFileStart) + "N.json there: no rank left a record");
  return {files.begin(), files.end()};
}

ordered_json read_record(const fs::path& path) {
  ordered_json record = parse_json_or_discard(read_file(path));
  if (!record.is_object() || !record.contains("ranks")) refuse(path.string() + " is not a flight record");
  return record;
}

}  // namespace

int run_flight(const std::vector<std::string>& paths, bool json) {
  ordered_json all = {{"ranks", ordered_json::array()}};
  std::map<std::string, Group> groups;
  double end = 0;
  for (const fs::path& path : records_in(paths)) {
    const ordered_json record = read_record(path);
    for (const auto& rank : record["ranks"]) {
      all["ranks"].push_back(rank);
      add_rank(rank, &groups);
      end = std::max(end, rank.at("time").get<double>());
    }
    if (!json && record.contains("error")) {
      output().print("%s: %s\n", path.filename().c_str(), record["error"].get<std::string>().c_str());
    }
  }
  if (json) {
    output().line(all.dump(2));
    return kExitOk;
  }
  for (const auto& [key, group] : groups) print_group(group, end);
  return kExitOk;
}

}  // namespace hawser::cli
