# src/kernel/cpu: the same sources once per instruction set and element type. A file finds its variant in
#   LS_CPU_ISA            base, avx2, avx512, avx512bf16 or amx (a bare word, to paste into names)
#   LS_CPU_ELEMENT_BF16   0: arrays of float, 1: arrays of bf16
# and the flags below say which features its kernels need (cpu_impl.h). Files named common_* are compiled once.
# An isa with a list of its own (sources_ISA, elements_ISA) has those kernels only.
set(isas base)
set(flags_base "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    list(APPEND isas avx2 avx512 avx512bf16 amx)
    set(flags_avx2 -march=x86-64-v3)
    set(flags_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
    set(flags_avx512bf16 -march=x86-64-v4 -mavx512bf16 -mprefer-vector-width=512)
    set(flags_amx ${flags_avx512bf16} -mamx-tile -mamx-bf16)
    set(elements_amx 1)
    set(sources_amx ${LS_CPU_SOURCES})
    list(FILTER sources_amx INCLUDE REGEX "/(attention|attention_grad|matmul_tiles|matmul_blocks|table)\\.c$")
endif()

list(FILTER LS_CPU_SOURCES EXCLUDE REGEX "_tiles\\.c$") # for amx alone

if(LS_CPU_SOURCES)
    foreach(isa ${isas})
        if(NOT DEFINED elements_${isa})
            set(elements_${isa} 0 1)
            set(sources_${isa} ${LS_CPU_SOURCES})
        endif()
        foreach(bf16 ${elements_${isa}})
            set(variant ls_cpu_${isa}_${bf16})
            ls_object_library(${variant} ${sources_${isa}})
            target_compile_definitions(${variant} PRIVATE LS_CPU_ISA=${isa} LS_CPU_ELEMENT_BF16=${bf16})
            target_compile_options(${variant} PRIVATE -fno-math-errno -fno-trapping-math -ffp-contract=fast
                                                      ${flags_${isa}})
            target_include_directories(${variant} SYSTEM PRIVATE ${LS_EXTERNAL_INCLUDES})
            list(APPEND LS_OBJECTS ${variant})
        endforeach()
    endforeach()
endif()
