#include "engine/report/layout_reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/parallel/pipeline/schedule.h"

namespace hawser::train {
namespace {

void lower(double* least, double seconds) { *least = *least == 0 ? seconds : std::min(*least, seconds); }

std::string value_text(const char* pointer, int64_t value) {
  const std::string_view field = pointer;
  if (field == "/pipeline/schedule") return parallel::pipeline::kSchedules[static_cast<size_t>(value)].name;
  if (field == "/recompute/policy") return std::string(kRecomputePolicies[static_cast<size_t>(value)]);
  return std::to_string(value);
}

/// Returns the value of a detail, or "default".
std::string detail_of(const LayoutChoice& c, const std::string& pointer) {
  for (const config::Setting& s : c.details)
    if (s.pointer == pointer) return s.value;
  return "default";
}

/// Keeps only the fastest value, because a value of /pipeline/layers is a long text.
void keep_fastest(std::vector<OtherValue>* others) {
  const auto slower = [](const OtherValue& a, const OtherValue& b) {
    return std::pair(a.outcome, a.seconds) < std::pair(b.outcome, b.seconds);
  };
  *others = {*std::min_element(others->begin(), others->end(), slower)};
}

/// Returns the detail in which two layouts differ, if they differ in nothing else.
std::optional<std::string> only_difference(const LayoutChoice& a, const LayoutChoice& b) {
  LayoutChoice other = b;
  other.details = a.details, other.kinds = a.kinds;
  if (other != a) return std::nullopt;
  std::vector<std::string> differ;
  for (const LayoutChoice* c : {&a, &b})
    for (const config::Setting& s : c->details)
      if (detail_of(a, s.pointer) != detail_of(b, s.pointer)) differ.push_back(s.pointer);
  std::sort(differ.begin(), differ.end());
  differ.erase(std::unique(differ.begin(), differ.end()), differ.end());
  if (differ.size() != 1) return std::nullopt;
  return differ.front();
}

}  // namespace

const std::array<LayoutReasons::Field, 10> LayoutReasons::kFields = {{
    {"/mesh/pp", &LayoutChoice::pp, false, true},
    {"/mesh/dp_replicate", &LayoutChoice::dp_replicate, false, true},
    {"/mesh/dp_shard", &LayoutChoice::dp_shard, false, true},
    {"/mesh/cp", &LayoutChoice::cp, false, true},
    {"/mesh/tp", &LayoutChoice::tp, false, true},
    {"/mesh/ep", &LayoutChoice::ep, false, true},
    {"/pipeline/schedule", &LayoutChoice::schedule, true, false},
    {"/batch/micro_batch", &LayoutChoice::micro_batch, false, true},
    {"/zero/stage", &LayoutChoice::zero_stage, false, false},
    {"/recompute/policy", &LayoutChoice::recompute, false, false},
}};

template <class Use>
void LayoutReasons::each_field(const LayoutChoice& c, Use use) {
  for (size_t f = 0; f < kFields.size(); ++f)
    if (c.pp > 1 || !kFields[f].of_pipeline) use(&known_[f][c.*kFields[f].member]);
}

void LayoutReasons::add_predicted(const LayoutChoice& c, double seconds) {
  each_field(c, [&](Known* known) { lower(&known->predicted, seconds); });
  varied_[c] = {OtherValue::Outcome::kPredicted, "", seconds, ""};
}

void LayoutReasons::add_bound(const LayoutChoice& c, double least_seconds) {
  each_field(c, [&](Known* known) { lower(&known->bound, least_seconds); });
}

void LayoutReasons::add_too_large(const LayoutChoice& c, const std::string& why) {
  each_field(c, [&](Known* known) { ++known->too_large[why]; });
  if (!c.details.empty()) varied_[c] = {OtherValue::Outcome::kDoesNotFit, "", 0, why};
}

/// Returns the details in which layouts were varied around the best one.
std::vector<FieldReason> LayoutReasons::of_details(const LayoutChoice& best) const {
  std::map<std::string, FieldReason> by_field;
  for (const auto& [choice, outcome] : varied_) {
    const std::optional<std::string> pointer = only_difference(best, choice);
    if (!pointer) continue;
    FieldReason& reason = by_field[*pointer];
    reason.field = *pointer, reason.value = detail_of(best, *pointer);
    reason.others.push_back(outcome);
    reason.others.back().value = detail_of(choice, *pointer);
  }
  std::vector<FieldReason> all;
  for (auto& [pointer, reason] : by_field) {
    if (pointer == "/pipeline/layers" && reason.others.size() > 1) keep_fastest(&reason.others);
    all.push_back(std::move(reason));
  }
  return all;
}

std::vector<FieldReason> LayoutReasons::of(const LayoutChoice& best, double seconds,
                                           const cluster::Cluster& cluster) const {
  std::vector<FieldReason> all;
  for (size_t f = 0; f < kFields.size(); ++f) {
    const Field& field = kFields[f];
    const int64_t own = best.*field.member;
    if (field.of_pipeline && best.pp == 1) continue;
    FieldReason reason{field.pointer, value_text(field.pointer, own), {}};
    const auto add = [&](ByValue::const_iterator it) {
      const auto& [value, known] = *it;
      OtherValue other;
      other.value = value_text(field.pointer, value);
      // A bound below the prediction belongs to a layout that may be faster than the predicted one. The
      // bound is useless if it is below the seconds of the best layout.
      const bool bounded = known.bound > 0 &&
                           (known.predicted == 0 || (known.bound < known.predicted && known.bound > seconds));
      other.seconds = bounded ? known.bound : known.predicted;
      if (bounded) other.outcome = OtherValue::Outcome::kAtLeast;
      if (other.seconds == 0) {
        const auto more = [](const auto& a, const auto& b) { return a.second < b.second; };
        other.outcome = OtherValue::Outcome::kDoesNotFit;
        if (!known.too_large.empty())
          other.note = std::max_element(known.too_large.begin(), known.too_large.end(), more)->first;
      } else if (const cluster::NetworkLevel& inner = cluster.levels.front();
                 field.member == &LayoutChoice::tp && inner.ranks > 0 && value > inner.ranks) {
        other.note = fmt::format("leaves the {}", inner.name);
      }
      reason.others.push_back(std::move(other));
    };
    const ByValue& values = known_[f];
    for (auto it = values.begin(); it != values.end(); ++it) {
      const bool next_to = (it != values.begin() && std::prev(it)->first == own) ||
                           (std::next(it) != values.end() && std::next(it)->first == own);
      if (it->first != own && (next_to || !field.is_degree)) add(it);
    }
    if (!reason.others.empty()) all.push_back(std::move(reason));
  }
  for (FieldReason& reason : of_details(best)) all.push_back(std::move(reason));
  return all;
}

}  // namespace hawser::train
