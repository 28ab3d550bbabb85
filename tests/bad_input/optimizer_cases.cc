// Rule cases about the optimizer's settings for some parameters.
#include "tests/bad_input/case.h"

namespace hawser::bad_input {

std::vector<Case> optimizer_rules_cases() {
  return {
      bad(R"({"optimizer": {"rules": [{"rate": 2}]}})", {"/optimizer/rules/0/of", "is missing", "*norm*"}),
      bad(R"({"optimizer": {"rules": [{"of": ""}]}})", {"/optimizer/rules/0/of", "is empty"}),
      bad(R"({"optimizer": {"rules": [{"of": "blocks.{0,1}"}]}})", {"/optimizer/rules/0/of", "'{'"}),
      bad(R"({"optimizer": {"rules": [{"of": "*", "kind": "adam"}]}})",
          {"/optimizer/rules/0/kind", "did you mean \"adamw\""}),
      bad(R"({"optimizer": {"rules": [{"of": "*", "decay": -1}]}})", {"/optimizer/rules/0/decay", "-1"}),
      bad(R"({"optimizer": {"rules": [{"of": "block.0.*", "rate": 2}]}})",
          {"/optimizer/rules/0/of", "block.0.*", "blocks.0.attention.q.weight"}),
      bad(R"({"optimizer": {"frozen": ["blocks.*"], "rules": [{"of": "blocks.0.*", "rate": 2}]}})",
          {"/optimizer/rules/0/of", "are frozen", "remove it"}),
      bad(R"({"optimizer": {"rules": [{"of": "*.attention.q.*", "kind": "lion"}]}})",
          {"/optimizer/rules", "attention.q.weight", "one matrix product"}),
      bad(R"({"optimizer": {"rules": [{"of": "*.attention_norm.*", "kind": "muon"}]}})",
          {"/optimizer/rules/0", "blocks.0.attention_norm.weight", "is a vector", "whole matrices"}),
      bad(R"({"optimizer": {"muon_momentum": 0.9}})",
          {"/optimizer/muon_momentum", "has no effect", "optimizer.kind is \"adamw\"", "\"muon\""}),
      bad(R"({"optimizer": {"muon_heads": true}})",
          {"/optimizer/muon_heads", "has no effect", "optimizer.kind is \"adamw\"", "\"muon\""}),
      bad(R"({"optimizer": {"kind": "muon", "muon_scale": "rms"}})",
          {"/optimizer/muon_scale", "\"match_adamw\" or \"spectral\""}),
      bad(R"({"optimizer": {"kind": "muon"}, "precision": "bf16_pure"})",
          {"/precision", "\"bf16_pure\" keeps gradients", "use \"bf16\""}),
      bad(R"({"optimizer": {"rules": [{"of": "*.o.weight", "kind": "muon"}]}, "mesh": {"tp": 2}})",
          {"/mesh/tp", "2 tensor-parallel ranks", "dp_shard, cp, ep or pp"}),
      bad(R"({"optimizer": {"kind": "muon"}, "offload": {"optimizer": "disk", "folder": "."}})",
          {"/offload/optimizer", "\"disk\" is not supported", "use \"off\""}),
      bad(R"({"optimizer": {"kind": "muon"}, "device": "cuda"})",
          {"/device", "\"muon\" is not supported on device \"cuda\"", "\"adamw\""}),
      bad(R"({"optimizer": {"kind": "adamw8"}, "precision": "bf16_pure"})",
          {"/precision", "\"adamw8\" has fp32 gradients", "use \"bf16\"", "\"adamw\""}),
      bad(R"({"optimizer": {"rules": [{"of": "*.o.weight", "kind": "adamw8"}]}, "precision": "bf16_pure"})",
          {"/precision", "moments in 8 bits"}),
      bad(R"({"optimizer": {"kind": "adamw8"}, "device": "cuda"})",
          {"/device", "\"adamw8\" is not supported on device \"cuda\"", "\"adamw\""}),
      bad(R"({"optimizer": {"kind": "adamw_8"}})", {"/optimizer/kind", "did you mean \"adamw8\""}),
      bad(R"({"optimizer": {"kind": "adamw8", "momentum": 0.9}})",
          {"/optimizer/momentum", "has no effect", "optimizer.kind is \"adamw8\""}),
      bad(R"({"optimizer": {"average": 1}})", {"/optimizer/average", "below 1"}),
      bad(R"({"optimizer": {"average": 0.9}, "precision": "bf16_pure"})",
          {"/optimizer/average", "decay 0.9 needs fp32 weights", "use precision \"bf16\""}),
      bad(R"({"init": {"average": true}})", {"/init/average", "no checkpoint", "/init/from"}),
  };
}

}  // namespace hawser::bad_input
