#include "engine/proof/serial_replay.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "engine/assembly/assemble.h"
#include "engine/assembly/precision.h"
#include "engine/base/json.h"
#include "engine/execute/ahead_rows.h"
#include "engine/execute/batch_sources.h"
#include "engine/nn/initial_values.h"
#include "engine/optim/loss_scale.h"
#include "engine/optim/lr_schedule.h"
#include "engine/proof/f64_gradients.h"
#include "engine/proof/margin.h"
#include "engine/proof/permuted_model.h"
#include "engine/ranks/rank.h"
#include "engine/state/durable_state.h"
#include "engine/state/initial_magnitudes.h"
#include "engine/state/nf4_weights.h"

namespace hawser::train {
namespace {

const std::vector<int64_t> kOneMicroBatch = {1};

/// Returns the config of the same model on one rank. `sizes`: the micro-batches of its steps, ascending.
config::ConfigTree alone(const config::ConfigTree& config, const std::vector<int64_t>& sizes) {
  OrderedJson json = parse_json<OrderedJson>(config.to_json());
  json["mesh"] = OrderedJson::object();
  json.erase("pipeline");
  const OrderedJson zero = json.value("zero", OrderedJson::object());
  json["zero"] = OrderedJson::object();
  if (zero.value("sum_order", std::string()) == "tree") json["zero"]["sum_order"] = "tree";
  json.erase("comm");
  if (json.contains("moe")) json["moe"].erase("rows_factor");  // one rank has all experts
  OrderedJson& batch = json["batch"];
  batch["grad_accum_steps"] = sizes.back();
  for (const char* key : {"global_batch", "ramp"}) batch.erase(key);
  if (sizes.size() > 1)
    for (size_t i = 0; i < sizes.size(); ++i)
      batch["ramp"].push_back(
          {{"from_rows", i}, {"global_batch", sizes[i] * batch.at("micro_batch").get<int64_t>()}});
  return config::ConfigTree::from_json(json.dump());
}

/// Removes what depends on the order of heads and features, which a twin changes: dropout, and NF4 (the base
/// becomes plain numbers), whose blocks are runs of neighbours.
config::ConfigTree without_order(const config::ConfigTree& config) {
  OrderedJson json = parse_json<OrderedJson>(config.to_json());
  json["model"].erase("dropout");
  if (json.contains("adapter")) json["adapter"].erase("dropout"), json["adapter"].erase("base");
  for (const char* site : {"embedding", "attention", "residual"}) json["model"]["dropout"][site] = 0;
  return config::ConfigTree::from_json(json.dump());
}

/// Number of unmasked targets in `rows` rows.
int64_t count_targets(const BatchView& batch, int64_t first_row, int64_t rows) {
  const int32_t* const begin = batch.targets + first_row * batch.cols;
  return rows * batch.cols - std::count(begin, begin + rows * batch.cols, -100);
}

}  // namespace

/// A serial rank that computes the gradients of given rows.
class SerialReplay::Player {
 public:
  Player(const config::ConfigTree& config, const std::vector<int64_t>& sizes)
      : assembly_(assemble(alone(config, sizes))),
        config_(assembly_.config),
        device_(choose_device(config_.device)),
        model_(config_.model, config_.init.scale_residual, optim::trained_parts(config_.optimizer), 1,
               config_.moe, 1, device_.tile_rows()),
        machine_(device_, config_, choose_kernels(config_), 1, 0, false),
        plans_(make_stage_plans(model_, config_, machine_.target(), false)),
        strategies_(strategies_of(config_)),
        shared_{model_, config_, plans_, strategies_, false},
        rank_(shared_, 0, nullptr, &machine_),
        tallies_(static_cast<size_t>(nn::all_tally_words(config_.model))) {
    for (const nn::Parameter& p : model_.table().all()) {
      if (p.read == nn::Read::kNf4) continue;
      produce_values(
          link(), state(p.group).weights.from(p.offset), p.size, [&](float* values, int64_t from, int64_t n) {
            nn::fill_initial(values, p, from, from + n, config_.init.std, config_.seed, rank_.stream());
          });
    }
    draw_nf4(&rank_, model_.table(), config_);
    each_magnitude(model_.table(), [&](const nn::Parameter& p, const nn::Parameter& m) {
      std::vector<float> weights;
      read(p.name, &weights);
      weights = initial_magnitudes(p, std::move(weights), compute_type(config_));
      write_values(link(), state(m.group).weights.from(m.offset), weights.data(), m.size);
    });
    begin_averages(rank_, model_.table());
    rank_.executor().follow_fp8_maxima(fp8_history_.maxima());
    rank_.publish_weights();
  }

  /// Returns the gradients of one turn of `micro_batches`, without their loss scale. The turn's rows start at
  /// `row` of the global batch. Adds the turn's losses to `losses`. Gradients are divided by `tokens`, the
  /// targets of the global batch; the run starts with the count of those that it does not read.
  GroupGradients play(const BatchView& batch, int64_t row, int64_t micro_batches, uint64_t cursor,
                      int64_t tokens, ExactSum* losses) {
    BatchViewSource source(batch, row, cursor);
    Run run;
    run.batch = config_.batch.micro_batch, run.seq = config_.batch.sequence;
    run.training = true;
    run.step_rows = batch.rows;  // losses of routers are means over all rows of the step
    run.loss_scale = loss_scale_;
    run.documents = batch.document_begin != nullptr;
    run.weights = batch.weights != nullptr;
    run.source = &source;
    run.tokens = tokens - count_targets(batch, row, run.batch * micro_batches);
    for (int64_t d = 1; d <= config_.model.ahead; ++d)
      run.ahead_tokens[static_cast<size_t>(d - 1)] =
          count_ahead(batch, 0, batch.rows, d) - count_ahead(batch, row, run.batch * micro_batches, d);
    train_ = &plans_.front().train_of(micro_batches);
    rank_.executor().run(*train_, 0, train_->commit, &run);
    raise(&noted_, rank_.executor().fp8_maxima());
    raise(&scores_, rank_.executor().head_scores());
    losses->merge(run.losses);
    for (size_t i = 0; i < tallies_.size(); ++i) tallies_[i] += rank_.executor().tallies()[i];
    GroupGradients gradients;
    each_group([&](StateArray g, int64_t n) {
      gradients.emplace_back(static_cast<size_t>(n));
      read_values(link(), gradients.back().data(), g, n);
      for (float& value : gradients.back()) value *= static_cast<float>(1 / loss_scale_);
    });
    return gradients;
  }

  void step(const GroupGradients& sums, double grad_norm, int64_t number) {
    size_t i = 0;
    each_group([&](StateArray g, int64_t n) { write_values(link(), g, sums[i++].data(), n); });
    const double clip = config_.optimizer.clip_norm;
    const double factor = clip > 0 ? std::min(1.0, clip / (grad_norm + 1e-6)) : 1.0;
    const double rate = optim::learning_rate(config_.schedule, config_.optimizer.learning_rate, number);
    rank_.executor().set_scalars(optim::step_scalars(config_.optimizer, rate, factor, number));
    rank_.executor().set_tallies(tallies_.data());
    rank_.executor().set_head_scores(scores_);
    fp8_history_.fold(noted_);
    forget_counts();
    Run run;
    rank_.executor().run(*train_, train_->commit, train_->instructions.size(), &run);
  }

  /// Returns what routers counted in turns since the counts were last cleared.
  const std::vector<int64_t>& tallies() const { return tallies_; }
  void forget_counts() {
    std::fill(tallies_.begin(), tallies_.end(), 0);
    std::fill(noted_.begin(), noted_.end(), 0.0f);
    std::fill(scores_.begin(), scores_.end(), 0.0f);
  }

  /// Sets the weights to those of the twin of `other`.
  void become_twin(const Player& other, const PermutedModel& twin) {
    follow_history(other);
    std::vector<float> weights, moved;
    for (const nn::Parameter& p : model_.table().all()) {
      moved.resize(static_cast<size_t>(p.size));
      other.read(p.name, &weights);
      for (int64_t i = 0; i < p.size; ++i)
        moved[static_cast<size_t>(twin.place(p, i))] = weights[static_cast<size_t>(i)];
      write_values(link(), state(p.group).weights.from(p.offset), moved.data(), p.size);
    }
    rank_.publish_weights();
  }

  /// Copies the weights of `other`, except those in NF4: they are frozen, and both began with the same ones.
  void follow(const Player& other) {
    follow_history(other);
    std::vector<float> weights;
    for (const nn::Parameter& p : model_.table().all()) {
      if (p.read == nn::Read::kNf4) continue;
      other.read(p.name, &weights);
      write_values(link(), state(p.group).weights.from(p.offset), weights.data(), p.size);
    }
    rank_.publish_weights();
  }

  void read(const std::string& name, std::vector<float>* weights) const {
    const nn::Parameter& p = model_.table().at(name);
    weights->resize(static_cast<size_t>(p.size));
    read_weights(rank_, p, {0, p.size, p.offset}, weights->data());
  }

  const nn::Model& model() const { return model_; }
  const GroupState& state(int32_t group) const { return rank_.executor().state(group); }
  const device::HostLink& link() const { return rank_.link(); }

 private:
  static void raise(std::vector<float>* to, const std::vector<float>& maxima) {
    to->resize(maxima.size());
    for (size_t i = 0; i < maxima.size(); ++i) (*to)[i] = std::max((*to)[i], maxima[i]);
  }

  /// Takes over the fp8 history of `other`: operands of a permuted model have the same largest magnitudes.
  void follow_history(const Player& other) {
    fp8_history_ = other.fp8_history_;
    rank_.executor().follow_fp8_maxima(fp8_history_.maxima());
  }

  template <typename Fn>
  void each_group(Fn fn) {
    const std::vector<nn::ParameterGroup>& groups = model_.table().groups();
    for (size_t g = 0; g < groups.size(); ++g)
      if (groups[g].trainable)
        fn(rank_.executor().gradients(*train_, static_cast<int32_t>(g)), groups[g].elements);
  }

  Assembly assembly_;
  const config::ResolvedConfig& config_;
  DeviceChoice device_;
  nn::Model model_;
  Machine machine_;
  std::vector<EnginePlans> plans_;
  const plan::Plan* train_ = nullptr;  // of the last turn
  const parallel::Strategies strategies_;
  Rank::Shared shared_;
  Rank rank_;
  std::vector<int64_t> tallies_;
  // Maxima in the turns of this step: of fp8 operands, and of attention scores.
  std::vector<float> noted_, scores_;
  optim::Fp8History fp8_history_ = fp8_history(config_, model_.table());
  const double loss_scale_ =
      optim::LossScale(config_.loss_scale, config_.precision == config::Precision::kFp16).scale();
};

SerialReplay::SerialReplay(const config::ConfigTree& config)
    : tree_(config),
      config_(assemble(config).config),
      strategy_(strategies_of(config_).form().data),
      sums_each_(strategy_.reduces_each(config_.batch.grad_accum_steps)),
      player_(
          std::make_unique<Player>(config, sums_each_ ? kOneMicroBatch : config_.batch.all_micro_batches())),
      single_(std::make_unique<Player>(config, kOneMicroBatch)) {}

SerialReplay::~SerialReplay() = default;

SerialReplay::Step SerialReplay::forward_backward(const BatchView& batch) {
  Step step;
  player_->forget_counts();
  step.rows = batch.rows, step.tokens = count_targets(batch, 0, batch.rows);
  const int64_t turn = sums_each_ ? 1 : micro_batches(batch);
  std::vector<bool> products;
  for (const nn::ParameterGroup& g : table().groups())
    if (g.trainable) products.push_back(nn::is_product(g.read));
  ExactSum losses;
  for (int64_t m = 0; m < micro_batches(batch); m += turn) {
    std::vector<GroupGradients> ranks;
    for (int64_t r = 0; r < config_.mesh.dp(); ++r)
      ranks.push_back(player_->play(batch, row(batch, r, m), turn, cursor(), step.tokens, &losses));
    const GroupGradients sum = sum_over_ranks(&ranks, strategy_, products);
    if (m == 0)
      step.sums = sum;
    else
      add(&step.sums, sum), round_all(&step.sums, state_type(config_));
  }
  step.loss = losses.value() / static_cast<double>(step.tokens);
  double squares = 0;
  for (const std::vector<float>& group : step.sums)
    for (const float g : group) squares += static_cast<double>(g) * static_cast<double>(g);
  step.grad_norm = std::sqrt(squares);
  return step;
}

void SerialReplay::commit(const Step& step, double grad_norm) {
  player_->step(step.sums, grad_norm, ++steps_);
  consumed_ += step.rows;
}

SerialReplay::Orders SerialReplay::sum_orders(const BatchView& batch) {
  single_->follow(*player_);
  const int64_t tokens = count_targets(batch, 0, batch.rows);
  std::vector<GroupGradients> all;
  ExactSum losses;
  for (int64_t r = 0; r < config_.mesh.dp(); ++r)
    for (int64_t m = 0; m < micro_batches(batch); ++m)
      all.push_back(single_->play(batch, row(batch, r, m), 1, cursor(), tokens, &losses));
  Orders orders{{}, all.front(), all.back()};
  for (size_t i = 1; i < all.size(); ++i)
    add(&orders.ascending, all[i]), add(&orders.descending, all[all.size() - 1 - i]);
  for (size_t g = 0; g < all.front().size(); ++g) {
    orders.f64.emplace_back(all.front()[g].size(), 0.0);
    for (const GroupGradients& one : all)
      for (size_t i = 0; i < one[g].size(); ++i) orders.f64[g][i] += static_cast<double>(one[g][i]);
  }
  return orders;
}

/// Returns the plain sum of the gradients of all micro-batches.
GroupGradients SerialReplay::play_all(Player* player, const BatchView& batch) const {
  const int64_t tokens = count_targets(batch, 0, batch.rows);
  ExactSum losses;
  GroupGradients sum;
  for (int64_t r = 0; r < config_.mesh.dp(); ++r)
    for (int64_t m = 0; m < micro_batches(batch); ++m) {
      const GroupGradients one = player->play(batch, row(batch, r, m), 1, cursor(), tokens, &losses);
      if (sum.empty())
        sum = one;
      else
        add(&sum, one);
    }
  return sum;
}

std::map<std::string, double> SerialReplay::twin_distances(const BatchView& batch) {
  const config::ConfigTree plain = without_order(tree_);
  Player straight(plain, kOneMicroBatch), other(plain, kOneMicroBatch);
  const PermutedModel twin(config_.model, config_.seed);
  straight.follow(*player_);
  other.become_twin(*player_, twin);
  std::vector<int32_t> tokens(batch.tokens, batch.tokens + batch.rows * batch.cols);
  std::vector<int32_t> targets(batch.targets, batch.targets + batch.rows * batch.cols);
  for (int32_t& token : tokens) token = twin.word(token);
  for (int32_t& target : targets) target = target < 0 ? target : twin.word(target);
  BatchView renamed = batch;
  renamed.tokens = tokens.data(), renamed.targets = targets.data();
  const int64_t pairs = batch.rows * batch.cols * batch.teacher_top;
  std::vector<int32_t> taught(batch.teacher_ids, batch.teacher_ids + pairs);
  for (int32_t& id : taught) id = twin.word(id);
  renamed.teacher_ids = taught.data();

  const GroupGradients want = play_all(&straight, batch), moved = play_all(&other, renamed);
  std::map<std::string, double> distances;
  std::vector<float> got;
  for (const nn::Parameter& p : table().all()) {
    if (!p.trainable) continue;
    got.resize(static_cast<size_t>(p.size));
    for (int64_t i = 0; i < p.size; ++i) got[static_cast<size_t>(i)] = gradient(moved, p)[twin.place(p, i)];
    distances[p.name] = difference_of(got.data(), gradient(want, p), p.size);
  }
  return distances;
}

std::vector<double> SerialReplay::f64_gradients(const BatchView& batch, double* router_margin) const {
  ReferenceBatch same;
  same.rows = batch.rows, same.seq = batch.cols;
  const auto tokens = static_cast<size_t>(batch.rows * batch.cols);
  same.tokens.assign(batch.tokens, batch.tokens + tokens);
  same.targets.assign(batch.targets, batch.targets + tokens);
  const auto pairs = tokens * static_cast<size_t>(batch.teacher_top);
  same.top = batch.teacher_top;
  same.temperature = config_.teacher.temperature, same.teacher_weight = config_.teacher.weight;
  same.ahead_weight = config_.train.ahead_weight;
  same.teacher_ids.assign(batch.teacher_ids, batch.teacher_ids + pairs);
  same.teacher_logprobs.assign(batch.teacher_logprobs, batch.teacher_logprobs + pairs);
  const FlatLayout layout(table());
  std::vector<double> weights(static_cast<size_t>(layout.size()));
  std::vector<float> values;
  for (const nn::Parameter& p : table().all()) {
    state(TensorKind::kWeight, p, &values);
    std::copy(values.begin(), values.end(), weights.begin() + layout.at(p));
  }
  return train::f64_gradients(config_.model, table(), weights, same, config_.seed, config_.moe,
                              router_margin);
}

const std::vector<int64_t>& SerialReplay::tallies() const { return player_->tallies(); }

const nn::ParameterTable& SerialReplay::table() const { return player_->model().table(); }

const float* SerialReplay::gradient(const GroupGradients& sums, const nn::Parameter& p) const {
  size_t at = 0;
  for (int32_t g = 0; g < p.group; ++g) at += table().groups()[static_cast<size_t>(g)].trainable ? 1 : 0;
  return sums[at].data() + p.offset;
}

bool SerialReplay::state(TensorKind kind, const nn::Parameter& p, std::vector<float>* out) const {
  if (kind == TensorKind::kWeight) return player_->read(p.name, out), true;
  const GroupState& s = player_->state(p.group);
  const StateArray base = s.states[state_of_kind(kind)];
  if (!base) return false;
  out->resize(static_cast<size_t>(p.size));
  read_values(player_->link(), out->data(), base.from(p.offset), p.size);
  return true;
}

int64_t SerialReplay::row(const BatchView& batch, int64_t rank, int64_t micro_batch) const {
  return (rank * micro_batches(batch) + micro_batch) * config_.batch.micro_batch;
}

}  // namespace hawser::train
