// cpu_pause for x86.
#include <immintrin.h>

#include "engine/device/cpu/pause.h"

namespace hawser::device {
void cpu_pause() { _mm_pause(); }
}  // namespace hawser::device
