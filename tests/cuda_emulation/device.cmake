# The plugin's device (engine/device/cuda) over the emulated runtime: hawser_cuda_device_emulated for programs that steer
# the emulator, and a plugin in tests/emulated_gpu/hawser-0 for programs that open it as they would open the real one.
# Nothing watches for races here: op cases are watched, and models would take minutes.
file(GLOB device_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/engine/device/cuda/*.cc)
list(FILTER device_files EXCLUDE REGEX nvidia)
get_property(build_id GLOBAL PROPERTY HAWSER_DEVICE_BUILD_ID)

set(nccl ${PROJECT_SOURCE_DIR}/engine/comm/nccl)
add_library(hawser_cuda_device_emulated_objects OBJECT ${device_files} libraries_emulated.cc emulated_cublaslt.cc emulated_sdpa.cc ${nccl}/communicator.cc
            ${nccl}/nccl_link.cc ../comm/nccl/fake_nccl.cc emulated_nccl.cc)
target_include_directories(hawser_cuda_device_emulated_objects BEFORE PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/include)
target_link_libraries(hawser_cuda_device_emulated_objects PRIVATE hawser_flags)
target_compile_definitions(hawser_cuda_device_emulated_objects PRIVATE "HAWSER_DEVICE_BUILD_ID=\"${build_id}\"")

add_library(hawser_cuda_device_emulated INTERFACE)
target_sources(hawser_cuda_device_emulated INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/race_detector_none.cc
                                                     $<TARGET_OBJECTS:hawser_cuda_device_emulated_objects>
                                                     $<TARGET_OBJECTS:hawser_cuda_kernels_emulated>)
target_link_libraries(hawser_cuda_device_emulated INTERFACE hawser_cuda_host_emulated)

add_library(hawser_cuda_emulated_plugin MODULE emulated_plugin_control.cc four_gpus.cc)
target_link_libraries(hawser_cuda_emulated_plugin PRIVATE hawser_cuda_device_emulated)
target_link_options(hawser_cuda_emulated_plugin PRIVATE
                    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/emulated_plugin.map)
set_target_properties(hawser_cuda_emulated_plugin PROPERTIES
                      OUTPUT_NAME hawser_cuda LINKER_LANGUAGE CXX
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/emulated_gpu/hawser-0)
