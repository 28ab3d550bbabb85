#include "engine/nn/lookup_gradient.h"

namespace hawser::nn {

LookupGradient::Numbers::Numbers(Region* region, const Sizes& sizes)
    : tokens(region->take_as<int32_t>(sizes.rows())),
      index(region->take_as<int32_t>(sizes.batch)),
      count(region->take_as<int32_t>(1)),
      row_of(region->take_as<int32_t>(sizes.vocab)) {}

// Both sides begin with the numbers, so that in place they are the same bytes.
LookupGradient::LookupGradient(void* host, void* device, const Sizes& sizes) : sizes_(sizes) {
  Region here(host, host_bytes(sizes)), there(device, bytes(sizes));
  host_ = Numbers(&here, sizes);
  device_ = Numbers(&there, sizes);
  rows_ = there.take_as<float>(sizes.rows() * sizes.width);
}

int64_t LookupGradient::host_bytes(const Sizes& sizes) {
  Region region = Region::measuring();
  const Numbers measured(&region, sizes);
  return region.used();
}

int64_t LookupGradient::bytes(const Sizes& sizes) {
  Region region = Region::measuring();
  const Numbers measured(&region, sizes);
  region.take_as<float>(sizes.rows() * sizes.width);
  return region.used();
}

void LookupGradient::clear() {
  for (int64_t row = 0; row < *host_.count; ++row) host_.row_of[host_.tokens[row]] = 0;
  *host_.count = 0;
}

int64_t LookupGradient::find_rows(const int32_t* tokens, int64_t count, int32_t skipped) {
  const int64_t before = *host_.count;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t token = tokens[i];
    host_.index[i] = -1;
    if (token == skipped) continue;
    int32_t& row = host_.row_of[token];
    if (row == 0) {
      HWS_CHECK(*host_.count < sizes_.rows());
      host_.tokens[*host_.count] = token;
      row = ++*host_.count;
    }
    host_.index[i] = row - 1;
  }
  return *host_.count - before;
}

}  // namespace hawser::nn
