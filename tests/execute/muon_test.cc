// Tests Muon in whole runs: each matrix (q, k, v or their heads, gate, up, each expert) is updated by itself
// as plain loops compute it, everything else as by AdamW, with the same bits in every layout
// (muon_layouts_test.cc has those with tensor parallelism); the bytes that ranks send; and checkpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/parallel/matrix_homes.h"
#include "engine/parallel/transfer_group.h"
#include "tests/harness/data_parallel_ranks.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/muon_reference.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace muon_run_test {

using testing::data_parallel_ranks;
using testing::Layout;
using testing::Problem;
using testing::StepRecord;

constexpr double kRate = 0.003, kDecay = 0.1, kMomentum = 0.95, kClip = 0.7;
/// Rows of one head of keys and of values in latent attention.
constexpr int64_t kNope = 6, kValue = 7;
constexpr const char* kLatent = R"({"kv_rank": 12, "rope_dim": 4, "value_dim": 7})";
constexpr const char* kCompressedQueries = R"({"kv_rank": 12, "q_rank": 14, "rope_dim": 4, "value_dim": 7})";
constexpr const char* kExperts = R"({"experts": 4, "top_k": 2, "width": 12, "shared_width": 8})";

/// A gated model whose q, k and v are read as one product, as are gate and up.
Problem problem_of(const std::string& precision, const std::string& kind = "muon") {
  Problem p;
  p.precision = precision, p.optimizer = kind, p.like_gpt2 = false, p.weights_every = 0;
  return p;
}

std::vector<StepRecord> run(const Problem& problem, const Layout& layout, int steps) {
  return testing::run_layout(problem, layout, steps, nullptr);
}

using Values = std::map<std::string, std::vector<float>>;

struct Shaped {
  Values weights;
  std::map<std::string, std::vector<int64_t>> shapes;
};

Shaped initial(const Problem& problem) {
  testing::LayoutRun run(problem, {}, nullptr);
  Shaped start;
  for (const nn::Parameter& p : run.trainer().ranks().table().all()) {
    std::vector<float>& values = start.weights[p.name];
    values.resize(static_cast<size_t>(p.size));
    run.trainer().tensors().get(train::TensorKind::kWeight, p.name, values.data(), values.size() * 4);
    start.shapes[p.name] = p.shape;
  }
  return start;
}

bool is_matrix(const std::string& name, const std::vector<int64_t>& shape) {
  return name.starts_with("blocks.") && shape.size() >= 2 && name.find("router") == name.npos;
}

/// The rows of the matrices of a weight, which repeat.
std::vector<int64_t> matrix_rows(const Problem& problem, const std::string& name,
                                 const std::vector<int64_t>& shape) {
  const auto ends = [&](const char* end) { return name.ends_with(end); };
  if (problem.muon_heads && ends("kv_b.weight")) return {kNope, kValue};
  if (problem.muon_heads &&
      (ends(".q.weight") || ends(".k.weight") || ends(".v.weight") || ends(".q_b.weight")))
    return {problem.head_dim};
  return {shape[shape.size() - 2]};
}

/// The weights after steps of 2 warm-up steps' rates, from the gradients that a run recorded.
std::vector<double> expected(const std::vector<StepRecord>& records, const std::vector<int64_t>& rows,
                             int64_t columns, const std::string& name, const std::vector<float>& w0) {
  std::vector<double> w(w0.begin(), w0.end()), m(w.size());
  for (size_t step = 0; step < records.size(); ++step) {
    const double rate = kRate * (step == 0 ? 0.5 : 1.0);
    const double clip = std::min(1.0, kClip / records[step].grad_norm);
    const std::vector<float>& g = records[step].gradients.at(name);
    size_t elements = 0, index = 0;
    for (size_t begin = 0; begin < w.size(); begin += elements, ++index) {
      const int64_t r = rows[index % rows.size()];
      elements = static_cast<size_t>(r * columns);
      std::vector<double> u(elements);
      for (size_t i = 0; i < elements; ++i) {
        const double gradient = clip * static_cast<double>(g[begin + i]);
        m[begin + i] = kMomentum * m[begin + i] + (1 - kMomentum) * gradient;
        u[i] = (1 - kMomentum) * gradient + kMomentum * m[begin + i];
      }
      const std::vector<double> direction = testing::muon_direction(u, r, columns);
      const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(r, columns)));
      for (size_t i = 0; i < elements; ++i)
        w[begin + i] -= rate * (kDecay * w[begin + i] + scale * direction[i]);
    }
  }
  return w;
}

void expect_matrices(const Problem& problem, const Layout& layout, double tolerance) {
  const Shaped start = initial(problem);
  const std::vector<StepRecord> records = run(problem, layout, 2);
  EXPECT_GT(
      std::abs(std::min(1.0, kClip / records[0].grad_norm) - std::min(1.0, kClip / records[1].grad_norm)),
      1e-3);
  int64_t matrices = 0;
  for (const auto& [name, w0] : start.weights) {
    if (!is_matrix(name, start.shapes.at(name))) continue;
    const std::vector<int64_t>& shape = start.shapes.at(name);
    const std::vector<double> w =
        expected(records, matrix_rows(problem, name, shape), shape.back(), name, w0);
    double error = 0, moved = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      const double got = static_cast<double>(records[1].weights.at(name)[i]);
      error += (got - w[i]) * (got - w[i]), moved += (w[i] - w0[i]) * (w[i] - w0[i]);
    }
    EXPECT_LT(std::sqrt(error / moved), tolerance) << name << " " << layout.name();
    EXPECT_FALSE(records[1].states[1].contains(name)) << name;
    ++matrices;
  }
  EXPECT_GE(matrices, 14);
}

Layout with_tp(Layout layout, int64_t tp) {
  layout.tp = tp;
  return layout;
}

TEST(MuonRun, EachMatrixIsUpdatedByItself) {
  for (const Layout& layout : {Layout{}, data_parallel_ranks(1, 4, 3), data_parallel_ranks(2, 2, 1),
                               with_tp({}, 4), with_tp(data_parallel_ranks(1, 2, 1), 2)}) {
    expect_matrices(problem_of("fp32"), layout, 2e-3);
    Problem sparse = problem_of("fp32");
    sparse.experts = kExperts;
    expect_matrices(sparse, layout, 2e-3);
  }
}

/// Shards cut heads, and heads of keys and values in latent attention have other shapes.
TEST(MuonRun, EachHeadIsUpdatedByItself) {
  for (const char* const latent : {"", kLatent, kCompressedQueries})
    for (const Layout& layout : {Layout{}, data_parallel_ranks(1, 4, 3), data_parallel_ranks(2, 2, 1),
                                 with_tp(data_parallel_ranks(1, 2, 3), 2)}) {
      Problem problem = problem_of("fp32");
      problem.muon_heads = true, problem.latent = latent;
      expect_matrices(problem, layout, 2e-3);
    }
}

TEST(MuonRun, OneHeadIsTheWholeWeight) {
  Problem whole = problem_of("fp32");
  whole.heads = whole.kv_heads = 1;
  Problem head = whole;
  head.muon_heads = true;
  EXPECT_EQ(testing::first_difference(run(whole, {}, 2), run(head, {}, 2)), "");
}

TEST(MuonRun, EverythingElseIsAdamWs) {
  for (const char* precision : {"fp32", "bf16", "fp16"})
    for (const Layout& layout : {Layout{}, data_parallel_ranks(1, 4, 2)}) {
      const Problem problem = problem_of(precision);
      const auto shapes = initial(problem).shapes;
      const StepRecord muon = run(problem, layout, 1)[0];
      const StepRecord adamw = run(problem_of(precision, "adamw"), layout, 1)[0];
      EXPECT_EQ(muon.gradients, adamw.gradients);
      int64_t others = 0;
      for (const auto& [name, values] : muon.weights) {
        if (is_matrix(name, shapes.at(name))) {
          EXPECT_NE(values, adamw.weights.at(name)) << name;
          continue;
        }
        EXPECT_EQ(values, adamw.weights.at(name)) << name;
        ++others;
      }
      EXPECT_GT(others, 8);
    }
}

TEST(MuonRun, MagnitudesOfAnAdapterAreAdamWs) {
  Problem muon = problem_of("fp32"), adamw = problem_of("fp32", "adamw");
  muon.adapter = adamw.adapter = R"({"rank": 3, "dora": true})";
  const StepRecord by_muon = run(muon, {}, 1)[0], by_adamw = run(adamw, {}, 1)[0];
  int64_t magnitudes = 0, factors = 0;
  for (const auto& [name, values] : by_muon.weights) {
    if (name.ends_with(".adapter_m.weight")) {
      EXPECT_EQ(values, by_adamw.weights.at(name)) << name;
      ++magnitudes;
    } else if (name.ends_with(".adapter_b.weight")) {
      EXPECT_NE(values, by_adamw.weights.at(name)) << name;
      ++factors;
    }
  }
  EXPECT_GE(magnitudes, 4);
  EXPECT_EQ(magnitudes, factors);
}

TEST(MuonRun, LayoutsGiveTheSameBits) {
  for (const char* precision : {"fp32", "bf16", "fp16", "fp8"}) {
    Problem problem = problem_of(precision);
    problem.tied = false, problem.muon_heads = std::string(precision) != "fp32";
    problem.rules = R"([{"of": "*.o.weight", "kind": "lion"}, {"of": "head.weight", "kind": "muon"}])";
    const auto ddp = run(problem, data_parallel_ranks(4, 1, 0), 3);
    for (const Layout& layout :
         {data_parallel_ranks(1, 4, 1), data_parallel_ranks(2, 2, 1), data_parallel_ranks(2, 2, 2),
          data_parallel_ranks(1, 4, 3), data_parallel_ranks(2, 2, 3)})
      EXPECT_EQ(testing::first_difference(ddp, run(problem, layout, 3)), "") << layout.name();
    Layout stages = data_parallel_ranks(4, 1, 0);
    stages.pp = 2;
    EXPECT_EQ(testing::first_difference(ddp, run(problem, stages, 3)), "");
    stages = data_parallel_ranks(1, 4, 1), stages.pp = 2;
    EXPECT_EQ(testing::first_difference(ddp, run(problem, stages, 3)), "");
  }
}

/// Muon's parts of a plan fit what else happens in a step: recompute, weights on disk, narrow gradients on
/// the wire, a binary tree of sums, an adapter, frozen parameters.
TEST(MuonRun, StagesAgreeWithEverythingElseOn) {
  const auto expect_equal = [](const Problem& problem, const std::function<void(Layout*)>& change) {
    Layout plain = data_parallel_ranks(1, 4, 0), sharded = data_parallel_ranks(1, 4, 2);
    change(&plain), change(&sharded);
    EXPECT_EQ(testing::first_difference(run(problem, plain, 2), run(problem, sharded, 2)), "")
        << sharded.name();
  };
  const testing::ScratchFolder folder;
  const std::string disk = R"({"parameters": "disk", "folder": ")" + folder.file(".") + R"("})";
  Problem problem = problem_of("bf16");
  expect_equal(problem, [&](Layout* l) { l->offload = disk, l->recompute = R"({"policy": "full"})"; });
  expect_equal(problem, [](Layout* l) { l->gradient_type = "bf16"; });
  expect_equal(problem, [](Layout* l) { l->reduce = "per_micro_batch", l->quantized_gradients = "int8"; });
  expect_equal(problem, [](Layout* l) { l->tree = true, l->sum_group = 0; });
  problem.frozen = true;
  expect_equal(problem, [](Layout*) {});
  problem.frozen = false, problem.adapter = R"({"rank": 3, "dora": true})";
  expect_equal(problem, [](Layout*) {});
}

TEST(MuonRun, ContextAndExpertParallelRanksGiveTheSameBitsAtEachStage) {
  for (const bool sparse : {false, true}) {
    Problem problem = problem_of("fp32");
    if (sparse) problem.experts = kExperts;
    const auto with = [&](Layout layout) {
      sparse ? layout.ep = 2 : (layout.cp = 2, layout.sum_group = 4);
      return layout;
    };
    const auto plain = run(problem, with(data_parallel_ranks(1, 4, 0)), 2);
    for (const Layout& layout :
         {data_parallel_ranks(1, 4, 1), data_parallel_ranks(2, 2, 2), data_parallel_ranks(1, 4, 3)})
      EXPECT_EQ(testing::first_difference(plain, run(problem, with(layout), 2)), "") << with(layout).name();
  }
}

/// The costliest matrix comes first, and each goes to the rank with the least work. So without its last and
/// cheapest matrix, no rank has more work than any other.
void expect_even_homes(const std::vector<parallel::Matrix>& all, int64_t ranks) {
  std::map<int64_t, double> work, cheapest;
  for (const parallel::Matrix& m : all) {
    const double cost = parallel::matrix_cost(m.rows, m.columns);
    work[m.home] += cost;
    const auto [at, is_first] = cheapest.emplace(m.home, cost);
    if (!is_first) at->second = std::min(at->second, cost);
  }
  EXPECT_EQ(static_cast<int64_t>(work.size()), ranks);
  for (const auto& [home, of_home] : work)
    for (const auto& [other, of_other] : work)
      EXPECT_LE(of_home - cheapest[home], of_other) << home << " " << other;
}

/// What each rank sends to others in a step.
std::vector<int64_t> sent_bytes(train::Trainer& trainer, int64_t world) {
  std::vector<int64_t> sent(static_cast<size_t>(world));
  trainer.ranks().on_each([&](train::Rank& rank, int32_t) {
    const parallel::ShardLayout& layout = rank.layout();
    const std::vector<int64_t> members =
        parallel::members_of(parallel::TransferGroup::kMatrix, layout, plan::Lane::kDataParallel);
    for (int32_t b = 0; b < layout.blocks(); ++b)
      if (const parallel::BlockMatrices* const m = layout.matrices().of(b, false))
        for (size_t i = 0; i < members.size(); ++i)
          if (members[i] != rank.number())
            sent[static_cast<size_t>(rank.number())] += m->gather.sent[i] + m->scatter.sent[i];
  });
  return sent;
}

/// What one rank sends in a step, and the closed form of the mean over ranks, 4 Φ ((N-1) + (P-1)) / (N P):
/// it holds to the share of a matrix that its home has itself.
void expect_bytes(const Layout& layout) {
  testing::LayoutRun run(problem_of("fp32"), layout, nullptr);
  run.step();
  const train::Rank& first = run.trainer().ranks().first();
  int64_t planned = 0, elements = 0;
  for (const plan::Instruction& n : first.plans().train.instructions)
    if (n.op == plan::Op::kGatherMatrix || n.op == plan::Op::kScatterMatrix) planned += n.sent_bytes;
  for (const parallel::Matrix& m : first.layout().matrices().all()) elements += m.elements();
  const int64_t n = (layout.stage == 0 ? 1 : layout.dp_shard) * layout.tp, p = layout.world();
  const std::vector<int64_t> sent = sent_bytes(run.trainer(), p);
  const auto metrics = nlohmann::json::parse(run.trainer().metrics().json());
  EXPECT_EQ(metrics["communication"]["matrices"]["all_to_all"]["bytes"].get<int64_t>(), sent[0]);
  EXPECT_GE(planned, *std::max_element(sent.begin(), sent.end()));
  int64_t total = 0;
  for (const int64_t bytes : sent) total += bytes;
  const double closed = 4.0 * static_cast<double>(elements * ((n - 1) + (p - 1))) / static_cast<double>(n);
  EXPECT_NEAR(static_cast<double>(total), closed, 0.35 * closed) << layout.name();
  expect_even_homes(first.layout().matrices().all(), p);
}

TEST(MuonRun, RanksSendTheBytesOfThePlan) {
  for (const Layout& layout :
       {data_parallel_ranks(4, 1, 0), data_parallel_ranks(1, 4, 1), data_parallel_ranks(2, 2, 2),
        data_parallel_ranks(1, 4, 3), data_parallel_ranks(1, 3, 1), with_tp({}, 2),
        with_tp(data_parallel_ranks(2, 1, 0), 2), with_tp(data_parallel_ranks(1, 2, 2), 2),
        with_tp(data_parallel_ranks(2, 2, 3), 2)}) {
    Layout l = layout;
    if (l.dp() == 3) l.sum_group = 0;
    expect_bytes(l);
  }
}

TEST(MuonRun, AnyLayoutContinuesTheRunOfAnyOther) {
  const testing::ScratchFolder folder;
  const Problem problem = problem_of("bf16");
  int64_t saved = 0;
  for (const Layout& from :
       {data_parallel_ranks(4, 1, 0), data_parallel_ranks(1, 4, 3), data_parallel_ranks(2, 2, 1)})
    for (const Layout& to :
         {data_parallel_ranks(4, 1, 0), data_parallel_ranks(1, 4, 3), data_parallel_ranks(2, 2, 1)}) {
      testing::LayoutRun first(problem, from, nullptr), second(problem, to, nullptr);
      for (int step = 0; step < 2; ++step) first.step();
      const std::string path = folder.file(std::to_string(saved++));
      first.trainer().saves().save(path);
      second.trainer().loads().load(path, false);
      second.skip_to(2);
      EXPECT_EQ(testing::first_difference({first.step()}, {second.step()}), "") << from.name() << to.name();
    }
}

}  // namespace muon_run_test
}  // namespace hawser
