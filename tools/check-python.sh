#!/bin/sh
# The tests of the Python package. check-python.sh BUILD: makes an environment with NumPy in BUILD/python unless PYTHON names a Python that has it.
# WITH="torch transformers" installs more. Last line: N passed, N failed.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-build}
if [ -z "${PYTHON:-}" ]; then
    PYTHON=$build/python/bin/python
    [ -x "$PYTHON" ] || python3 -m venv "$build/python"
    # shellcheck disable=SC2086  # several words
    "$PYTHON" -m pip install --quiet numpy ${WITH:-}
fi
passed=0 failed=0
for test in "$root"/tests/python/test_*.py; do
    if "$PYTHON" "$test"; then
        passed=$((passed + 1))
    else
        echo "failed: $test"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
