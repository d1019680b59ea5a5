# The target cuda: build/lib/longspan/cuda.so, the plug-in of kernels for CUDA (src/kernel/cuda/plugin.h), for each GPU that nvcc knows of those in
# LS_CUDA_GPUS: sm_80, sm_90 and sm_100, or -DLS_CUDA_GPUS=90 for one, which takes a third of the time. It is not part of `all`: that takes minutes,
# and no test of this host runs it. The host's own build of the same sources is in
# tests/CMakeLists.txt. A plug-in has its own copy of what it needs of the rest, and leaves out what it does not.
file(GLOB LS_CUDA_PLUGIN_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernel/cuda/*.c)
foreach(file kernel/blocks kernel/check kernel/expression kernel/contracts kernel/contract_checks kernel/view_text tensor/tensor tensor/rope base/status base/terminal base/plain base/measure base/range base/apart base/library)
    list(APPEND LS_CUDA_PLUGIN_SOURCES ${PROJECT_SOURCE_DIR}/src/${file}.c)
endforeach()
find_program(LS_NVCC nvcc HINTS /usr/local/cuda/bin)
if(NOT LS_NVCC OR CMAKE_CROSSCOMPILING)
    add_custom_target(cuda COMMAND ${CMAKE_COMMAND} -E echo "nvcc was not found: the kernels of src/kernel/cuda are not compiled")
    return()
endif()
set(LS_CUDA_GPUS "80;90;100" CACHE STRING "the GPUs that the kernels for CUDA are compiled for")
execute_process(COMMAND ${LS_NVCC} --list-gpu-code OUTPUT_VARIABLE known)
set(LS_CUDA_CODE "")
foreach(gpu ${LS_CUDA_GPUS})
    string(REPLACE 90 90a code ${gpu}) # with what 9.0 alone has (src/kernel/cuda/ptx_sm90.h)
    if(known MATCHES "sm_${gpu}\n")
        list(APPEND LS_CUDA_CODE -gencode arch=compute_${code},code=sm_${code})
    else()
        message(STATUS "${LS_NVCC} does not know sm_${gpu}: there will be no kernels for it")
    endif()
endforeach()
if(NOT LS_CUDA_CODE)
    message(FATAL_ERROR "LS_CUDA_GPUS=${LS_CUDA_GPUS}: ${LS_NVCC} knows none of them; expected some of 80, 90 and 100, separated by semicolons")
endif()
set(LS_CUDA_HOST "") # what the host's compiler is told, to take the C library of another folder (release.cmake)
if(CMAKE_SYSROOT)
    separate_arguments(options UNIX_COMMAND "--sysroot=${CMAKE_SYSROOT} ${CMAKE_C_FLAGS}")
    string(REPLACE ";" "," options "${options}")
    set(LS_CUDA_HOST -Xcompiler ${options})
endif()
file(GLOB LS_CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernel/cuda/*.cu)
set(LS_CUDA_OBJECTS "")
foreach(source ${LS_CUDA_SOURCES})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
    add_custom_command(OUTPUT ${object} DEPFILE ${object}.d DEPENDS ${source}
                       COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/cuda
                       COMMAND ${LS_NVCC} -std=c++20 -O3 ${LS_CUDA_CODE} ${LS_CUDA_HOST} -Xcompiler -fPIC,-Wall -diag-suppress 177
                               -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src -I${LS_GENERATED_DIR}
                               -MD -MF ${object}.d -c ${source} -o ${object}
                       COMMENT "nvcc ${name}.cu" VERBATIM)
    list(APPEND LS_CUDA_OBJECTS ${object})
endforeach()
ls_object_library(ls_cuda_plugin_objects ${LS_CUDA_PLUGIN_SOURCES})
set_target_properties(ls_cuda_plugin_objects PROPERTIES EXCLUDE_FROM_ALL ON)
target_compile_options(ls_cuda_plugin_objects PRIVATE -ffunction-sections)
set(LS_CUDA_PLUGIN ${PROJECT_BINARY_DIR}/lib/longspan/cuda.so)
add_custom_command(OUTPUT ${LS_CUDA_PLUGIN} DEPENDS ${LS_CUDA_OBJECTS} ls_cuda_plugin_objects $<TARGET_OBJECTS:ls_cuda_plugin_objects>
                   COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/lib/longspan
                   COMMAND ${LS_NVCC} -shared -cudart static ${LS_CUDA_HOST} -Xlinker --gc-sections,-z,defs -o ${LS_CUDA_PLUGIN} ${LS_CUDA_OBJECTS}
                           $<TARGET_OBJECTS:ls_cuda_plugin_objects>
                   COMMENT "nvcc cuda.so" COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(cuda DEPENDS ${LS_CUDA_PLUGIN})

# What src/device/cuda declares of the driver, against the toolkit's own header.
get_filename_component(folder ${LS_NVCC} DIRECTORY)
find_path(LS_CUDA_INCLUDE cuda.h HINTS ${folder}/../include)
if(LS_CUDA_INCLUDE)
    add_library(ls_cuda_prototypes OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/cuda/check_driver.c)
    target_include_directories(ls_cuda_prototypes SYSTEM PRIVATE ${LS_CUDA_INCLUDE})
    target_link_libraries(ls_cuda_prototypes PRIVATE ls_flags)
    add_dependencies(cuda ls_cuda_prototypes)
endif()

# And of NVIDIA's libraries for messages between hosts, where their headers are (pip's nvidia-nccl-cu13 and nvidia-nvshmem-cu13 have them):
# -DLS_NCCL_INCLUDE=FOLDER, -DLS_NVSHMEM_INCLUDE=FOLDER.
find_path(LS_NCCL_INCLUDE nccl.h HINTS ${folder}/../include)
find_path(LS_NVSHMEM_INCLUDE nvshmem_host.h HINTS ${folder}/../include)
function(ls_check_prototypes name include source)
    add_library(ls_${name}_prototypes OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/cuda/${source})
    target_include_directories(ls_${name}_prototypes PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_include_directories(ls_${name}_prototypes SYSTEM BEFORE PRIVATE ${include})
    target_include_directories(ls_${name}_prototypes SYSTEM PRIVATE ${LS_CUDA_INCLUDE})
    target_compile_definitions(ls_${name}_prototypes PRIVATE _GNU_SOURCE)
    add_dependencies(cuda ls_${name}_prototypes)
endfunction()
if(LS_CUDA_INCLUDE AND LS_NCCL_INCLUDE)
    file(STRINGS ${LS_NCCL_INCLUDE}/nccl.h minor REGEX "^#define NCCL_MINOR ")
    string(REGEX REPLACE "[^0-9]" "" minor "${minor}")
    if(minor GREATER_EQUAL 31)
        ls_check_prototypes(nccl ${LS_NCCL_INCLUDE} check_nccl.c)
    else()
        message(STATUS "${LS_NCCL_INCLUDE}/nccl.h is that of 2.${minor}: its declarations are not compared, since 2.31 is asked for")
    endif()
endif()
if(LS_CUDA_INCLUDE AND LS_NVSHMEM_INCLUDE)
    enable_language(CXX)
    ls_check_prototypes(nvshmem ${LS_NVSHMEM_INCLUDE} check_nvshmem.cpp)
endif()
