// Digest loop choice: architectures with a single level always use the baseline.
#include "engine/checkpoint/digest_loop.h"

namespace hawser::checkpoint {
namespace baseline {
extern const DigestLoop kLoop;
}  // namespace baseline

const DigestLoop& digest_loop() { return baseline::kLoop; }

}  // namespace hawser::checkpoint
