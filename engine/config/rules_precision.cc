// Precision rules: refuse loss scales that are not powers of two, precision fp16 on devices without
// kernels for it, a residual stream narrower than the operands of products, the fp8 recipe "current" if a
// product has only a part of an operand, "blocks" if a product has parts of blocks, and sizes for which a GPU
// has no products of fp8.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/dtype.h"
#include "engine/config/rules.h"
#include "kernels/include/fp8_sizes.h"

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
               kCp[] = "/mesh/cp", kEp[] = "/mesh/ep", kHeadDim[] = "/model/head_dim",
               kKvHeads[] = "/model/kv_heads", kValueDim[] = "/model/latent/value_dim",
               kMlpWidth[] = "/model/mlp_width", kWidth[] = "/model/width";

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

bool scales_blocks(const Effective& c) { return is_fp8(c) && c.is("/fp8/recipe", "blocks"); }

/// True if tensor-parallel ranks divide `elements` evenly, but not into whole blocks.
bool cuts_blocks(int64_t elements, int64_t tp) {
  return elements % tp == 0 && elements / tp % kFp8Block != 0;
}

/// Returns a size of the model; 0 if the model does not have it.
int64_t size_of(const Effective& c, const char* pointer) { return c.has(pointer) ? c.integer(pointer) : 0; }

bool has_latent_heads(const Effective& c) { return size_of(c, "/model/latent/kv_rank") > 0; }

bool cuts_queries(const Effective& c, int64_t tp) {
  return cuts_blocks(size_of(c, "/model/heads") * size_of(c, kHeadDim), tp);
}

/// Ranks that share a key/value head each have the complete head. False if queries are cut as well.
bool cuts_keys(const Effective& c, int64_t tp) {
  return !has_latent_heads(c) && !cuts_queries(c, tp) &&
         cuts_blocks(std::max(size_of(c, kKvHeads), tp) * size_of(c, kHeadDim), tp);
}

/// Latent attention expands values, and keys without their rotated part.
bool cuts_values(const Effective& c, int64_t tp) {
  if (!has_latent_heads(c)) return false;
  const int64_t heads = size_of(c, "/model/heads"), values = size_of(c, kValueDim);
  const int64_t keys = size_of(c, kHeadDim) - size_of(c, "/model/latent/rope_dim");
  return cuts_blocks(heads * values, tp) || cuts_blocks(heads * (keys + values), tp);
}

bool cuts_features(const Effective& c, int64_t tp) {
  return has_effect(c, kMlpWidth) && cuts_blocks(size_of(c, kMlpWidth), tp);
}

/// True if `tp` ranks can divide the model, and each has whole blocks.
bool keeps_blocks(const Effective& c, int64_t tp) {
  const int64_t kv_heads = size_of(c, kKvHeads);
  return size_of(c, "/model/heads") % tp == 0 && size_of(c, kMlpWidth) % tp == 0 &&
         std::max(kv_heads, tp) % std::max<int64_t>(1, std::min(kv_heads, tp)) == 0 && !cuts_queries(c, tp) &&
         !cuts_keys(c, tp) && !cuts_values(c, tp) && !cuts_features(c, tp);
}

/// Returns the largest number of tensor-parallel ranks up to /mesh/tp for which keeps_blocks is true.
std::string nearest_tp_of_blocks(const Effective& c) {
  int64_t tp = c.integer(kTp);
  while (tp > 1 && !keeps_blocks(c, tp)) --tp;
  return fmt::format("{}", tp);
}

/// A check for elements of weights that tensor-parallel ranks divide. `kField`: their number or size.
template <const char* kField, bool (*cuts)(const Effective&, int64_t)>
constexpr Check cuts_blocks_of(const char* message) {
  return {"/mesh/tp",
          {"/precision", "/fp8/recipe", kTp, "/model/heads", "/model/head_dim", kField},
          [](const Effective& c) {
            const int64_t tp = c.integer(kTp);
            return scales_blocks(c) && tp > 1 && cuts(c, tp);
          },
          message,
          "use {}, or set /fp8/recipe to \"delayed\"",
          nearest_tp_of_blocks};
}

using kernels::kFp8Sizes;

/// True if tensor-parallel ranks divide `elements` evenly, but into sizes without products of fp8.
bool is_uneven(int64_t elements, int64_t tp) { return elements % tp == 0 && elements / tp % kFp8Sizes != 0; }
bool has_uneven_heads(const Effective& c) {
  const int64_t tp = c.integer(kTp), head = size_of(c, kHeadDim);
  return is_uneven(size_of(c, "/model/heads") * head, tp) ||
         (!has_latent_heads(c) && is_uneven(std::max(size_of(c, kKvHeads), tp) * head, tp));
}

/// Returns the least multiple of the sizes of each rank that is not below a field's value.
template <const char* kField>
std::string next_fp8_size(const Effective& c) {
  const int64_t step = kFp8Sizes * (kField == kMlpWidth ? c.integer(kTp) : 1);
  return fmt::format("{}", (c.integer(kField) + step - 1) / step * step);
}

/// A check for a size of products of fp8 on a GPU.
template <const char* kField>
constexpr Check sizes_of_fp8(bool (*uneven)(const Effective&), const char* message) {
  return {kField,
          {"/precision", "/device", kField, kTp, "/model/heads", kKvHeads},
          uneven,
          message,
          "use {}, or set /precision to \"bf16\"",
          next_fp8_size<kField>};
}
bool is_fp8_on_gpu(const Effective& c) { return is_fp8(c) && c.is("/device", "cuda"); }

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
     [](const Effective& c) { return c.is("/precision", "fp16") && !c.is("/device", "cpu"); },
     "precision {/precision} runs on the CPU only, and device is {/device}",
     "use \"bf16\", or set /device to \"cpu\""},
    {"/cuda/residual",
     {"/cuda/residual", "/precision"},
     [](const Effective& c) {
       return c.is("/cuda/residual", "bf16") && c.is("/device", "cuda") && c.is("/precision", "fp32");
     },
     "a residual stream in bf16 would be less precise than matrix products with precision {/precision}",
     "use \"f32\", or set /precision to \"bf16\""},
    sizes_of_fp8<kWidth>(
        [](const Effective& c) { return is_fp8_on_gpu(c) && is_uneven(size_of(c, kWidth), 1); },
        "16 must divide the sizes of a GPU's products of fp8, and width is {/model/width}"),
    sizes_of_fp8<kMlpWidth>(
        [](const Effective& c) {
          return is_fp8_on_gpu(c) && has_effect(c, kMlpWidth) &&
                 is_uneven(size_of(c, kMlpWidth), c.integer(kTp));
        },
        "16 must divide the sizes of a GPU's products of fp8, and mlp_width is {/model/mlp_width}, of which "
        "mesh.tp {/mesh/tp} leaves one part to each rank"),
    sizes_of_fp8<kHeadDim>(
        [](const Effective& c) { return is_fp8_on_gpu(c) && has_uneven_heads(c); },
        "16 must divide the sizes of a GPU's products of fp8, and {/model/heads} heads of {/model/head_dim} "
        "elements, of which {/model/kv_heads} have keys and values, do not have such sizes with mesh.tp "
        "{/mesh/tp}"),
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
    {"/fp8/recipe",
     {"/precision", "/fp8/recipe", "/recompute/rows"},
     [](const Effective& c) { return scales_blocks(c) && c.integer("/recompute/rows") > 0; },
     "recipe \"blocks\" needs blocks of 128 rows, and recompute.rows is {/recompute/rows}, so the MLP would "
     "compute tiles of rows that split blocks",
     "use \"delayed\", or set /recompute/rows to 0"},
    cuts_blocks_of<kHeadDim, cuts_queries>(
        "fp8.recipe \"blocks\" scales weights in blocks of 128 x 128 numbers, and {/mesh/tp} tensor-parallel "
        "ranks would divide {/model/heads} heads of {/model/head_dim} elements into incomplete blocks"),
    cuts_blocks_of<kKvHeads, cuts_keys>(
        "fp8.recipe \"blocks\" scales weights in blocks of 128 x 128 numbers, and {/mesh/tp} tensor-parallel "
        "ranks would divide {/model/kv_heads} key/value heads of {/model/head_dim} elements into incomplete "
        "blocks"),
    cuts_blocks_of<kValueDim, cuts_values>(
        "fp8.recipe \"blocks\" scales weights in blocks of 128 x 128 numbers, and {/mesh/tp} tensor-parallel "
        "ranks would divide {/model/heads} heads with latent values of {/model/latent/value_dim} elements "
        "into incomplete blocks"),
    cuts_blocks_of<kMlpWidth, cuts_features>(
        "fp8.recipe \"blocks\" scales weights in blocks of 128 x 128 numbers, and {/mesh/tp} tensor-parallel "
        "ranks would divide an mlp_width of {/model/mlp_width} into incomplete blocks"),
};

}  // namespace

std::span<const Check> precision_checks() { return kPrecisionChecks; }

}  // namespace hawser::config
