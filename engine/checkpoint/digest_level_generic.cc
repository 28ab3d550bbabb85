// The digest loop of a machine that has one level.
#include "engine/checkpoint/digest_loop.h"

namespace hawser::checkpoint {
namespace baseline {
extern const DigestLoop kLoop;
}  // namespace baseline

const DigestLoop& digest_loop() { return baseline::kLoop; }

}  // namespace hawser::checkpoint
