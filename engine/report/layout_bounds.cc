#include "engine/report/layout_bounds.h"

#include <algorithm>

#include "engine/assembly/engine_plans.h"
#include "engine/assembly/precision.h"
#include "engine/base/error.h"
#include "engine/base/on_all_cores.h"
#include "engine/parallel/pipeline/balance.h"
#include "engine/report/chunks_in_flight.h"

namespace hawser::train {
namespace {

namespace pipeline = parallel::pipeline;

/// Ranks that divide a layer in a small plan. Finding the routes of more takes longer than it saves, and
/// layouts that divide layers among more are rarely fast.
constexpr int64_t kMostMeasured = 64;
/// Layers of a plan that stands for any number of equal layers: two for each of two stages, so that the last
/// one adds the sum of the layer before it, as most layers do.
constexpr int64_t kMeasuredLayers = 4;

/// Approximate share of a layout's bytes that the bound counts if the layout's costs were not measured.
constexpr double kUnmeasuredShare = 0.85;

bool trains_all(const config::ResolvedConfig& config) {
  return !config.model.adapter.on() && config.optimizer.frozen.empty();
}

/// Muon computes with whole matrices, so ranks do not share its update by elements.
bool trains_matrices(const config::ResolvedConfig& config) {
  const auto is_muon = [](const auto& rule) { return rule.kind == config::OptimizerKind::kMuon; };
  return config.optimizer.kind == config::OptimizerKind::kMuon ||
         std::any_of(config.optimizer.rules.begin(), config.optimizer.rules.end(), is_muon);
}

/// True if the config keeps the state elsewhere, so that a device may need none of it.
bool offloads_state(const config::ResolvedConfig& config) {
  return config.offload.optimizer != config::OffloadSpace::kOff ||
         config.offload.parameters != config::OffloadSpace::kOff ||
         config.offload.gradients != config::OffloadSpace::kOff;
}

bool splits(const LayoutChoice& c) {
  return c.pp > 1 && pipeline::kSchedules[static_cast<size_t>(c.schedule)].splits_backward;
}

void add(BlockCosts* to, const BlockCosts& from) {
  to->forward += from.forward, to->recompute += from.recompute;
  to->backward += from.backward, to->weights += from.weights;
  to->norm += from.norm, to->update += from.update, to->saved += from.saved;
  to->weight += from.weight, to->gradient += from.gradient, to->optimizer += from.optimizer;
}

BlockCosts state_of(const plan::BlockState& state) {
  BlockCosts bytes;
  bytes.weight = static_cast<double>(state.weights);
  bytes.gradient = static_cast<double>(state.gradients);
  bytes.optimizer = static_cast<double>(state.master);
  for (const int64_t array : state.states) bytes.optimizer += static_cast<double>(array);
  return bytes;
}

/// Returns the bytes of the state of a group of parameters, without the padding between groups.
BlockCosts state_of(const parallel::GroupLayout& group) {
  const auto of = [&](DType type) { return static_cast<double>(dtype_bytes(type, group.elements)); };
  BlockCosts bytes;
  bytes.weight = group.borrowed ? 0 : of(group.type);
  bytes.gradient = group.trainable ? of(group.state_type) : 0;
  bytes.optimizer = group.has_master ? of(DType::kF32) : 0;
  for (const auto& array : group.states) bytes.optimizer += static_cast<double>(array.bytes(group.elements));
  return bytes;
}

/// Returns the bytes of the model's state on one rank that keeps all of it. The layout of its shards
/// determines what is trained, by which optimizer, and in which types.
ModelState state_bytes(const nn::Model& model, config::ResolvedConfig config) {
  if (offloads_state(config)) return {};
  const bool records = config.zero.quantized_weights != parallel::QuantizedWeights::kOff;
  config.mesh = {}, config.pipeline = {}, config.zero = {};
  const parallel::Strategies strategies = strategies_of(config);
  const parallel::ShardLayout layout(model.table(),
                                     layout_options(config, strategies, strategies.form().data, 0, false));
  BlockCosts all, experts;
  for (int32_t b = 0; b < static_cast<int32_t>(config.model.layers) + 2; ++b)
    add(&all, state_of(layout.block_state(b)));
  const std::vector<nn::ParameterGroup>& groups = model.table().groups();
  for (size_t g = 0; g < groups.size(); ++g)
    if (groups[g].experts) add(&experts, state_of(layout.group(static_cast<int32_t>(g))));
  if (records) all.weight = experts.weight = 0;
  BlockCosts others;
  others.weight = all.weight - experts.weight, others.gradient = all.gradient - experts.gradient;
  others.optimizer = all.optimizer - experts.optimizer;
  return {others, experts};
}

}  // namespace

const char* LeastBytes::largest() const {
  const double most = std::max({weights, gradients, optimizer, activations});
  return most == optimizer     ? "optimizer state"
         : most == activations ? "activations"
         : most == weights     ? "weights"
                               : "gradients";
}

LayoutBounds::LayoutBounds(const nn::Model& model, const config::ResolvedConfig& base,
                           const cluster::Cluster& cluster, const LayoutSpace& space, double imbalance)
    : base_(base),
      cluster_(cluster),
      space_(space),
      imbalance_(imbalance),
      measures_(!trains_matrices(base)),
      trains_all_(trains_all(base)),
      offloads_(offloads_state(base)),
      parameters_(static_cast<double>(model.table().count())),
      tokens_(static_cast<double>(base.batch.global_batch * base.batch.sequence)),
      ranks_flops_(model.flops_per_token(base.model.window.empty() ? base.batch.sequence : 1)),
      peak_(cluster.device.peak(compute_type(base))),
      state_(state_bytes(model, base)) {
  const double width = static_cast<double>(base.model.width);
  const double head = 6 * width * static_cast<double>(base.model.vocab_size);
  layer_flops_ = std::max(0.0, ranks_flops_ - head) / 3 / static_cast<double>(base.model.layers);
}

LayoutBounds::Key LayoutBounds::key_of(const LayoutChoice& c) {
  return {c.tp, c.cp, c.ep, c.micro_batch, c.recompute, splits(c), c.pp > 1};
}

double LayoutBounds::expert_shards(const LayoutChoice& c) {
  const int64_t ranks = c.dp_shard * c.cp;
  return c.ep == 1 ? static_cast<double>(ranks)
                   : std::max(1.0, static_cast<double>(ranks * c.tp) / static_cast<double>(c.ep));
}

double LayoutBounds::most_shards(const LayoutChoice& c) const {
  const auto ranks = static_cast<double>(c.dp_shard * c.cp);
  return base_.model.moe.experts > 0 ? std::max(ranks, expert_shards(c)) : ranks;
}

int64_t LayoutBounds::micro_batches(const LayoutChoice& c) const {
  return base_.batch.global_batch / (c.dp() * c.micro_batch);
}

std::shared_ptr<const MeasuredBlocks> LayoutBounds::measured(const LayoutChoice& c) const {
  const auto found = measured_.find(key_of(c));
  return found == measured_.end() ? nullptr : found->second;
}

/// Returns nothing if the small plan has too many ranks, if the rules refuse it, or if stages have other
/// places in their nodes than its stages.
std::shared_ptr<const MeasuredBlocks> LayoutBounds::measure_one(const LayoutChoice& c) const {
  const int64_t layers = base_.model.layers,
                most = equal_layers_ ? std::min(layers, kMeasuredLayers) : layers;
  const int64_t ranks = c.tp * c.cp * c.dp_of_experts();
  if (ranks > kMostMeasured) return nullptr;
  for (const cluster::NetworkLevel& level : cluster_.levels)
    if (level.ranks > 0 && ranks % level.ranks != 0 && level.ranks % ranks != 0) return nullptr;
  try {
    const std::optional<config::ResolvedConfig> config = space_.resolve_small(c, splits(c), most);
    if (!config) return nullptr;
    MeasuredBlocks measured = measure_blocks(*config, cluster_, imbalance_);
    std::vector<BlockCosts>& blocks = measured.blocks;
    const BlockCosts head = blocks.back(), layer = blocks[static_cast<size_t>(most)];
    blocks.pop_back();
    blocks.resize(static_cast<size_t>(layers) + 1, layer);
    blocks.push_back(head);
    return std::make_shared<const MeasuredBlocks>(std::move(measured));
  } catch (const Error& error) {
    if (error.code() != Code::kConfigInvalid) throw;
    return nullptr;  // refused with what the rules do not know, such as the device
  }
}

void LayoutBounds::measure(const std::vector<const LayoutChoice*>& choices) {
  if (!measures_) return;
  std::map<Key, const LayoutChoice*> kinds;
  for (const LayoutChoice* c : choices) kinds.emplace(key_of(*c), c);
  std::vector<const LayoutChoice*> all;
  for (const auto& [key, choice] : kinds) all.push_back(choice);
  for (const LayoutChoice* c : all)
    if (const auto found = measure_one(*c)) {
      equal_layers_ = found->equal_layers;
      break;
    }
  std::vector<std::shared_ptr<const MeasuredBlocks>> found(all.size());
  on_all_cores(std::ssize(all),
               [&](int64_t i) { found[static_cast<size_t>(i)] = measure_one(*all[static_cast<size_t>(i)]); });
  for (size_t i = 0; i < all.size(); ++i)
    if (found[i]) measured_.emplace(key_of(*all[i]), found[i]);
}

std::vector<LayoutBounds::Place> LayoutBounds::places(const LayoutChoice& c) const {
  const auto found = measured(c);
  if (!found) return {};
  const std::vector<BlockCosts>& blocks = found->blocks;
  std::vector<double> flops;
  for (size_t b = 1; b + 1 < blocks.size(); ++b) flops.push_back(blocks[b].flops);
  const int64_t chunks = c.pp * c.chunks;
  std::vector<int64_t>& layers = divided_[{found.get(), c.pp == 1 ? 1 : chunks}];
  if (layers.empty() && c.pp > 1 && std::ssize(base_.pipeline.layers) == chunks)
    layers = base_.pipeline.layers;
  if (layers.empty())
    layers = pipeline::balance(flops, blocks.front().flops, blocks.back().flops, c.pp == 1 ? 1 : chunks);
  const pipeline::Shape shape = shape_of(c, micro_batches(c), base_.pipeline.group);
  std::vector<Place> all(layers.size());
  size_t block = 1;
  for (size_t p = 0; p < layers.size(); ++p) {
    all[p].stage = pipeline::stage_at(shape, static_cast<int64_t>(p));
    for (int64_t l = 0; l < layers[p]; ++l) add(&all[p].costs, blocks[block++]);
  }
  add(&all.front().costs, blocks.front()), add(&all.back().costs, blocks.back());
  return all;
}

/// Tensor-parallel ranks do not divide experts, and expert-parallel ranks divide nothing else.
LeastBytes LayoutBounds::closed_bytes(const LayoutChoice& c, int64_t zero_stage) const {
  const auto stages = static_cast<double>(c.pp);
  const auto bytes = [&](double BlockCosts::*part, int64_t from) {
    const bool shared = zero_stage >= from;
    const double others = static_cast<double>(c.tp) * (shared ? static_cast<double>(c.dp_shard * c.cp) : 1);
    const double experts = static_cast<double>(c.ep) * (shared ? expert_shards(c) : 1);
    return (state_.others.*part / others + state_.experts.*part / experts) / stages;
  };
  return {bytes(&BlockCosts::weight, 3), bytes(&BlockCosts::gradient, 2), bytes(&BlockCosts::optimizer, 1)};
}

LeastBytes LayoutBounds::least_bytes(const LayoutChoice& c, int64_t zero_stage) const {
  return stage_bytes(c, zero_stage, zero_stage >= 2);
}

LeastBytes LayoutBounds::stage_bytes(const LayoutChoice& c, int64_t zero_stage, bool shares_gradients) const {
  LeastBytes most = closed_bytes(c, zero_stage);
  const std::vector<Place> all = places(c);
  if (all.empty()) return most;
  const double shards = most_shards(c);
  const auto share = [&](int64_t from) { return zero_stage >= from ? 1 / shards : 1; };
  std::vector<double> saved;
  for (const Place& p : all) saved.push_back(p.costs.saved);
  const pipeline::Shape shape = shape_of(c, micro_batches(c), base_.pipeline.group);
  for (int64_t s = 0; s < c.pp; ++s) {
    LeastBytes stage;
    stage.activations = most_in_flight(shape, s, saved);
    for (const Place& p : all)
      if (p.stage == s && !offloads_) {
        stage.weights += state_.others.weight > 0 ? p.costs.weight * share(3) : 0;
        stage.gradients += p.costs.gradient * (shares_gradients ? 1 / shards : 1);
        stage.optimizer += p.costs.optimizer * share(1);
      }
    if (stage.all() > most.all()) most = stage;
  }
  return most;
}

/// If gradients are reduced once a step, each rank keeps all of them until the last micro-batch. With ZeRO-3,
/// the weights of two blocks are gathered at a time.
double LayoutBounds::likely_bytes(const LayoutChoice& c) const {
  const bool reduces_each = base_.zero.reduce == parallel::ReducePolicy::kPerMicroBatch;
  const bool shares_gradients = c.zero_stage >= 2 && (reduces_each || micro_batches(c) == 1);
  const double least = stage_bytes(c, c.zero_stage, shares_gradients).all();
  const auto found = measured(c);
  if (!found) return least / kUnmeasuredShare;
  double largest = 0;
  for (const BlockCosts& block : found->blocks) largest = std::max(largest, block.weight);
  return least + found->transient + (c.zero_stage == 3 ? 2 * largest : 0);
}

double LayoutBounds::closed_seconds(const LayoutChoice& c) const {
  const auto ranks = static_cast<double>(c.pp * c.tp * c.cp * c.dp());
  const double work = ranks_flops_ * tokens_ / ranks / peak_ * (trains_all_ ? 1 : 1.0 / 3);
  const double rows = static_cast<double>(c.micro_batch * base_.batch.sequence) / static_cast<double>(c.cp);
  const double ramp =
      static_cast<double>(c.pp - 1) / 2 * layer_flops_ * rows / static_cast<double>(c.tp) / peak_;
  return work + (trains_all_ && base_.model.moe.experts == 0 ? ramp : 0);
}

double LayoutBounds::least_seconds(const LayoutChoice& c) const {
  const std::vector<Place> all = places(c);
  if (all.empty()) return closed_seconds(c);
  const auto m = static_cast<double>(micro_batches(c));
  const double shards = c.zero_stage > 0 ? most_shards(c) : 1;
  double seconds = 0, updates = 0, arrives = 0, ends = 0;
  for (int64_t s = 0; s < c.pp; ++s) {
    BlockCosts stage;
    for (const Place& p : all)
      if (p.stage == s) add(&stage, p.costs);
    const double passes = m * (stage.forward + stage.recompute + stage.backward);
    const double after = m * stage.weights + stage.norm / shards;  // gradients leave the stage before that
    seconds = std::max(seconds, arrives + passes + std::max(after, ends));
    updates = std::max(updates, stage.update / shards);
    const BlockCosts& first = all[static_cast<size_t>(s)].costs;  // the stage's first chunk
    arrives += first.forward, ends += first.backward;
  }
  return std::max(seconds + updates, closed_seconds(c));
}

double LayoutBounds::likely_seconds(const LayoutChoice& c, double least_seconds) const {
  const auto bandwidth = [&](int64_t members) {
    for (const cluster::NetworkLevel& level : cluster_.levels)
      if (level.ranks == 0 || members <= level.ranks) return level.bytes_per_second;
    return cluster_.levels.back().bytes_per_second;
  };
  const auto others = [](int64_t n) { return 1 - 1 / static_cast<double>(n); };
  const double own = parameters_ / static_cast<double>(c.pp * c.tp * c.ep);
  const double times = c.zero_stage == 3 ? 1 + static_cast<double>(micro_batches(c)) / 2 : 1;
  const int64_t over = c.dp() * c.cp * c.tp;
  double seconds = least_seconds;
  if (!measured(c)) seconds *= c.recompute == 2 ? 2.6 : 2;  // kernels do not reach the peak
  const double residual = tokens_ / static_cast<double>(c.dp() * c.cp) *
                          static_cast<double>(base_.model.width * base_.model.layers) * 4 /
                          static_cast<double>(c.pp);
  if (!measured(c)) seconds += 2 * residual * others(c.ep) / bandwidth(c.ep * c.tp);
  return seconds + 2.4 * own * times * others(c.dp() * c.cp) / bandwidth(over);
}

}  // namespace hawser::train
