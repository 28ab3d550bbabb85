// Fp8 linear test: a linear of three stacked weights under precision fp8 against the definition: operands
// rounded number by number (kernels/cpu/fp8_reference.h), sums in f64. Each weight, and each weight's
// columns of the gradient, have another size, and their numbers span more powers of two than a format
// has. Under scaling in blocks, so do the numbers of each block, and some blocks have fewer than 128 numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
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

struct Block {
  int64_t rows, columns;
};

/// Rounds the blocks of x[rows, n], each by its own maximum.
Values rounded_in_blocks(const Values& x, int64_t n, DType type, int margin, const Block& block) {
  std::map<std::pair<int64_t, int64_t>, Values> blocks;
  const auto block_of = [&](size_t i) {
    return std::pair(static_cast<int64_t>(i) / n / block.rows, static_cast<int64_t>(i) % n / block.columns);
  };
  for (size_t i = 0; i < x.size(); ++i) blocks[block_of(i)].push_back(x[i]);
  std::map<std::pair<int64_t, int64_t>, double> maxima;
  for (const auto& [place, numbers] : blocks) maxima[place] = kernels::fp8_maximum_of(numbers);
  Values y;
  for (size_t i = 0; i < x.size(); ++i)
    y.push_back(kernels::fp8_rounded(kernels::fp8_format(type), x[i], maxima.at(block_of(i)), margin));
  return y;
}

/// Rounds x, by its own maximum or another.
Values rounded(const Values& x, DType type, int margin, double maximum = 0) {
  if (maximum == 0) maximum = kernels::fp8_maximum_of(x);
  Values y;
  for (const double v : x) y.push_back(kernels::fp8_rounded(kernels::fp8_format(type), v, maximum, margin));
  return y;
}

/// Compares each row of n numbers relative to the largest of the row, because rows may differ in size.
void expect_near(const std::vector<float>& got, const Values& want, int64_t n, const char* what) {
  for (size_t begin = 0; begin < want.size(); begin += static_cast<size_t>(n)) {
    const size_t end = begin + static_cast<size_t>(n);
    double size = 0;
    for (size_t i = begin; i < end; ++i) size = std::max(size, std::abs(want[i]));
    for (size_t i = begin; i < end; ++i)
      ASSERT_NEAR(static_cast<double>(got[i]), want[i], 1e-5 * size) << what << " " << i;
  }
}

/// Makes the numbers of each of four rows in turn 2^13 times as small as those of the next row, so that a
/// scale which rows share leaves nothing of the smallest. The last rows of blocks are the largest.
void spread_rows(Values* x, int64_t n) {
  for (size_t i = 0; i < x->size(); ++i)
    (*x)[i] = std::ldexp((*x)[i], -13 * static_cast<int>(3 - static_cast<int64_t>(i) / n % 4));
}

/// The linear q, k, v of a model with grouped keys, its memory, and its operands.
struct Qkv {
  const int64_t rows, in;
  const ParameterTable table;
  const Linear linear;
  struct Part {
    int64_t out;
    const char* name;
    Values weight, dy;
  };
  std::vector<Part> parts;
  Values x = wide_values(rows * in, 3, 2);
  std::vector<std::vector<uint16_t>> weights;
  std::vector<std::vector<float>> f32, gradients;
  std::vector<GroupPointers> groups;
  int64_t out = 0;

  static ModelConfig model(int64_t width) {
    config::ConfigTree tree = config::ConfigTree::from_json(
        R"({"model": {"vocab_size": 16, "context": 16, "layers": 1, "heads": 4, "kv_heads": 2},
            "batch": {"sequence": 8}})");
    tree.set("/model/width", std::to_string(width));
    return config::resolve(tree).model;
  }
  explicit Qkv(int64_t rows_ = 19, int64_t in_ = 40)
      : rows(rows_),
        in(in_),
        table(model(in_)),
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
                       wide_values(rows * p.shape[0], ++seed, dy)});
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
    for (int64_t row = 0; row < rows; ++row)
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
  std::vector<char> memory(1 << 21);
  Region workspace(memory.data() + 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64, 1 << 20);
  Context ctx;
  ctx.kernels = &kernels, ctx.stream = &stream, ctx.workspace = &workspace;
  ctx.batch = 1, ctx.seq = qkv->rows;
  ctx.type = DType::kBf16, ctx.fp8 = fp8;
  ctx.groups = qkv->groups.data();
  const std::vector<uint16_t> x = narrow(qkv->x), dy = narrow(qkv->whole_dy());
  Results r{std::vector<float>(static_cast<size_t>(qkv->rows * qkv->out)), std::vector<float>(qkv->x.size())};
  qkv->linear.forward(ctx, r.y.data(), DType::kF32, qkv->out, x.data(), qkv->rows);
  qkv->linear.backward_input(ctx, r.dx.data(), DType::kF32, dy.data(), DType::kBf16, qkv->rows);
  qkv->linear.backward_weight(ctx, dy.data(), DType::kBf16, x.data(), qkv->rows);
  return r;
}

/// Rounds an operand x[., n] of a part, for a product that sums over the given dimension.
using Rounding = std::function<Values(const Qkv::Part&, Fp8Role, Fp8Sum, const Values& x, int64_t n)>;

void expect_products(Qkv* qkv, const Results& got, const Rounding& round) {
  const int64_t in = qkv->in;
  const Qkv::Part& first = qkv->parts[0];
  const Values x = round(first, Fp8Role::kInput, Fp8Sum::kColumns, qkv->x, in);
  const Values x_of_weights = round(first, Fp8Role::kInput, Fp8Sum::kRows, qkv->x, in);
  Values y(static_cast<size_t>(qkv->rows * qkv->out)), dx(qkv->x.size());
  int64_t begin = 0;
  for (const Qkv::Part& part : qkv->parts) {
    const Values w = round(part, Fp8Role::kWeight, Fp8Sum::kColumns, part.weight, in);
    const Values dy = round(part, Fp8Role::kGradient, Fp8Sum::kColumns, part.dy, part.out);
    const Values dy_of_weights = round(part, Fp8Role::kGradient, Fp8Sum::kRows, part.dy, part.out);
    Values dw(w.size());
    for (int64_t r = 0; r < qkv->rows; ++r)
      for (int64_t o = 0; o < part.out; ++o)
        for (int64_t i = 0; i < in; ++i) {
          const auto at_w = static_cast<size_t>(o * in + i), at_x = static_cast<size_t>(r * in + i),
                     at_dy = static_cast<size_t>(r * part.out + o);
          y[static_cast<size_t>(r * qkv->out + begin + o)] += x[at_x] * w[at_w];
          dx[at_x] += dy[at_dy] * w[at_w];
          dw[at_w] += dy_of_weights[at_dy] * x_of_weights[at_x];
        }
    const Parameter& p = qkv->table.at(part.name);
    const auto from = qkv->gradients[static_cast<size_t>(p.group)].begin() + p.offset;
    expect_near({from, from + p.size}, dw, in, part.name);
    Values columns;
    std::vector<float> own;
    for (int64_t r = 0; r < qkv->rows; ++r)
      for (int64_t o = 0; o < part.out; ++o) {
        const auto at = static_cast<size_t>(r * qkv->out + begin + o);
        columns.push_back(y[at]), own.push_back(got.y[at]);
      }
    expect_near(own, columns, part.out, "y");
    begin += part.out;
  }
  expect_near(got.dx, dx, in, "dx");
}

DType format_of(Fp8Role role) { return role == Fp8Role::kGradient ? DType::kE5m2Block : DType::kE4m3Block; }

/// Compares with the definition; fp8.maxima, or each operand's own maximum, set the scales.
void expect_definition(Qkv* qkv, const kernels::KernelTable& kernels, Fp8Operands fp8) {
  expect_products(qkv, run(qkv, kernels, fp8),
                  [&](const Qkv::Part& part, Fp8Role role, Fp8Sum, const Values& x, int64_t) {
                    const double past =
                        fp8.maxima ? static_cast<double>(fp8.maxima[qkv->index(part, role)]) : 0.0;
                    return rounded(x, format_of(role), fp8.margin, past);
                  });
}

TEST(Fp8Linear, MultipliesRoundedOperandsByTheirOwnMaxima) {
  for (const kernels::KernelTable* kernels : testing::kernel_tables())
    for (const int32_t margin : {0, 3}) {
      SCOPED_TRACE(kernels->name);
      Qkv qkv;
      expect_definition(&qkv, *kernels, {.scaling = Fp8Scaling::kOperand, .margin = margin});
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
    const Fp8Operands fp8{
        .scaling = Fp8Scaling::kHistory, .margin = 1, .maxima = maxima.data(), .noted = noted.data()};
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

/// Blocks begin with each weight and with its columns of the gradient.
TEST(Fp8Linear, RoundsBlocksAlongTheDimensionThatAProductSumsOver) {
  for (const kernels::KernelTable* kernels : testing::kernel_tables())
    for (const int32_t margin : {0, 3}) {
      SCOPED_TRACE(kernels->name);
      Qkv qkv(140, 152);
      spread_rows(&qkv.x, qkv.in);
      for (Qkv::Part& part : qkv.parts) spread_rows(&part.dy, part.out);
      const Fp8Operands fp8{.scaling = Fp8Scaling::kBlocks, .margin = margin};
      expect_products(&qkv, run(&qkv, *kernels, fp8),
                      [&](const Qkv::Part&, Fp8Role role, Fp8Sum sum, const Values& x, int64_t n) {
                        const Block block = role == Fp8Role::kWeight ? Block{128, 128}
                                            : sum == Fp8Sum::kRows   ? Block{128, 1}
                                                                     : Block{1, 128};
                        return rounded_in_blocks(x, n, format_of(role), margin, block);
                      });
    }
}

}  // namespace fp8_linear_test
}  // namespace hawser::nn
