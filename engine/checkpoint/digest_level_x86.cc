// Digest loop choice: uses AVX2 if this CPU has it.
#include "engine/checkpoint/digest_loop.h"
#include "kernels/include/levels.h"

namespace hawser::checkpoint {
namespace baseline {
extern const DigestLoop kLoop;
}  // namespace baseline
namespace v3 {
extern const DigestLoop kLoop;
}  // namespace v3

const DigestLoop& digest_loop() {
  return kernels::best_cpu_level() >= kernels::CpuLevel::kV3 ? v3::kLoop : baseline::kLoop;
}

}  // namespace hawser::checkpoint
