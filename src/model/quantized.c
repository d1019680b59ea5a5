/*
 * Reads quantization_config, which says in which form the files of a model hold its matrices. The files themselves tell
 * whether a particular matrix is in that form (weights/stored.h). An unsupported form is refused here, before the files
 * are opened.
 */
#include "model/model_impl.h"

#include <stdlib.h>
#include <string.h>

static ls_status refuse(ls_json_value value, const char *expected) {
    ls_status status = ls_json_error(value, "%s", expected);
    status.code = LS_UNSUPPORTED;
    return status;
}

static ls_status read_bitsandbytes(ls_json_value of, ls_dtype *out) {
    bool four = false, eight = false;
    const char *type = NULL;
    LS_TRY(ls_json_bool_or(of, "load_in_4bit", false, &four));
    LS_TRY(ls_json_bool_or(of, "load_in_8bit", false, &eight));
    if (four == eight) return refuse(ls_json_field(of, "load_in_4bit"), "one of load_in_4bit and load_in_8bit");
    *out = four ? LS_NF4 : LS_INT8;
    if (eight) return ls_ok();
    LS_TRY(ls_json_text_or(of, "bnb_4bit_quant_type", "fp4", &type));
    return strcmp(type, "nf4") == 0 ? ls_ok() : refuse(ls_json_field(of, "bnb_4bit_quant_type"), "\"nf4\"");
}

static ls_status read_fp8(ls_json_value of, ls_dtype *out) {
    ls_json_value side;
    *out = LS_FP8;
    if (!ls_json_has(of, "weight_block_size")) return ls_ok();
    LS_TRY(ls_json_array(of, "weight_block_size", &side));
    for (size_t i = 0; i < ls_json_count(side); i++) {
        int64_t size = 0;
        LS_TRY(ls_json_as_int(ls_json_item(side, i), 1, INT64_MAX, &size));
        if (size != 128) return refuse(ls_json_item(side, i), "128");
    }
    return ls_ok();
}

static ls_status read_mxfp4(ls_json_value of, ls_dtype *out) {
    (void)of;
    *out = LS_MXFP4;
    return ls_ok();
}

typedef struct method {
    const char *name;
    ls_status (*read)(ls_json_value of, ls_dtype *out);
} method;
static const method methods[] = {{"bitsandbytes", read_bitsandbytes}, {"fp8", read_fp8}, {"mxfp4", read_mxfp4}};

ls_status ls_quantized_read(ls_json_value root, ls_dtype *out) {
    static const char key[] = "quantization_config";
    ls_json_value inner = root, of;
    const char *name = NULL;
    *out = LS_DTYPES;
    if (!ls_json_has(root, key) && ls_json_has(root, "text_config"))
        LS_TRY(ls_json_object(root, "text_config", &inner));
    if (!ls_json_has(inner, key)) return ls_ok();
    LS_TRY(ls_json_object(inner, key, &of));
    LS_TRY(ls_json_text(of, "quant_method", &name));
    for (size_t i = 0; i < LS_COUNT(methods); i++)
        if (strcmp(methods[i].name, name) == 0) return methods[i].read(of, out);
    return refuse(ls_json_field(of, "quant_method"), "bitsandbytes (nf4, int8), fp8 or mxfp4");
}

ls_status ls_quantized_forget(char **text) {
    char *made = NULL;
    LS_TRY(ls_json_drop_member(*text, "quantization_config", &made));
    free(*text);
    *text = made;
    return ls_ok();
}
