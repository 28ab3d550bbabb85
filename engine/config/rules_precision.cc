// Precision rules: refuse loss scales that are no powers of two, precisions fp16 and fp8 where they have
// no kernels, and divisions of work under which a rank does not have all numbers of an operand of fp8.
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
               kMinimum[] = "/loss_scale/minimum", kFixed[] = "/loss_scale/fixed";

bool is_fp8(const Effective& c) { return c.is("/precision", "fp8"); }

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
    {"/precision",
     {"/precision", "/model/moe/experts"},
     [](const Effective& c) { return is_fp8(c) && c.integer("/model/moe/experts") > 1; },
     "precision \"fp8\" does not support experts, and the model has {/model/moe/experts}",
     "use \"bf16\""},
    {"/precision",
     {"/precision", "/fp8/recipe", "/mesh/tp"},
     [](const Effective& c) { return is_fp8(c) && c.integer("/mesh/tp") > 1; },
     "fp8 scales follow from all numbers of an operand, and each of the {/mesh/tp} tensor-parallel ranks has "
     "a part",
     "use \"bf16\", or set /mesh/tp to 1"},
    {"/precision",
     {"/precision", "/fp8/recipe", "/mesh/cp"},
     [](const Effective& c) { return is_fp8(c) && c.integer("/mesh/cp") > 1; },
     "fp8 scales follow from all numbers of an operand, and each of the {/mesh/cp} context-parallel ranks "
     "has a part",
     "use \"bf16\", or set /mesh/cp to 1"},
    {"/precision",
     {"/precision", "/fp8/recipe", "/recompute/rows"},
     [](const Effective& c) { return is_fp8(c) && c.integer("/recompute/rows") > 0; },
     "fp8 scales follow from all rows of an operand, and recompute.rows is {/recompute/rows}, so the MLP has "
     "that "
     "many at a time",
     "use \"bf16\", or set /recompute/rows to 0"},
};

}  // namespace

std::span<const Check> precision_checks() { return kPrecisionChecks; }

}  // namespace hawser::config
