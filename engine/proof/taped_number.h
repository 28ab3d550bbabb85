// TapedNumber: a double whose computation is recorded, so that one pass backwards gives the derivative of a
// result with respect to every number before it (reverse accumulation: Griewank & Walther, Evaluating
// Derivatives, 2nd ed., section 3.2). It has the operations that reference_model.h uses.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace hawser::train {

/// The operations so far, in order. Each thread needs its own tape; no operation may mix numbers of two
/// tapes.
class Tape {
 public:
  static constexpr int32_t kConstant = -1;

  /// Adds a number with at most two sources and the derivatives with respect to them. Returns its place.
  int32_t add(int32_t a = kConstant, double slope_a = 0, int32_t b = kConstant, double slope_b = 0) {
    steps_.push_back({a, b, slope_a, slope_b});
    return static_cast<int32_t>(steps_.size()) - 1;
  }
  /// Removes all numbers from place `first` on.
  void cut(int32_t first) { steps_.resize(static_cast<size_t>(first)); }
  /// Returns the derivatives of the number at `result` with respect to those at 0 to `count` - 1.
  const std::vector<double>& derivatives(int32_t result, int32_t count) {
    slopes_.assign(steps_.size(), 0.0);
    slopes_[static_cast<size_t>(result)] = 1;
    for (auto i = static_cast<size_t>(result); i >= static_cast<size_t>(count); --i) {
      const Step& step = steps_[i];
      if (step.a != kConstant) slopes_[static_cast<size_t>(step.a)] += step.slope_a * slopes_[i];
      if (step.b != kConstant) slopes_[static_cast<size_t>(step.b)] += step.slope_b * slopes_[i];
    }
    return slopes_;
  }

 private:
  struct Step {
    int32_t a, b;
    double slope_a, slope_b;
  };
  std::vector<Step> steps_;
  std::vector<double> slopes_;
};

class TapedNumber {
 public:
  TapedNumber() = default;
  /// Makes a constant.
  TapedNumber(double value) : value_(value) {}  // NOLINT: formulas mix both
  /// Makes a variable, the next number of the tape.
  TapedNumber(double value, Tape* tape) : tape_(tape), at_(tape->add()), value_(value) {}

  double value() const { return value_; }
  int32_t at() const { return at_; }

  /// Returns f(x), given its value and its derivative.
  friend TapedNumber result(double value, const TapedNumber& x, double slope) {
    return result(value, x, slope, TapedNumber(), 0);
  }
  friend TapedNumber result(double value, const TapedNumber& a, double slope_a, const TapedNumber& b,
                            double slope_b) {
    TapedNumber y(value);
    y.tape_ = a.tape_ != nullptr ? a.tape_ : b.tape_;
    if (y.tape_ != nullptr) y.at_ = y.tape_->add(a.at_, slope_a, b.at_, slope_b);
    return y;
  }

 private:
  Tape* tape_ = nullptr;
  int32_t at_ = Tape::kConstant;
  double value_ = 0;
};

inline TapedNumber operator+(const TapedNumber& a, const TapedNumber& b) {
  return result(a.value() + b.value(), a, 1, b, 1);
}
inline TapedNumber operator-(const TapedNumber& a, const TapedNumber& b) {
  return result(a.value() - b.value(), a, 1, b, -1);
}
inline TapedNumber operator*(const TapedNumber& a, const TapedNumber& b) {
  return result(a.value() * b.value(), a, b.value(), b, a.value());
}
inline TapedNumber operator/(const TapedNumber& a, const TapedNumber& b) {
  const double y = a.value() / b.value();
  return result(y, a, 1 / b.value(), b, -y / b.value());
}
inline TapedNumber operator-(const TapedNumber& x) { return result(-x.value(), x, -1); }
inline TapedNumber& operator+=(TapedNumber& a, const TapedNumber& b) { return a = a + b; }
inline TapedNumber& operator*=(TapedNumber& a, const TapedNumber& b) { return a = a * b; }

inline TapedNumber exp(const TapedNumber& x) {
  const double y = std::exp(x.value());
  return result(y, x, y);
}
inline TapedNumber log(const TapedNumber& x) { return result(std::log(x.value()), x, 1 / x.value()); }
inline TapedNumber sqrt(const TapedNumber& x) {
  const double y = std::sqrt(x.value());
  return result(y, x, 0.5 / y);
}
inline TapedNumber tanh(const TapedNumber& x) {
  const double y = std::tanh(x.value());
  return result(y, x, 1 - y * y);
}
inline TapedNumber reference_erf(const TapedNumber& x) {
  constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
  return result(std::erf(x.value()), x, kTwoOverSqrtPi * std::exp(-x.value() * x.value()));
}
inline double real_part(const TapedNumber& x) { return x.value(); }

}  // namespace hawser::train
