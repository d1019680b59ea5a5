#!/bin/bash
# longspan tokenize: text to ids and back, by lines and whole files; every command says which tokenizer it uses; refusals.
. "$(dirname "$0")/../support/cli.sh"
gpt2=$here/reference/tokenizers/gpt2

# --- text to ids and back ---
printf 'Hello, world\n\n  été 👩‍👧\r\nlast' >lines.txt
"$longspan" tokenize --tokenizer "$gpt2" lines.txt >ids.jsonl 2>err || fail "tokenize: $(cat err)"
grep -q "^longspan: tokenizer: .*gpt2/tokenizer.json, 5[0-9]* tokens$" err || fail "no word of the tokenizer: $(cat err)"
[ "$(wc -l <ids.jsonl)" -eq 4 ] && [ "$(sed -n 2p ids.jsonl)" = "[]" ] || fail "lines: $(cat ids.jsonl)"
"$longspan" tokenize --tokenizer "$gpt2" --decode ids.jsonl 2>/dev/null | cmp - <(cat lines.txt; echo) || fail "not the same text"
"$longspan" tokenize --tokenizer "$gpt2/tokenizer.json" <lines.txt 2>/dev/null | cmp - ids.jsonl || fail "standard input"
"$longspan" tokenize --tokenizer "$gpt2" --text 'Hello, world' 2>/dev/null | cmp - <(head -1 ids.jsonl) || fail "--text"
"$longspan" tokenize --tokenizer "$gpt2" --whole lines.txt - </dev/null >whole.jsonl 2>/dev/null
[ "$(wc -l <whole.jsonl)" -eq 2 ] && [ "$(tail -1 whole.jsonl)" = "[]" ] || fail "whole: $(cat whole.jsonl)"
"$longspan" tokenize --tokenizer "$gpt2" --decode --whole whole.jsonl 2>/dev/null | cmp - lines.txt || fail "not the same file"
"$longspan" tokenize --json --tokenizer "$gpt2" lines.txt 2>/dev/null >objects.jsonl
python3 -c 'import json; a, b = ([json.loads(l) for l in open(f)] for f in ("ids.jsonl", "objects.jsonl")); assert a == [o["ids"] for o in b]'
"$longspan" tokenize --json --decode --tokenizer "$gpt2" objects.jsonl 2>/dev/null >texts.jsonl
python3 -c 'import json; a = [json.loads(l)["text"] for l in open("texts.jsonl")]; assert a == open("lines.txt", newline="\n").read().split("\n"), a'

# --- bytes, and bytes that are no UTF-8 ---
head -c 100000 /dev/urandom >noise
"$longspan" tokenize --whole noise 2>err >ids || fail "noise: $(cat err)"
grep -q '^longspan: tokenizer: bytes (.*), 256 tokens$' err || fail "bytes: $(cat err)"
"$longspan" tokenize --decode --whole ids 2>/dev/null | cmp - noise || fail "noise is not the same"
expect 1 "begins no character of UTF-8; expected UTF-8" tokenize --tokenizer "$gpt2" noise

# --- special tokens ---
rare=$here/reference/tokenizers/rare
plain=$("$longspan" tokenize --tokenizer "$rare" --text x 2>/dev/null) framed=$("$longspan" tokenize --special --tokenizer "$rare" --text x 2>/dev/null)
[ "$framed" != "$plain" ] && grep -q "${plain:1:-1}" <<<"$framed" || fail "$plain and $framed"
[ "$("$longspan" tokenize --tokenizer "$rare" --decode --skip-special --text "$framed" 2>/dev/null)" = " x" ] || fail "special tokens are in the text"
"$longspan" tokenize --tokenizer "$rare" --decode --text "$framed" 2>/dev/null | grep -q '</s> x</s>' || fail "special tokens are left out"

# --- refusals ---
# On a terminal control characters are replaced; in a file the text is unchanged.
python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' sh -c "'$longspan' tokenize --decode --text '[27, 91, 50, 74]' 2>/dev/null" >shown </dev/null
if grep -q $'\x1b' shown || ! grep -q '\[2J' shown; then fail "a terminal gets $(od -c shown)"; fi
"$longspan" tokenize --decode --text '[27, 91, 50, 74]' 2>/dev/null | grep -q $'^\x1b\[2J$' || fail "a file does not get the text"
expect 1 "noise, line 1: ids: not valid JSON" tokenize --decode noise
[ "$("$longspan" tokenize --decode --json --text '[97, 0, 98]' 2>/dev/null)" = '{"text": "a\u0000b"}' ] || fail "a zero byte in JSON"
expect 1 "standard input, line 1: ids: [1] is 256, expected an integer from 0 to 255" tokenize --decode - < <(echo '[1, 256]')
expect 1 "ids is missing" tokenize --decode --text '{}'
expect 1 "nowhere: cannot be opened" tokenize nowhere
expect 1 "cannot be read: Is a directory" tokenize .
expect 2 "expected one of them" tokenize --text a lines.txt
expect 2 "--skip-special is given without --decode" tokenize --skip-special lines.txt
expect 2 "with --decode" tokenize --decode --special ids
mkdir empty
expect 1 "no tokenizer in empty" tokenize --tokenizer empty lines.txt
expect 1 "no tokenizer in empty" data build --tokenizer empty --out shards lines.txt
head -c 70000000 /dev/zero >long
(ulimit -v 600000; "$longspan" tokenize long) >/dev/null 2>err && fail "a line of 70 MB was read"
grep -q 'long, line 1: a line of more than 64 MiB' err || [ -n "${LS_TEST_SANITIZER:-}" ] || fail "long: $(cat err)"
echo passed
