#!/bin/bash
# Exported folders in the reference library; $LS_REFERENCE_PYTHON is a Python that has it, else python3.
set -eu
python=${LS_REFERENCE_PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
if ! "$python" -c 'import safetensors, tokenizers, torch, transformers' 2>/dev/null; then
    echo "[  SKIPPED ] reference_export: $python has no transformers, torch, tokenizers and safetensors (LS_REFERENCE_PYTHON names another)"
    exit 0
fi
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
exec "$python" "$here/reference/export.py" "$1"
