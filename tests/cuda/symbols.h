/* Names of functions of this process, for messages. */
#ifndef LS_TESTS_CUDA_SYMBOLS_H
#define LS_TESTS_CUDA_SYMBOLS_H

#include <string>

namespace emulation {

/* As the table of symbols of its file has it, without arguments; "a function without a name" where it has none. */
std::string name_of_function(const void *function);

} // namespace emulation

#endif
