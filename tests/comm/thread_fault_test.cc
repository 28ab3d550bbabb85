// Tests of ranks as threads: in each collective one of two, three and four ranks fails or is late. All other
// ranks return the same error, within the deadline, and it names that rank. Nothing remains of the ranks, and
// the same comm can be connected again. Late ranks wait in parallel.
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <thread>

#include "engine/comm/gate.h"
#include "tests/comm/worlds.h"
#include "tests/harness/faulty_comm.h"
#include "tests/harness/rank_processes.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace thread_fault_test {

using comm::Operation, comm::ProcessGroup;

constexpr Operation kOperations[] = {
    Operation::kAllGather,    Operation::kReduceScatter, Operation::kAllReduce,
    Operation::kAllReduceI64, Operation::kAllToAll,      Operation::kBroadcast,
    Operation::kSend,         Operation::kRecv,          Operation::kBarrier};

bool is_between_two(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kRecv;
}

/// Runs all operations, one after the other, in memory of this rank.
void run_all(ProcessGroup& g) {
  const int64_t n = 24;
  std::vector<float> a(static_cast<size_t>(n * g.size()), 1), b = a;
  const comm::GatherPiece gather = {a.data(), b.data(), n};
  g.wait(g.all_gather({&gather, 1}, DType::kF32));
  const comm::ReducePiece scatter = {a.data(), b.data(), n};
  g.wait(g.reduce_scatter({&scatter, 1}, {}));
  const comm::AllReducePiece reduce = {a.data(), b.data(), n};
  g.wait(g.all_reduce({&reduce, 1}, {}));
  int64_t counts[2] = {1, 2};
  g.wait(g.all_reduce_i64(counts, 2));
  g.wait(g.all_to_all(a.data(), b.data(), 4 * n));
  g.wait(g.broadcast(a.data(), 4 * n, 0));
  if (g.rank() < 2)  // the first two ranks send to each other
    for (const bool sends : {g.rank() == 0, g.rank() == 1})
      g.wait(sends ? g.send(b.data(), 8, 1 - g.rank()) : g.recv(a.data(), 8, 1 - g.rank()));
  g.wait(g.barrier());
}

/// Returns each rank's error; "" if it had none.
std::vector<std::string> errors_of(FaultyComm& comm) {
  std::vector<std::string> errors(static_cast<size_t>(comm.world_size()));
  std::vector<std::thread> threads;
  std::barrier connected(comm.world_size());  // a rank that connects after a failure would wait for new ranks
  for (const int32_t rank : comm.local_ranks())
    threads.emplace_back([&, rank] {
      std::unique_ptr<comm::RankComm> end;
      try {
        end = comm.connect(rank, test_comm_options());
        connected.arrive_and_wait();
        const auto group = world_group(*end);
        run_all(*group);
        group->wait(group->barrier());  // a rank that only sends would not detect the fault
      } catch (const Error& error) {
        errors[static_cast<size_t>(rank)] = error.message();
        if (end != nullptr) end->abort(error);
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// Calls fn for every operation and number of ranks; the victim changes with both.
template <typename Fn>
void for_each_case(const Fn& fn) {
  for (const Operation operation : kOperations)
    for (int32_t world = 2; world <= 4; ++world)
      fn(operation, world,
         (static_cast<int32_t>(operation) + world) % (is_between_two(operation) ? 2 : world));
}

std::string expect_named(Operation operation, int32_t victim, const std::vector<std::string>& errors) {
  const std::string name = "rank " + std::to_string(victim);
  for (size_t r = 0; r < errors.size(); ++r)
    if (static_cast<int32_t>(r) != victim && errors[r].find(name) == std::string::npos)
      return std::string(operation_name(operation)) + ", " + std::to_string(errors.size()) + " ranks: rank " +
             std::to_string(r) + " does not name " + name + " but says \"" + errors[r] + "\"";
  return "";
}

TEST(ThreadFaults, ARankThatFailsIsNamedInEveryCall) {
  for_each_case([](Operation operation, int32_t world, int32_t victim) {
    const Belongings before = belongings();
    FaultyComm comm(world, victim, 20, [operation](Operation now) {
      if (now == operation) fail(Code::kDataLoss, "injected");
    });
    comm.arm();
    const double begin = steady_seconds();
    const std::vector<std::string> errors = errors_of(comm);
    EXPECT_LT(steady_seconds() - begin, 10);
    EXPECT_EQ(expect_named(operation, victim, errors), "");
    for (size_t r = 0; r < errors.size(); ++r) {
      if (static_cast<int32_t>(r) == victim) continue;
      EXPECT_NE(errors[r].find(": injected"), std::string::npos) << errors[r];
    }
    comm.disarm();
    EXPECT_EQ(errors_of(comm), std::vector<std::string>(static_cast<size_t>(world)));
    EXPECT_TRUE(belongings_become(before)) << before.text() << ", then " << belongings().text();
  });
}

/// The rank is late by more than the deadline.
TEST(ThreadFaults, ARankThatIsLateIsNamedWhenTheDeadlineIsOver) {
  static constexpr double kDeadline = 2;
  const Belongings before = belongings();
  std::vector<std::thread> cases;
  std::mutex mutex;
  std::vector<std::string> problems;
  for_each_case([&](Operation operation, int32_t world, int32_t victim) {
    cases.emplace_back([&, operation, world, victim] {
      FaultyComm comm(world, victim, kDeadline, [operation](Operation now) {
        if (now == operation) std::this_thread::sleep_for(std::chrono::duration<double>(kDeadline + 1));
      });
      comm.arm();
      const double begin = steady_seconds();
      const std::vector<std::string> errors = errors_of(comm);
      std::string problem = expect_named(operation, victim, errors);
      if (steady_seconds() - begin > kDeadline + 8) problem += " (too late)";
      comm.disarm();
      if (problem.empty() && errors_of(comm) != std::vector<std::string>(static_cast<size_t>(world)))
        problem = "the comm does not connect anew";
      const std::lock_guard lock(mutex);
      if (!problem.empty()) problems.push_back(problem);
    });
  });
  for (std::thread& thread : cases) thread.join();
  EXPECT_EQ(problems, std::vector<std::string>());
  EXPECT_TRUE(belongings_become(before)) << before.text() << ", then " << belongings().text();
}

}  // namespace thread_fault_test
}  // namespace hawser::testing
