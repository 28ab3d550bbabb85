// Precision rules: refuse loss scales that are not powers of two, precisions fp16 and fp8 on devices without
// kernels for them, and the fp8 recipe "current" if a product has only a part of an operand.
#include <fmt/format.h>

#include <cmath>

#include "engine/config/rules.h"

namespace hawser::config {
namespace {

bool is_power_of_two(double x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5;
}
double nearest_power_of_two(double x) { return std::exp2(std::round(std::log2(x))); }

/// A row for a field of the loss scale, which must be a power of two, so that dividing it out is exact.
template <const char* kPointer>
constexpr Check power_of_two(const char* message) {
  return {kPointer,
          {kPointer},
          [](const Effective& c) { return c.has(kPointer) && !is_power_of_two(c.number(kPointer)); },
          message,
          "use {}",
          [](const Effective& c) { return fmt::format("{:.0f}", nearest_power_of_two(c.number(kPointer))); }};
}

constexpr char kInitial[] = "/loss_scale/initial", kBackoff[] = "/loss_scale/backoff",
               kMinimum[] = "/loss_scale/minimum", kFixed[] = "/loss_scale/fixed", kTp[] = "/mesh/tp",
               kCp[] = "/mesh/cp", kEp[] = "/mesh/ep";

bool is_fp8(const Effective& c) { return c.is("/precision", "fp8"); }
bool is_current(const Effective& c) { return is_fp8(c) && c.is("/fp8/recipe", "current"); }

/// A check for a mesh axis that divides operands of products, because ranks exchange maxima only once a step.
template <const char* kAxis>
constexpr Check cuts_current(const char* message) {
  return {"/fp8/recipe",
          {"/precision", "/fp8/recipe", kAxis},
          [](const Effective& c) { return is_current(c) && c.integer(kAxis) > 1; },
          message,
          "use \"delayed\", or set {} to 1",
          [](const Effective&) { return std::string(kAxis); }};
}

constexpr Check kPrecisionChecks[] = {
    power_of_two<kInitial>(
        "{/loss_scale/initial} is no power of two, so gradients could not be unscaled exactly"),
    power_of_two<kBackoff>(
        "{/loss_scale/backoff} is no power of two, so gradients could not be unscaled exactly"),
    power_of_two<kMinimum>(
        "{/loss_scale/minimum} is no power of two, so gradients could not be unscaled exactly"),
    power_of_two<kFixed>(
        "{/loss_scale/fixed} is no power of two, so gradients could not be unscaled exactly"),
    {"/loss_scale/minimum",
     {"/loss_scale/minimum", "/loss_scale/initial"},
     [](const Effective& c) { return c.number("/loss_scale/minimum") > c.number("/loss_scale/initial"); },
     "minimum {/loss_scale/minimum} is above the initial scale, {/loss_scale/initial}",
     "use {/loss_scale/initial} or less"},
    {"/loss_scale/fixed",
     {"/loss_scale/fixed"},
     [](const Effective& c) {
       for (const char* other : {"/loss_scale/initial", "/loss_scale/growth_every", "/loss_scale/backoff",
                                 "/loss_scale/patience", "/loss_scale/minimum"})
         if (c.is_asked(other)) return true;
       return false;
     },
     "a fixed scale ignores the other fields of loss_scale, of which one is set",
     "remove the others, or fixed"},
    {"/precision",
     {"/precision", "/device"},
     [](const Effective& c) { return (c.is("/precision", "fp16") || is_fp8(c)) && !c.is("/device", "cpu"); },
     "precision {/precision} runs on the CPU only, and device is {/device}",
     "use \"bf16\", or set /device to \"cpu\""},
    cuts_current<kTp>(
        "recipe \"current\" needs the maximum of an operand before its product, and each of the "
        "{/mesh/tp} tensor-parallel ranks has only a part of the operand"),
    cuts_current<kCp>(
        "recipe \"current\" needs the maximum of an operand before its product, and each of the "
        "{/mesh/cp} context-parallel ranks has only a part of the operand"),
    cuts_current<kEp>(
        "recipe \"current\" needs the maximum of an operand before its product, and each of the "
        "{/mesh/ep} expert-parallel ranks has only a part of the operand"),
    {"/fp8/recipe",
     {"/precision", "/fp8/recipe", "/recompute/rows"},
     [](const Effective& c) { return is_current(c) && c.integer("/recompute/rows") > 0; },
     "recipe \"current\" needs the maximum of all rows before a product, and recompute.rows is "
     "{/recompute/rows}, so the MLP computes that many rows at a time",
     "use \"delayed\", or set /recompute/rows to 0"},
};

}  // namespace

std::span<const Check> precision_checks() { return kPrecisionChecks; }

}  // namespace hawser::config
