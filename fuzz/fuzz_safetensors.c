/* Whatever the bytes, a safetensors file is refused, or its tensors are found by name and lie inside its
 * mapping. */
#include "base/base.h"
#include "format/format.h"
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    fuzz_file path = fuzz_file_make(data, bytes);
    ls_st_file *file;
    ls_status status = ls_st_open(path.path, &file);
    if (status.code == LS_OK) {
        size_t total = 0;
        for (int64_t i = 0; i < ls_st_count(file); i++) {
            const ls_st_tensor *tensor = ls_st_at(file, i);
            LS_ASSERT(ls_st_find(file, tensor->name) == tensor);
            fuzz_touch(tensor->data, tensor->bytes);
            total += tensor->bytes;
        }
        LS_ASSERT(total < bytes);
        ls_st_close(file);
    } else {
        LS_ASSERT(status.text[0]);
    }
    close(path.fd);
    return 0;
}
