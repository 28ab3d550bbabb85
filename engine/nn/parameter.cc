#include "engine/nn/parameter.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "engine/base/error.h"
#include "engine/nn/nf4.h"

namespace hawser::nn {

/// Declares the model's parameters, block by block, before they have locations.
class ParameterTable::Declarations {
 public:
  Declarations(const ModelConfig& model, bool scale_residual, bool by_head, int64_t tp, int64_t ep)
      : m_(model),
        by_head_(by_head),
        tp_(tp),
        ep_(ep),
        words_{0, model.vocab_size},
        into_residual_{InitialValue::Kind::kNormal,
                       scale_residual ? 1.0 / std::sqrt(2.0 * static_cast<double>(model.layers)) : 1.0},
        one_{InitialValue::Kind::kConstant, 1.0 - model.norm_weight_offset} {}

  std::vector<Declaration> embedding() {
    add("embedding.tokens.weight", {m_.vocab_size, m_.width}, normal_,
        {.cut = words_, .read = Read::kLookup});
    if (m_.position == Position::kLearned)
      add("embedding.positions.weight", {m_.context, m_.width}, normal_, {.read = Read::kLookup});
    return take(0);
  }

  std::vector<Declaration> layer(int64_t layer) {
    prefix_ = fmt::format("blocks.{}.", layer);
    m_.is_latent() ? latent_attention() : attention();
    m_.is_sparse(layer) ? moe() : mlp();
    if (m_.adapter.on()) adapters();
    return take(layer + 1);
  }

  std::vector<Declaration> head() {
    prefix_.clear();
    norm("final_norm", GradientCoverage::kAll);
    if (m_.has_score())
      add(kScoreWeight, {1, m_.width}, normal_, {});
    else if (!m_.tied_head)
      add("head.weight", {m_.vocab_size, m_.width}, normal_, {.cut = words_});
    for (int64_t depth = 0; depth < m_.ahead; ++depth) ahead(m_.layers + depth);
    return take(m_.layers + 1);
  }

 private:
  /// Properties by which a parameter differs from one that is full on every rank and read by products on its
  /// own.
  struct Traits {
    TensorSplit cut = {};
    GradientCoverage covers = GradientCoverage::kAll;
    bool packed = false;
    Read read = Read::kProduct;
    bool balances = false, adapter = false;
    std::vector<int64_t> head = {};  ///< rows of the matrices of one head
    std::vector<ScaledRows> scaled = {};
  };

  /// A depth of multi-token prediction belongs to the head's block. Every rank computes its norms and its
  /// join on all rows. QK-Clip records no scores in LOSS.
  void ahead(int64_t layer) {
    const size_t first = block_.size();
    prefix_ = fmt::format("blocks.{}.", layer);
    norm("hidden_norm", GradientCoverage::kAll);
    norm("embedding_norm", GradientCoverage::kAll);
    add("join.weight", {m_.width, 2 * m_.width}, normal_, {});
    m_.is_latent() ? latent_attention() : attention();
    m_.is_sparse(layer) ? moe() : mlp();
    norm("final_norm", GradientCoverage::kAll);
    for (size_t i = first; i < block_.size(); ++i) block_[i].parameter.scaled_rows.clear();
  }

  void attention() {
    const int64_t q_width = m_.heads * m_.head_dim, kv_width = m_.kv_heads * m_.head_dim;
    const TensorSplit heads{0, m_.heads}, kv_heads{0, m_.kv_heads, true};
    const std::vector<ScaledRows> of_queries = {{m_.head_dim, 1.0f}};
    norm("attention_norm", GradientCoverage::kOwnRows);
    add("attention.q.weight", {q_width, m_.width}, normal_,
        {.cut = heads, .head = {m_.head_dim}, .scaled = of_queries});
    for (const char* const name : {"attention.k.weight", "attention.v.weight"})
      add(name, {kv_width, m_.width}, normal_, {.cut = kv_heads, .packed = true, .head = {m_.head_dim}});
    bool packed = false;
    for (const auto& [letter, width, cut, has] : {std::tuple{"q", q_width, heads, m_.bias.q},
                                                  {"k", kv_width, kv_heads, m_.bias.k},
                                                  {"v", kv_width, kv_heads, m_.bias.v}}) {
      if (!has) continue;
      add(fmt::format("attention.{}.bias", letter), {width}, zero_,
          {.cut = cut, .packed = packed, .scaled = *letter == 'q' ? of_queries : std::vector<ScaledRows>()});
      packed = true;
    }
    if (m_.qk_norm) {
      add("attention.q_norm.weight", {m_.head_dim}, one_, {.covers = GradientCoverage::kOwnHeads});
      add("attention.k_norm.weight", {m_.head_dim}, one_, {.covers = GradientCoverage::kOwnHeads});
    }
    if (m_.sinks) add("attention.sinks", {m_.heads}, normal_, {.cut = heads});
    out_of_attention(q_width);
  }

  /// Tensor-parallel ranks divide the heads. Each rank has all weights before the heads; the gradients of
  /// these weights and of their norms cover only what the rank's own heads contribute, so they are summed
  /// over tp.
  void latent_attention() {
    const LatentConfig& l = m_.latent;
    const int64_t q_width = m_.heads * m_.head_dim, nope = m_.head_dim - l.rope_dim;
    const TensorSplit heads{0, m_.heads};
    const std::vector<ScaledRows> of_queries = {{nope, 0.5f}, {l.rope_dim, 1.0f}};
    const Traits queries = {.cut = heads, .head = {m_.head_dim}, .scaled = of_queries};
    const bool packed = l.q_rank > 0;
    norm("attention_norm", GradientCoverage::kOwnRows);
    if (l.q_rank > 0)
      add("attention.q_a.weight", {l.q_rank, m_.width}, normal_, {.covers = GradientCoverage::kOwnHeads});
    add("attention.kv_a.weight", {l.kv_rank + l.rope_dim, m_.width}, normal_,
        {.covers = GradientCoverage::kOwnHeads, .packed = packed});
    if (l.q_rank == 0) add("attention.q.weight", {q_width, m_.width}, normal_, queries);
    if (l.q_rank > 0) add("attention.q_b.weight", {q_width, l.q_rank}, normal_, queries);
    add("attention.kv_b.weight", {m_.heads * (nope + l.value_dim), l.kv_rank}, normal_,
        {.cut = heads, .head = {nope, l.value_dim}, .scaled = {{nope, 0.5f}, {l.value_dim, 0.0f}}});
    if (m_.bias.q && l.q_rank > 0)
      add("attention.q_a.bias", {l.q_rank}, zero_, {.covers = GradientCoverage::kOwnHeads});
    if (m_.bias.k)
      add("attention.kv_a.bias", {l.kv_rank + l.rope_dim}, zero_,
          {.covers = GradientCoverage::kOwnHeads, .packed = packed && m_.bias.q});
    if (m_.bias.q && l.q_rank == 0)
      add("attention.q.bias", {q_width}, zero_, {.cut = heads, .scaled = of_queries});
    if (l.q_rank > 0)
      add("attention.q_a_norm.weight", {l.q_rank}, one_, {.covers = GradientCoverage::kOwnHeads});
    add("attention.kv_a_norm.weight", {l.kv_rank}, one_, {.covers = GradientCoverage::kOwnHeads});
    out_of_attention(m_.heads * l.value_dim);
  }

  void out_of_attention(int64_t width) {
    add("attention.o.weight", {m_.width, width}, into_residual_, {.cut = {1, m_.heads}});
    if (m_.bias.o) add("attention.o.bias", {m_.width}, zero_, {});
    if (m_.post_norm) norm("attention_post_norm", GradientCoverage::kOwnRows, false);
  }

  void mlp() {
    const bool gated = is_gated(m_.mlp);
    const TensorSplit features{0, m_.mlp_width};
    norm("mlp_norm", GradientCoverage::kOwnRows);
    if (gated) add("mlp.gate.weight", {m_.mlp_width, m_.width}, normal_, {.cut = features});
    add("mlp.up.weight", {m_.mlp_width, m_.width}, normal_, {.cut = features, .packed = gated});
    if (gated && m_.bias.gate) add("mlp.gate.bias", {m_.mlp_width}, zero_, {.cut = features});
    if (m_.bias.up)
      add("mlp.up.bias", {m_.mlp_width}, zero_, {.cut = features, .packed = gated && m_.bias.gate});
    add("mlp.down.weight", {m_.width, m_.mlp_width}, into_residual_, {.cut = {1, m_.mlp_width}});
    if (m_.bias.down) add("mlp.down.bias", {m_.width}, zero_, {});
    if (m_.post_norm) norm("mlp_post_norm", GradientCoverage::kOwnRows, false);
  }

  /// The router is read in f32 whatever the compute type. Each tensor-parallel rank has all of these weights
  /// and applies them to its local rows. Biases of experts are not divided among expert-parallel ranks,
  /// because they are small and the rank of a row adds those of the output.
  void moe() {
    const MoeConfig& moe = m_.moe;
    const bool gated = is_gated(m_.mlp);
    norm("mlp_norm", GradientCoverage::kOwnRows);
    const Traits rows = {.covers = GradientCoverage::kOwnRows};
    const Traits experts =
        ep_ == 1 ? rows : Traits{.cut = {.dim = 0, .pieces = moe.experts, .experts = true}};
    add("moe.router.weight", {moe.experts, m_.width}, normal_,
        {.covers = GradientCoverage::kOwnRows, .read = Read::kLookup});
    if (moe.has_bias())
      add("moe.router.bias", {moe.experts}, zero_, {.read = Read::kExact, .balances = true});
    if (m_.bias.router) add("moe.router.logit_bias", {moe.experts}, zero_, rows);
    if (gated) add("moe.experts.gate.weight", {moe.experts, moe.width, m_.width}, normal_, experts);
    add("moe.experts.up.weight", {moe.experts, moe.width, m_.width}, normal_, experts);
    add("moe.experts.down.weight", {moe.experts, m_.width, moe.width}, into_residual_, experts);
    if (gated && m_.bias.gate) add("moe.experts.gate.bias", {moe.experts, moe.width}, zero_, rows);
    if (m_.bias.up) add("moe.experts.up.bias", {moe.experts, moe.width}, zero_, rows);
    if (m_.bias.down) add("moe.experts.down.bias", {moe.experts, m_.width}, zero_, rows);
    if (moe.shared_width > 0) {
      if (gated) add("moe.shared.gate.weight", {moe.shared_width, m_.width}, normal_, rows);
      add("moe.shared.up.weight", {moe.shared_width, m_.width}, normal_,
          {.covers = GradientCoverage::kOwnRows, .packed = gated});
      add("moe.shared.down.weight", {m_.width, moe.shared_width}, into_residual_, rows);
    }
    if (moe.shared_gate)
      add("moe.shared_gate.weight", {1, m_.width}, normal_,
          {.covers = GradientCoverage::kOwnRows, .read = Read::kLookup});
    if (m_.post_norm) norm("mlp_post_norm", GradientCoverage::kOwnRows, false);
  }

  /// Adds the adapters of the block's linears, after everything else. If ranks divide the outputs of a
  /// linear, each has all of A, and its gradient of A covers its own outputs; if they divide the inputs, each
  /// has all of B, and its gradient of B covers its own inputs.
  void adapters() {
    std::vector<Parameter> linears;
    for (const Declaration& d : block_)
      if (is_linear(d.parameter)) linears.push_back(d.parameter);
    const AdapterOf joint = m_.is_latent() ? AdapterOf() : adapter_of(m_.adapter, prefix_ + "attention.qkv");
    for (const Parameter& w : linears) {
      std::string module = module_of(w);
      AdapterOf own = adapter_of(m_.adapter, module);
      module.erase(0, prefix_.size());
      const bool part =
          joint.rank > 0 && (module == "attention.q" || module == "attention.k" || module == "attention.v");
      if (part && own.rank > 0)
        fail(Code::kConfigInvalid, "/adapter/targets names both attention.qkv and {}; name one of them",
             module);
      if (part) own = joint;
      if (own.rank == 0) continue;
      Traits a{.covers = w.covers, .adapter = true}, b = a;
      if (w.cut.dim == 0) a.covers = GradientCoverage::kOwnHeads, b.cut = w.cut;
      if (w.cut.dim == 1) b.covers = GradientCoverage::kOwnHeads, a.cut = w.cut;
      const InitialValue uniform{InitialValue::Kind::kUniform,
                                 1.0 / std::sqrt(static_cast<double>(w.shape[1]))};
      if (!part || module == "attention.q")
        add((part ? "attention.qkv" : module) + ".adapter_a.weight", {own.rank, w.shape[1]}, uniform, a);
      add(module + ".adapter_b.weight", {w.shape[0], own.rank}, zero_, b);
      if (m_.adapter.dora) add(module + ".adapter_m.weight", {w.shape[0]}, zero_, b);
    }
  }

  void norm(const char* name, GradientCoverage covers, bool may_have_bias = true) {
    add(fmt::format("{}.weight", name), {m_.width}, one_, {.covers = covers});
    if (may_have_bias && m_.norm == Norm::kLayerNorm && m_.bias.norm)
      add(fmt::format("{}.bias", name), {m_.width}, zero_, {.covers = covers});
  }

  void add(std::string name, std::vector<int64_t> shape, InitialValue initial, const Traits& traits) {
    Parameter p;
    p.name = prefix_ + std::move(name);
    p.cut = traits.cut;
    p.covers = traits.covers;
    p.local_shape = shape;
    if (const int64_t shares = p.cut.shares(tp_, ep_); shares > 1) {
      int64_t& extent = p.local_shape[static_cast<size_t>(p.cut.dim)];
      extent = (p.cut.pieces + shares - 1) / shares * (extent / p.cut.pieces);
    }
    p.size = elements(shape);
    p.room = elements(p.local_shape);
    p.decay = shape.size() >= 2 && !p.name.ends_with(".bias");
    p.read = p.decay || traits.read == Read::kExact ? traits.read : Read::kLookup;
    p.balances = traits.balances;
    if (by_head_) p.matrix_rows = traits.head;
    p.scaled_rows = traits.scaled;
    p.adapter = traits.adapter;
    p.trainable = !p.balances;
    p.shape = std::move(shape);
    p.initial = initial;
    block_.push_back({std::move(p), traits.packed});
  }

  static int64_t elements(const std::vector<int64_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }

  std::vector<Declaration> take(int64_t block) {
    for (Declaration& d : block_) d.parameter.block = block;
    return std::exchange(block_, {});
  }

  const ModelConfig& m_;
  const bool by_head_;
  const int64_t tp_, ep_;
  const TensorSplit words_;
  const InitialValue normal_{InitialValue::Kind::kNormal, 1.0}, zero_{InitialValue::Kind::kConstant, 0.0};
  InitialValue into_residual_, one_;
  std::string prefix_;
  std::vector<Declaration> block_;
};

bool is_linear(const Parameter& p) {
  return p.shape.size() == 2 && (is_product(p.read) || p.read == Read::kNf4) &&
         p.name.starts_with("blocks.") && !p.adapter;
}

bool is_block_matrix(const Parameter& p) {
  return p.name.starts_with("blocks.") && has_matrices(p) && p.read != Read::kLookup &&
         p.read != Read::kExact;
}

bool has_whole_records(const Parameter& p) {
  if (p.room == p.size) return true;
  if (p.cut.dim == 0) return p.room % kNf4Block == 0;
  return p.local_shape[1] % kNf4Block == 0 && p.shape[1] % kNf4Block == 0;
}

std::string module_of(const Parameter& p) { return p.name.substr(0, p.name.rfind('.')); }

bool is_named_by(const Parameter& parameter, const std::string& pattern) {
  return fnmatch(pattern.c_str(), parameter.name.c_str(), FNM_NOESCAPE) == 0;
}

namespace {

/// Which parameters a rule names.
enum class Named { kNothing, kFrozen, kTrained };

[[noreturn]] void fail_vector(size_t i, const std::string& pattern, const Parameter& p) {
  fail(Code::kConfigInvalid,
       "/optimizer/rules/{}: \"{}\" matches {}, which is a vector, but its kind updates whole matrices: name "
       "weights of two or more rows, such as \"*.weight\" after a rule for \"*norm*\", or leave kind out",
       i, pattern, p.name);
}

[[noreturn]] void fail_rule(size_t i, const std::string& pattern, Named named) {
  if (named == Named::kFrozen)
    fail(Code::kConfigInvalid,
         "/optimizer/rules/{}/of: all parameters that \"{}\" matches are frozen (/optimizer/frozen, "
         "/adapter), "
         "so the rule has no effect: remove it",
         i, pattern);
  fail(Code::kConfigInvalid,
       "/optimizer/rules/{}/of: no parameter's name matches \"{}\"; names look like "
       "\"blocks.0.attention.q.weight\" (hws_tensor_list)",
       i, pattern);
}

}  // namespace

ParameterTable::ParameterTable(const ModelConfig& m, bool scale_residual, const TrainedParts& parts,
                               int64_t tp, int64_t ep, int64_t tile_rows)
    : tp_(tp), ep_(ep), tile_rows_(tile_rows), parts_(parts), adapter_(m.adapter) {
  const std::vector<std::string>&beside = m.adapter.train, &frozen = parts.frozen;
  std::vector<bool> matched(frozen.size()), trained(beside.size());
  std::vector<Named> named(parts.rules.size());
  const auto freeze = [](Parameter* p) { p->trainable = p->balances = false; };
  const auto place = [&](std::vector<Declaration> block) {
    for (Declaration& d : block) {
      bool trains = !m.adapter.on() || d.parameter.adapter;
      for (size_t i = 0; i < beside.size(); ++i)
        if (is_named_by(d.parameter, beside[i])) trains = trained[i] = true;
      if (!trains) freeze(&d.parameter);
      for (size_t i = 0; i < frozen.size(); ++i)
        if (is_named_by(d.parameter, frozen[i])) freeze(&d.parameter), matched[i] = true;
      for (size_t i = 0; i < named.size(); ++i) {
        if (!is_named_by(d.parameter, parts.rules[i].of)) continue;
        named[i] = std::max(named[i], d.parameter.trainable ? Named::kTrained : Named::kFrozen);
        if (!d.parameter.trainable || d.parameter.rule >= 0) continue;
        d.parameter.rule = static_cast<int32_t>(i);
        if (parts.rules[i].only_matrices && !has_matrices(d.parameter))
          fail_vector(i, parts.rules[i].of, d.parameter);
      }
      if (m.adapter.nf4 && d.parameter.in_base() && is_linear(d.parameter)) d.parameter.read = Read::kNf4;
      if (m.int8_linears && is_linear(d.parameter)) d.parameter.read = Read::kInt8;
    }
    lay_out(block);
  };
  scored_heads_ = (m.heads + tp - 1) / tp * tp, layers_ = m.layers;
  Declarations declare(m, scale_residual, parts.by_head, tp, ep);
  place(declare.embedding());
  for (int64_t layer = 0; layer < m.layers; ++layer) place(declare.layer(layer));
  place(declare.head());
  by_name_.resize(parameters_.size());
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [this](size_t a, size_t b) { return parameters_[a].name < parameters_[b].name; });
  for (size_t i = 0; i < frozen.size(); ++i)
    if (!matched[i])
      fail(Code::kConfigInvalid,
           "/optimizer/frozen: no parameter's name matches \"{}\"; names look like \"{}\" (hws_tensor_list)",
           frozen[i], parameters_.front().name);
  for (size_t i = 0; i < named.size(); ++i)
    if (named[i] != Named::kTrained) fail_rule(i, parts.rules[i].of, named[i]);
  for (size_t i = 0; i < beside.size(); ++i)
    if (!trained[i])
      fail(Code::kConfigInvalid, "/adapter/train: no parameter's name matches \"{}\"", beside[i]);
  if (trainable_count() == 0)
    fail(Code::kConfigInvalid, "/optimizer/frozen freezes every parameter: there is nothing to train");
}

const Parameter* ParameterTable::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](size_t i, std::string_view wanted) { return parameters_[i].name < wanted; });
  if (found == by_name_.end() || parameters_[*found].name != name) return nullptr;
  return &parameters_[*found];
}

const Parameter& ParameterTable::at(std::string_view name) const {
  if (const Parameter* p = find(name)) return *p;
  fail(Code::kNotFound, "there is no parameter named \"{}\" in this model", name);
}

Place ParameterTable::place(std::string_view name) const {
  const Parameter* p = find(name);
  return p ? Place{p->group, p->offset, p->read, p->scales} : Place{};
}

int64_t ParameterTable::trainable_count() const {
  int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.trainable ? p.size : 0;
  return n;
}

}  // namespace hawser::nn
