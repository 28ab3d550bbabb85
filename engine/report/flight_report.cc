// The flight recorder: the last calls of the ranks in this process, to be read after a failure. It shows
// which call of each group a rank had entered. Times are wall-clock times, so records of several machines can
// be compared.
#include <fmt/format.h>

#include <chrono>
#include <map>

#include "engine/base/json.h"
#include "engine/comm/flight_recorder.h"
#include "engine/comm/gate.h"
#include "engine/report/reports.h"

namespace hawser::train {
namespace {

constexpr size_t kLines = 12;  // lines of the table

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<comm::Record> recall(const comm::RankComm& rank) {
  std::vector<comm::Record> records(comm::FlightRecorder::kEntries);
  records.resize(static_cast<size_t>(rank.recall(records.data(), static_cast<int64_t>(records.size()))));
  return records;
}

/// Converts a steady-clock time to seconds since 1970; null for an event that has not happened.
OrderedJson wall(double steady, double offset) {
  return steady > 0 ? OrderedJson(steady + offset) : OrderedJson();
}

OrderedJson rank_json(const comm::RankComm& rank) {
  const double now = unix_seconds(), offset = now - steady_seconds();
  OrderedJson json = {{"rank", rank.rank()}, {"world_size", rank.world_size()}, {"time", now}};
  json["groups"] = OrderedJson::array();
  for (const comm::GroupName& group : rank.group_names()) {
    json["groups"].push_back({{"name", group.name}, {"members", group.members}, {"lane", group.lane}});
  }
  json["calls"] = OrderedJson::array();
  for (const comm::Record& record : recall(rank)) {
    json["calls"].push_back({{"ticket", record.ticket},
                             {"sequence", record.sequence},
                             {"operation", comm::operation_name(record.operation)},
                             {"group", record.group},
                             {"bytes", record.bytes},
                             {"state", comm::state_name(record.state)},
                             {"issued", wall(record.issued, offset)},
                             {"entered", wall(record.begun, offset)},
                             {"ended", wall(record.ended, offset)}});
  }
  return json;
}

std::string rank_text(const comm::RankComm& rank) {
  const double now = steady_seconds();
  const std::vector<comm::Record> records = recall(rank);
  const std::vector<comm::GroupName> groups = rank.group_names();
  const size_t first = records.size() - std::min(records.size(), kLines);
  const auto group_of = [&](const comm::Record& record) { return groups[static_cast<size_t>(record.group)]; };
  std::map<std::string, uint64_t> issued;  // calls issued, by lane
  for (const comm::Record& record : records) issued[group_of(record).lane] = record.ticket;
  uint64_t calls = 0;
  for (const auto& [lane, ticket] : issued) calls += ticket;
  std::string text = fmt::format(
      "rank {} of {}: its last {} of {} calls\n{:<16} {:<8} {:>9} {:<16} {:>12} {:<9} {:>11} {:>11}\n",
      rank.rank(), rank.world_size(), records.size() - first, calls, "group", "lane", "call", "operation",
      "bytes", "state", "entered", "ended");
  const auto ago = [&](double time) {
    return time > 0 ? fmt::format("-{:.3f} s", now - time) : std::string("-");
  };
  for (size_t i = first; i < records.size(); ++i) {
    const comm::Record& record = records[i];
    text += fmt::format("{:<16} {:<8} {:>9} {:<16} {:>12} {:<9} {:>11} {:>11}\n", group_of(record).name,
                        group_of(record).lane, record.sequence, comm::operation_name(record.operation),
                        record.bytes, comm::state_name(record.state), ago(record.begun), ago(record.ended));
  }
  return text;
}

}  // namespace

std::string Reports::flight(bool json) const {
  OrderedJson ranks = OrderedJson::array();
  std::string text;
  for (const auto& end : ranks_.connection().ends()) {
    if (json) {
      ranks.push_back(rank_json(*end));
    } else {
      text += rank_text(*end);
    }
  }
  return json ? OrderedJson{{"ranks", ranks}}.dump() : text;
}

}  // namespace hawser::train
