# A model that trains within a second, and a text for it. $here: the folder of tests.
make_tiny_model() { cp "$here/support/tiny_config.json" config.json; }
# make_wide_model HIDDEN: the same model with that hidden size, a multiple of 16, and heads of 8.
make_wide_model() {
    sed -e 's/"hidden_size": 16/"hidden_size": '"$1"'/' -e 's/"intermediate_size": 24/"intermediate_size": '$(($1 * 3 / 2))'/' \
        -e 's/"num_attention_heads": 2/"num_attention_heads": '$(($1 / 8))'/' -e 's/"num_key_value_heads": 1/"num_key_value_heads": '$(($1 / 16))'/' \
        "$here/support/tiny_config.json" >config.json
}
# make_lines N: N lines of text.
make_lines() { for i in $(seq "$1"); do echo "line $i of a text that is long enough"; done; }
