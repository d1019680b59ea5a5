#!/bin/bash
# Greedy generation of every architecture against the reference library: with its stored results for the stored
# models, and, where $LS_REFERENCE_PYTHON (else python3) has the library, live on larger models.
set -eu
python=${LS_REFERENCE_PYTHON:-python3}
here=$(cd "$(dirname "$0")/.." && pwd)
python3 "$here/reference/generate.py" stored "$1"
if ! "$python" -c 'import safetensors, torch, transformers' 2>/dev/null; then
    echo "[  SKIPPED ] larger models: $python has no transformers, torch and safetensors (LS_REFERENCE_PYTHON names another)"
    exit 0
fi
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
exec "$python" "$here/reference/generate.py" live "$1"
