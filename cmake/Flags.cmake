# Compiler flags common to everything. -ffast-math is nowhere: each relaxation is named where it is used.
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release unless told otherwise" FORCE)
endif()
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_FLAGS_RELEASE "-O3 -g1") # assertions stay; lines and functions for backtraces and profiles
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_compile_definitions(_GNU_SOURCE)

set(LS_WARNINGS -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith
                -Wwrite-strings -Wformat=2
                -Wno-format-truncation   # cutting a message to its buffer is what snprintf is for
                -Wno-maybe-uninitialized) # gcc sees outputs that are set on success alone as unset; clang-tidy looks better
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    list(APPEND LS_WARNINGS -Wno-unknown-warning-option) # it knows some of those by another name
endif()
set(LS_SANITIZE_FLAGS "")
if(LONGSPAN_SANITIZE)
    # Instrumented code makes gcc warn where nothing is wrong (maybe-uninitialized), so warnings are no errors there.
    set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
    set(LS_SANITIZE_FLAGS -fsanitize=${LONGSPAN_SANITIZE} -fno-omit-frame-pointer)
    if(NOT LONGSPAN_SANITIZE MATCHES "^(address|undefined|address,undefined|thread)$")
        message(FATAL_ERROR "LONGSPAN_SANITIZE is '${LONGSPAN_SANITIZE}'; expected address, undefined, address,undefined or thread")
    endif()
    if(LONGSPAN_SANITIZE MATCHES "undefined")
        list(APPEND LS_SANITIZE_FLAGS -fno-sanitize-recover=all)
    endif()
    if(LONGSPAN_FUZZ)
        set(CMAKE_C_FLAGS_RELEASE "-O1 -g")
        list(APPEND LS_SANITIZE_FLAGS -fsanitize=fuzzer-no-link)
    endif()
elseif(LONGSPAN_WERROR)
    list(APPEND LS_WARNINGS -Werror)
endif()

# An object library with the common flags; with no source yet, an empty one.
function(ls_object_library name)
    set(sources ${ARGN})
    if(NOT sources)
        set(sources ${PROJECT_SOURCE_DIR}/cmake/empty.c)
    endif()
    add_library(${name} OBJECT ${sources})
    target_link_libraries(${name} PRIVATE ls_flags)
    add_dependencies(${name} ls_version)
endfunction()

# A library file from object libraries: ls_library(target STATIC|SHARED file-name objects...).
function(ls_library target kind file_name)
    set(objects "")
    foreach(name ${ARGN})
        list(APPEND objects $<TARGET_OBJECTS:${name}>)
    endforeach()
    add_library(${target} ${kind} ${objects})
    target_link_options(${target} PRIVATE ${LS_SANITIZE_FLAGS})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${file_name} LINKER_LANGUAGE C
        ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()

# A symbol without a definition is a link error. (Sanitizers leave theirs open on purpose.)
function(ls_no_undefined target)
    if(NOT LONGSPAN_SANITIZE)
        target_link_options(${target} PRIVATE LINKER:-z,defs)
    endif()
endfunction()
