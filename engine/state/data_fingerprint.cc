#include "engine/state/data_fingerprint.h"

#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/ranks/collective_phases.h"

namespace hawser::train {

const std::string& DataFingerprint::with_contents() {
  if (!with_contents_.empty()) return with_contents_;
  if (!dataset_) return with_contents_ = "{}";
  std::vector<std::string> shares;
  ranks_.on_each([&](Rank& rank, int32_t i) {
    std::vector<std::string> all = CollectivePhases(rank.groups().dp.get()).from_all([&] {
      return dataset_->digest_share(rank.number(), ranks_.world());
    });
    if (i == 0) shares = std::move(all);
  });
  return with_contents_ = dataset_->fingerprint(shares);
}

std::string DataFingerprint::as_saved() {
  if (cut_short_ && with_contents_.empty()) return dataset_->fingerprint();
  try {
    return with_contents();
  } catch (const Error& error) {
    if (ranks_.broken() || error.code() == Code::kCancelled) throw;
    cut_short_ = error.code() == Code::kDataInvalid;
  }
  return dataset_->fingerprint();
}

}  // namespace hawser::train
