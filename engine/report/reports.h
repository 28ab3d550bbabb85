// Reports: writes an engine's own state as JSON: its config and plan, its data, and the last calls of its
// ranks.
//
// Threading: const members may run in parallel. flight may also run during a step and after an error.
#pragma once

#include <string>

#include "engine/data/dataset.h"
#include "engine/ranks/ranks.h"
#include "engine/save/saves.h"
#include "engine/state/progress.h"
#include "engine/state/references.h"
#include "engine/state/teacher_pass.h"

namespace hawser::train {

class Reports {
 public:
  /// `dataset` may be null.
  Reports(const Ranks& ranks, const data::Dataset* dataset, const Progress& progress, const Saves& saves,
          const References& references, const TeacherOutput& teacher)
      : ranks_(ranks),
        dataset_(dataset),
        progress_(progress),
        saves_(saves),
        references_(references),
        teacher_(teacher) {}

  std::string info_json() const;
  std::string data_json() const;
  /// The last calls of every local rank to other ranks, finished, failed or still waiting (the flight
  /// recorder).
  std::string flight(bool json) const;  // flight_report.cc

 private:
  const Ranks& ranks_;
  const data::Dataset* const dataset_;
  const Progress& progress_;
  const Saves& saves_;
  const References& references_;
  const TeacherOutput& teacher_;
};

}  // namespace hawser::train
