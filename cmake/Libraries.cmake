# External libraries of the full build. A missing one is an error that names its Debian package.
set(LS_EXTERNAL_INCLUDES "")
set(LS_EXTERNAL_LIBRARIES "")

function(ls_need header library package)
    find_path(LS_${library}_INCLUDE ${header})
    find_library(LS_${library}_LIBRARY ${library})
    if(NOT LS_${library}_INCLUDE OR NOT LS_${library}_LIBRARY)
        message(FATAL_ERROR "${header} or lib${library} was not found.\n"
                            "On Debian: apt-get install ${package}   (tools/setup.sh installs all that is missing)")
    endif()
    set(LS_EXTERNAL_INCLUDES ${LS_EXTERNAL_INCLUDES} ${LS_${library}_INCLUDE} PARENT_SCOPE)
    set(LS_EXTERNAL_LIBRARIES ${LS_EXTERNAL_LIBRARIES} ${LS_${library}_LIBRARY} PARENT_SCOPE)
endfunction()

ls_need(dnnl.h dnnl libdnnl-dev)           # matrix products, src/kernel/cpu
ls_need(jansson.h jansson libjansson-dev)  # JSON, src/format
list(REMOVE_DUPLICATES LS_EXTERNAL_INCLUDES)
