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
  };
}

}  // namespace hawser::bad_input
