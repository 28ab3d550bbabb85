// Implements check_adapter.h.
#include "tests/golden/check_adapter.h"

#include <vector>

namespace hawser::golden {

void check_base(const EngineSession& base, const AdapterCase& adapter, const GoldenCase& golden,
                const Tolerances& tolerances, Report& report) {
  const StoredTensor& logits = adapter.base_logits;
  report.compare("base_logits",
                 relative_error(base.logits(golden.first.batch, logits.shape[2]), logits.as_doubles()),
                 tolerances.of("base_logits"));
}

void check_trained_adapter(const EngineSession& engine, const AdapterCase& adapter, const GoldenCase& golden,
                           const Tolerances& tolerances, const std::string& folder, Report& report) {
  const StoredTensor& logits = adapter.after_logits;
  report.compare("after_logits",
                 relative_error(engine.logits(golden.first.batch, logits.shape[2]), logits.as_doubles()),
                 tolerances.of("after_logits"));
  engine.export_to(folder, "f32");
  const Tensors exported = read_model_folder(folder);
  for (const auto& [name, weight] : adapter.merged) {
    const auto found = exported.find(name);
    if (found == exported.end() || found->second.shape != weight.shape) {
      report.require("merged." + name, false, "missing, or of another shape");
      continue;
    }
    report.compare("merged." + name, relative_error(found->second.as_doubles(), weight.as_doubles()),
                   tolerances.of("merged." + name));
  }
}

}  // namespace hawser::golden
