"""The program `longspan`: found, run, and stopped; and loss and gradients of a batch by it.

It runs as a process of its own in a session of its own, so that Ctrl-C reaches Python alone, which passes it on and waits: a training then
ends after its step, with a checkpoint. A second Ctrl-C ends it at once.
"""
from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy

from . import batch as batches
from . import folder as folders


class Failed(Exception):
    """What the program said when it failed: its last line."""


def find():
    """Its path, or None: named by the variable LONGSPAN, beside this file (in a wheel), or in PATH."""
    named = os.environ.get("LONGSPAN")
    if named and not os.access(named, os.X_OK):
        raise Failed(f"the variable LONGSPAN names {named}, which is no program")
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "longspan")
    return named or (own if os.access(own, os.X_OK) else shutil.which("longspan"))


def library():
    """
    The shared library, by ctypes: named by the variable LONGSPAN_LIBRARY, that in the wheel, or the one beside the program or in the lib
    beside its bin. Its functions: include/longspan.
    """
    program = find()
    folder = os.path.dirname(os.path.realpath(program)) if program else ""
    places = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"), folder, os.path.join(os.path.dirname(folder), "lib")]
    files = [os.path.join(place, "liblongspan.so.0") for place in places if place]
    path = os.environ.get("LONGSPAN_LIBRARY") or next((file for file in files if os.path.exists(file)), None)
    if path is None:
        raise Failed("the library liblongspan.so.0 is not there: name it by the variable LONGSPAN_LIBRARY")
    return ctypes.CDLL(path)


def main():
    """The command `longspan` of a wheel."""
    path = find()
    if path is None or os.path.realpath(path) == os.path.realpath(sys.argv[0]):
        sys.exit("longspan: the program is not in this installation")
    os.execv(path, [path] + sys.argv[1:])


def flags(options):
    """Keywords as words of the command line: mesh="ring=2" is --mesh ring=2, rope_theta=1e6 is --rope-theta 1e6, json=True is --json."""
    words = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif isinstance(value, (list, tuple)):
            words += [flag] + [os.fspath(v) if isinstance(v, os.PathLike) else str(v) for v in value]
        elif value is not None and value is not False:
            words += [flag, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return words


def start(words, **pipes):
    program = find()
    if program is None:
        raise Failed("the program longspan is not there: put it into PATH, or name it by the variable LONGSPAN")
    return subprocess.Popen([program] + words, start_new_session=True, **pipes)


def interrupted(process):
    """Passes Ctrl-C on to a process and waits for it; a second one kills it with its ranks."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def failure(process, errors):
    lines = [line for line in errors.strip().splitlines() if line.strip()]
    return Failed(lines[-1] if lines else f"the program longspan ended with {process.returncode}")


def run(words, progress=None):
    """Runs the program and gives the lines that it printed. progress: a function of each line that it logs. Raises Failed."""
    with tempfile.TemporaryFile("w+") as printed:
        process = start(words, stdout=printed, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        logged = []
        try:
            for line in process.stderr:
                logged.append(line.rstrip("\n"))
                if progress:
                    progress(logged[-1])
            process.wait()
        except BaseException:
            if process.poll() is None:
                interrupted(process)
            raise
        finally:
            process.stderr.close()
        if process.returncode != 0:
            raise failure(process, "\n".join(logged))
        printed.seek(0)
        return printed.read().splitlines()


def grad(folder, batch, progress=None, **options):
    """
    (loss, {name: gradient}) of one batch {name: array [batch, tokens]}, by the program. Labels that do not count are -100. Options are those
    of `longspan grad`: ranks=2, mesh="ring=2", dtype="f64", memory="4G" ... Raises Failed.
    """
    with tempfile.TemporaryDirectory() as place:
        words = ["grad", "--model", os.fspath(folder), "--out", os.path.join(place, "gradients.safetensors")] + flags(options)
        others = []
        for flag, name, array in batches.arrays_of(folder, batch):
            path = os.path.join(place, f"{name or flag}.npy")
            numpy.save(path, batches.as_file(array))
            if flag == "input":
                others.append(f"{name}={path}")
            else:
                words += ["--" + flag, path]
        lines = run(words + (["--input"] + others if others else []), progress)
        loss = next(float(line.split()[1]) for line in lines if line.startswith("loss "))
        gradients = folders.read_safetensors(os.path.join(place, "gradients.safetensors"))
        return loss, {name: numpy.array(x) for name, x in gradients.items()}
