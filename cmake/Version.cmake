# build/generated/ls_version.h, written anew at each build and touched only when it changes.
set(LS_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)
set(version_command ${CMAKE_COMMAND} -D SOURCE_DIR=${PROJECT_SOURCE_DIR} -D VERSION=${PROJECT_VERSION}
                    -D OUT=${LS_GENERATED_DIR}/ls_version.h -P ${PROJECT_SOURCE_DIR}/cmake/write-version.cmake)
execute_process(COMMAND ${version_command})
add_custom_target(ls_version COMMAND ${version_command} BYPRODUCTS ${LS_GENERATED_DIR}/ls_version.h VERBATIM)
