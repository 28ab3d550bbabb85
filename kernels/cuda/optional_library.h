// A library of NVIDIA's that is opened when it is first used and not before, as a table of functions: no
// header of its own is needed to build, and nothing of it to load the plugin. For cuBLASLt, cuDNN and NCCL.
// No exceptions, nothing of the C++ library: part of the CUDA plugin.
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <initializer_list>

namespace hawser::kernels::cuda {

/// Where a message goes.
struct ErrorText {
  char* text;
  size_t bytes;
};

/// A function of a library, and the pointer that will point to it.
struct LibraryFunction {
  template <class Function>
  LibraryFunction(const char* symbol, Function*& pointer)
      : name(symbol), at(reinterpret_cast<void**>(&pointer)) {}
  const char* name;
  void** at;
};

/// Versions that are taken: [first, end), in the library's own counting.
struct LibraryVersions {
  int64_t first, end;
};

/// Opens `library` by the loader's rules and fills `functions`. On failure returns false and writes what is
/// missing (the library and what the loader says, or a function).
bool open_functions(const char* library, std::initializer_list<LibraryFunction> functions, ErrorText error);

/// Whether `version` is one of `versions`; else writes so.
bool version_fits(const char* library, int64_t version, LibraryVersions versions, ErrorText error);

/// A library's table, opened once in the process; the library stays open. A static of the function that opens
/// it.
template <class Api>
class OptionalLibrary {
 public:
  /// `open(Api&)` fills the table, or says why not. Any thread.
  template <class Open>
  const Api* get(const Open& open) {
    pthread_mutex_lock(&mutex_);
    if (!opened_) opened_ = open(api_);
    const bool opened = opened_;
    pthread_mutex_unlock(&mutex_);
    return opened ? &api_ : nullptr;
  }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Api api_ = {};
  bool opened_ = false;
};

}  // namespace hawser::kernels::cuda
