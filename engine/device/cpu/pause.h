// A hint to the processor inside a spin loop. The build chooses pause_x86.cc or pause_generic.cc.
#pragma once

namespace hawser::device {
void cpu_pause();
}  // namespace hawser::device
