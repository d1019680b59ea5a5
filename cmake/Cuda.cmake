# The target cuda: the kernels of src/kernel/cuda as objects for each GPU that nvcc knows of sm_80, sm_90 and sm_100. It is not part of `all`: that takes
# minutes, and no test of this host runs them. The host's own build of the same sources is in tests/CMakeLists.txt.
find_program(LS_NVCC nvcc HINTS /usr/local/cuda/bin)
if(NOT LS_NVCC OR CMAKE_CROSSCOMPILING)
    add_custom_target(cuda COMMAND ${CMAKE_COMMAND} -E echo "nvcc was not found: the kernels of src/kernel/cuda are not compiled")
    return()
endif()
execute_process(COMMAND ${LS_NVCC} --list-gpu-code OUTPUT_VARIABLE known)
set(LS_CUDA_CODE "")
foreach(gpu 80 90 100)
    if(known MATCHES "sm_${gpu}\n")
        list(APPEND LS_CUDA_CODE -gencode arch=compute_${gpu},code=sm_${gpu})
    endif()
endforeach()
file(GLOB LS_CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernel/cuda/*.cu)
set(LS_CUDA_OBJECTS "")
foreach(source ${LS_CUDA_SOURCES})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
    add_custom_command(OUTPUT ${object} DEPFILE ${object}.d DEPENDS ${source}
                       COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/cuda
                       COMMAND ${LS_NVCC} -std=c++20 -O3 ${LS_CUDA_CODE} -Xcompiler -fPIC,-Wall -diag-suppress 177
                               -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src -I${LS_GENERATED_DIR}
                               -MD -MF ${object}.d -c ${source} -o ${object}
                       COMMENT "nvcc ${name}.cu" VERBATIM)
    list(APPEND LS_CUDA_OBJECTS ${object})
endforeach()
add_custom_target(cuda DEPENDS ${LS_CUDA_OBJECTS})
