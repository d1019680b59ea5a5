# A build for an older release of Debian than the one that runs, by the compiler that is here: make wheel. The C library and the others are those
# in -DCMAKE_SYSROOT=folder, which tools/sysroot.sh makes.
execute_process(COMMAND cc -print-multiarch OUTPUT_VARIABLE multiarch OUTPUT_STRIP_TRAILING_WHITESPACE)
# gcc looks beside itself, which is outside the folder, before it looks into the folder; what -B says comes before both.
set(CMAKE_C_FLAGS_INIT "-B${CMAKE_SYSROOT}/usr/lib/${multiarch} -B${CMAKE_SYSROOT}/lib/${multiarch}")
set(CMAKE_CXX_FLAGS_INIT ${CMAKE_C_FLAGS_INIT})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
