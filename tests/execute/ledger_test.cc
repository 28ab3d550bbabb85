// Ledger tests: the bytes that a step sends equal the closed forms and the plan's own count. N ranks share a
// copy of the model, R ranks have the same shard, and a step has A micro-batches. Φ is the bytes of the
// parameters with their padding, in the type that is sent.
//
// reduce_scatter: (N-1)/N·Φ, once per step or per micro-batch.
// all_gather: DDP gathers sums, and ZeRO-1/2 updated weights, (N-1)/N·Φ. With the reduce_scatter that is
// 2(N-1)/N·Φ, or (A+1)(N-1)/N·Φ if each micro-batch is reduced. ZeRO-3 gathers per micro-batch: blocks
// twice, 2(N-1)/N·Φ; the head once, because one copy serves its loss and backward; the embedding once,
// because its backward needs no weights, or twice if it is tied, because the head needs it as well. With
// reshard "keep", nothing is gathered twice; with "group", the second gather is among S ranks only,
// (S-1)/S·Φ.
// all_reduce: HSDP sends 2(R-1)/R of the shards, once per step or per micro-batch.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/assembly/assemble.h"
#include "engine/execute/executor.h"
#include "engine/mesh/flat_shard.h"
#include "engine/nn/model.h"
#include "engine/report/plan_report.h"
#include "tests/harness/closed_forms.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace ledger_test {

using Json = nlohmann::json;

struct Sent {
  int64_t reduce_scatter = 0, all_gather = 0, secondary = 0, all_reduce = 0, agreements = 0;
  bool operator==(const Sent&) const = default;
  friend void PrintTo(const Sent& s, std::ostream* out) {
    *out << "reduce_scatter " << s.reduce_scatter << ", all_gather " << s.all_gather
         << ", in the small group " << s.secondary << ", all_reduce " << s.all_reduce << ", agreements "
         << s.agreements;
  }
};

/// Returns the bytes that one rank sends to gather or scatter a copy of `elements` among `ranks`: (N-1)/N
/// of the padded Φ.
int64_t pass(int64_t elements, int64_t ranks, int64_t bytes) {
  const int64_t phi = mesh::padded_elements(elements, ranks) * bytes;
  return phi / ranks * (ranks - 1);
}

/// Returns the bytes for a copy of weights, also in records of nf4 (33 bytes for 64 numbers) or int8 (66).
int64_t pass(const nn::ParameterGroup& g, int64_t ranks, int64_t bytes) {
  const int64_t record = g.read == nn::Read::kNf4 ? 33 : g.read == nn::Read::kInt8 ? 66 : 64 * bytes;
  return mesh::padded_elements(g.elements, ranks) / 64 * record / ranks * (ranks - 1);
}

/// Returns the bytes of `elements` in records of so many bytes for 64 numbers.
int64_t in_records(int64_t elements, int64_t bytes) { return (elements + 63) / 64 * bytes; }

Sent closed_form(const Problem& p, const Layout& l) {
  const train::Assembly a = train::assemble(config::ConfigTree::from_json(layout_config(p, l)));
  const nn::Model model(a.config.model, a.config.init.scale_residual, a.config.optimizer.frozen);
  const int64_t n = l.stage == 0 ? l.dp() : l.dp_shard, replicas = l.stage == 0 ? 1 : l.dp_replicate;
  const int64_t micro_batches = l.accumulation, reductions = l.reduce == "per_step" ? 1 : micro_batches;
  const int64_t wire = l.gradient_type == "bf16" ? 2 : 4;
  const int64_t record = l.quantized_gradients == "int8" ? 66 : l.quantized_gradients == "int4" ? 34 : 0;
  const auto& groups = model.table().groups();
  const auto head = groups.back().block;
  Sent sent;
  for (const nn::ParameterGroup& g : groups) {
    const int64_t weight = p.precision == "bf16" && g.read != nn::Read::kLookup ? 2 : 4;
    if (g.trainable) {
      const bool records = record > 0 && nn::is_product(g.read);
      const int64_t shard = mesh::shard_elements(g.elements, n);
      sent.reduce_scatter +=
          reductions * (records ? (n - 1) * in_records(shard, record) : pass(g.elements, n, wire));
      int64_t share = (shard + replicas - 1) / replicas;
      if (records) share = in_records(share, 64);
      const int64_t addends = records ? in_records(share, record) : share * 4;
      sent.all_reduce += reductions * (replicas - 1) * (addends + share * wire);
      if (l.stage < 3) sent.all_gather += pass(g.elements, n, l.stage == 0 ? 4 : weight);
    }
    if (l.stage < 3) continue;
    const bool inner = g.block > 0 && g.block < head;
    const int64_t first = pass(g, n, weight);
    int64_t whole = 1, small = 0;  // gathers per micro-batch
    const bool twice = inner || (g.block == 0 && p.tied);
    if (twice && l.reshard == "full") whole = 2;
    if (twice && l.reshard == "group") small = 1;
    sent.all_gather += micro_batches * whole * first;
    const int64_t ranks = l.reshard_group;
    if (small) sent.secondary += micro_batches * pass(g, ranks, weight);
  }
  for (const int64_t words : {train::agreement_words(l.dp(), 0, 0), train::kSumsWords})
    sent.agreements += 2 * (l.dp() - 1) * ((words + l.dp() - 1) / l.dp()) * 8;
  return sent;
}

int64_t bytes(const Json& communication, const char* group, const char* operation) {
  if (!communication.contains(group) || !communication[group].contains(operation)) return 0;
  return communication[group][operation]["bytes"].get<int64_t>();
}

Sent ledger_of(const Json& communication, int64_t stage) {
  const char* shard = stage == 0 ? "gradients" : "dp_shard";
  return {bytes(communication, shard, "reduce_scatter"), bytes(communication, shard, "all_gather"),
          bytes(communication, "secondary", "all_gather"), bytes(communication, "dp_replicate", "all_reduce"),
          bytes(communication, "dp", "all_reduce_i64")};
}

/// Sums the bytes of the plan by kind. An UNSHARD from a secondary shard counts as a gather of the small
/// group.
Sent planned(const plan::Plan& plan) {
  Sent sent;
  for (const plan::Instruction& n : plan.instructions) {
    switch (n.op) {
      case plan::Op::kReduceGrad:
        sent.reduce_scatter += n.sent_bytes;
        break;
      case plan::Op::kGatherGrad:
        sent.all_gather += n.sent_bytes;
        break;
      case plan::Op::kUnshard: {
        const bool small =
            n[plan::Operand::kSent] >= 0 && plan.slot(n[plan::Operand::kSent]).role == plan::Role::kSecondary;
        (small ? sent.secondary : sent.all_gather) += n.sent_bytes;
        break;
      }
      case plan::Op::kReduceReplicas:
        sent.all_reduce += n.sent_bytes;
        break;
      default:
        sent.agreements += n.sent_bytes;
    }
  }
  return sent;
}

int64_t total(const Sent& s) {
  return s.reduce_scatter + s.all_gather + s.secondary + s.all_reduce + s.agreements;
}

void expect_exact(const Problem& p, const Layout& l) {
  SCOPED_TRACE(l.name() + " " + p.precision + (p.tied ? " tied" : "") + (p.frozen ? " frozen" : ""));
  const Sent expected = closed_form(p, l);
  LayoutRun run(p, l);
  EXPECT_EQ(planned(run.trainer().ranks().first().plans().train), expected);
  int64_t reductions = 0;
  for (const plan::Instruction& n : run.trainer().ranks().first().plans().train.instructions)
    reductions += n.op == plan::Op::kReduceGrad;
  for (int step = 0; step < 2; ++step) {
    run.step();  // also reads tensors of other ranks, which is not the step's traffic
    const Json metrics = Json::parse(run.trainer().metrics().json());
    const Json& communication = metrics["communication"];
    EXPECT_EQ(ledger_of(communication, l.stage), expected);
    EXPECT_EQ(metrics["communication_bytes"].get<int64_t>(), total(expected)) << communication;
    const char* shard = l.stage == 0 ? "gradients" : "dp_shard";
    const int64_t calls = communication[shard]["reduce_scatter"]["calls"].get<int64_t>();
    if (l.quantized_gradients == "off") {
      EXPECT_EQ(calls, reductions);
    } else {  // one more, if a transfer has gradients of both kinds
      EXPECT_GE(calls, reductions);
      EXPECT_LE(calls, 2 * reductions);
    }
    EXPECT_EQ(communication["dp"]["all_reduce_i64"]["calls"].get<int64_t>(), 2);
    EXPECT_GE(metrics["communication_total_bytes"].get<int64_t>(), (step + 1) * total(expected));
  }
}

std::vector<Layout> stages(int64_t dp, int64_t accumulation, const char* reduce) {
  std::vector<Layout> layouts;
  for (const int64_t stage : {0, 1, 2, 3}) {
    Layout l;
    l.dp_shard = dp, l.stage = stage, l.accumulation = accumulation, l.reduce = reduce;
    layouts.push_back(l);
  }
  return layouts;
}

TEST(Ledger, EveryStageSendsWhatItsClosedFormSays) {
  for (const int64_t dp : {2, 3})
    for (const int64_t accumulation : {1, 3})
      for (const char* reduce : {"per_step", "per_micro_batch"})
        for (const Layout& l : stages(dp, accumulation, reduce)) expect_exact(Problem(), l);
  for (const Layout& l : stages(4, 2, "per_micro_batch")) expect_exact(Problem(), l);
}

TEST(Ledger, CountsEachTypeThatTravels) {
  for (const bool tied : {true, false})
    for (const bool frozen : {true, false})
      for (Layout l : stages(3, 2, "per_micro_batch")) {
        Problem p;
        p.precision = "bf16", p.tied = tied, p.frozen = frozen;
        expect_exact(p, l);
        l.gradient_type = "bf16";
        expect_exact(p, l);
      }
}

/// Only gradients of adapters are reduced. The base is gathered as any weights, or as NF4 records.
TEST(Ledger, CountsAdaptersAlone) {
  for (const char* precision : {"fp32", "bf16"})
    for (Layout l : stages(3, 2, "per_micro_batch"))
      for (const char* base : {"stored", "nf4"}) {
        Problem p;
        p.precision = precision;
        p.adapter =
            std::string(R"({"rank": 3, "dora": true, "train": ["final_norm.*"], "base": ")") + base + "\"}";
        expect_exact(p, l);
        if (l.stage < 3) continue;
        l.dp_shard = 4, l.reshard = "group", l.reshard_group = 2;
        expect_exact(p, l);
        l.dp_shard = 3, l.reshard = "full";
      }
}

/// S = sum_group, G = N/S: 34/64·((S-1)/S + (G-1)/(GS)) = 34/64·(N-1)/N bytes for each number in int4.
TEST(Ledger, CountsGradientsInRecords) {
  for (const char* type : {"int8", "int4"})
    for (const char* reduce : {"per_step", "per_micro_batch"})
      for (const auto& [dp, group] : {std::pair<int64_t, int64_t>{2, 0}, {3, 1}, {6, 2}, {6, 3}})
        for (Layout l : stages(dp, 2, reduce)) {
          Problem p;
          p.precision = l.stage == 2 ? "bf16" : "fp32", p.tied = l.stage != 1, p.frozen = l.stage == 3;
          l.quantized_gradients = type, l.sum_group = group;
          if (dp == 3) l.gradient_type = "bf16";
          expect_exact(p, l);
        }
  for (const char* type : {"int8", "int4"})
    for (const char* wire : {"fp32", "bf16"})
      for (Layout l : stages(3, 2, "per_micro_batch")) {
        if (l.stage == 0) continue;
        l.dp_replicate = 2, l.gradient_type = wire, l.quantized_gradients = type;
        expect_exact(Problem(), l);
      }
  Problem p;
  p.adapter = R"({"rank": 3, "dora": true, "train": ["final_norm.*"], "base": "nf4"})";
  for (Layout l : stages(3, 2, "per_step")) l.quantized_gradients = "int4", expect_exact(p, l);
}

TEST(Ledger, CountsWeightsInRecords) {
  for (const char* precision : {"fp32", "bf16"})
    for (const char* reshard : {"full", "keep", "group"})
      for (const int64_t dp : {2, 4}) {
        Problem p;
        p.precision = precision, p.tied = dp == 2, p.frozen = dp == 4;
        Layout l;
        l.dp_shard = dp, l.stage = 3, l.accumulation = 2, l.quantized_weights = "int8", l.reshard = reshard;
        if (l.reshard == "group") l.reshard_group = 2;
        if (dp == 4) l.quantized_gradients = "int4", l.sum_group = 2;
        expect_exact(p, l);
      }
}

TEST(Ledger, BucketSizesChangeNoByte) {
  for (Layout l : stages(2, 1, "per_step")) {
    if (l.stage == 3) continue;
    l.bucket_bytes = 4096;
    expect_exact(Problem(), l);
  }
}

TEST(Ledger, HybridShardsSendInsideAndAcross) {
  for (const char* reduce : {"per_step", "per_micro_batch"})
    for (const char* type : {"fp32", "bf16"})
      for (Layout l : stages(2, 2, reduce)) {
        if (l.stage == 0) continue;
        l.dp_replicate = 2, l.gradient_type = type;
        expect_exact(Problem(), l);
      }
}

TEST(Ledger, ReshardChoicesTradeBytesForMemory) {
  Layout l;
  l.dp_shard = 4, l.stage = 3, l.accumulation = 2;
  for (const bool tied : {true, false}) {
    Problem p;
    p.tied = tied;
    l.reshard = "keep", l.reshard_group = 0;
    expect_exact(p, l);
    l.reshard = "group", l.reshard_group = 2;
    expect_exact(p, l);
  }
}

/// The exchanges inside a block have the papers' closed forms, for R rows (padded) and C columns. With DoRA,
/// two linears also sum squares of norms, once forward and twice backward.
TEST(Ledger, TensorParallelRanksExchangeWhatThePapersSay) {
  for (const char* precision : {"fp32", "bf16"})
    for (const bool sequence_parallel : {true, false})
      for (const auto& [tp, adapter] :
           {std::pair<int64_t, const char*>{2, ""}, {4, ""}, {2, R"({"rank": 2, "dora": true})"}}) {
        Problem p;
        p.precision = precision, p.sequence = 13, p.adapter = adapter;
        Layout l;
        l.tp = tp, l.tp_chunks = tp == 4 ? 3 : 1, l.sequence_parallel = sequence_parallel;
        l.dp_shard = 2, l.stage = 2, l.accumulation = 2;
        SCOPED_TRACE(l.name() + " " + precision);
        LayoutRun run(p, l);
        const int64_t all = p.micro_batch * p.sequence, narrow = std::string(precision) == "bf16" ? 2 : 4;
        const int64_t rows = sequence_parallel ? (all + tp - 1) / tp * tp : all;
        const int64_t part = (rows * 24 + tp - 1) / tp * (tp - 1);  // (t-1)/t of R C elements
        const int64_t norms = p.adapter.empty() ? 0 : (24 + tp - 1) / tp * (tp - 1) * 2 * 2 * 4;
        int64_t planned = 0;
        for (const plan::Instruction& n : run.trainer().ranks().first().plans().train.instructions) {
          const bool inside =
              n.op == plan::Op::kForward || n.op == plan::Op::kLoss || n.op == plan::Op::kBackward;
          if (inside) planned += n.sent_bytes;
          if (n.block < 1 || n.block > 2) continue;
          // Sums are f32; gathered rows have the type of the products.
          const int64_t passes = n.op == plan::Op::kForward ? 1 : 2;
          if (n.op == plan::Op::kForward || n.op == plan::Op::kBackward) {
            EXPECT_EQ(n.sent_bytes,
                      (sequence_parallel ? 2 * part * (4 + passes * narrow) : 4 * part * 4) + passes * norms);
          }
        }
        run.step();
        const Json inside = Json::parse(run.trainer().metrics().json())["communication"]["tp"];
        int64_t sent = 0;
        for (const auto& [operation, entry] : inside.items()) sent += entry["bytes"].get<int64_t>();
        EXPECT_EQ(sent, planned) << inside;
      }
}

/// The closed forms that a plan prints for exchanges inside blocks give the bytes of these exchanges.
TEST(Ledger, ThePlanPrintsTheFormsOfItsExchanges) {
  for (const char* precision : {"fp32", "bf16"})
    for (const bool like_gpt2 : {true, false})
      for (const std::string trains : {"all", "some", R"({"rank": 2, "dora": true})"})
        for (const bool sequence_parallel : {true, false})
          for (const auto& [tp, cp, mode] : {std::tuple<int64_t, int64_t, const char*>{2, 1, "ring"},
                                             {4, 1, "ring"},
                                             {1, 2, "ring"},
                                             {1, 4, "ulysses"},
                                             {2, 2, "gather"},
                                             {2, 2, "ulysses"}}) {
            Problem p;
            p.precision = precision, p.like_gpt2 = like_gpt2, p.frozen = trains == "some", p.sequence = 13;
            if (trains[0] == '{') p.adapter = trains;
            Layout l;
            l.tp = tp, l.cp = cp, l.cp_mode = mode, l.accumulation = 3,
            l.sequence_parallel = sequence_parallel;
            SCOPED_TRACE(l.name() + " " + precision);
            const Json report =
                Json::parse(train::plan_report(config::ConfigTree::from_json(layout_config(p, l)), true));
            int exchanged = 0;
            for (const Json& row : report.at("traffic"))
              if (row.at("op") == "FORWARD" || row.at("op") == "BACKWARD" || row.at("op") == "LOSS") {
                EXPECT_TRUE(row.at("closed_form").is_string()) << row;
                ++exchanged;
              }
            EXPECT_EQ(exchanged, tp > 1 ? 3 : 2);
            EXPECT_EQ(wrong_formulas(layout_config(p, l)), "");
          }
}

/// Each rank has R rows. With ring and gather, forward sends keys and values for all other ranks; backward
/// sends these and their gradients in f32. With ulysses, each pass sends a share of queries, keys, values
/// and outputs.
TEST(Ledger, ContextParallelRanksExchangeWhatThePapersSay) {
  for (const char* precision : {"fp32", "bf16"})
    for (const char* mode : {"ring", "gather", "ulysses"})
      for (const int64_t cp : {2, 4}) {
        Problem p;
        p.precision = precision, p.sequence = 13;
        Layout l;
        l.cp = cp, l.cp_mode = mode, l.dp_shard = 2, l.stage = 2, l.accumulation = 2;
        SCOPED_TRACE(l.name() + " " + precision);
        LayoutRun run(p, l);
        const int64_t rows = p.micro_batch * 2 * ((p.sequence + 2 * cp - 1) / (2 * cp));
        const int64_t narrow = std::string(precision) == "bf16" ? 2 : 4, head_dim = 6;
        const int64_t travels = 2 * (cp - 1) * rows * p.kv_heads * head_dim;
        const int64_t changes = 2 * (cp - 1) * rows * (p.heads + std::max(p.kv_heads, cp)) / cp * head_dim;
        const bool ulysses = std::string(mode) == "ulysses";
        int64_t planned = 0;
        for (const plan::Instruction& n : run.trainer().ranks().first().plans().train.instructions) {
          if (n.block < 1 || n.block > 2) continue;
          if (n.op == plan::Op::kForward) {
            EXPECT_EQ(n.sent_bytes, ulysses ? changes * narrow : travels * narrow);
            planned += n.sent_bytes;
          } else if (n.op == plan::Op::kBackward) {
            EXPECT_EQ(n.sent_bytes, ulysses ? changes * narrow : travels * (narrow + 4));
            planned += n.sent_bytes;
          }
        }
        run.step();
        const Json inside = Json::parse(run.trainer().metrics().json())["communication"]["cp"];
        int64_t sent = 0;
        for (const auto& [operation, entry] : inside.items()) sent += entry["bytes"].get<int64_t>();
        EXPECT_EQ(sent, planned) << inside;
      }
}

TEST(Ledger, OneRankSendsNothing) {
  LayoutRun run(Problem{}, Layout{});
  run.step();
  const Json metrics = Json::parse(run.trainer().metrics().json());
  EXPECT_EQ(metrics["communication"], Json::object());
  EXPECT_EQ(metrics["communication_bytes"], 0);
  EXPECT_EQ(metrics["communication_total"], Json::object());
}

}  // namespace ledger_test
}  // namespace hawser::testing
