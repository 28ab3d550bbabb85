// Host memory, mapped directly from the operating system.
#pragma once

#include <cstdint>

namespace hawser::device {

/// Maps bytes > 0, zeroed, 2 MiB-aligned, in whole pages; null if there is not enough.
char* map_memory(int64_t bytes);
void unmap_memory(char* memory, int64_t bytes);

/// Bytes that this process may still use: the least of free memory, cgroup limit and address-space limit.
int64_t available_memory();

}  // namespace hawser::device
