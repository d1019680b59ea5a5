# For tests beside the live reference library: live SCRIPT BUILD runs a script of this folder with $LS_REFERENCE_PYTHON, else python3, or reports
# that this Python has no library and skips the test.
live() {
    local python=${LS_REFERENCE_PYTHON:-python3} script=$1 here
    here=$(dirname "${BASH_SOURCE[0]}")
    if ! "$python" -c 'import safetensors, tokenizers, torch, transformers' 2>/dev/null; then
        echo "[  SKIPPED ] $script: $python has no transformers, torch, tokenizers and safetensors (LS_REFERENCE_PYTHON names another)"
        exit 0
    fi
    export HF_HUB_OFFLINE=1 HF_HUB_DISABLE_PROGRESS_BARS=1 TRANSFORMERS_VERBOSITY=error TQDM_DISABLE=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
    "$python" "$here/$script" "$2"
}
