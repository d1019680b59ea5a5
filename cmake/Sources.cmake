# Which files belong to what. The lists hold patterns, re-read at every build (CONFIGURE_DEPENDS).
set(src ${PROJECT_SOURCE_DIR}/src)
set(core_patterns "")
foreach(folder base tensor comm comm/* device device/* graph graph/ops program compile compile/* run simulate)
    list(APPEND core_patterns ${src}/${folder}/*.c)
endforeach()
file(GLOB LS_CORE_SOURCES CONFIGURE_DEPENDS ${core_patterns})
file(GLOB LS_REGISTRY_SOURCES CONFIGURE_DEPENDS ${src}/kernel/*.c)
file(GLOB LS_REF_SOURCES CONFIGURE_DEPENDS ${src}/kernel/ref/*.c) # once per precision
file(GLOB LS_CPU_SOURCES CONFIGURE_DEPENDS ${src}/kernel/cpu/*.c) # once per isa and element type, but for:
file(GLOB LS_CPU_COMMON_SOURCES CONFIGURE_DEPENDS ${src}/kernel/cpu/common_*.c)
file(GLOB LS_COMMAND_SOURCES CONFIGURE_DEPENDS ${src}/cli/*.c ${src}/cli/bench/*.c)

# Every other folder of src/.
file(GLOB all CONFIGURE_DEPENDS ${src}/*/*.c)
set(LS_REST_SOURCES ${all} ${LS_CPU_COMMON_SOURCES})
list(REMOVE_ITEM LS_REST_SOURCES "" ${LS_CORE_SOURCES} ${LS_REGISTRY_SOURCES} ${LS_COMMAND_SOURCES})
if(LS_CPU_COMMON_SOURCES)
    list(REMOVE_ITEM LS_CPU_SOURCES ${LS_CPU_COMMON_SOURCES})
endif()
