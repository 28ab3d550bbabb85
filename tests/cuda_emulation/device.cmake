# The plugin's device (engine/device/cuda) over the emulated runtime: hawser_cuda_device_emulated for programs
# that control the emulator, and a plugin in tests/emulated_gpu/hawser-0 for programs that open it like the
# real one. No race detector runs here: op cases run under it, and models would take minutes.
file(GLOB device_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/engine/device/cuda/*.cc)
list(FILTER device_files EXCLUDE REGEX nvidia)
get_property(build_id GLOBAL PROPERTY HAWSER_DEVICE_BUILD_ID)

set(nccl ${PROJECT_SOURCE_DIR}/engine/comm/nccl)
add_library(hawser_cuda_device_emulated_objects OBJECT ${device_files} emulated_cublaslt.cc emulated_sdpa.cc ${nccl}/communicator.cc
            ${nccl}/nccl_link.cc ../comm/nccl/fake_nccl.cc emulated_nccl.cc)
add_library(hawser_cuda_libraries_emulated OBJECT libraries_emulated.cc)
foreach(objects hawser_cuda_device_emulated_objects hawser_cuda_libraries_emulated)
  target_include_directories(${objects} BEFORE PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/include)
  target_link_libraries(${objects} PRIVATE hawser_flags)
endforeach()
target_compile_definitions(hawser_cuda_device_emulated_objects PRIVATE "HAWSER_DEVICE_BUILD_ID=\"${build_id}\"")

add_library(hawser_cuda_device_emulated INTERFACE)
target_sources(hawser_cuda_device_emulated INTERFACE ${race_detector_none}
                                                     $<TARGET_OBJECTS:hawser_cuda_device_emulated_objects>
                                                     $<TARGET_OBJECTS:hawser_cuda_libraries_emulated>
                                                     $<TARGET_OBJECTS:hawser_cuda_kernels_emulated>)
target_link_libraries(hawser_cuda_device_emulated INTERFACE hawser_cuda_host_emulated)

# emulated_plugin(NAME FOLDER SOURCE...): builds a plugin in tests/FOLDER/hawser-0.
function(emulated_plugin name folder)
  add_library(${name} MODULE emulated_plugin_control.cc four_gpus.cc ${ARGN})
  target_link_options(${name} PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/emulated_plugin.map)
  set_target_properties(${name} PROPERTIES OUTPUT_NAME hawser_cuda LINKER_LANGUAGE CXX
                                           LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder}/hawser-0)
endfunction()
emulated_plugin(hawser_cuda_emulated_plugin emulated_gpu)
target_link_libraries(hawser_cuda_emulated_plugin PRIVATE hawser_cuda_device_emulated)
# A plugin with an emulated cuBLASLt and the code that chooses its algorithms.
emulated_plugin(hawser_cuda_emulated_libraries_plugin emulated_libraries emulated_libraries.cc
                ${PROJECT_SOURCE_DIR}/engine/device/cuda/libraries_nvidia.cc ${race_detector_none}
                $<TARGET_OBJECTS:hawser_cuda_device_emulated_objects> $<TARGET_OBJECTS:hawser_cuda_kernels_emulated>)
target_link_libraries(hawser_cuda_emulated_libraries_plugin PRIVATE hawser_cuda_host_emulated)

# A plugin whose machine lacks something, beside a copy of the library, so that any program that the loader points to the
# copy opens it.
foreach(version 120803 130100)
  add_library(hawser_fake_cublaslt_${version} MODULE fake_cublaslt.c)
  target_compile_definitions(hawser_fake_cublaslt_${version} PRIVATE HAWSER_CUBLASLT_VERSION=${version})
endforeach()
emulated_plugin(hawser_cuda_faults_plugin gpu_faults gpu_faults.cc ${PROJECT_SOURCE_DIR}/engine/device/cuda/libraries_nvidia.cc
                ${cuda}/cudnn/sdpa_without_cudnn.cc ${race_detector_none}
                $<TARGET_OBJECTS:hawser_cuda_device_emulated_objects> $<TARGET_OBJECTS:hawser_cuda_kernels_emulated>)
target_link_libraries(hawser_cuda_faults_plugin PRIVATE hawser_cuda_host_emulated)
target_link_options(hawser_cuda_faults_plugin PRIVATE -Wl,--wrap=dlopen)
target_compile_definitions(hawser_cuda_faults_plugin PRIVATE
                           "HAWSER_CUBLASLT_12=\"$<TARGET_FILE:hawser_fake_cublaslt_120803>\""
                           "HAWSER_CUBLASLT_13=\"$<TARGET_FILE:hawser_fake_cublaslt_130100>\"")
add_dependencies(hawser_cuda_faults_plugin hawser_fake_cublaslt_120803 hawser_fake_cublaslt_130100)
set(copy ${PROJECT_BINARY_DIR}/tests/gpu_faults/libhawser.so.0)
add_custom_command(OUTPUT ${copy} COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:hawser> ${copy} DEPENDS hawser VERBATIM)
add_custom_target(hawser_beside_faults ALL DEPENDS ${copy})
