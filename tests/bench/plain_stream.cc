#include "tests/bench/plain_stream.h"

#include <cstdlib>

namespace hawser::bench {
namespace {

constexpr int kLine = 16;  // floats of a cache line
volatile float sink;

template <int kReads, int kWrites, int kUpdates>
void stream(float* const* arrays, int64_t n) {
  float kept[kLine] = {};
  for (int64_t i = 0; i < n; i += kLine) {
    float line[kLine] = {};
#pragma GCC unroll 8
    for (int a = 0; a < kReads; ++a)
      for (int j = 0; j < kLine; ++j) line[j] += arrays[a][i + j];
    if (kWrites + kUpdates == 0) {
      for (int j = 0; j < kLine; ++j) kept[j] += line[j];
    }
#pragma GCC unroll 8
    for (int a = kReads; a < kReads + kWrites; ++a)
      for (int j = 0; j < kLine; ++j) arrays[a][i + j] = line[j];
#pragma GCC unroll 8
    for (int a = kReads + kWrites; a < kReads + kWrites + kUpdates; ++a)
      for (int j = 0; j < kLine; ++j) arrays[a][i + j] += line[j];
  }
  sink = kept[0];
}

struct Loop {
  StreamShape shape;
  void (*run)(float* const*, int64_t);
};

template <int kReads, int kWrites, int kUpdates>
constexpr Loop kLoop = {{kReads, kWrites, kUpdates}, stream<kReads, kWrites, kUpdates>};

constexpr Loop kLoops[] = {kLoop<1, 0, 0>, kLoop<4, 0, 0>, kLoop<1, 1, 0>, kLoop<2, 1, 0>,
                           kLoop<2, 2, 0>, kLoop<3, 3, 0>, kLoop<0, 0, 1>, kLoop<2, 0, 1>,
                           kLoop<1, 0, 3>, kLoop<1, 1, 3>, kLoop<2, 1, 1>};

}  // namespace

void run_plain_stream(const StreamShape& shape, float* const* arrays, int64_t n) {
  for (const Loop& loop : kLoops) {
    if (loop.shape.reads == shape.reads && loop.shape.writes == shape.writes &&
        loop.shape.updates == shape.updates)
      return loop.run(arrays, n);
  }
  std::abort();
}

}  // namespace hawser::bench
