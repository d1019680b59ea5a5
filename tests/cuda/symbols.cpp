#include "symbols.h"

#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <sstream>

namespace emulation {

/* Local functions, too, which dladdr does not know. */
static std::string find_symbol(const std::string &file, size_t offset, const void *function) {
    const char *const data = file.data();
    const auto *header = (const Elf64_Ehdr *)data;
    const auto *sections = (const Elf64_Shdr *)(data + header->e_shoff);
    const size_t address = header->e_type == ET_DYN ? offset : (size_t)function;
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        const auto *symbols = (const Elf64_Sym *)(data + sections[i].sh_offset);
        for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++)
            if (ELF64_ST_TYPE(symbols[k].st_info) == STT_FUNC && symbols[k].st_value == address)
                return data + sections[sections[i].sh_link].sh_offset + symbols[k].st_name;
    }
    return "";
}

std::string name_of_function(const void *function) {
    Dl_info info;
    if (dladdr(function, &info) == 0) return "a function without a name";
    std::ifstream in(info.dli_fname, std::ios::binary);
    std::stringstream file;
    file << in.rdbuf();
    const std::string symbol =
        find_symbol(file.str(), (size_t)((const char *)function - (const char *)info.dli_fbase), function);
    char *const plain = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr);
    std::string name = plain != nullptr ? plain : symbol;
    free(plain);
    if (name.empty()) return "a function without a name";
    for (const std::string space = "(anonymous namespace)::"; name.find(space) != std::string::npos;)
        name.erase(name.find(space), space.size());
    return name.rfind("void ", 0) == 0 ? name.substr(5) : name;
}

} // namespace emulation
