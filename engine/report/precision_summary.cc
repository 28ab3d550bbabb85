#include "engine/report/precision_summary.h"

#include <fmt/format.h>

#include "engine/assembly/engine_plans.h"
#include "engine/assembly/precision.h"

namespace hawser::train {
namespace {

/// Describes the loss of accuracy if everything is stored as bf16.
constexpr const char* kPureText =
    "weights, gradients and moments are stored only as bf16, with 8 significant bits; losses, and sums "
    "inside "
    "a product or over ranks, are f32. The cost: a step rounds each weight and moment to one of its two bf16 "
    "neighbours, at random so that the mean is right (an error of up to 2^-7 of the value each time; the "
    "random "
    "bits depend on seed, name, element and step, so a run has the same bits on every layout). Gradients are "
    "rounded to nearest once per micro-batch, once when they are accumulated, and once as a sum over ranks. "
    "Precision bf16 keeps f32 masters, gradients and moments instead, at 18 bytes per parameter";

std::string fp8_scales(const config::Fp8Config& fp8) {
  const std::string one = "with a power of two for each operand, from its largest magnitude ";
  switch (fp8.recipe) {
    case config::Fp8Recipe::kDelayed:
      return one + "in the last " + std::to_string(fp8.history) + " steps";
    case config::Fp8Recipe::kCurrent:
      return one + "in this micro-batch";
    default:
      return "with a power of two for each block of an operand, from its largest magnitude: blocks of "
             "128 x 128 numbers of a weight, and of 128 numbers of an input or a gradient along the "
             "dimension that a product sums over";
  }
}

/// Describes the type of the stored residual stream, and what it and the other type cost.
std::string residual_stream(const config::ResolvedConfig& config) {
  const bool narrow = config.cuda.residual == DType::kBf16;
  const int64_t half = config.model.width * dtype_bytes(DType::kBf16);
  return fmt::format(
      "; the residual stream is stored as {} ({} bytes per token after each of the two sums of a layer{}; "
      "with /cuda/residual \"{}\" {} bytes{})",
      narrow ? "bf16" : "f32", narrow ? half : 2 * half, narrow ? ", rounded to 8 significant bits" : "",
      narrow ? "f32" : "bf16", narrow ? 2 * half : half, narrow ? "" : ", rounded to 8 significant bits");
}

}  // namespace

std::string precision_summary(const config::ResolvedConfig& config,
                              const parallel::DataParallelStrategy& strategy) {
  const bool narrow = compute_type(config) != DType::kF32;
  const bool pure = state_type(config) != DType::kF32;
  std::string text = pure     ? kPureText
                     : narrow ? (compute_type(config) == DType::kF16
                                     ? "products multiply f16 weights; look-ups, norms and biases read f32"
                                     : "products multiply bf16 weights; look-ups, norms and biases read f32")
                              : "parameters f32";
  if (narrow && config.device == "cuda") text += residual_stream(config);
  if (config.precision == config::Precision::kFp8)
    text += std::string(
                "; the blocks' products round their operands to fp8 (E4M3 inputs and weights, E5M2 "
                "gradients), ") +
            fp8_scales(config.fp8);
  if (config.model.int8_linears)
    text +=
        "; weights of the blocks' linears are gathered as int8, in blocks of 64 in 66 bytes, and decoded "
        "for each product";
  if (const nn::CompressSet& saved = config.recompute.compress; saved.any()) {
    std::string arrays = saved.mlp_hidden ? "mlp_hidden" : "";
    for (const auto& [named, name] : {std::pair(saved.qkv, "qkv"), {saved.attention, "attention"}})
      if (named) arrays += (arrays.empty() ? "" : ", ") + std::string(name);
    text +=
        "; between forward and backward, blocks keep " + arrays + " as fp8 (E4M3), 128 numbers in 129 bytes";
  }
  if (config.model.adapter.nf4)
    text += "; frozen linears of blocks are kept in nf4 and decoded for each product";
  if (strategy.many()) {
    text += strategy.wire == DType::kF32 ? "; gradients travel as f32" : "; gradients travel as bf16";
    if (is_block_type(strategy.records))
      text += strategy.records == DType::kI8Block
                  ? ", those of products' weights as int8, in blocks of 64 in 66 bytes"
                  : ", those of products' weights as int4, in blocks of 64 in 34 bytes";
  }
  if (!pure) text += "; gradients, their sums and losses are f32";
  return text + (config.output_type == config::Precision::kBf16 ? ", logits are rounded to bf16"
                 : pure                                         ? "; logits are f32"
                                                                : ", and so are logits");
}

}  // namespace hawser::train
