// AgreedError: an error that all ranks of the world throw together. The ranks can keep communicating after
// it.
#pragma once

#include "engine/base/error.h"

namespace hawser::train {

class AgreedError : public Error {
 public:
  using Error::Error;
  explicit AgreedError(const Error& error) : Error(error) {}
};

}  // namespace hawser::train
