#include "bindings/cli/reference_watch.h"

#include <nlohmann/json.hpp>

#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/quantity.h"

namespace hawser::cli {
namespace {

constexpr double kSecondsBetweenLines = 10;
constexpr int64_t kRowsOfPair = 2;

}  // namespace

ReferenceWatch::ReferenceWatch(bool shows) : shows_(shows) {
  check(hws_thread_set_progress(on_progress, this, nullptr));
}

ReferenceWatch::~ReferenceWatch() { hws_thread_set_progress(nullptr, nullptr, nullptr); }

int32_t ReferenceWatch::on_progress(void* user, const char* json, size_t size) {
  auto* const watch = static_cast<ReferenceWatch*>(user);
  return watch->error_.hold([&] {
    const auto now = parse_json(std::string_view(json, size));
    if (!watch->interrupt_) watch->interrupt_.emplace();
    watch->show(now.at("done"), now.at("total"));
    return 0;
  });
}

void ReferenceWatch::show(int64_t done, int64_t total) {
  done_ = done / kRowsOfPair, total_ = total / kRowsOfPair;
  if (!shows_) return;
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
  std::string text = "reference: " + std::to_string(done_) + " of " + counted(total_, "pair");
  if (done > 0 && done < total) text += ", " + duration_text(bar_.seconds() * (1 / share - 1)) + " left";
  bar_.show(share, text);
  if (bar_.on_terminal() || done == total || bar_.seconds() < next_line_) return;
  next_line_ = bar_.seconds() + kSecondsBetweenLines;
  output().line(text);
  output().flush();
}

void ReferenceWatch::rethrow_interrupted() const {
  error_.rethrow();
  if (!interrupt_ || !InterruptScope::interrupted()) return;
  throw Failure(HWS_CANCELLED, "interrupted while the reference's log-probabilities were computed, at " +
                                   std::to_string(done_) + " of " + counted(total_, "pair") +
                                   "; nothing was trained");
}

}  // namespace hawser::cli
