#!/bin/bash
# tools/run-in-parts.sh runs the parts that have not passed with the files that they test, and no others.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1" >&2; cat "$folder/said" "$folder/log" >&2; exit 1; }

# A repository, and a test of which part 1 fails while a file is there; it notes each part that it runs.
mkdir -p "$folder/tree" "$folder/build/tests"
cd "$folder/tree"
git init -q
git config user.email nobody@localhost
git config user.name nobody
# change FOLDER...: a commit that changes them.
change() {
    local name
    for name; do mkdir -p "$name" && date +%s%N >"$name/file"; done
    git add . && git commit -q -m change
}
change src doc
# shellcheck disable=SC2016 # it is the test that expands them
printf '#!/bin/bash\necho "$LS_TEST_PART" >>%s/ran\necho "3 cases ran, 0 were refused"\n[ "$LS_TEST_PART" != 1/3 ] || [ ! -e %s/fails ]\n' \
    "$folder" "$folder" >"$folder/build/tests/long_thing"
chmod +x "$folder/build/tests/long_thing"
parts() { : >"$folder/ran"; "$here/tools/run-in-parts.sh" "$folder/build" long_thing 3 "$folder/log" src >"$folder/said" 2>&1; }
ran() { [ "$(tr '\n' ' ' <"$folder/ran")" = "$1" ] || fail "$2: ran $(tr '\n' ' ' <"$folder/ran"), not $1"; }

touch "$folder/fails"
parts && fail 'a part fails and the exit code is 0'
ran '0/3 1/3 2/3 ' 'the first time'
rm "$folder/fails"
parts || fail 'all parts pass and the exit code is not 0'
ran '1/3 ' 'after a part that failed'
change doc
parts || fail 'nothing is left to run and the exit code is not 0'
ran '' 'another folder has changed'
change src
parts || fail 'all parts pass and the exit code is not 0'
ran '0/3 1/3 2/3 ' 'the folder has changed'
date >src/file
parts && fail 'files that are not committed are taken'
grep -q 'is not as committed' "$folder/said" || fail 'uncommitted files are not named'
echo ok
