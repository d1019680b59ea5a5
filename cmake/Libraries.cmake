# External libraries of the full build. A missing one is an error that names its Debian package.
set(LS_EXTERNAL_INCLUDES "")
set(LS_EXTERNAL_LIBRARIES "")
set(LS_EXTERNAL_NAMES "") # for programs that link the static library

function(ls_need header library package)
    find_path(LS_${library}_INCLUDE ${header})
    find_library(LS_${library}_LIBRARY ${library})
    if(NOT LS_${library}_INCLUDE OR NOT LS_${library}_LIBRARY)
        message(FATAL_ERROR "${header} or lib${library} was not found.\n"
                            "On Debian: apt-get install ${package}   (tools/setup.sh installs all that is missing)")
    endif()
    set(LS_EXTERNAL_INCLUDES ${LS_EXTERNAL_INCLUDES} ${LS_${library}_INCLUDE} PARENT_SCOPE)
    set(LS_EXTERNAL_LIBRARIES ${LS_EXTERNAL_LIBRARIES} ${LS_${library}_LIBRARY} PARENT_SCOPE)
    set(LS_EXTERNAL_NAMES "${LS_EXTERNAL_NAMES} -l${library}" PARENT_SCOPE)
endfunction()

ls_need(dnnl.h dnnl libdnnl-dev)           # matrix products, src/kernel/cpu
ls_need(jansson.h jansson libjansson-dev)  # JSON, src/format
ls_need(pcre2.h pcre2-8 libpcre2-dev)      # patterns of tokenizers, src/text
ls_need(utf8proc.h utf8proc libutf8proc-dev) # Unicode's tables, src/text

# Without one of these the build goes on, and what it takes away is refused by name. `sources` learn whether it is there.
function(ls_want header library package sources what)
    find_path(LS_${library}_INCLUDE ${header})
    find_library(LS_${library}_LIBRARY ${library})
    string(TOUPPER ${library} upper)
    if(LS_${library}_INCLUDE AND LS_${library}_LIBRARY)
        set(LS_EXTERNAL_INCLUDES ${LS_EXTERNAL_INCLUDES} ${LS_${library}_INCLUDE} PARENT_SCOPE)
        set(LS_EXTERNAL_LIBRARIES ${LS_EXTERNAL_LIBRARIES} ${LS_${library}_LIBRARY} PARENT_SCOPE)
        set(LS_EXTERNAL_NAMES "${LS_EXTERNAL_NAMES} -l${library}" PARENT_SCOPE)
        set(have 1)
    else()
        message(STATUS "lib${library} was not found (Debian: ${package}): without ${what}")
        set(have 0)
    endif()
    foreach(source ${sources})
        set_source_files_properties(${PROJECT_SOURCE_DIR}/${source} PROPERTIES COMPILE_DEFINITIONS LS_HAVE_${upper}=${have})
    endforeach()
endfunction()

ls_want(zstd.h zstd libzstd-dev "src/data/codec_zstd.c;src/parquet/codec_zstd.c" "text and Parquet under zstd")
ls_want(zlib.h z zlib1g-dev "src/data/codec_gzip.c;src/parquet/codec_gzip.c" "text and Parquet under gzip")
ls_want(snappy-c.h snappy libsnappy-dev src/parquet/codec_snappy.c "Parquet under Snappy")
ls_want(lz4.h lz4 liblz4-dev src/parquet/codec_lz4.c "Parquet under LZ4")
ls_want(yaml.h yaml libyaml-dev src/format/yaml.c "settings in YAML")
list(REMOVE_DUPLICATES LS_EXTERNAL_INCLUDES)
