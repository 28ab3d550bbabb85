// The digest loop for architectures with a single level.
#include "engine/checkpoint/digest_loop.h"

namespace hawser::checkpoint {
namespace baseline {
extern const DigestLoop kLoop;
}  // namespace baseline

const DigestLoop& digest_loop() { return baseline::kLoop; }

}  // namespace hawser::checkpoint
