// TeacherPass: the likeliest tokens of the teacher (/teacher/from) for each target of the config's training
// rows.
//
// They are computed once, when an engine for training is created: the teacher is loaded, evaluated on all
// training rows and freed before the engine is made. A run stores them in its folder of checkpoints, with a
// digest of model and data, so that a resumed run can read them. Every process has the pairs of all rows in
// memory.
#pragma once

#include <string>

#include "engine/assembly/assemble.h"
#include "engine/config/config_tree.h"
#include "engine/data/dataset.h"
#include "engine/ranks/ranks.h"

namespace hawser::train {

struct TeacherOutput {
  std::string identity;  ///< digest of model, data, precision and number of ids; "" if there is no teacher
  data::TeacherPairs pairs;  ///< until the dataset takes them
  bool read = false;         ///< true: read from the folder of a run; false: computed
  double seconds = 0;
};

/// True if the config names a teacher for its data.
bool needs_teacher(const config::ResolvedConfig& config);

/// Returns the config of an engine that runs the teacher. Throws what other_model throws.
config::ConfigTree teacher_config(const Assembly& assembly);

/// Reads the pairs from the folder `kept`, if it has them for this model and these data, or computes them
/// with the weights of `ranks`. `model` identifies these weights; `data` is the fingerprint with contents.
/// Runs on the thread of the host program's call, whose interrupt poll and progress callback can end it.
/// Throws kNumeric if a log-probability is not finite, and kCheckpointCorrupt for a damaged file.
/// Collective.
TeacherOutput ask_teacher(const Ranks& ranks, const data::Dataset& dataset, int64_t top,
                          const std::string& model, const std::string& data, const std::string& kept);

/// Writes the pairs to the folder, unless it has them. One process calls it. Throws kIo and kPermission.
void keep_teacher(const TeacherOutput& output, const data::TeacherPairs& pairs, const std::string& folder);

}  // namespace hawser::train
