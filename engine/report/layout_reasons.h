// LayoutReasons: states why the fastest layout of a search has its values: for each field, what the fastest
// layouts with other values of this field cost.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/report/layout_space.h"

namespace hawser::train {

/// The fastest layout with another value of a field.
struct OtherValue {
  enum class Outcome { kPredicted, kAtLeast, kDoesNotFit } outcome = Outcome::kPredicted;
  std::string value;
  double seconds = 0;  ///< predicted, or at least
  std::string note;  ///< what takes most bytes of a layout that does not fit, or which level the value leaves
};

struct FieldReason {
  std::string field, value;
  std::vector<OtherValue> others;
};

class LayoutReasons {
 public:
  void add_predicted(const LayoutChoice& c, double seconds);
  /// A layout that takes at least so long, and was not predicted.
  void add_bound(const LayoutChoice& c, double least_seconds);
  /// `why`: what takes most of its bytes.
  void add_too_large(const LayoutChoice& c, const std::string& why);

  /// Returns the reasons of the layout by field: for a degree, the values next to its own; for other fields,
  /// all. `seconds`: that it takes.
  std::vector<FieldReason> of(const LayoutChoice& best, double seconds,
                              const cluster::Cluster& cluster) const;

 private:
  /// What is known of the layouts with one value of a field.
  struct Known {
    double predicted = 0, bound = 0;  // the least; 0: none
    std::map<std::string, int64_t> too_large;
  };
  struct Field {
    const char* pointer;
    int64_t LayoutChoice::*member;
    bool of_pipeline, is_degree;
  };
  static const std::array<Field, 10> kFields;
  using ByValue = std::map<int64_t, Known>;

  template <class Use>
  void each_field(const LayoutChoice& c, Use use);
  std::vector<FieldReason> of_details(const LayoutChoice& best) const;

  std::array<ByValue, 10> known_;
  /// By layout: all that were predicted, and those with details that do not fit.
  std::map<LayoutChoice, OtherValue> varied_;
};

}  // namespace hawser::train
