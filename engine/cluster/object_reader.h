// ObjectReader: reads the fields of a JSON object strictly. It collects every problem (a field that is
// missing, unknown, of another type or out of range) under the field's JSON pointer, so that all are
// reported at once.
#pragma once

#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/config/problems.h"

namespace hawser::cluster {

/// The values that a number may have: above `above`, and at most `most`.
struct Range {
  double above = 0, most = 1e300;
  bool zero = false;  ///< `above` itself is allowed
};

class ObjectReader {
 public:
  /// `object` is null after a problem. Every field is then absent, and no further problem is reported.
  ObjectReader(const OrderedJson* object, std::string pointer, config::ProblemList* problems)
      : object_(object), pointer_(std::move(pointer)), problems_(problems) {}

  bool has(const char* key) const { return object_ != nullptr && object_->contains(key); }
  /// Reads a number with its source: {"value": 1, "source": "text"}. Returns 0 if it is absent or wrong.
  double sourced(const char* key, const Range& range = {});
  /// Reads such a number from a field that may be absent.
  double sourced_if(const char* key, const Range& range = {}) {
    return mark(key), has(key) ? sourced(key, range) : 0;
  }
  double number(const char* key, const Range& range = {});
  int64_t integer(const char* key);
  int64_t integer_if(const char* key) { return mark(key), has(key) ? integer(key) : 0; }
  /// Reads text that is not empty.
  std::string text(const char* key);
  ObjectReader object(const char* key);
  ObjectReader object_if(const char* key) {
    return mark(key), has(key) ? object(key) : ObjectReader(nullptr, at(key), problems_);
  }
  /// Returns readers for the objects of a list, which must have at least `least` items.
  std::vector<ObjectReader> list(const char* key, size_t least);
  /// Returns the keys of the object, for objects whose keys are names.
  std::vector<std::string> keys() const;
  /// Reports the fields that were never asked for. Call it last.
  void finish();

  void problem(const std::string& key, std::string message, std::string fix);
  std::string at(const std::string& key) const;

 private:
  void mark(const std::string& key) { known_.push_back(key); }
  const OrderedJson* field(const std::string& key);

  const OrderedJson* object_;
  std::string pointer_;
  config::ProblemList* problems_;
  std::vector<std::string> known_;
};

}  // namespace hawser::cluster
