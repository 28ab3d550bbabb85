#include "engine/ranks/machine.h"

#include "engine/device/cpu/cpu_device.h"
#include "engine/device/cpu/host_memory.h"

namespace hawser::train {
namespace {

std::shared_ptr<device::Device> open(const DeviceChoice& choice, const config::ResolvedConfig& config,
                                     const kernels::KernelTable& kernels, Stream& stream, int32_t local_rank,
                                     bool chooses) {
  if (choice.plugin == nullptr) return device::make_cpu_device(kernels, stream);
  device::DeviceRequest request;
  request.index = choice.index_of(local_rank);
  request.deterministic = config.deterministic;
  const std::string& cache = config.cuda.algorithm_cache;
  if (chooses && !cache.empty()) request.algorithm_cache = cache.c_str();
  request.host_stream = &stream;
  request.host_kernels = &kernels;
  return device::open_device(*choice.plugin, request);
}

}  // namespace

Machine::Machine(const DeviceChoice& choice, const config::ResolvedConfig& config,
                 const kernels::KernelTable& kernels, int32_t threads, int32_t local_rank, bool chooses)
    : host_kernels_(kernels),
      pool_(threads),
      link_(open(choice, config, kernels, pool_.stream(), local_rank, chooses)) {}

Target Machine::target() const {
  device::Device& d = device();
  Target target{&d.kernels(), d.stream(device::StreamId::kCompute).num_workers, link_.in_place()};
  target.captures = d.info().captures;
  return target;
}

Room Machine::room(const DeviceChoice& choice, int32_t local_ranks) const {
  int64_t available = 0, total = 0;
  device::check(device(), device().memory(&available, &total));
  return {available / choice.sharing(local_ranks),
          (link_.in_place() ? available : device::available_memory()) / local_ranks};
}

Target target_of(const DeviceChoice& choice, bool peers, const config::ResolvedConfig& config,
                 const kernels::KernelTable& kernels, int32_t threads, std::unique_ptr<Machine>* machine) {
  if (choice.plugin == nullptr) return {&kernels, threads, true};
  *machine = std::make_unique<Machine>(choice, config, kernels, 1, 0, false);
  Target target = (*machine)->target();
  target.peers = peers;
  return target;
}

}  // namespace hawser::train
