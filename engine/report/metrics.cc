#include "engine/report/metrics.h"

#include <cmath>

#include "engine/base/json.h"
#include "engine/report/expert_loads.h"

namespace hawser::train {
namespace {

OrderedJson rewards_json(const optim::PairRewards& r) {
  OrderedJson json;
  json["chosen_reward"] = finite_or_null(r.chosen);
  json["rejected_reward"] = finite_or_null(r.rejected);
  json["margin"] = finite_or_null(r.chosen - r.rejected);
  json["accuracy"] = r.accuracy;
  return json;
}

}  // namespace

void Metrics::take(const StepResult& result) {
  const std::lock_guard lock(mutex_);
  last_ = result;
  last_sent_ = traffic_.step();
  const int64_t* const tallies = ranks_.first().executor().tallies();
  last_tallies_.assign(tallies, tallies + nn::all_tally_words(ranks_.config().model));
}

std::string Metrics::json() const {
  StepResult r;
  StepTraffic::Totals traffic;
  std::vector<int64_t> tallies;
  {
    const std::lock_guard lock(mutex_);
    r = last_;
    traffic = last_sent_;
    tallies = last_tallies_;
  }
  constexpr const char* kOutcomes[] = {"accepted", "skipped_non_finite", "skipped_outlier", "discarded",
                                       "pending",  "skipped_overflow",   "rewound"};
  const StepTraffic::Totals total = traffic_.total();
  const BackgroundSaver::Failures failures = saver_.failures();
  const EventLog::Failures event_failures = events_.failures();
  OrderedJson json = {{"step", r.step},
                      {"outcome", kOutcomes[static_cast<size_t>(r.outcome)]},
                      {"loss", finite_or_null(r.loss)},
                      {"grad_norm", finite_or_null(r.grad_norm)},
                      {"learning_rate", r.learning_rate},
                      {"tokens", r.tokens},
                      {"samples", r.samples},
                      {"skipped", r.skipped},
                      {"validation_losses", validations_.json()},
                      {"ended_early", validations_.ended_early()},
                      {"saving", saver_.running()},
                      {"save_failures", failures.count},
                      {"save_error", failures.last},
                      {"event_failures", event_failures.count},
                      {"event_error", event_failures.last},
                      {"seconds", r.seconds},
                      {"arena_bytes", ranks_.first().plans().arena_bytes},
                      {"rank", ranks_.first().number()},
                      {"communication", traffic_.json(traffic)},
                      {"communication_bytes", sum(traffic).bytes},
                      {"communication_wire_bytes", sum(traffic).wire_bytes},
                      {"communication_total", traffic_.json(total)},
                      {"communication_total_bytes", sum(total).bytes},
                      {"communication_total_wire_bytes", sum(total).wire_bytes}};
  const config::ResolvedConfig& config = ranks_.config();
  const config::BatchConfig& batch = config.batch;
  const int64_t calls = r.rows / batch.micro_batch * ranks_.strategies().ranks_of_row();
  const OrderedJson experts = expert_loads(config.model, tallies, {r.rows, batch.sequence, calls});
  if (!experts.is_null()) json["experts"] = experts;
  for (int64_t d = 0; d < config.model.ahead; ++d)
    json["ahead_losses"].push_back(finite_or_null(r.ahead_losses[static_cast<size_t>(d)]));
  if (config.precision == config::Precision::kFp16) json["loss_scale"] = r.loss_scale;
  if (config.objective.has_rewards()) json["preferences"] = rewards_json(r.rewards);
  if (config.optimizer.qk_clip)
    json["attention_scores"] = {{"largest", finite_or_null(r.scores.largest)},
                                {"heads_above_limit", r.scores.heads_above}};
  if (const auto rewards = validations_.rewards()) json["validation_preferences"] = rewards_json(*rewards);
  return json.dump();
}

}  // namespace hawser::train
