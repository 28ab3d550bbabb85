// Identifies the processor. There is one implementation per architecture, chosen by kernels/CMakeLists.txt.
#pragma once

#include "kernels/include/levels.h"

namespace hawser::kernels {

/// The name of the architecture that this file was chosen for, as in cpu_level_architecture().
extern const char* const kArchitecture;

/// The highest level that the processor and the operating system support, built or not.
CpuLevel detect_cpu_level();

/// Copies the trimmed brand string to name (NUL-terminated; "unknown" if there is none).
void read_cpu_name(char (&name)[64]);

}  // namespace hawser::kernels
