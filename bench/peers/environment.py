"""
The peers' throw-away Python: a virtual environment in the build folder, made when it is not there and kept for the next time.
PyPI has PyTorch for Linux on x86 only with CUDA, and without those libraries it does not load: 3 GB come over the network, 6 GB lie on the disk.
"""
import os
import shutil
import subprocess
import sys

# what is imported | what pip installs for it | GB on the disk
PACKAGES = {"torch": (["torch", "numpy"], 6), "transformers": (["transformers"], 1), "jax": (["jax", "numpy"], 1)}


def has(python, module):
    test = subprocess.run([python, "-c", f"import {module}, numpy"], capture_output=True, text=True)
    return test.returncode == 0


def install(folder, python, module):
    """None, or why it cannot be had."""
    packages, gigabytes = PACKAGES[module]
    free = shutil.disk_usage(os.path.dirname(folder)).free / 1e9
    if free < gigabytes + 2:
        return f"needs {gigabytes} GB of disk beside {folder}, {free:.0f} are free"
    print(f"bench-peers: installing {module} ({gigabytes} GB) in {folder}: some minutes, this once", flush=True)
    if not os.path.exists(python):
        made = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True)
        if made.returncode != 0:
            return f"python3 -m venv {folder} failed: {last_line(made)}"
    got = subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check", *packages],
                         capture_output=True, text=True)
    if got.returncode != 0:
        return f"pip install {' '.join(packages)} failed: {last_line(got)}"
    return None if has(python, module) else "installed, but it cannot be imported"


def last_line(process):
    lines = (process.stderr or process.stdout).strip().splitlines()
    return lines[-1] if lines else f"exit status {process.returncode}"


def given(python):
    """The same for an interpreter that somebody else keeps."""
    return python, {module: f"{python} does not have it" for module in PACKAGES if not has(python, module)}


def prepare(folder):
    """The interpreter to use, and {module: why not} of the peers that cannot be had."""
    python = os.path.join(folder, "bin", "python")
    left_out = {}
    for module in PACKAGES:
        if not (os.path.exists(python) and has(python, module)):
            reason = install(folder, python, module)
            if reason:
                left_out[module] = reason
    return python, left_out
