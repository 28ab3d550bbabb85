// Maps zeroed pages from the system; the thread that first writes a page thereby places it. It requests huge
// pages, because otherwise the first step of a small model is mostly page faults, and walking through weights
// by column causes more TLB misses.
#include "engine/device/cpu/host_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "engine/device/cpu/kernel_file.h"

namespace hawser::device {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

/// The first number in a small kernel file; -1 if there is none (as for "max").
int64_t read_number(const char* path) { return KernelFile(path).number_after(""); }

int64_t free_memory() {
  const int64_t kib = KernelFile("/proc/meminfo").number_after("MemAvailable:");
  if (kib >= 0) return kib * 1024;
  return int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
}

/// Bytes left below RLIMIT_AS, against which mapped memory counts.
int64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  const int64_t pages = read_number("/proc/self/statm");
  return std::max<int64_t>(
      0, static_cast<int64_t>(limit.rlim_cur) - std::max<int64_t>(0, pages) * sysconf(_SC_PAGESIZE));
}

int64_t whole_pages(int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

int64_t available_memory() {
  int64_t bytes = std::min(free_memory(), address_space_left());
  const int64_t cgroup = read_number("/sys/fs/cgroup/memory.max");
  if (cgroup >= 0)
    bytes = std::min(bytes, std::max<int64_t>(0, cgroup - read_number("/sys/fs/cgroup/memory.current")));
  return bytes;
}

char* map_memory(int64_t bytes) {
  // Aligns to a huge page by mapping one more and unmapping the excess.
  const int64_t mapped = (bytes + kHugePage - 1) / kHugePage * kHugePage + kHugePage;
  void* p = mmap(nullptr, static_cast<size_t>(mapped), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(p);
  const uintptr_t address = reinterpret_cast<uintptr_t>(begin);
  char* const data = begin + (kHugePage - address % kHugePage) % kHugePage;
  if (data > begin) munmap(begin, static_cast<size_t>(data - begin));
  char* const end = begin + mapped;
  char* const data_end = data + whole_pages(bytes);
  if (end > data_end) munmap(data_end, static_cast<size_t>(end - data_end));
  // This is a best effort: if the system refuses, pages are small.
  madvise(data, static_cast<size_t>(data_end - data), MADV_HUGEPAGE);
  return data;
}

void unmap_memory(char* memory, int64_t bytes) { munmap(memory, static_cast<size_t>(whole_pages(bytes))); }

}  // namespace hawser::device
