// Tests the activations of published models on the first rank, from the layer of the papers and the
// micro-batches that Hawser's schedules have in flight: Korthikanti et al., Reducing Activation Recomputation
// in Large Transformer Models (2022), figures 1 and 7.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/report/chunks_in_flight.h"

namespace hawser::testing {
namespace activation_bytes_test {

using parallel::PipelineSchedule, parallel::pipeline::Shape;

struct Model {
  const char* name;
  double heads, width;
  int64_t layers, micro_batch, stages, chunks, micro_batches;
  double most_gib, least_gib;  // figure 1: without any saving, and with sequence parallelism and selective
  std::array<double, 5> percents;  // figure 7
};

constexpr double kTp = 8, kLength = 2048;
constexpr Model kModels[] = {
    {"22B", 64, 6144, 48, 4, 1, 1, 1, 59.25, 9.5625, {100, 66.84, 49.42, 16.18, 7.64}},
    {"175B", 96, 12288, 96, 1, 8, 3, 64, 66.84, 12.35, {100, 62.04, 56.53, 18.49, 8.71}},
    {"530B", 128, 20480, 105, 1, 35, 3, 280, 114.02, 23.08, {100, 58.31, 62.04, 20.27, 9.42}},
    {"1T", 160, 25600, 128, 1, 64, 1, 512, 131.25, 26.56, {100, 58.31, 62.04, 20.27, 9.42}},
};

enum Saving { kNone, kSequence, kSelective, kBoth, kFull };

/// Bytes that a rank keeps of a layer and a micro-batch, in 16 bits: section 4 of the paper.
double layer_bytes(const Model& m, Saving saving) {
  const double sbh = kLength * static_cast<double>(m.micro_batch) * m.width;
  const double scores = 5 * m.heads * kLength / m.width;
  switch (saving) {
    case kNone:
      return sbh * (10 + 24 / kTp + scores / kTp);
    case kSequence:
      return sbh / kTp * (34 + scores);
    case kSelective:
      return sbh * (10 + 24 / kTp);
    case kBoth:
      return sbh / kTp * 34;
    default:
      return sbh * 2;
  }
}

double gib(const Model& m, Saving saving) {
  const int64_t chunks = m.stages * m.chunks;
  const Shape shape{m.chunks > 1 ? PipelineSchedule::kInterleaved : PipelineSchedule::k1F1B, m.stages,
                    m.micro_batches, m.chunks, m.stages};
  const double chunk = layer_bytes(m, saving) * static_cast<double>(m.layers / chunks);
  const std::vector<double> saved(static_cast<size_t>(chunks), chunk);
  return train::most_in_flight(shape, 0, saved) / std::exp2(30);
}

TEST(ActivationBytes, AreThoseOfFigure1) {
  for (const Model& m : kModels) {
    EXPECT_NEAR(gib(m, kNone), m.most_gib, 0.0051) << m.name;  // printed with two digits
    EXPECT_NEAR(gib(m, kBoth), m.least_gib, 0.0051) << m.name;
  }
  EXPECT_EQ(gib(kModels[0], kNone), 59.25);
  EXPECT_EQ(gib(kModels[0], kBoth), 9.5625);
}

/// The figure's percents are up to 0.15 points away from the paper's own formulas.
TEST(ActivationBytes, AreThoseOfFigure7) {
  for (const Model& m : kModels)
    for (const Saving saving : {kNone, kSequence, kSelective, kBoth, kFull})
      EXPECT_NEAR(100 * gib(m, saving) / gib(m, kNone), m.percents[saving], 0.15) << m.name << " " << saving;
}

}  // namespace activation_bytes_test
}  // namespace hawser::testing
