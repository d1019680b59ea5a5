/* Whatever the bytes, an .npy file is refused or lies inside its mapping. */
#include "base/base.h"
#include "format/format.h"
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    fuzz_file file = fuzz_file_make(data, bytes);
    ls_npy array;
    ls_status status = ls_npy_open(file.path, &array);
    if (status.code == LS_OK) {
        fuzz_touch(array.data, (size_t)array.count * ls_npy_type_bytes(array.type));
        ls_npy_close(&array);
    } else {
        LS_ASSERT(status.text[0]);
    }
    close(file.fd);
    return 0;
}
