// Runs one block at a time: its threads are fibers of the calling thread, switched at barriers and warp
// operations. If no thread of a block can continue, the block has barriers that not all of its threads reach;
// the emulator reports this and gives the block up.
#include "tests/cuda_emulation/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

#include "engine/device/arena.h"
#include "tests/cuda_emulation/emulation.h"
#include "tests/cuda_emulation/fiber.h"
#include "tests/cuda_emulation/include/cuda_runtime.h"

namespace hawser::kernels::cuda {

// The array that `extern __shared__` of kernels/cuda/shared_memory.h names: as large as a block of the
// largest GPU may request.
alignas(128) unsigned char dynamic_shared_memory[227 * 1024];

}  // namespace hawser::kernels::cuda

namespace hawser::cuda_emulation {
namespace {

using kernels::cuda::dynamic_shared_memory;

constexpr size_t kStackBytes = 128 << 10;
constexpr int kMostThreads = 1024, kWarp = 32, kMostWarps = kMostThreads / kWarp;
constexpr int kSharedByDefault = 48 << 10;  ///< a kernel must request more first, as on the device

enum class State : uint8_t { kReady, kAtBlockBarrier, kAtWarpOperation, kDone };

struct Fiber {
  Context context;
  uint3 index;
  Here here;
  State state;
};

struct Warp {
  unsigned arrived = 0;
  uint32_t operations = 0;
  // There are two sets, used alternately: a lane may store its next value while others still read the last.
  std::array<std::array<uint64_t, kWarp>, 2> values;
  uint32_t words[2][kWarp][kGatheredWords];
};

/// The state of the running launch. Fibers are stored next to their stacks, so that is_on_a_stack covers
/// them.
struct Machine {
  std::mutex one_launch;
  char* stacks = nullptr;
  Fiber* fibers = nullptr;
  Fiber* current = nullptr;
  Context scheduler;
  std::array<Warp, kMostWarps> warps;
  int threads = 0, done = 0, at_barrier = 0;
  uint3 block_index = {};
  dim3 block, grid;
  uint64_t launch = 0, blocks = 0;
  void (*run)(void*) = nullptr;
  void* argument = nullptr;
  Order order = Order::kAscending;
  std::mt19937 random{1};
  std::vector<std::string> findings;
  std::set<std::string> named;

  static size_t bytes() { return kStackBytes * kMostThreads + sizeof(Fiber) * kMostThreads; }
  Machine() {
    void* memory =
        mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for the stacks of emulated threads");
    stacks = static_cast<char*>(memory);
    fibers = reinterpret_cast<Fiber*>(stacks + kStackBytes * kMostThreads);
  }
};

Machine& machine() {
  static Machine the_machine;
  return the_machine;
}

void leave(State state) {
  Machine& m = machine();
  Fiber& self = *m.current;
  self.state = state;
  switch_context(self.context, m.scheduler);
}

void thread_body() {
  Machine& m = machine();
  m.run(m.argument);
  ++m.done;
  leave(State::kDone);
}

/// Returns the threads in the order that the test has set.
std::vector<int> in_order(Machine& m, int count) {
  std::vector<int> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  if (m.order == Order::kDescending) std::reverse(order.begin(), order.end());
  if (m.order == Order::kShuffled) std::shuffle(order.begin(), order.end(), m.random);
  return order;
}

void begin_block(Machine& m) {
  m.done = m.at_barrier = 0;
  ++m.blocks;
  for (Warp& warp : m.warps) {
    warp.arrived = 0;
    warp.operations = 0;
  }
  for (int t = 0; t < m.threads; ++t) {
    Fiber& fiber = m.fibers[t];
    const auto i = static_cast<unsigned>(t);
    fiber.index = {i % m.block.x, i / m.block.x % m.block.y, i / (m.block.x * m.block.y)};
    fiber.here = {m.launch, m.blocks, t, 0, 0};
    fiber.state = State::kReady;
    prepare(fiber.context, m.stacks + kStackBytes * i, kStackBytes, &thread_body);
  }
}

bool release_barrier(Machine& m) {
  if (m.at_barrier != m.threads) return false;
  m.at_barrier = 0;
  for (int t = 0; t < m.threads; ++t) {
    ++m.fibers[t].here.block_epoch;
    m.fibers[t].state = State::kReady;
  }
  return true;
}

void report_stuck(Machine& m) {
  int warp_operations = 0;
  for (int t = 0; t < m.threads; ++t) warp_operations += m.fibers[t].state == State::kAtWarpOperation ? 1 : 0;
  report("a barrier that not all threads reach: of " + std::to_string(m.threads) + " threads " +
         std::to_string(m.at_barrier) + " wait at __syncthreads, " + std::to_string(warp_operations) +
         " at a warp operation, " + std::to_string(m.done) + " have ended");
}

void run_block(Machine& m) {
  begin_block(m);
  const std::vector<int> order = in_order(m, m.threads);
  while (m.done < m.threads) {
    bool moved = false;
    for (const int t : order) {
      if (m.fibers[t].state != State::kReady) continue;
      m.current = &m.fibers[t];
      switch_context(m.scheduler, m.fibers[t].context);
      m.current = nullptr;
      moved = true;
    }
    if (!moved && !release_barrier(m)) return report_stuck(m);
  }
}

/// The shared memory allowed for this thread's next launch.
thread_local int shared_allowed = kSharedByDefault;

/// Returns the reason why the device would refuse this launch; null if it would not.
const char* refusal(const cudaLaunchConfig_t& config) {
  const dim3 &b = config.blockDim, &g = config.gridDim;
  const uint64_t threads = uint64_t{b.x} * b.y * b.z;
  if (threads == 0 || threads > kMostThreads || b.z > 64) return "a block has 1 to 1024 threads";
  if (threads % kWarp != 0) return "threads of a block come in whole warps here";
  if (g.x == 0 || g.y == 0 || g.z == 0) return "an empty grid";
  if (g.x > 0x7fffffffu || g.y > 0xffffu || g.z > 0xffffu) return "a grid too large";
  if (config.dynamicSmemBytes > static_cast<size_t>(shared_allowed)) return "more shared memory than allowed";
  return nullptr;
}

void run_grid(Machine& m, size_t shared_bytes) {
  unsigned char* end = dynamic_shared_memory + sizeof(dynamic_shared_memory);
  unsigned char* rest = dynamic_shared_memory + (shared_bytes + 15) / 16 * 16;
  const auto address = [](unsigned char* p) { return reinterpret_cast<uintptr_t>(p); };
  watch_shared_memory({address(dynamic_shared_memory), address(rest), address(end)});
  device::poison(rest, end - rest);
  const int64_t blocks = int64_t{m.grid.x} * m.grid.y * m.grid.z;
  for (const int b : in_order(m, static_cast<int>(blocks))) {
    const auto i = static_cast<unsigned>(b);
    m.block_index = {i % m.grid.x, i / m.grid.x % m.grid.y, i / (m.grid.x * m.grid.y)};
    std::memset(dynamic_shared_memory, 0xff, shared_bytes);  // memory that no thread has written is NaN
    run_block(m);
  }
  device::unpoison(rest, end - rest);
}

/// Continues when all lanes of the warp have arrived. `orders_memory`: earlier accesses precede later ones.
void warp_operation(bool orders_memory = true) {
  Machine& m = machine();
  Fiber& self = *m.current;
  const int first = self.here.thread / kWarp * kWarp;
  Warp& warp = m.warps[static_cast<size_t>(first / kWarp)];
  warp.arrived |= 1u << (self.here.thread - first);
  if (warp.arrived != 0xffffffffu) return leave(State::kAtWarpOperation);
  warp.arrived = 0;
  ++warp.operations;
  for (int t = first; t < first + kWarp; ++t) {
    if (orders_memory) ++m.fibers[t].here.warp_epoch;
    m.fibers[t].state = State::kReady;
  }
}

void expect_whole_warp(unsigned mask) {
  if (mask != 0xffffffffu) report("a warp operation of some lanes only: the emulator knows whole warps");
}

Warp& my_warp() { return machine().warps[static_cast<size_t>(machine().current->here.thread / kWarp)]; }

}  // namespace

const Here* here() {
  const Machine& m = machine();
  return m.current == nullptr ? nullptr : &m.current->here;
}

bool is_on_a_stack(uintptr_t address) {
  return address - reinterpret_cast<uintptr_t>(machine().stacks) < Machine::bytes();
}

void report(const std::string& what) {
  Machine& m = machine();
  const std::string place =
      m.current == nullptr
          ? ""
          : " (block " + std::to_string(m.block_index.x) + "," + std::to_string(m.block_index.y) + "," +
                std::to_string(m.block_index.z) + ", thread " + std::to_string(m.current->here.thread) + ")";
  if (m.named.insert(std::to_string(m.launch) + what).second) m.findings.push_back(what + place);
}

void set_order(Order order) { machine().order = order; }

std::vector<std::string> take_findings() {
  machine().named.clear();
  return std::exchange(machine().findings, {});
}

int64_t launches() { return static_cast<int64_t>(machine().launch); }

uint3 thread_index() { return machine().current->index; }
uint3 block_index() { return machine().block_index; }
uint3 block_size() { return {machine().block.x, machine().block.y, machine().block.z}; }
uint3 grid_size() { return {machine().grid.x, machine().grid.y, machine().grid.z}; }
unsigned lane() { return static_cast<unsigned>(machine().current->here.thread % kWarp); }

void block_barrier() {
  ++machine().at_barrier;
  leave(State::kAtBlockBarrier);
}

void warp_barrier(unsigned mask) {
  expect_whole_warp(mask);
  warp_operation();
}

uint64_t warp_exchange(unsigned mask, uint64_t value, unsigned from) {
  expect_whole_warp(mask);
  Warp& warp = my_warp();
  const size_t set = (warp.operations + 1) % 2;
  warp.values[set][lane()] = value;
  warp_operation();
  return warp.values[set][from];
}

unsigned warp_ballot(unsigned mask, bool vote) {
  expect_whole_warp(mask);
  Warp& warp = my_warp();
  const size_t set = (warp.operations + 1) % 2;
  warp.values[set][lane()] = vote ? 1 : 0;
  warp_operation();
  unsigned votes = 0;
  for (unsigned i = 0; i < kWarp; ++i) votes |= static_cast<unsigned>(warp.values[set][i]) << i;
  return votes;
}

const uint32_t (*warp_gather(const uint32_t* words, int count))[kGatheredWords] {
  Warp& warp = my_warp();
  const size_t set = (warp.operations + 1) % 2;
  std::copy_n(words, count, warp.words[set][lane()]);
  warp_operation(false);
  return warp.words[set];
}

cudaError_t launch(const cudaLaunchConfig_t& config, void (*run)(void* arg), void* arg) {
  Machine& m = machine();
  const std::lock_guard lock(m.one_launch);
  const char* no = refusal(config);
  shared_allowed = kSharedByDefault;
  if (no != nullptr) {
    report(no);
    return cudaErrorInvalidConfiguration;
  }
  ++m.launch;
  m.grid = config.gridDim;
  m.block = config.blockDim;
  m.threads = static_cast<int>(m.block.x * m.block.y * m.block.z);
  m.run = run;
  m.argument = arg;
  run_grid(m, config.dynamicSmemBytes);
  return cudaSuccess;
}

namespace {
std::vector<RecordedLaunch>* recorded = nullptr;
}  // namespace

void record_launches(std::vector<RecordedLaunch>* to) { recorded = to; }

bool records_launches() { return recorded != nullptr; }

bool is_recorded(const void* kernel, const cudaLaunchConfig_t& config) {
  if (recorded == nullptr) return false;
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  recorded->push_back({kernel, int64_t{grid.x} * grid.y * grid.z,
                       static_cast<int>(block.x * block.y * block.z), config.dynamicSmemBytes});
  return true;
}

cudaError_t allow_shared_memory(int bytes) {
  if (bytes > static_cast<int>(sizeof(dynamic_shared_memory))) return cudaErrorInvalidValue;
  shared_allowed = std::max(kSharedByDefault, bytes);
  return cudaSuccess;
}

int take_allowed_shared_memory() { return std::exchange(shared_allowed, kSharedByDefault); }

}  // namespace hawser::cuda_emulation
