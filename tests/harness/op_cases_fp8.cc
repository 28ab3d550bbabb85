// Rows of the op-case table for records of fp8 and for rounded operands. Results must be equal to the bit.
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "kernels/cpu/fp8_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_fp8 {

/// Returns rows of numbers of all magnitudes: each record has another largest number, from f32 subnormals to
/// the largest f32, some are zeros, some have ties. Numbers within a record span 40 powers of two.
std::vector<double> awkward_numbers(int64_t rows, int64_t n, DType type, bool spoilt) {
  std::vector<double> x = random_values(rows * n, static_cast<uint32_t>(n));
  for (int64_t i = 0; i < rows * n; ++i) {
    double& v = x[static_cast<size_t>(i)];
    const int64_t block = i / n * 5 + i % n / kFp8Block, in_block = i % n % kFp8Block;
    switch (block % 6) {
      case 0:
        v = std::ldexp(std::tanh(v),
                       static_cast<int>(block * 37 % 270) - 142 - static_cast<int>(in_block % 40));
        break;
      case 1:
        v = block % 4 == 1 ? std::copysign(0.0, v) : std::ldexp(v, -118);
        break;
      case 2:
        v = in_block == 5 ? -448
                          : static_cast<double>(in_block % 33 - 16) / 32;  // ties, if 448 is the largest
        break;
      case 3:
        v = std::ldexp(std::tanh(v), 128);  // reaches codes that would be infinite
        break;
      default:
        break;
    }
    v = static_cast<float>(std::clamp(v, -0x1.fep127, 0x1.fep127));
    if (type == DType::kF16) v = std::clamp(v, -65504.0, 65504.0);
    v = rounded(v, type);
  }
  const double bad[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity()};
  for (size_t i = 7, k = 0; spoilt && i < x.size(); i += 2 * kFp8Block + 11, ++k) x[i] = bad[k % 3];
  return x;
}

std::vector<double> record_bytes(DType type, int64_t n, const std::vector<double>& x) {
  std::vector<double> bytes;
  for (auto row = x.begin(); row != x.end(); row += n)
    for (int64_t begin = 0; begin < n; begin += kFp8Block) {
      const auto first = row + begin;
      const std::vector<float> block(first, first + std::min(kFp8Block, n - begin));
      for (const uint8_t byte : kernels::fp8_record(kernels::fp8_format(type), block)) bytes.push_back(byte);
    }
  return bytes;
}

std::vector<double> decoded(DType type, DType y_type, int64_t rows, int64_t n,
                            const std::vector<double>& bytes) {
  const std::vector<uint8_t> records(bytes.begin(), bytes.end());
  std::vector<double> y;
  for (int64_t i = 0; i < rows * n; ++i) {
    const int64_t in_row = (n + kFp8Block - 1) / kFp8Block, record = i / n * in_row + i % n / kFp8Block;
    const double v = kernels::fp8_decoded(kernels::fp8_format(type), records.data() + record * kFp8Record,
                                          i % n % kFp8Block);
    const double number = rounded(v, y_type);
    y.push_back(y_type == DType::kF16 && std::isinf(number) ? std::copysign(65504.0, v) : number);
  }
  return y;
}

std::string named(int64_t rows, int64_t n, DType type, DType other, bool spoilt) {
  return std::to_string(rows) + "x" + std::to_string(n) + "/" + dtype_name(type) + "_" + type_word(other) +
         (spoilt ? "_not_finite" : "");
}

OpCase encode_case(int64_t rows, int64_t n, DType type, DType x_type, bool spoilt) {
  OpCase c = {"fp8_encode", named(rows, n, type, x_type, spoilt), {}, nullptr, nullptr};
  const std::vector<double> x = awkward_numbers(rows, n, x_type, spoilt);
  c.operands = {{"x", Role::kInput, x_type, x, 0},
                whole_numbers("records", record_bytes(type, n, x), Role::kOutput, DType::kU8)};
  c.fast = [=](const FastCall& call) {
    call.table.fp8_encode({call.data[1], type, call.data[0], x_type, rows, n}, call.stream);
  };
  c.reference = [=](RealOperands& v) { v[1] = record_bytes(type, n, v[0]); };
  return c;
}

OpCase decode_case(int64_t rows, int64_t n, DType type, DType y_type, bool spoilt) {
  OpCase c = {"fp8_decode", named(rows, n, type, y_type, spoilt), {}, nullptr, nullptr};
  const std::vector<double> x = awkward_numbers(rows, n, y_type, spoilt);
  c.operands = {whole_numbers("records", record_bytes(type, n, x), Role::kInput, DType::kU8),
                output("y", y_type, rows * n, 0)};
  c.fast = [=](const FastCall& call) {
    call.table.fp8_decode({call.data[1], y_type, call.data[0], type, rows, n}, call.stream);
  };
  c.reference = [=](RealOperands& v) { v[1] = decoded(type, y_type, rows, n, v[0]); };
  return c;
}

/// Returns a stride longer than n, which allows wide accesses if n does.
int64_t longer(int64_t n, int64_t by) { return n + (n % 8 == 0 ? 8 : by); }

/// A tensor in rows of a longer stride, whose maximum is that of a part, of itself, or a tiny number.
OpCase round_case(int64_t rows, int64_t n, DType type, DType x_type, int32_t margin, bool spoilt,
                  int32_t end = -1) {
  OpCase c = {"fp8_round",
              named(rows, n, type, x_type, spoilt) + "_margin" + std::to_string(margin) +
                  (end < 0 ? "" : "_end" + std::to_string(end)),
              {},
              nullptr,
              nullptr};
  const int64_t x_stride = longer(n, 3), y_stride = longer(n, 1);
  std::vector<double> x = awkward_numbers(rows, x_stride, x_type, spoilt);
  double most = static_cast<double>(std::ldexp(1.5f, static_cast<int>(n % 19) - 9));
  if (n % 2 == 0) most = kernels::fp8_maximum_of(x);
  if (n % 3 == 0) most = 0;
  c.operands = {{"x", Role::kInput, x_type, x, 0},
                {"maximum", Role::kInput, DType::kF32, {most}, 0},
                end < 0 ? output("y", DType::kBf16, (rows - 1) * y_stride + n, 0)
                        : in_out("y", DType::kBf16, (rows - 1) * y_stride + n, 5, 1.0, 0)};
  if (end >= 0) c.operands.push_back(whole_numbers("end", {static_cast<double>(end)}));
  c.fast = [=](const FastCall& call) {
    kernels::Fp8Round r;
    r.y = call.as<uint16_t>(2), r.x = call.data[0], r.x_type = x_type, r.type = type;
    r.rows = rows, r.n = n, r.y_stride = y_stride, r.x_stride = x_stride;
    r.maximum = call.as<float>(1), r.margin = margin;
    if (end >= 0) r.end = call.as<int32_t>(3);
    call.table.fp8_round(r, call.stream);
  };
  c.reference = [=](RealOperands& v) {
    for (int64_t row = 0; row < (end < 0 ? rows : end); ++row)
      for (int64_t i = 0; i < n; ++i)
        v[2][static_cast<size_t>(row * y_stride + i)] = kernels::fp8_rounded(
            kernels::fp8_format(type), v[0][static_cast<size_t>(row * x_stride + i)], v[1][0], margin);
  };
  return c;
}

/// A case of rounding in tiles, with one or several groups of rows. The reference finds each number's tile.
struct TileCase {
  int64_t rows, n;
  kernels::Fp8Tile tile;
  DType type, x_type;
  int32_t margin;
  bool spoilt;
  std::vector<int32_t> offsets = {};  ///< empty: `groups` of equal sizes
  int64_t groups = 1;

  int64_t x_stride() const { return longer(n, 3); }
  int64_t y_stride() const { return longer(n, 1); }
  int64_t end() const { return offsets.empty() ? rows : offsets.back(); }
  /// Returns the first row and the first column of a number's tile.
  std::pair<int64_t, int64_t> tile_of(int64_t row, int64_t column) const {
    const int64_t left = tile == kernels::Fp8Tile::k128x1 ? column : column / kFp8Block * kFp8Block;
    if (tile == kernels::Fp8Tile::k1x128) return {row, left};
    int64_t top = row / (rows / groups) * (rows / groups);
    for (size_t g = 0; g + 1 < offsets.size(); ++g)
      if (row >= offsets[g] && row < offsets[g + 1]) top = offsets[g];
    return {top + (row - top) / kFp8Block * kFp8Block, left};
  }
  void round(const std::vector<double>& x, std::vector<double>* y) const {
    const auto from = [&](int64_t row, int64_t i) { return x[static_cast<size_t>(row * x_stride() + i)]; };
    std::map<std::pair<int64_t, int64_t>, std::vector<double>> tiles;
    std::map<std::pair<int64_t, int64_t>, double> maxima;
    for (int64_t row = 0; row < end(); ++row)
      for (int64_t i = 0; i < n; ++i) tiles[tile_of(row, i)].push_back(from(row, i));
    for (const auto& [place, numbers] : tiles) maxima[place] = kernels::fp8_maximum_of(numbers);
    for (int64_t row = 0; row < end(); ++row)
      for (int64_t i = 0; i < n; ++i)
        (*y)[static_cast<size_t>(row * y_stride() + i)] =
            kernels::fp8_rounded(kernels::fp8_format(type), from(row, i), maxima.at(tile_of(row, i)), margin);
  }
  std::string name() const {
    constexpr const char* kTiles[] = {"tensor", "1x128", "128x1", "128x128"};
    return named(rows, n, type, x_type, spoilt) + "_tiles" + kTiles[static_cast<size_t>(tile)] + "_margin" +
           std::to_string(margin) + "_groups" + std::to_string(groups) + (offsets.empty() ? "" : "_offsets");
  }
};

OpCase tile_case(const TileCase& t) {
  OpCase c = {"fp8_round", t.name(), {}, nullptr, nullptr};
  c.operands = {{"x", Role::kInput, t.x_type, awkward_numbers(t.rows, t.x_stride(), t.x_type, t.spoilt), 0},
                in_out("y", DType::kBf16, (t.rows - 1) * t.y_stride() + t.n, 5, 1.0, 0)};
  if (!t.offsets.empty())
    c.operands.push_back(whole_numbers("offsets", {t.offsets.begin(), t.offsets.end()}));
  c.fast = [=](const FastCall& call) {
    kernels::Fp8Round r;
    r.y = call.as<uint16_t>(1), r.x = call.data[0], r.x_type = t.x_type, r.type = t.type;
    r.rows = t.rows, r.n = t.n, r.y_stride = t.y_stride(), r.x_stride = t.x_stride();
    r.margin = t.margin, r.tile = t.tile, r.groups = t.groups;
    if (!t.offsets.empty()) r.offsets = call.as<int32_t>(2), r.end = r.offsets + t.groups;
    call.table.fp8_round(r, call.stream);
  };
  c.reference = [=](RealOperands& v) { t.round(v[0], &v[1]); };
  return c;
}

void add_tile_cases(std::vector<OpCase>& cases) {
  using kernels::Fp8Tile;
  for (const Fp8Tile tile : {Fp8Tile::k1x128, Fp8Tile::k128x1, Fp8Tile::k128x128}) {
    for (const DType type : {DType::kE4m3Block, DType::kE5m2Block})
      for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{1, 1}, {5, 333}, {128, 128}, {131, 129}})
        cases.push_back(tile_case({rows, n, tile, type, DType::kBf16, n == 1 ? 2 : 0, false}));
    cases.push_back(tile_case({130, 40, tile, DType::kE4m3Block, DType::kF32, 3, true}));
    cases.push_back(tile_case({130, 140, tile, DType::kE5m2Block, DType::kF16, 0, true}));
    cases.push_back(tile_case({3 * 150, 130, tile, DType::kE4m3Block, DType::kBf16, 0, false, {}, 3}));
    cases.push_back(
        tile_case({300, 70, tile, DType::kE4m3Block, DType::kBf16, 0, false, {0, 3, 3, 140, 269, 280}, 5}));
    cases.push_back(tile_case({20, 70, tile, DType::kE5m2Block, DType::kBf16, 0, false, {0, 0, 0}, 2}));
  }
}

OpCase maximum_case(int64_t rows, int64_t n, DType x_type, bool accumulate, bool spoilt, int32_t end = -1) {
  OpCase c = {"fp8_maximum",
              std::to_string(rows) + "x" + std::to_string(n) + "_" + type_word(x_type) +
                  (accumulate ? "_accumulate" : "") + (spoilt ? "_not_finite" : "") +
                  (end < 0 ? "" : "_end" + std::to_string(end)),
              {},
              nullptr,
              nullptr};
  const int64_t stride = longer(n, 2);
  c.operands = {{"x", Role::kInput, x_type, random_values((rows - 1) * stride + n, 7, 3.0, x_type), 0},
                in_out("maximum", DType::kF32, 1, 3, 1.0, 0)};
  c.operands[1].value[0] = n % 2 == 0 ? 0x1p40 : 0x1p-40;
  if (end >= 0) c.operands.push_back(whole_numbers("end", {static_cast<double>(end)}));
  std::vector<double>& x = c.operands[0].value;
  for (int64_t row = 0; row + 1 < rows; ++row)
    x[static_cast<size_t>(row * stride + n)] = rounded(6e4, x_type);
  for (size_t i = 1; spoilt && i < x.size(); i += 9)
    x[i] = i % 2 == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  c.fast = [=](const FastCall& call) {
    call.table.fp8_maximum({call.as<float>(1), call.data[0], x_type, rows, n, stride, accumulate,
                            end < 0 ? nullptr : call.as<int32_t>(2)},
                           call.stream);
  };
  c.reference = [=](RealOperands& v) {
    double most = accumulate ? v[1][0] : 0;
    for (int64_t row = 0; row < (end < 0 ? rows : end); ++row) {
      const auto from = v[0].begin() + row * stride;
      most = std::max(most, kernels::fp8_maximum_of({from, from + n}));
    }
    v[1][0] = most;
  };
  return c;
}

}  // namespace op_cases_fp8

void add_fp8_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_fp8;
  struct Shape {
    int64_t rows, n;
  };
  for (const DType type : {DType::kE4m3Block, DType::kE5m2Block})
    for (const DType other : {DType::kF32, DType::kBf16, DType::kF16})
      for (const auto& [rows, n] : {Shape{1, 1}, {2, 128}, {40, 128}, {7, 96}, {3, 129}, {33, 640}, {5, 333}})
        for (const bool spoilt : {false, true}) {
          cases.push_back(encode_case(rows, n, type, other, spoilt));
          cases.push_back(decode_case(rows, n, type, other, spoilt));
          cases.push_back(round_case(rows, n, type, other, spoilt ? 3 : 0, spoilt));
          if (type == DType::kE4m3Block)
            for (const bool accumulate : {false, true})
              cases.push_back(maximum_case(rows, n, other, accumulate, spoilt));
        }
  for (const int32_t end : {0, 1, 33}) {
    cases.push_back(maximum_case(40, 130, DType::kBf16, end == 1, false, end));
    cases.push_back(round_case(40, 130, DType::kE4m3Block, DType::kBf16, 0, false, end));
  }
  add_tile_cases(cases);
  cases.push_back(maximum_case(300, 640, DType::kBf16, false, false));
  cases.push_back(round_case(300, 640, DType::kE5m2Block, DType::kBf16, 0, false));
}

}  // namespace hawser::testing
