// cpu_pause: a hint to the processor that the thread is in a spin loop. The build chooses pause_x86.cc,
// pause_arm.cc or pause_generic.cc.
#pragma once

namespace hawser::device {
void cpu_pause();
}  // namespace hawser::device
