#include "engine/ranks/rehearsal.h"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "engine/base/error.h"
#include "engine/execute/agreed_error.h"
#include "engine/ranks/collective_phases.h"
#include "kernels/include/each_kernel.h"

namespace hawser::train {
namespace {

template <typename Args>
void nothing(const Args&, Stream&) {}

template <typename Args>
constexpr auto nothing_like(void (*)(const Args&, Stream&)) {
  return &nothing<Args>;
}

std::string choices_of(device::Device& device) {
  const char* const text = device.choices();
  if (text == nullptr) fail(Code::kOutOfMemory, "no host memory is left for the choices of the device");
  return text;
}

/// Passes the choices to the device. Returns why it cannot use them, or "".
std::string obstacle_to(const std::string& choices, device::Device& device) {
  const device::Status status = device.take_choices(choices.c_str());
  if (status == static_cast<device::Status>(Code::kFailedPrecondition)) return device.message();
  device::check(device, status);
  return "";
}

/// Describes the first rank that cannot use the choices. All ranks get the same text.
std::string who_is_apart(const std::vector<std::string>& obstacles) {
  for (size_t r = 0; r < obstacles.size(); ++r)
    if (!obstacles[r].empty()) return fmt::format("rank {}: {}", r, obstacles[r]);
  return "";
}

}  // namespace

kernels::KernelTable rehearsing(const kernels::KernelTable& real) {
  kernels::KernelTable table = real;
  kernels::each_kernel([&]<auto kKernel>() { table.*kKernel = nothing_like(real.*kKernel); });
  table.matmul = real.prepare_matmul;
  table.attention_forward = real.prepare_attention_forward;
  table.attention_backward = real.prepare_attention_backward;
  return table;
}

Choices rehearse(Rank* rank, bool deterministic) {
  device::Device& device = rank->link().device();
  if (device.kernels().prepare_matmul == nullptr) return {};
  if (rank->comm() == nullptr) {
    rank->rehearse();
    return {choices_of(device), ""};
  }
  std::vector<int32_t> everyone(static_cast<size_t>(rank->comm()->world_size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto world = rank->comm()->make_group(std::move(everyone), "choices", {}, comm::LinkTopology::kTree);
  CollectivePhases together(world.get());
  Choices choices;
  std::string obstacle;
  bool chose = false;
  // Pipeline stages have different blocks, so the first rank of each adds to the choices of those before it.
  for (const int32_t chooser : rank->first_of_stages()) {
    choices.text = together.from_all([&]() -> std::string {
      if (rank->number() != chooser) return "";
      if (chooser > 0) obstacle = obstacle_to(choices.text, device);
      chose = true;
      rank->rehearse();
      return obstacle.empty() ? choices_of(device) : choices.text;
    })[static_cast<size_t>(chooser)];
  }
  choices.mismatch =
      who_is_apart(together.from_all([&] { return chose ? obstacle : obstacle_to(choices.text, device); }));
  if (deterministic && !choices.mismatch.empty())
    throw AgreedError(
        Code::kFailedPrecondition,
        choices.mismatch +
            "; /deterministic needs the same GPU and libraries on all ranks: give them these, or "
            "set /deterministic to false");
  together.from_all([&] {
    if (!chose) rank->rehearse();
    return std::string();
  });
  return choices;
}

}  // namespace hawser::train
