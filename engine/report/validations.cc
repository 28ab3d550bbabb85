#include "engine/report/validations.h"

#include "engine/base/json.h"

namespace hawser::train {

OrderedJson Validations::json() const {
  const std::lock_guard lock(mutex_);
  OrderedJson json = OrderedJson::object();
  for (const SetLoss& set : sets_) json[set.name] = finite_or_null(set.loss);
  return json;
}

}  // namespace hawser::train
