#!/bin/bash
# With TEST_EMULATOR, tools/run-tests.sh starts test programs, and the binary that scripts call, through it, and skips
# the listed tests.
set -eu
build=$(cd "$1" && pwd)
tools=$(cd "$(dirname "$0")/../../tools" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '#!/bin/sh\necho "$@" >>%s/started\nexec "$@"\n' "$folder" >"$folder/emulator"
chmod +x "$folder/emulator"
run() { TEST_EMULATOR="$folder/emulator" "$tools/run-tests.sh" "$build" short "$1" >"$folder/said" 2>&1; }

run test_base_units || { cat "$folder/said"; exit 1; }
grep -qE '^[1-9][0-9]* passed, 0 failed$' "$folder/said"
grep -qx "$build/tests/test_base_units" "$folder/started"
run test_cli.sh || { cat "$folder/said"; exit 1; }
grep -q "^[^ ]*/longspan " "$folder/started"
if run test_readme; then exit 1; fi
grep -qx 'no test was run' "$folder/said"
