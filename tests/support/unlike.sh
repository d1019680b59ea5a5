# Ranks of one job that are given other things, for test_cli_unlike.sh and long_cli_unlike.sh (after cli.sh).
. "$here/support/launchers.sh"
make_tiny_model
make_lines 200 >text.txt
make_lines 200 | tr a-m n-z >other.txt
make_arrays
most_seconds=${LS_TEST_SECONDS:-20} # until all have ended: what is asked is 5 on a machine that does nothing else

# Runs a command with what a rank is given beside: $FIRST on rank 0, $SECOND on rank 1; NAME=VALUE before the options is its environment, and
# WHERE=FOLDER where it runs.
cat >given.sh <<'GIVEN'
#!/bin/bash
given=$FIRST
[ "${!RANK_NAME}" = 0 ] || given=$SECOND
while [[ $given =~ ^[A-Z_]+= ]]; do
    export "${given%% *}"
    case $given in *" "*) given=${given#* } ;; *) given= ;; esac
done
cd "${WHERE:-.}" || exit 1
# shellcheck disable=SC2086 # words
exec "$@" $given
GIVEN
chmod +x given.sh

# unlike LAUNCHER FIRST SECOND WORDS COMMAND...: two ranks, of which the second gets other options or variables, are refused with one line that
# has the words, in time, and leave no folder.
unlike() {
    local name=$1 words=$4 status=0 begin=$EPOCHREALTIME
    export FIRST=$2 SECOND=$3 RANK_NAME
    RANK_NAME=$(rank_variable "$name")
    shift 4
    rm -rf out
    launcher_of "$name" 2
    timeout 100 "${launcher[@]}" "$folder/given.sh" "$longspan" "$@" >output 2>err </dev/null || status=$?
    seconds=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
    [ $status -ne 0 ] || fail "$name: $1, '$FIRST' beside '$SECOND': exit 0: $(cat output)"
    err_lines 1 "$words"
    [ "$(grep -c '^longspan: rank ' err)" -eq 1 ] || fail "$name: '$FIRST' beside '$SECOND' is said more than once: $(cat err)"
    [ ! -e out ] || [ -z "$(ls out)" ] || fail "$name: '$FIRST' beside '$SECOND': files are left: $(ls out)"
    awk -v s="$seconds" -v most="$most_seconds" 'BEGIN { exit !(s <= most) }' || fail "$name: '$FIRST' beside '$SECOND': $seconds s"
    echo "  $name: $1, '$FIRST' beside '$SECOND': $seconds s"
}
train=(train --model config.json --data text.txt --seq 32 --out "$folder/out")
attention=(attention --q q.npy --k k.npy --v v.npy --out "$folder/out")
grad=(grad --model config.json --tokens tokens.npy --out "$folder/out")
