#include "engine/report/reports.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/assembly/memory_check.h"
#include "engine/base/json.h"
#include "engine/config/tree.h"
#include "engine/nn/model.h"
#include "engine/plan/segments.h"

namespace hawser::train {
namespace {

/// NaN and infinity become null, because JSON has neither.
OrderedJson memory_json(const EnginePlans& plans, const Executor& executor) {
  const plan::Plan& plan = plans.train.instructions.empty() ? plans.eval : plans.train;
  OrderedJson json;
  for (size_t c = 0; c < plan.at_peak.size(); ++c)
    json["planned"][plan::category_name(static_cast<plan::Category>(c))] = plan.at_peak[c];
  for (size_t c = 0; c < plan.at_peak.size(); ++c)
    json["high_water"][plan::category_name(static_cast<plan::Category>(c))] =
        executor.slots().live_at_peak()[c];
  json["planned_bytes"] = plan.peak_bytes;
  json["high_water_bytes"] = executor.slots().high_water();
  json["arena_bytes"] = plans.arena_bytes;
  return json;
}

/// Adds the graphs of all local ranks. Adds nothing if the device cannot capture or the config wants none.
void add_graphs(OrderedJson* info, const Ranks& ranks) {
  const plan::NoGraphs why = ranks.first().plans().any().no_graphs;
  if (why == plan::NoGraphs::kOff) return;
  StepGraphs::Counts sum;
  std::string without = why == plan::NoGraphs::kNone ? "" : no_graphs_because(plan::reason(why));
  for (int32_t i = 0; i < ranks.here(); ++i) {
    const StepGraphs& graphs = ranks.at(i).executor().graphs();
    sum.captured += graphs.counts().captured, sum.launched += graphs.counts().launched;
    if (without.empty()) without = graphs.without();
  }
  (*info)["graphs"] = {{"captured", sum.captured}, {"launched", sum.launched}};
  if (!without.empty()) (*info)["graphs_without"] = without;
}

/// Adds the connections of this process's rank to ranks that are other processes. The host program's own
/// transport does not report its connections.
void add_connections(OrderedJson* info, const Ranks& ranks) {
  const comm::RankComm* const comm = ranks.first().comm();
  if (comm == nullptr || ranks.all_local()) return;
  const comm::Connections connections = comm->connections();
  if (connections.shared + connections.sockets == 0) return;
  (*info)["connections"] = {{"shared_memory", connections.shared}, {"sockets", connections.sockets}};
  if (!connections.not_shared.empty()) (*info)["shared_memory_without"] = connections.not_shared;
}

/// Adds the links between devices of this process's ranks, and how many of them registered the ranks' memory.
void add_peer_links(OrderedJson* info, const Ranks& ranks) {
  comm::RegisteredLinks sum;
  for (int32_t i = 0; i < ranks.here(); ++i) {
    const comm::RegisteredLinks own = ranks.at(i).peer_links();
    sum.links += own.links, sum.registered += own.registered;
    if (sum.without.empty()) sum.without = own.without;
  }
  if (sum.links == 0) return;
  (*info)["peer_links"] = {{"links", sum.links}, {"registered", sum.registered}};
  if (!sum.without.empty()) (*info)["registered_without"] = sum.without;
}

/// Splits a line into fields, or a text into lines.
std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find(at, from), text.size());
    parts.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

/// Lists the chosen algorithms, so that two runs can be compared.
OrderedJson choices_json(const Choices& choices) {
  const std::vector<std::string> lines = split(choices.text, '\n');
  OrderedJson products = OrderedJson::array();
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = split(lines[i], ';');
    products.push_back(
        {{"product", fields.at(0)}, {"algorithm", fields.at(1)}, {"nanoseconds", std::stoll(fields.at(2))}});
  }
  OrderedJson json;
  json["by"] = lines.at(0);
  if (!choices.mismatch.empty()) json["apart"] = choices.mismatch;
  json["products"] = std::move(products);
  return json;
}

/// True if the run keeps the learning rates of an older version.
bool has_older_decay(const RunState& state, const optim::ScheduleConfig& schedule) {
  return state.decay == optim::DecayProgress::kWithStep && optim::has_decay(schedule);
}

}  // namespace

std::string Reports::info_json() const {
  OrderedJson json;
  json["model"] = parse_json<OrderedJson>(ranks_.assembly().model_json);
  json["parameters"] = ranks_.model().table().count();
  json["active_parameters"] = ranks_.model().active_parameters();
  json["matmul_parameters"] = ranks_.model().matmul_parameters();
  json["flops_per_token"] = ranks_.model().flops_per_token(ranks_.config().batch.sequence);
  json["precision"] = config::name_at("/precision", ranks_.config().precision);
  json["device"] = kind_name(ranks_.device().kind);
  if (ranks_.device().plugin) json["device_name"] = ranks_.first().link().device().info().name;
  if (*ranks_.first().link().device().info().without != '\0')
    json["device_without"] = ranks_.first().link().device().info().without;
  if (!ranks_.device().reason.empty()) json["device_reason"] = ranks_.device().reason;
  if (!ranks_.transport().reason.empty()) json["device_transport"] = ranks_.transport().reason;
  add_peer_links(&json, ranks_);
  add_graphs(&json, ranks_);
  if (!ranks_.choices().text.empty()) json["choices"] = choices_json(ranks_.choices());
  json["cpu_level"] = ranks_.kernels().name;
  json["threads"] = ranks_.threads();
  json["ranks"] = ranks_.world();
  json["trainable_parameters"] = ranks_.model().table().trainable_count();
  json["inference"] = ranks_.inference();
  json["step"] = progress_.state.step;
  json["accepted_steps"] = progress_.state.accepted;
  json["skipped_steps"] = progress_.state.skipped;
  json["samples"] = progress_.state.samples;
  json["total_steps"] = ranks_.config().train.steps;
  if (has_older_decay(progress_.state, ranks_.config().schedule)) json["older_decay"] = true;
  json["best_validation_loss"] = finite_or_null(progress_.state.best_validation_loss);
  json["global_batch"] = ranks_.config().batch.global_batch;
  json["step_rows"] = ranks_.config().batch.rows_after(progress_.state.samples);
  json["sequence"] = ranks_.config().batch.sequence;
  json["vocabulary"] = parse_json<OrderedJson>(ranks_.assembly().vocabulary.to_json());
  if (ranks_.assembly().tokens) json["tokenizer"] = ranks_.assembly().tokens->digest();
  if (ranks_.assembly().new_head) json["new_head"] = true;
  json["hugging_face"] = hugging_face_form(ranks_.assembly());
  json["memory"] = memory_json(ranks_.first().plans(), ranks_.first().executor());
  json["memory"]["host_staging_bytes"] = ranks_.first().plans().pinned.bytes();
  json["memory"]["device_transport_bytes"] = ranks_.first().plans().device_transport_bytes;
  json["memory"]["transport_bytes"] = ranks_.target().transport_bytes;
  add_connections(&json, ranks_);
  json["memory"]["save_copy_bytes"] =
      save_copy_bytes(ranks_.first().layout(), ranks_.model().table(), ranks_.config(), true);
  json["memory"]["copies_taken_bytes"] = saves_.copies_taken_bytes();
  return json.dump();
}

std::string Reports::data_json() const {
  OrderedJson json;
  json["cursor"] = progress_.state.samples;
  json["vocabulary"] = parse_json<OrderedJson>(ranks_.assembly().vocabulary.to_json());
  if (dataset_) {
    json["train_tokens"] = dataset_->train_tokens();
    json["validation_tokens"] = dataset_->validation_tokens();
    json["validation_samples"] = dataset_->validation_samples();
    json["fingerprint"] = parse_json<OrderedJson>(dataset_->fingerprint());
    if (!references_.identity.empty()) {
      OrderedJson& references = json["references"];
      references["rows"] = dataset_->references().size();
      references["read"] = references_.read;
      references["seconds"] = references_.seconds;
    }
    if (!teacher_.identity.empty())
      json["teacher"] = {{"rows", dataset_->train_samples()},
                         {"targets", dataset_->teacher().begins.back()},
                         {"read", teacher_.read},
                         {"seconds", teacher_.seconds}};
  }
  return json.dump();
}

}  // namespace hawser::train
