# A model that trains in no time, and a text for it. $here: the folder of tests.
make_tiny_model() { cp "$here/support/tiny_config.json" config.json; }
# make_lines N: so many lines of text.
make_lines() { for i in $(seq "$1"); do echo "line $i of a text that is long enough"; done; }
