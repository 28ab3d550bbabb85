#include "engine/report/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "engine/assembly/assemble.h"
#include "engine/assembly/engine_plans.h"
#include "engine/assembly/memory_check.h"
#include "engine/assembly/precision.h"
#include "engine/base/json.h"
#include "engine/config/tree.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/execute/executor.h"
#include "engine/parallel/pipeline/schedule.h"
#include "engine/plan/step_work.h"
#include "engine/plan/timeline.h"
#include "engine/ranks/choose_transport.h"
#include "engine/ranks/machine.h"
#include "engine/report/expert_summary.h"
#include "engine/report/fit_here.h"
#include "engine/report/kernel_calls_report.h"
#include "engine/report/latent_summary.h"
#include "engine/report/offload_report.h"
#include "engine/report/pair_summary.h"
#include "engine/report/pipeline_report.h"
#include "engine/report/plan_traffic.h"
#include "engine/report/precision_summary.h"
#include "engine/report/ramp_summary.h"
#include "engine/report/stage_choices.h"
#include "kernels/include/levels.h"

namespace hawser::train {
namespace {

/// The state that the dp_shard ranks divide among them.
const char* sharded_state(int64_t stage) {
  constexpr const char* kShared[] = {"nothing", "optimizer state", "optimizer state and gradients",
                                     "optimizer state, gradients and parameters"};
  return kShared[stage];
}

/// "data parallel" or "ZeRO-2" and the like.
std::string strategy_name(const parallel::DataParallelStrategy& strategy) {
  if (!strategy.many()) return "serial";
  return strategy.stage == 0 ? "data parallel" : fmt::format("ZeRO-{}", strategy.stage);
}

class PlanReport {
 public:
  explicit PlanReport(const config::ConfigTree& config)
      : a_(assemble(config)),
        device_(choose_device(a_.config.device)),
        model_(model_of(a_.config, device_.tile_rows())),
        kernels_(choose_kernels(a_.config)),
        threads_(choose_threads(a_.config, static_cast<int32_t>(a_.config.mesh.world()))),
        transport_(predict_transport(device_, a_.config)),
        target_(target_of(device_, transport_.peers, a_.config, kernels_, threads_, &machine_)),
        strategies_(strategies_of(a_.config)),
        stages_(make_stage_plans(model_, a_.config, target_, false)),
        plans_(stages_.front()),
        save_copy_(save_copy_bytes(layout(), model_.table(), a_.config, true)),
        own_save_copy_(
            save_copy_bytes(layout(), model_.table(), a_.config, a_.config.checkpoint.reserves_async())) {
    if (a_.config.mesh.world() == 1) return;
    traffic_ = traffic_of(plans_, layout(), model_, a_.config);
    if (plans_.strategy.many()) compare_stages();
  }

  std::string json() const;
  std::string text() const;

 private:
  int64_t step_graphs() const;
  const char* graphs_cut() const;
  std::vector<const plan::Plan*> answering_plans() const {
    std::vector<const plan::Plan*> plans{&plans_.eval, &plans_.logits, &plans_.generate};
    if (stages_.size() > 1) plans.push_back(&plans_.eval_pipeline);
    return plans;
  }
  /// Returns the layout of rank 0.
  parallel::ShardLayout layout() const {
    return {model_.table(), layout_options(a_.config, strategies_, plans_.strategy, 0, false)};
  }
  std::vector<parallel::Moves> moves() const { return moves_in_step(plans_, layout(), model_, a_.config); }
  void compare_stages();
  void add_choice(int64_t stage, parallel::ReducePolicy reduce);
  std::string strategy_words() const;
  std::string traffic_text() const;
  std::string save_copy_text() const;
  /// Host memory of a rank with this config, in the pipeline stage that needs most.
  int64_t on_host() const {
    int64_t most = 0;
    for (const EnginePlans& plans : stages_)
      most = std::max(most, (target_.in_place ? plans.arena_bytes : 0) +
                                host_bytes(plans.pinned, own_save_copy_, a_.config, target_));
    return most;
  }
  /// Host memory that a rank's transport needs in addition, if ranks are processes.
  int64_t process_bytes() const {
    const int64_t ranks = a_.config.mesh.world();
    return ranks > 1 ? comm::process_transport_bytes(static_cast<int32_t>(ranks)) : 0;
  }
  FitHere fit() const {
    int64_t most = 0;
    for (const EnginePlans& plans : stages_) most = std::max(most, plans.device_bytes());
    return {{most, on_host(), target_.in_place},
            static_cast<int32_t>(a_.config.mesh.world()),
            device_,
            machine_.get()};
  }
  OrderedJson strategy_json() const;
  void add_ranks(OrderedJson* report) const;

  Assembly a_;
  DeviceChoice device_;
  nn::Model model_;
  const kernels::KernelTable& kernels_;
  int32_t threads_;  // threads of each rank
  std::unique_ptr<Machine> machine_;
  TransportChoice transport_;
  Target target_;
  const parallel::Strategies strategies_;
  std::vector<EnginePlans> stages_;  // the pipeline's stages
  const EnginePlans& plans_;         // the first stage's
  // Bytes that rank 0 copies for an asynchronous save, and for the saves that the config asks for. Other
  // ranks need about as much.
  int64_t save_copy_, own_save_copy_;
  std::vector<TrafficRow> traffic_;
  std::vector<StageChoice> choices_;
};

/// Adds nothing if the config's rules refuse the combination, such as `reduce` per_micro_batch with
/// `sum_order` tree.
void PlanReport::add_choice(int64_t stage, parallel::ReducePolicy reduce) {
  const config::ResolvedConfig& own = a_.config;
  const bool chosen = own.zero.stage == stage && own.zero.reduce == reduce;
  std::optional<config::ResolvedConfig> other =
      chosen ? own : config::resolve_with(a_.tree, config::zero_settings(own, stage, reduce));
  if (!other) return;
  const bool records = other->model.int8_linears;
  other->model = own.model;  // files know more of it than the tree
  other->model.int8_linears = records;
  const auto plan_of = [&](const nn::Model& model) {
    return make_plans(model, *other, target_, false).train;
  };
  const bool alike = records == own.model.int8_linears;  // this stage stores the linears in the same way
  const plan::Plan plan = alike ? plan_of(model_) : plan_of(model_of(*other, device_.tile_rows()));
  choices_.push_back({stage, reduce, chosen, plan.at_peak, plan.peak_bytes, sent_bytes(plan)});
}

void PlanReport::compare_stages() {
  using parallel::ReducePolicy;
  const bool accumulates = a_.config.batch.grad_accum_steps > 1;
  for (int64_t stage = 0; stage <= 3; ++stage) {
    if (accumulates) {
      add_choice(stage, ReducePolicy::kPerStep);
      add_choice(stage, ReducePolicy::kPerMicroBatch);
    } else {
      add_choice(stage, a_.config.zero.reduce);
    }
  }
}

std::string PlanReport::strategy_words() const {
  const parallel::DataParallelStrategy& d = plans_.strategy;
  if (a_.config.mesh.world() == 1) return "1 rank\n\n";
  std::string text = fmt::format("{} ranks ({})", a_.config.mesh.world(), degrees_text(a_.config.mesh));
  text += strategies_.words();
  if (!d.many())
    return text + (stages_.size() > 1 ? ". All ranks of a stage have the same plan.\n\n"
                                      : ". What follows is per rank, the same on each.\n\n");
  text += fmt::format("{} {}: they share {}", strategies_.form().shares_rows ? ". Data parallelism is" : ",",
                      strategy_name(d), sharded_state(d.stage));
  if (d.stage > 0) text += fmt::format(", cut into {} shards", d.shards);
  if (d.replicas > 1) text += fmt::format(", each of them on {} ranks", d.replicas);
  text += fmt::format(
      ".\nGradients are summed over ranks {}",
      d.reduces_each(a_.config.batch.grad_accum_steps) ? "after each micro-batch" : "once a step");
  if (!d.tree && d.summed_first() < d.ranks())
    text += fmt::format(
        ", {} at a time and then these sums: the bits of plain data parallelism with /comm/sum_group {}",
        d.summed_first(), d.summed_first());
  return text + (stages_.size() > 1 ? ". All ranks of a stage have the same plan.\n\n"
                                    : ". What follows is per rank, the same on each.\n\n");
}

std::string PlanReport::traffic_text() const {
  const parallel::DataParallelStrategy& d = plans_.strategy;
  std::string text =
      fmt::format("traffic of one step: what each rank sends\n  {:<16} {:>9} {:>14}  {:>10}  {}\n",
                  "instruction", "number", "bytes", "", "closed form");
  for (const TrafficRow& row : traffic_)
    text += fmt::format("  {:<16} {:>9} {:>14}  {:>10}  {}\n", plan::op_name(row.op), row.instructions,
                        row.bytes, plan::bytes_text(row.bytes), row.formula.empty() ? "-" : row.formula);
  const int64_t total = sent_bytes(plans_.train);
  text += fmt::format("  {:<16} {:>9} {:>14}  {:>10}\n", "total", "", total, plan::bytes_text(total));
  text += fmt::format("  N = {} ranks share a copy", d.shards);
  if (d.replicas > 1) text += fmt::format(", R = {} hold the same shard", d.replicas);
  if (const int64_t experts = strategies_.form().expert_round.ranks; experts > 1)
    text += fmt::format(", M = {} of the same experts, p = {} divide experts (in balance)", d.expert_shards,
                        experts);
  const parallel::ShardLayout here = layout();
  for (const parallel::ModelSum& sum : here.model_sums())
    text += fmt::format(", {} = {} tensor-parallel ranks have parts of the same {}",
                        sum.op == plan::Op::kReduceTp ? "t" : "k", sum.ranks,
                        sum.op == plan::Op::kReduceTp ? "gradients" : "key/value heads' gradients");
  if (d.reshard == parallel::ReshardAfterForward::kGroup)
    text += fmt::format(", S = {} gather for the backward", d.reshard_group);
  return text + fmt::format(
                    ", A = {} micro-batches. Φ: bytes as they travel, padding included: g gradients, s their "
                    "sums, w "
                    "weights\n  (e of the embedding, b of the blocks, h of the head)\n\n",
                    a_.config.batch.grad_accum_steps);
}

OrderedJson PlanReport::strategy_json() const {
  const parallel::DataParallelStrategy& d = plans_.strategy;
  return {{"name", strategy_name(d)},
          {"stage", d.stage},
          {"dp_replicate", a_.config.mesh.dp_replicate},
          {"dp_shard", a_.config.mesh.dp_shard},
          {"shared", sharded_state(d.stage)},
          {"reduce", config::name_at("/zero/reduce", a_.config.zero.reduce)}};
}

/// Adds the traffic of one rank, and memory and traffic under every ZeRO stage.
void PlanReport::add_ranks(OrderedJson* report) const {
  OrderedJson& json = *report;
  json["sent_bytes"] = sent_bytes(plans_.train);
  for (const TrafficRow& row : traffic_)
    json["traffic"].push_back(
        {{"op", plan::op_name(row.op)},
         {"instructions", row.instructions},
         {"bytes", row.bytes},
         {"closed_form", row.formula.empty() ? OrderedJson() : OrderedJson(row.formula)}});
  for (const StageChoice& c : choices_) json["stages"].push_back(stage_json(c));
}

/// Graph launches per step, in place of single launches; 0 if there are none (StepGraphs).
int64_t PlanReport::step_graphs() const {
  const bool captures = plans_.train.no_graphs == plan::NoGraphs::kNone && !a_.config.data.packing;
  return captures ? std::ssize(plans_.train.segments) : 0;
}

/// Describes where graphs end, except where the host takes part in every plan; "" if nowhere.
const char* PlanReport::graphs_cut() const {
  const bool cut = std::any_of(plans_.train.instructions.begin(), plans_.train.instructions.end(),
                               [](const plan::Instruction& n) { return n.host; });
  return cut && step_graphs() > 0
             ? "around blocks with experts, because the host counts the rows that ranks send there"
             : "";
}

std::string PlanReport::save_copy_text() const {
  std::string when = "from the start (checkpoint.async)";
  if (!a_.config.checkpoint.reserves_async()) {
    when = "from the first asynchronous save on (hws_checkpoint_save_async)";
    if (!target_.in_place) when += fmt::format("; {} while any other checkpoint is saved", own_save_copy_);
  }
  return fmt::format("save copy       {:>14} bytes outside the arena, {}\n", save_copy_, when);
}

std::string PlanReport::json() const {
  OrderedJson report = parse_json<OrderedJson>(plan::plan_json(plans_.train));
  for (const KernelCalls& calls : plan::step_work(plans_.train))
    report["work"].push_back(kernel_calls_json(calls));
  report["total_bytes"] = plans_.arena_bytes;
  report["save_copy_bytes"] = save_copy_;
  report["host_staging_bytes"] = plans_.pinned.bytes();
  report["host_bytes"] = on_host();
  if (OrderedJson offload = offload_json(plans_, moves()); !offload.is_null())
    report["offload"] = std::move(offload);
  report["device_transport_bytes"] = plans_.device_transport_bytes;
  report["transport_bytes"] = process_bytes();
  if (!transport_.reason.empty()) report["device_transport"] = transport_.reason;
  report["step_graphs"] = step_graphs();
  if (const char* const cut = graphs_cut(); *cut != '\0') report["graphs_cut"] = cut;
  if (OrderedJson ramp = ramp_json(a_.config.batch, stages_); !ramp.is_null())
    report["ramp"] = std::move(ramp);
  report["device"] = kind_name(device_.kind);
  report["parameters"] = model_.table().count();
  report["active_parameters"] = model_.active_parameters();
  report["flops_per_token"] = model_.flops_per_token(a_.config.batch.sequence);
  report["hugging_face"] = hugging_face_form(a_);
  report["fits"] = fit().json();
  report["ranks"] = a_.config.mesh.world();
  report["strategy"] = strategy_json();
  report["types"] = precision_summary(a_.config, plans_.strategy);
  report["threads"] = threads_;
  report["cpu_level"] = kernels_.name;
  for (const plan::Plan* p : answering_plans()) report["plans"][p->name] = p->peak_bytes;
  if (a_.config.mesh.world() > 1) add_ranks(&report);
  if (stages_.size() > 1) report["pipeline"] = pipeline_json(stages_);
  return report.dump();
}

std::string PlanReport::text() const {
  const bool many = a_.config.mesh.world() > 1;
  std::string text = strategy_words();
  if (stages_.size() > 1) text += pipeline_text(stages_) + "What follows is of the first stage.\n\n";
  text += plan::format_instructions(plans_.train) + "\n" + plan::format_memory(plans_.train) + "\n";
  text += work_text(plan::step_work(plans_.train)) + "\n";
  if (many) text += traffic_text() + stages_text(choices_);
  for (const plan::Plan* p : answering_plans())
    text += fmt::format("plan {:<10} {:>14} bytes\n", p->name, p->peak_bytes);
  text += fmt::format("arena           {:>14} bytes (the largest plan){}\n", plans_.arena_bytes,
                      many ? " on each rank" : "");
  if (plans_.pinned.bytes() > 0)
    text += fmt::format(
        "host staging    {:>14} bytes of pinned memory: {} for a step, {} for transfers, {} for messages "
        "between "
        "stages{}\n",
        plans_.pinned.bytes(), plans_.pinned.step, plans_.pinned.transfers,
        plans_.pinned.bytes() - plans_.pinned.offload - plans_.pinned.before_messages(plan::Lane::kCompute),
        plans_.pinned.offload > 0 ? fmt::format(", {} for /offload", plans_.pinned.offload) : "");
  text += offload_text(plans_, moves(), a_.config.offload.folder);
  if (plans_.device_transport_bytes > 0)
    text += fmt::format("device staging  {:>14} bytes beside the arena: sums over ranks\n",
                        plans_.device_transport_bytes);
  if (many)
    text += fmt::format(
        "transport       {:>14} bytes of the host on each rank that is a process (TCP, the host's own); "
        "threads "
        "need none\n",
        process_bytes());
  if (!transport_.reason.empty()) text += "transfers       " + transport_.reason + "\n";
  if (const int64_t graphs = step_graphs(); graphs > 0)
    text += fmt::format("graphs          {:>14} a step, of the device, from the second step on\n", graphs);
  if (const char* const cut = graphs_cut(); *cut != '\0') text += fmt::format("graphs are cut  {}\n", cut);
  text += save_copy_text();
  text += fmt::format("host            {:>14} bytes in all\n", on_host());
  text += fmt::format("fits here       {}\nhugging face    {}\n\n", fit().text(), hugging_face_form(a_));
  text += fmt::format("parameters      {:>14}\n", model_.table().count());
  text += expert_summary(model_, a_.config);
  text += latent_summary(model_.local(), strategies_.dry_exchanges(0).columns(), compute_type(a_.config));
  text += pair_summary(a_.config, stages_);
  text += ramp_text(a_.config.batch, stages_);
  text += fmt::format("FLOPs per token {:>14.0f}\n", model_.flops_per_token(a_.config.batch.sequence));
  text += "types           " + precision_summary(a_.config, plans_.strategy) + "\n";
  text += fmt::format("on {} threads{} of {}, kernels {}\n", threads_, many ? " per rank" : "",
                      kernels::cpu_name(), kernels_.name);
  return text;
}

}  // namespace

std::string plan_report(const config::ConfigTree& config, bool json) {
  const PlanReport report(config);
  return json ? report.json() : report.text();
}

}  // namespace hawser::train
