// Export: an exporter that writes the model as a Hugging Face folder or a GGUF file, or its adapter as a PEFT
// folder. The process of rank 0 writes the files. If it does not hold all elements, it gathers the parameters
// of one stored tensor at a time and frees them after writing, so no process needs memory for the whole
// model.
#pragma once

#include <functional>
#include <string>

#include "engine/checkpoint/hf/hf_model.h"
#include "engine/ranks/ranks.h"
#include "engine/save/background_saver.h"
#include "engine/state/progress.h"
#include "engine/state/tensors.h"

namespace hawser::train {

/// Const calls may run in parallel. Collective. Waits for an asynchronous save in progress.
class Export {
 public:
  Export(const Ranks& ranks, const Progress& progress, const Tensors& tensors, const BackgroundSaver& saver)
      : ranks_(ranks), progress_(progress), tensors_(tensors), saver_(saver) {}

  /// Writes a GGUF file if the path ends in .gguf, else a Hugging Face folder. Merges an adapter into the
  /// weights (merged_weights.h). Throws file errors and those of gguf::export_file or hf::export_folder, on
  /// all ranks.
  void model_to(const std::string& path, const std::string& dtype) const;
  /// Writes a GGUF file if the path ends in .gguf, else a PEFT folder. Throws kFailedPrecondition without an
  /// adapter, and the errors of gguf::export_adapter or hf::export_adapter.
  void adapter_to(const std::string& path) const;

 private:
  using WriteTensors = std::function<void(const checkpoint::hf::ParameterSource& source,
                                          const std::function<void()>& written)>;
  void from_weights(const WriteTensors& write) const;
  void export_with_others(const WriteTensors& write) const;
  void gather_for_export() const;

  const Ranks& ranks_;
  const Progress& progress_;
  const Tensors& tensors_;
  const BackgroundSaver& saver_;
};

}  // namespace hawser::train
