# Finds the CUDA toolkit, if it is wanted. Sets HAWSER_WITH_CUDA and, if it is ON, enables the language and
# makes the target hawser_cuda_runtime (headers and the static runtime).
#
# HAWSER_CUDA: ON (an error without a toolkit), OFF, or AUTO (ON if a toolkit is found). The default is AUTO, but OFF
# inside another project, which must not get another language because some cache has a toolkit. A toolkit is found by
# HAWSER_CUDA_TOOLKIT (its root, which packaging/cuda_toolkit.sh prints), CMAKE_CUDA_COMPILER, CUDACXX, the
# path, /usr/local/cuda, or the folder in which packaging/cuda_toolkit.sh keeps its download. libcuda,
# cuBLASLt, cuDNN and NCCL are never linked: the plugin opens them when it runs.
set(default AUTO)
if(NOT PROJECT_IS_TOP_LEVEL)
  set(default OFF)
endif()
set(HAWSER_CUDA ${default} CACHE STRING "Build the CUDA plugin: ON, OFF or AUTO (where a toolkit is found)")
set_property(CACHE HAWSER_CUDA PROPERTY STRINGS ON OFF AUTO)
set(HAWSER_CUDA_TOOLKIT "" CACHE PATH "Root of the CUDA toolkit; empty: as CMake finds one")
set(HAWSER_CUDA_ARCHITECTURES "80-real;90a-real;100a-real;120-virtual" CACHE STRING
    "GPUs to compile for, as CMAKE_CUDA_ARCHITECTURES; 90a, not 90, for Hopper's own instructions")

set(HAWSER_WITH_CUDA OFF)
if(NOT HAWSER_CUDA MATCHES "^(ON|OFF|AUTO)$")
  message(FATAL_ERROR "HAWSER_CUDA is \"${HAWSER_CUDA}\"; known: ON, OFF, AUTO")
endif()
# Sanitizers cannot instrument code that runs on a GPU, and their runtimes cannot be in a plugin that another
# library opens.
if(HAWSER_CUDA STREQUAL "OFF" OR (HAWSER_CUDA STREQUAL "AUTO" AND HAWSER_SANITIZE))
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER AND HAWSER_CUDA_TOOLKIT)
  set(CMAKE_CUDA_COMPILER ${HAWSER_CUDA_TOOLKIT}/bin/nvcc)
elseif(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  set(cache $ENV{XDG_CACHE_HOME})
  if(NOT cache)
    set(cache $ENV{HOME}/.cache)
  endif()
  find_program(HAWSER_NVCC nvcc HINTS /usr/local/cuda/bin PATHS ${cache}/hawser/cuda-13.0.88/bin)
  if(HAWSER_NVCC)
    set(CMAKE_CUDA_COMPILER ${HAWSER_NVCC})
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${HAWSER_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(HAWSER_CUDA STREQUAL "ON")
    message(FATAL_ERROR "HAWSER_CUDA is ON, but no CUDA toolkit works here: install one, or run "
                        "packaging/cuda_toolkit.sh and pass what it prints as -DHAWSER_CUDA_TOOLKIT=")
  endif()
  message(STATUS "CUDA is not here: no plugin for GPUs (packaging/cuda_toolkit.sh)")
  return()
endif()
enable_language(CUDA)
set(HAWSER_WITH_CUDA ON)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # nvcc supports it, but CMake 3.25 does not list it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

find_library(HAWSER_CUDART cudart_static HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} NO_DEFAULT_PATH REQUIRED)
add_library(hawser_cuda_runtime INTERFACE)
target_include_directories(hawser_cuda_runtime SYSTEM INTERFACE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_link_libraries(hawser_cuda_runtime INTERFACE ${HAWSER_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
