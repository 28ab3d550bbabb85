// Prints the launches of kernels that memory limits, in a training step on an H100 or H200 with the workloads
// of tests/gpu.sh, one JSON line for each: the operation and the bytes of its call (nn/kernel_work.h), and
// blocks, threads and shared memory of the launch. "kernel" is the distance of the kernel's address from that
// of hawser_launch_origin; kernel_waves.py looks up its name. The emulator records the launches and runs
// nothing.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <set>
#include <string>

#include "engine/assembly/precision.h"
#include "engine/nn/kernel_work.h"
#include "engine/optim/grad_norm.h"
#include "engine/optim/optimizer.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/table.h"
#include "kernels/include/each_kernel.h"
#include "tests/cluster/planned_stages.h"
#include "tests/cuda_emulation/emulation.h"

extern "C" void hawser_launch_origin() {}

namespace hawser::testing {
namespace {

using cuda_emulation::RecordedLaunch;
using kernels::KernelTable;

/// A workload's calls of one kind, which are printed once.
struct Printer {
  std::string workload;
  std::set<std::string> printed;

  void print(const nn::KernelWork& work, const RecordedLaunch& launch) {
    const auto origin = reinterpret_cast<intptr_t>(&hawser_launch_origin);
    char line[512];
    std::snprintf(
        line, sizeof line,
        "{\"workload\": \"%s\", \"operation\": \"%s\", \"bytes\": %.0f, \"kernel\": %lld, \"blocks\": %lld, "
        "\"threads\": %d, \"shared\": %zu}",
        workload.c_str(), nn::kernel_name(work.kernel), work.bytes,
        static_cast<long long>(reinterpret_cast<intptr_t>(launch.kernel) - origin),
        static_cast<long long>(launch.blocks), launch.threads, launch.shared_bytes);
    if (printed.insert(line).second) std::puts(line);
  }
};
Printer printer;

template <auto kKernel, typename Args>
void printed(const Args& args, Stream& stream) {
  std::vector<RecordedLaunch> launches;
  cuda_emulation::record_launches(&launches);
  (kernels::cuda::cuda_kernels().*kKernel)(args, stream);
  cuda_emulation::record_launches(nullptr);
  const nn::KernelWork work = nn::work_of(args);
  if (work.flops > 0) return;  // arithmetic limits products and attention
  for (const RecordedLaunch& launch : launches) printer.print(work, launch);
}

template <auto kKernel, typename Args>
void wrap(KernelTable* table, void (*)(const Args&, Stream&)) {
  if (table->*kKernel != nullptr) table->*kKernel = printed<kKernel, Args>;
}

/// The CUDA table, whose kernels print their launches. No product fuses the operation that follows it, so
/// that the kernels of these operations are called, too.
KernelTable printing_table() {
  static kernels::Suited suited = *kernels::cuda::cuda_kernels().suited;
  suited.epilogues = false;
  KernelTable table = kernels::cuda::cuda_kernels();
  kernels::each_kernel([&]<auto kKernel>() { wrap<kKernel>(&table, table.*kKernel); });
  table.suited = &suited;
  return table;
}

/// The GPU that is described: 132 multiprocessors, of which a block may have 227 KiB of shared memory.
struct DescribedStream : kernels::cuda::CudaStream {
  DescribedStream() : CudaStream(nullptr, 132, &sticky) { most_shared_bytes = 227 << 10; }
  kernels::cuda::StickyError sticky;
};

/// Calls the modules of one layer, the embedding, the head and the update. Arrays have addresses, and no
/// memory.
void run_step(const nn::Model& model, const config::ResolvedConfig& config, const KernelTable& table,
              Stream& stream) {
  const nn::Region endless = nn::Region::measuring();
  auto* const f = nn::Region(endless).take_as<float>(1);
  const std::vector<nn::GroupPointers> groups(model.table().groups().size(),
                                              {reinterpret_cast<const char*>(f), f, f});
  nn::Region workspace = endless;
  nn::Context ctx;
  ctx.kernels = &table, ctx.stream = &stream, ctx.workspace = &workspace, ctx.groups = groups.data();
  ctx.batch = config.batch.micro_batch, ctx.seq = config.batch.sequence;
  ctx.type = train::compute_type(config), ctx.lookup_type = train::state_type(config);
  ctx.residual_type = config.cuda.residual, ctx.training = true;
  ctx.tokens_BT = ctx.targets_BT = ctx.positions_BT = reinterpret_cast<const int32_t*>(f);
  const nn::StreamGradient dx(f, f);
  nn::BlockRegions regions{endless, endless, endless, endless, endless};
  const nn::Block& block = model.block(1);
  model.embedding().forward(ctx, f);
  block.forward(ctx, regions, f, f, model.block(0).last_sum(ctx, f, f, f), f);
  model.head().forward_backward(ctx, f, f, block.last_sum(ctx, f, f, f), f);
  nn::Block::round(ctx, dx, model.config().width);
  regions = {endless, endless, endless, endless, endless};
  block.backward(ctx, regions, f, dx, f);
  model.embedding().backward(ctx, f);

  const DType state = train::state_type(config);
  const optim::Optimizer optimizer(model.table(), config.optimizer, state);
  for (size_t g = 0; g < model.table().groups().size(); ++g) {
    if (const int64_t b = model.table().groups()[g].block; b != 2 && b <= model.config().layers && b > 0)
      continue;
    const int64_t n = model.table().groups()[g].elements;
    optim::add_squares(reinterpret_cast<ExactSum*>(f), f, state, n, reinterpret_cast<ExactSum*>(f), table,
                       stream);
    optim::OptimizerRun run;
    run.end = n, run.weights = f, run.gradients = f, run.states = {f, f};
    run.copy = state == DType::kF32 && ctx.type != DType::kF32 ? f : nullptr;
    optimizer.step(static_cast<int32_t>(g), run, reinterpret_cast<const kernels::OptimizerScalars*>(f),
                   nullptr, table, stream);
  }
}

struct Workload {
  const char *preset, *precision;
  int micro_batch, sequence;
};
constexpr Workload kWorkloads[] = {{"gpt2-124m", "bf16", 64, 1024},
                                   {"gpt2-1558m", "bf16", 16, 1024},
                                   {"llama-3.1-8b", "bf16_pure", 1, 8192}};

void print_workload(const Workload& w) {
  printer.workload = w.preset;
  const PlannedStages planned(fmt::format(R"({{"preset": "{}", "precision": "{}", "device": "cuda",
                       "batch": {{"micro_batch": {}, "grad_accum_steps": 1, "sequence": {}}}}})",
                                          w.preset, w.precision, w.micro_batch, w.sequence),
                              device::Kind::kCuda);
  const KernelTable table = printing_table();
  DescribedStream stream;
  run_step(planned.model, planned.a.config, table, stream);
  if (stream.sticky.code != 0) fail(Code::kInternal, "{}", stream.sticky.message);
}

}  // namespace
}  // namespace hawser::testing

int main() {
  try {
    for (const auto& workload : hawser::testing::kWorkloads) hawser::testing::print_workload(workload);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_launches: %s\n", error.what());
    return 1;
  }
  return 0;
}
