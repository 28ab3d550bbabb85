#include "engine/nn/linear.h"

#include <algorithm>

#include "engine/nn/tiled_sums.h"

namespace hawser::nn {
namespace {

/// True if `next` begins where `first`, of `size` elements, ends.
bool follows(Place next, Place first, int64_t size) {
  return next && first && next.group == first.group && next.offset == first.offset + size;
}

/// Returns a product in which only the output is set.
kernels::Matmul into(void* c, DType type, int64_t stride) {
  kernels::Matmul m;
  m.c = c;
  m.c_type = type;
  m.ldc = stride;
  return m;
}

}  // namespace

Linear::Linear(const ParameterTable& table, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    const Parameter& weight = table.at(prefix + ".weight");
    const Columns part{
        table.place(prefix + ".weight"), table.place(prefix + ".bias"), out_, weight.local_shape[0], true,
        &weight - table.all().data()};
    in_ = weight.local_shape[1];
    cuts_inputs_ = weight.cut.dim == 1;
    if (parts_.empty() || !follows(part.weight, parts_.back().weight, parts_.back().out * in_)) {
      stacks_.push_back(part);
    } else {
      const Columns& last = parts_.back();
      Columns& stack = stacks_.back();
      stack.out += part.out;
      stack.whole = stack.whole && ((!last.bias && !part.bias) || follows(part.bias, last.bias, last.out));
    }
    parts_.push_back(part);
    out_ += part.out;
  }
  if (table.adapter().on()) add_adapters(table, prefixes);
}

/// Adds the adapter of each part, or of a joint module: `attention.qkv` for q, k and v.
void Linear::add_adapters(const ParameterTable& table, const std::vector<std::string>& prefixes) {
  std::string joint = prefixes[0].substr(0, prefixes[0].rfind('.') + 1);
  for (const std::string& prefix : prefixes) joint += prefix.substr(prefix.rfind('.') + 1);
  const bool is_joint = prefixes.size() > 1 && table.find(joint + ".adapter_a.weight") != nullptr;
  if (is_joint) adapters_.emplace_back(table, joint, in_);
  for (size_t i = 0; i < prefixes.size(); ++i) {
    const Place b = table.place(prefixes[i] + ".adapter_b.weight");
    if (!b) continue;
    if (!is_joint) adapters_.emplace_back(table, prefixes[i], in_);
    adapters_.back().add({b, parts_[i].begin, parts_[i].out});
    if (table.adapter().dora)
      parts_[i].magnitude = Magnitude(table, prefixes[i], is_joint ? joint : prefixes[i]);
  }
}

/// Returns the weight of a part or of a stack; a weight in records is decoded into the workspace.
const void* Linear::weight(const Context& ctx, const Columns& stack) const {
  if (!is_decoded(stack.weight.read)) return ctx.weight(stack.weight);
  void* const decoded = ctx.take(stack.out * in_);
  for (const Columns& part : parts_)
    if (holds(stack, part))
      ctx.decode(advance(decoded, (part.begin - stack.begin) * in_, ctx.type), part.weight, part.out * in_);
  return decoded;
}

/// Returns the bias of a part, possibly in the workspace; null if another rank adds the bias to the sum.
const float* Linear::bias(const Context& ctx, const Columns& part) const {
  if (cuts_inputs_ && ctx.exchange->rank() != 0) return nullptr;
  return ctx.lookup_f32(part.bias, part.out);
}

/// Computes x W^T + b into the output of m, with m's fused operation.
void Linear::product(const Context& ctx, const Columns& part, kernels::Matmul m, const void* x,
                     int64_t rows) const {
  const RegionScope scope(*ctx.workspace);
  multiply(ctx, part, m, weight(ctx, part), x, rows);
}

/// As product, with a weight that the caller has already obtained.
void Linear::multiply(const Context& ctx, const Columns& part, kernels::Matmul m, const void* weight,
                      const void* x, int64_t rows) const {
  const RegionScope scope(*ctx.workspace);
  m.a = input(ctx, x, rows, Fp8Sum::kColumns, &m.a_fp8);
  m.b = factor(ctx, part, weight, true, &m.b_fp8);
  m.fp8_margin = ctx.fp8.margin;
  m.bias = bias(ctx, part);
  m.a_type = ctx.type, m.b_type = ctx.type;
  m.m = rows, m.n = part.out, m.k = in_;
  m.lda = in_, m.ldb = in_;
  m.b_transposed = true;
  ctx.matmul(m);
}

void Linear::forward(const Context& ctx, void* y, DType y_type, int64_t ldy, const void* x,
                     int64_t rows) const {
  if (has_magnitudes()) {
    for (const Columns& part : parts_)
      forward_columns(ctx, part, advance(y, part.begin, y_type), y_type, ldy, x, rows);
    return;
  }
  const auto compute = [&](const Columns& columns) {
    product(ctx, columns, into(advance(y, columns.begin, y_type), y_type, ldy), x, rows);
  };
  const bool whole =
      std::all_of(stacks_.begin(), stacks_.end(), [](const Columns& stack) { return stack.whole; });
  for (const Columns& columns : whole ? stacks_ : parts_) compute(columns);
  for (const Adapter& adapter : adapters_) adapter.forward(ctx, y, y_type, ldy, 0, out_, x, rows);
}

void Linear::forward_part(const Context& ctx, size_t part, void* y, int64_t ldy, const void* x,
                          int64_t rows) const {
  forward_columns(ctx, parts_[part], y, ctx.type, ldy, x, rows);
}

void Linear::add_adapters_to(const Context& ctx, const Columns& part, void* y, DType y_type, int64_t ldy,
                             const void* x, int64_t rows) const {
  for (const Adapter& adapter : adapters_)
    adapter.forward(ctx, y, y_type, ldy, part.begin, part.out, x, rows);
}

void Linear::forward_columns(const Context& ctx, const Columns& part, void* y, DType y_type, int64_t ldy,
                             const void* x, int64_t rows) const {
  if (part.magnitude) return scaled_columns(ctx, part, y, y_type, ldy, x, rows);
  product(ctx, part, into(y, y_type, ldy), x, rows);
  add_adapters_to(ctx, part, y, y_type, ldy, x, rows);
}

void Linear::forward_gelu(const Context& ctx, void* a, void* h, const void* x, int64_t rows) const {
  HWS_CHECK(stacks_.size() == 1 && stacks_[0].whole && adapters_.empty());
  kernels::Matmul m = into(a, ctx.type, out_);
  m.aux = h;
  m.epilogue = kernels::Epilogue::kGeluTanh;
  product(ctx, stacks_[0], m, x, rows);
}

/// Computes dy W into the output of m, for the columns of one stack. dy is as gradient() returns it.
void Linear::input_gradient(const Context& ctx, const Columns& stack, kernels::Matmul m, const void* dy,
                            DType dy_type, int64_t rows) const {
  const RegionScope scope(*ctx.workspace);
  m.a = advance(dy, stack.begin, dy_type);
  m.b = factor(ctx, stack, weight(ctx, stack), false, &m.b_fp8);
  m.a_fp8 = gradient_factor(ctx, stack, dy, dy_type, rows, Fp8Sum::kColumns);
  m.fp8_margin = ctx.fp8.margin;
  m.a_type = dy_type, m.b_type = ctx.type;
  m.m = rows, m.n = in_, m.k = stack.out;
  m.lda = out_, m.ldb = in_;
  ctx.matmul(m);
}

void Linear::backward_input(const Context& ctx, void* dx, DType dx_type, const void* dy, DType dy_type,
                            int64_t rows, bool adds) const {
  const RegionScope scope(*ctx.workspace);
  dy = scaled_gradient(ctx, dy, dy_type, nullptr, rows);
  kernels::Matmul m = into(dx, dx_type, in_);
  m.accumulate = adds;
  DType operand_type = dy_type;
  const void* const operand = gradient(ctx, dy, &operand_type, rows, Fp8Sum::kColumns);
  for (const Columns& stack : stacks_) {
    input_gradient(ctx, stack, m, operand, operand_type, rows);
    m.accumulate = true;
  }
  for (const Adapter& adapter : adapters_) adapter.backward_input(ctx, dx, dx_type, dy, dy_type, out_, rows);
}

void Linear::backward_input_gelu(const Context& ctx, void* dh, const void* h, const void* dy, DType dy_type,
                                 int64_t rows) const {
  kernels::Matmul m = into(dh, ctx.type, in_);
  m.aux = const_cast<void*>(h);  // the kernel only reads aux here; in forward it writes it
  m.epilogue = kernels::Epilogue::kGeluTanhGradient;
  const RegionScope scope(*ctx.workspace);
  dy = gradient(ctx, dy, &dy_type, rows, Fp8Sum::kColumns);
  input_gradient(ctx, stacks_[0], m, dy, dy_type, rows);
}

/// Contiguous biases get their gradient from the weight's product if the backend supports that, unless rows
/// come in tiles.
void Linear::backward_weight(const Context& ctx, const void* dy, DType dy_type, const void* x,
                             int64_t rows) const {
  const RegionScope scope(*ctx.workspace);
  const void* const dz = scaled_gradient(ctx, dy, dy_type, x, rows);
  DType operand_type = dy_type;
  const void *operand = dz, *rounded_x = x;
  kernels::Fp8Factor of_x;
  const bool rounds = ctx.fp8.on() && trains(ctx);
  if (rounds) {
    operand = gradient(ctx, dz, &operand_type, rows, Fp8Sum::kRows);
    rounded_x = input(ctx, x, rows, Fp8Sum::kRows, &of_x);
  }
  for (const Columns& stack : stacks_) {
    kernels::Matmul m;
    const GradientPlace to = ctx.gradient_place(stack.weight);
    m.a = advance(operand, stack.begin, operand_type);
    m.b = rounded_x;
    m.a_type = operand_type, m.b_type = ctx.type;
    m.m = stack.out, m.n = in_, m.k = rows;
    m.ldc = in_, m.lda = out_, m.ldb = in_;
    m.a_transposed = true;
    if (rounds) m.a_fp8 = gradient_factor(ctx, stack, dz, operand_type, rows, Fp8Sum::kRows);
    m.b_fp8 = of_x, m.fp8_margin = ctx.fp8.margin;
    const bool with_bias = stack.whole && operand == dy && !rounds && ctx.tiled == nullptr;
    if (to.data != nullptr && with_bias && ctx.kernels->suited->epilogues)
      m.bias_gradient = ctx.gradient_place(stack.bias).data;
    ctx.sum_rows(m, stack.weight);
    if (m.bias_gradient == nullptr) sum_bias_gradients(ctx, stack, dy, dy_type, rows);
  }
  for (const Adapter& adapter : adapters_) adapter.backward_weight(ctx, dz, dy_type, out_, x, rows);
}

void Linear::sum_bias_gradients(const Context& ctx, const Columns& stack, const void* dy, DType dy_type,
                                int64_t rows) const {
  for (const Columns& part : parts_) {
    if (!holds(stack, part)) continue;
    kernels::ColumnSum s;
    s.dy = advance(dy, part.begin, dy_type);
    s.type = dy_type;
    s.rows = rows, s.n = part.out, s.stride = out_;
    ctx.sum_rows(s, part.bias);
  }
}

int64_t Linear::tiled_sum_bytes(const Context& ctx) const {
  const auto elements = [&](Place p, int64_t count) {
    return ctx.gradient_place(p).data != nullptr ? count : 0;
  };
  int64_t bytes = 0;
  for (const Columns& stack : stacks_)
    bytes += TiledSums::sum_bytes(ctx, elements(stack.weight, stack.out * in_), 0);
  for (const Columns& part : parts_) bytes += TiledSums::sum_bytes(ctx, 0, elements(part.bias, part.out));
  for (const Adapter& adapter : adapters_) bytes += adapter.tiled_sum_bytes(ctx);
  return bytes;
}

}  // namespace hawser::nn
