// Compares what a rank needs with what this machine has, for one rank and for all ranks as threads of one
// process.
#include "engine/report/fit_here.h"

#include <fmt/format.h>

#include "engine/base/json.h"
#include "engine/device/cpu/host_memory.h"
#include "engine/plan/plan.h"

namespace hawser::train {

FitHere::FitHere(const RankBytes& rank, int32_t ranks, const DeviceChoice& device, const Machine* machine)
    : ranks_(ranks), needed_(rank.in_place ? rank.host : rank.device) {
  const auto room = [&](int32_t together) -> Room {
    if (machine != nullptr) return machine->room(device, together);
    const int64_t share = device::available_memory() / together;
    return {share, share};
  };
  const auto fits = [&](const Room& r) { return rank.device <= r.device && rank.host <= r.host; };
  available_ = room(1).device;
  one_ = fits(room(1));
  all_ = fits(room(ranks));
}

OrderedJson FitHere::json() const {
  return {
      {"one_rank", one_}, {"all_ranks", all_}, {"needed_bytes", needed_}, {"available_bytes", available_}};
}

std::string FitHere::text() const {
  const std::string one = plan::bytes_text(needed_), here = plan::bytes_text(available_);
  if (!one_) return fmt::format("no: {} needs {}, {} are available", ranks_ > 1 ? "a rank" : "it", one, here);
  if (ranks_ == 1) return fmt::format("yes: {} of the {} available", one, here);
  return all_ ? fmt::format("yes, all {} ranks: {} each, {} available", ranks_, one, here)
              : fmt::format("one rank of {}: {} each, {} available", ranks_, one, here);
}

}  // namespace hawser::train
