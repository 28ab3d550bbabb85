// Reports: what an engine says of itself, as JSON: what it is, what its data are, what its ranks did last.
//
// Threading: const members beside each other; flight beside a running step and after an error, too.
#pragma once

#include <string>

#include "engine/data/dataset.h"
#include "engine/train/progress.h"
#include "engine/train/ranks/ranks.h"
#include "engine/train/save/saves.h"

namespace hawser::train {

class Reports {
 public:
  /// `dataset`: null where there is none.
  Reports(const Ranks& ranks, const data::Dataset* dataset, const Progress& progress, const Saves& saves)
      : ranks_(ranks), dataset_(dataset), progress_(progress), saves_(saves) {}

  std::string info_json() const;
  std::string data_json() const;
  /// The last calls of every rank of this process to others, whatever became of them.
  std::string flight(bool json) const;  // flight_report.cc

 private:
  const Ranks& ranks_;
  const data::Dataset* const dataset_;
  const Progress& progress_;
  const Saves& saves_;
};

}  // namespace hawser::train
