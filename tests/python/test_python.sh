#!/bin/bash
# The tests of the Python package that need NumPy alone, by the first Python that has it: that of the variable PYTHON, python3, or the system's;
# where none has NumPy they are skipped. The others: make check-python.
set -u
here=$(cd "$(dirname "$0")" && pwd)
for python in ${PYTHON:-} python3 /usr/bin/python3; do
    "$python" -c 'import numpy' 2>/dev/null && break
done
tests=(test_folder test_ir test_masks test_normal test_padding test_recognise)
declare -A classes=([test_padding]=Arrays) # of a file whose other classes need more
if ! "$python" -c 'import numpy' 2>/dev/null; then
    printf '[  SKIPPED ] %s\n' "${tests[@]}"
    exit 0
fi
failed=0
for test in "${tests[@]}"; do
    # shellcheck disable=SC2086  # none, or one word
    PYTHONDONTWRITEBYTECODE=1 "$python" "$here/$test.py" ${classes[$test]:-} || { echo "failed: $test.py"; failed=1; }
done
exit $failed
