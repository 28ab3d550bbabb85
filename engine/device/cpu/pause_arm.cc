// cpu_pause for 64-bit Arm.
#include "engine/device/cpu/pause.h"

namespace hawser::device {
void cpu_pause() { __asm__ volatile("yield" ::: "memory"); }
}  // namespace hawser::device
