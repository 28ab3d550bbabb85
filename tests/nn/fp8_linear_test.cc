// Fp8 linear test: a linear of three stacked weights under precision fp8 against the definition: operands
// rounded number by number (kernels/cpu/fp8_reference.h), sums in f64. Each weight, and each weight's
// columns of the gradient, have another size, and their numbers span more powers of two than a format
// has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/config/config_tree.h"
#include "engine/nn/linear.h"
#include "kernels/cpu/fp8_reference.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/kernel_levels.h"
#include "tests/harness/op_cases.h"
#include "tests/harness/test_stream.h"

namespace hawser::nn {
namespace fp8_linear_test {

using testing::SerialStream;
using Values = std::vector<double>;

constexpr int64_t kRows = 19, kIn = 40;

/// Numbers of bf16 that span 30 powers of two below about 2^power.
Values wide_values(int64_t n, uint32_t seed, int power) {
  Values x = testing::random_values(n, seed);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = testing::rounded(std::ldexp(x[i], power - static_cast<int>(i * 7 % 31)), DType::kBf16);
  return x;
}

std::vector<uint16_t> narrow(const Values& x) {
  std::vector<uint16_t> y;
  for (const double v : x) y.push_back(testing::to_bf16(static_cast<float>(v)));
  return y;
}

/// Rounds x[rows, n], by its own maximum or another.
Values rounded(const Values& x, DType type, int margin, double maximum = 0) {
  if (maximum == 0) maximum = kernels::fp8_maximum_of(x);
  Values y;
  for (const double v : x) y.push_back(kernels::fp8_rounded(kernels::fp8_format(type), v, maximum, margin));
  return y;
}

void expect_near(const std::vector<float>& got, const Values& want, const char* what) {
  double size = 0;
  for (const double v : want) size = std::max(size, std::abs(v));
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], 1e-5 * size) << what << " " << i;
}

/// The linear q, k, v of a model with grouped keys, its memory, and its operands.
struct Qkv {
  const ParameterTable table;
  const Linear linear;
  struct Part {
    int64_t out;
    const char* name;
    Values weight, dy;
  };
  std::vector<Part> parts;
  Values x = wide_values(kRows * kIn, 3, 2);
  std::vector<std::vector<uint16_t>> weights;
  std::vector<std::vector<float>> f32, gradients;
  std::vector<GroupPointers> groups;
  int64_t out = 0;

  static ModelConfig model() {
    return config::resolve(
               config::ConfigTree::from_json(
                   R"({"model": {"vocab_size": 16, "context": 16, "layers": 1, "width": 40, "heads": 4,
                                   "kv_heads": 2}, "batch": {"sequence": 8}})"))
        .model;
  }
  Qkv()
      : table(model()),
        linear(table, {"blocks.0.attention.q", "blocks.0.attention.k", "blocks.0.attention.v"}) {
    const struct {
      const char* name;
      int weight, dy;
    } sizes[] = {{"blocks.0.attention.q.weight", 0, -20},
                 {"blocks.0.attention.k.weight", -9, 3},
                 {"blocks.0.attention.v.weight", 12, -3}};
    for (const ParameterGroup& g : table.groups()) {
      weights.emplace_back(static_cast<size_t>(g.elements));
      f32.emplace_back(static_cast<size_t>(g.elements));
      gradients.emplace_back(static_cast<size_t>(g.elements));
    }
    uint32_t seed = 10;
    for (const auto& [name, weight, dy] : sizes) {
      const Parameter& p = table.at(name);
      parts.push_back({p.shape[0], name, wide_values(p.size, ++seed, weight),
                       wide_values(kRows * p.shape[0], ++seed, dy)});
      const std::vector<uint16_t> stored = narrow(parts.back().weight);
      std::copy(stored.begin(), stored.end(), weights[static_cast<size_t>(p.group)].begin() + p.offset);
      out += p.shape[0];
    }
    for (size_t g = 0; g < weights.size(); ++g)
      groups.push_back({reinterpret_cast<const char*>(is_product(table.groups()[g].read)
                                                          ? static_cast<const void*>(weights[g].data())
                                                          : f32[g].data()),
                        gradients[g].data()});
  }

  int64_t index(const Part& part, Fp8Role role) const {
    return (&table.at(part.name) - table.all().data()) * kFp8Roles + static_cast<int64_t>(role);
  }
  /// The gradient of all columns, next to each other in each row.
  Values whole_dy() const {
    Values all;
    for (int64_t row = 0; row < kRows; ++row)
      for (const Part& p : parts)
        all.insert(all.end(), p.dy.begin() + row * p.out, p.dy.begin() + (row + 1) * p.out);
    return all;
  }
};

struct Results {
  std::vector<float> y, dx;
};

Results run(Qkv* qkv, const kernels::KernelTable& kernels, Fp8Operands fp8) {
  SerialStream stream(3, testing::TaskOrder::kShuffled);
  std::vector<char> memory(1 << 20);
  Region workspace(memory.data() + 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64, 1 << 19);
  Context ctx;
  ctx.kernels = &kernels, ctx.stream = &stream, ctx.workspace = &workspace;
  ctx.batch = 1, ctx.seq = kRows;
  ctx.type = DType::kBf16, ctx.fp8 = fp8;
  ctx.groups = qkv->groups.data();
  const std::vector<uint16_t> x = narrow(qkv->x), dy = narrow(qkv->whole_dy());
  Results r{std::vector<float>(static_cast<size_t>(kRows * qkv->out)), std::vector<float>(kRows * kIn)};
  qkv->linear.forward(ctx, r.y.data(), DType::kF32, qkv->out, x.data(), kRows);
  qkv->linear.backward_input(ctx, r.dx.data(), DType::kF32, dy.data(), DType::kBf16, kRows);
  qkv->linear.backward_weight(ctx, dy.data(), DType::kBf16, x.data(), kRows);
  return r;
}

/// Compares with the definition; `past` has the maxima that set the scales, 0 for the operand's own.
void expect_definition(Qkv* qkv, const kernels::KernelTable& kernels, Fp8Operands fp8) {
  const auto past = [&](const Qkv::Part& part, Fp8Role role) {
    return fp8.maxima ? static_cast<double>(fp8.maxima[qkv->index(part, role)]) : 0.0;
  };
  const Results got = run(qkv, kernels, fp8);
  const Values x = rounded(qkv->x, DType::kE4m3Block, fp8.margin, past(qkv->parts[0], Fp8Role::kInput));
  Values y(static_cast<size_t>(kRows * qkv->out)), dx(static_cast<size_t>(kRows * kIn));
  int64_t begin = 0;
  for (const Qkv::Part& part : qkv->parts) {
    const Values w = rounded(part.weight, DType::kE4m3Block, fp8.margin, past(part, Fp8Role::kWeight));
    const Values dy = rounded(part.dy, DType::kE5m2Block, fp8.margin, past(part, Fp8Role::kGradient));
    Values dw(w.size());
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t o = 0; o < part.out; ++o)
        for (int64_t i = 0; i < kIn; ++i) {
          const auto at_w = static_cast<size_t>(o * kIn + i), at_x = static_cast<size_t>(r * kIn + i);
          const double d = dy[static_cast<size_t>(r * part.out + o)];
          y[static_cast<size_t>(r * qkv->out + begin + o)] += x[at_x] * w[at_w];
          dx[at_x] += d * w[at_w];
          dw[at_w] += d * x[at_x];
        }
    const Parameter& p = qkv->table.at(part.name);
    const auto from = qkv->gradients[static_cast<size_t>(p.group)].begin() + p.offset;
    expect_near({from, from + p.size}, dw, part.name);
    Values columns;
    std::vector<float> own;
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t o = 0; o < part.out; ++o) {
        const auto at = static_cast<size_t>(r * qkv->out + begin + o);
        columns.push_back(y[at]), own.push_back(got.y[at]);
      }
    expect_near(own, columns, "y");
    begin += part.out;
  }
  expect_near(got.dx, dx, "dx");
}

TEST(Fp8Linear, MultipliesRoundedOperandsByTheirOwnMaxima) {
  for (const kernels::KernelTable* kernels : testing::kernel_tables())
    for (const int32_t margin : {0, 3}) {
      SCOPED_TRACE(kernels->name);
      Qkv qkv;
      expect_definition(&qkv, *kernels, {.on = true, .margin = margin});
    }
}

/// Earlier maxima may be too small or too large; all operands note their own.
TEST(Fp8Linear, FollowsEarlierMaximaAndNotesItsOwn) {
  for (const kernels::KernelTable* kernels : testing::kernel_tables()) {
    SCOPED_TRACE(kernels->name);
    Qkv qkv;
    std::vector<float> maxima(qkv.table.all().size() * kFp8Roles, 1.0f), noted(maxima.size());
    const auto set = [&](size_t part, Fp8Role role, float maximum) {
      maxima[static_cast<size_t>(qkv.index(qkv.parts[part], role))] = maximum;
    };
    set(0, Fp8Role::kInput, 0x1p-3f), set(0, Fp8Role::kGradient, 0x1p-10f);
    set(1, Fp8Role::kInput, 100.0f);  // of an input that the first part's stands for
    set(2, Fp8Role::kWeight, 0x1p20f);
    noted[static_cast<size_t>(qkv.index(qkv.parts[1], Fp8Role::kWeight))] = 1000.0f;
    const Fp8Operands fp8{.on = true, .margin = 1, .maxima = maxima.data(), .noted = noted.data()};
    expect_definition(&qkv, *kernels, fp8);
    std::vector<float> want(noted.size());
    const auto expect = [&](size_t part, Fp8Role role, double maximum) {
      want[static_cast<size_t>(qkv.index(qkv.parts[part], role))] = static_cast<float>(maximum);
    };
    expect(0, Fp8Role::kInput, kernels::fp8_maximum_of(qkv.x));
    for (size_t part = 0; part < 3; ++part) {
      expect(part, Fp8Role::kWeight, part == 1 ? 1000.0 : kernels::fp8_maximum_of(qkv.parts[part].weight));
      expect(part, Fp8Role::kGradient, kernels::fp8_maximum_of(qkv.parts[part].dy));
    }
    EXPECT_EQ(noted, want);
  }
}

}  // namespace fp8_linear_test
}  // namespace hawser::nn
