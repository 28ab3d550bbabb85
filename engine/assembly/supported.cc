#include "engine/assembly/supported.h"

#include <fmt/format.h>

#include <string>

#include "engine/base/error.h"
#include "engine/optim/update.h"

namespace hawser::train {
namespace {

[[noreturn]] void refuse(const std::string& what, const char* instead) {
  fail(Code::kConfigInvalid,
       "/device: {} not supported on device \"cuda\" yet: set /device to \"cpu\", or {}", what, instead);
}

void require_trainable(const nn::Model& model, const config::ResolvedConfig& config) {
  for (const nn::ParameterGroup& group : model.table().groups()) {
    const optim::UpdateRule& rule = optim::rule_of(optim::kind_of(group));
    if (group.trainable && rule.unit != optim::UpdateUnit::kElements)
      refuse(fmt::format("optimizer \"{}\" is", rule.name),
             "use \"adamw\", \"lion\" or \"sgd\" in /optimizer/kind and /optimizer/rules");
  }
  if (config.optimizer.qk_clip)
    refuse(fmt::format("/optimizer/qk_clip {} is", *config.optimizer.qk_clip), "remove /optimizer/qk_clip");
  if (config.teacher.on())
    refuse(fmt::format("a teacher (/teacher/top {}) is", config.teacher.top), "remove /teacher");
  if (config.model.ahead > 0)
    refuse(fmt::format("multi-token prediction (/model/ahead {}) is", config.model.ahead),
           "use /model/ahead 0");
}

}  // namespace

void require_supported(const nn::Model& model, const config::ResolvedConfig& config, std::string_view kernels,
                       bool inference) {
  if (kernels != "cuda") return;
  if (!inference) require_trainable(model, config);
  const nn::BiasConfig& bias = config.model.bias;
  if (config.model.moe.experts > 0 && (bias.gate || bias.up || bias.down))
    refuse("biases of experts are", "set model.bias.gate, up and down to false");
}

}  // namespace hawser::train
