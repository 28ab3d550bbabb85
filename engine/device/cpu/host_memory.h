// Memory of the host, straight from the operating system.
#pragma once

#include <cstdint>

namespace hawser::device {

/// bytes > 0, zeroed, 2 MiB-aligned, page-granular; null if there is not as much.
char* map_memory(int64_t bytes);
void unmap_memory(char* memory, int64_t bytes);

/// Memory that this process may still take: the least of free memory, cgroup and address-space limits.
int64_t available_memory();

}  // namespace hawser::device
