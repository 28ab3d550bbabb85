// Config problems: turns a list of problems into the one error that the caller sees.
#include "engine/config/problems.h"

#include <fmt/format.h>

#include <utility>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/base/utf8.h"

namespace hawser::config {
namespace {

constexpr size_t kMostProblems = 200;
constexpr size_t kMostText = 80;

/// Replaces control characters, so that a problem stays on one line even if a hostile key contains some.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace

void ProblemList::add(std::string pointer, std::string message, std::string fix) {
  if (problems_.size() >= kMostProblems) {
    ++dropped_;
    return;
  }
  problems_.push_back({std::move(pointer), std::move(message), std::move(fix)});
}

std::vector<Problem> ProblemList::take() {
  if (dropped_ > 0) {
    problems_.push_back({"", fmt::format("{} more problems", dropped_), "fix the ones above first"});
    dropped_ = 0;
  }
  return std::move(problems_);
}

void throw_if_any(const std::vector<Problem>& problems) {
  if (problems.empty()) return;
  std::string message;
  OrderedJson list = OrderedJson::array();
  for (const Problem& problem : problems) {
    if (!message.empty()) message += '\n';
    message += one_line(fmt::format("{}: {}; {}", problem.pointer.empty() ? "config" : problem.pointer,
                                    problem.message, problem.fix));
    list.push_back({{"pointer", problem.pointer}, {"message", problem.message}, {"fix", problem.fix}});
  }
  const OrderedJson details = {{"problems", std::move(list)}};
  throw Error(Code::kConfigInvalid, std::move(message),
              details.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

std::string quote(std::string_view text) {
  const bool cut = text.size() > kMostText;
  const Json json = std::string(cut_between_characters(text, kMostText));
  std::string result = json.dump(-1, ' ', false, Json::error_handler_t::ignore);
  if (cut) result.insert(result.size() - 1, "...");
  return result;
}

}  // namespace hawser::config
