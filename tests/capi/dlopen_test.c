/* dlopen test: a program opens and closes the library a hundred times. Opening runs nothing, and closing
 * leaves no thread and no open file.   dlopen_test LIBRARY */
#define _XOPEN_SOURCE 700
#include <dirent.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

static int entries(const char* folder) {
  int count = 0;
  DIR* listing = opendir(folder);
  while (listing != NULL && readdir(listing) != NULL) ++count;
  if (listing != NULL) closedir(listing);
  return count;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const int files = entries("/proc/self/fd"), threads = entries("/proc/self/task");
  for (int i = 0; i < 100; ++i) {
    uint32_t (*abi)(void) = NULL;
    int32_t (*preset)(const char*, void**) = NULL;
    void (*destroy)(void*) = NULL;
    void* config = NULL;
    void* library = dlopen(argv[1], i % 2 == 0 ? RTLD_NOW | RTLD_LOCAL : RTLD_LAZY | RTLD_GLOBAL);
    if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
    *(void**)&abi = dlsym(library, "hws_library_abi");
    *(void**)&preset = dlsym(library, "hws_config_preset");
    *(void**)&destroy = dlsym(library, "hws_config_destroy");
    if (abi == NULL || preset == NULL || destroy == NULL || abi() != 1) return 1;
    if (preset("quickstart", &config) != 0) return 1;
    destroy(config);
    if (preset("no such preset", &config) == 0) return 1; /* leaves a last error with the thread */
    if (dlclose(library) != 0) return 1;
  }
  if (entries("/proc/self/fd") != files || entries("/proc/self/task") != threads) {
    fprintf(stderr, "files %d, then %d; threads %d, then %d\n", files, entries("/proc/self/fd"), threads,
            entries("/proc/self/task"));
    return 1;
  }
  return 0;
}
