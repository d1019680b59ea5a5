#!/bin/bash
# check-wheel.sh WHEEL [PYTHON]: installs the wheel into an empty environment and does what the README's Python lines do, away from this folder.
set -eu
wheel=$(realpath "$1") python=${2:-python3}
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$python" -m venv "$place/env"
"$place/env/bin/python" -m pip install --quiet "$wheel"
cp -r "$root/examples/tiny" "$root/README.md" "$place/"
cd "$place"
unset LONGSPAN PYTHONPATH
PATH=$place/env/bin:/usr/bin:/bin
longspan version | head -1
env/bin/python - <<'PYTHON'
import numpy, longspan
result = longspan.train("tiny", "README.md", "run", progress=None, seq=128, steps=3, ranks=2)
loss, gradients = longspan.grad("run/model", {"input_ids": numpy.arange(40).reshape(2, 20)}, mesh="ring=2")
assert result.steps == 3 and set(gradients) == set(result.state_dict()) and 0 < loss < 10
with longspan.compile("run/model", {"input_ids": numpy.arange(40).reshape(2, 20)}, ranks=2) as model:
    assert abs(model.step({"input_ids": numpy.arange(40).reshape(2, 20)}) - loss) < 1e-5
assert longspan.library().ls_train
print("trained, differentiated, stepped, loaded the library:", longspan.__file__)
PYTHON
