// OptionalLibrary: a library of NVIDIA's (cuBLASLt, cuDNN or NCCL) that is opened when it is first used, as a
// table of functions. Its headers are not needed to build, and the plugin loads without it. It uses no
// exceptions and nothing of the C++ library, because it is part of the CUDA plugin.
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <initializer_list>

namespace hawser::kernels::cuda {

/// The destination of a message.
struct ErrorText {
  char* text;
  size_t bytes;
};

/// A function of a library, and the pointer that will receive its address.
struct LibraryFunction {
  template <class Function>
  LibraryFunction(const char* symbol, Function*& pointer)
      : name(symbol), at(reinterpret_cast<void**>(&pointer)) {}
  const char* name;
  void** at;
};

/// Accepted versions: [first, end), in the library's own numbering.
struct LibraryVersions {
  int64_t first, end;
};

/// Opens `library` by the loader's rules and fills `functions`. On failure returns false and writes what is
/// missing: the library, with the loader's message, or a function.
bool open_functions(const char* library, std::initializer_list<LibraryFunction> functions, ErrorText error);

/// Returns true if `version` is in `versions`; otherwise writes an error.
bool version_fits(const char* library, int64_t version, LibraryVersions versions, ErrorText error);

/// A library's table, opened once per process; the library stays open. Use it as a static variable of the
/// function that opens it.
template <class Api>
class OptionalLibrary {
 public:
  /// `open(Api&)` fills the table or writes why it cannot. May be called on any thread.
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
