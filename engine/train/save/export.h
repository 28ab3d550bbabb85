// Export as a Hugging Face folder, which the process of rank 0 writes. Where it does not hold all elements,
// each tensor is gathered when its turn comes and dropped when it is written: nobody ever holds more than
// what one stored tensor is made of.
#pragma once

#include <functional>
#include <string>

#include "engine/checkpoint/hf/hf_model.h"
#include "engine/train/progress.h"
#include "engine/train/ranks/ranks.h"
#include "engine/train/save/background_saver.h"
#include "engine/train/tensors.h"

namespace hawser::train {

/// Const calls beside each other. Collective. Waits for a running asynchronous save.
class Export {
 public:
  Export(const Ranks& ranks, const Progress& progress, const Tensors& tensors, const BackgroundSaver& saver)
      : ranks_(ranks), progress_(progress), tensors_(tensors), saver_(saver) {}

  /// Throws what the disk and hf::export_folder say, on all ranks.
  void to_folder(const std::string& folder, const std::string& dtype) const;

 private:
  using WriteTensors = std::function<void(const checkpoint::hf::ParameterSource& source,
                                          const std::function<void()>& written)>;
  void export_with_others(const WriteTensors& write) const;
  void gather_for_export() const;

  const Ranks& ranks_;
  const Progress& progress_;
  const Tensors& tensors_;
  const BackgroundSaver& saver_;
};

}  // namespace hawser::train
