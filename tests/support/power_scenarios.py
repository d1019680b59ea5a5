#!/usr/bin/env python3
"""Losses of power at every moment of Longspan's writing: power_scenarios.py LONGSPAN LIBFAULTS DRAWS STATES RESUMED [SCENARIO]

A run of each scenario is recorded. Every state that a loss of power may leave (support/power.py) is written to a folder of its own, and the
promises are checked there. DRAWS: random states of each moment beside the systematic ones. STATES: how many states to check, spread evenly,
beside those in which only safe changes survive (0: all). RESUMED: in how many of these the command is repeated and must reach the
undisturbed result.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import power

LONGSPAN, FAULTS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
DRAWS, STATES, RESUMED = map(int, sys.argv[3:6])
CHECKPOINT = re.compile(r"checkpoint-(\d{8})$")


def call(*arguments, **environment):
    return subprocess.run([LONGSPAN, *arguments], env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)


def must(result, what):
    if result.returncode != 0:
        raise SystemExit(f"power: {what}: exit {result.returncode}: {result.stdout.decode(errors='replace')}")
    return result


def bytes_of(folder, leave_out=()):
    """By path: what the files of a folder hold."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            if name not in leave_out and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = file.read()
    return found


class Scenario:
    """work: where its inputs lie; folder: what is recorded, with `out` in it."""

    def __init__(self, work):
        self.work, self.folder = work, os.path.join(work, "recorded")
        os.mkdir(self.folder)

    def begin(self):
        """What is there before the record begins."""

    def loss(self, tree, folder):
        """Why what is left is not what was promised; None: it is."""

    def again(self, folder):
        """The command once more: why its result is another; None: it is the same."""


class Train(Scenario):
    """Two ranks, a checkpoint after every step, of which one is kept besides the best."""
    steps = 4 if STATES == 0 else 2
    flags = ["--seq", "32", "--steps", str(steps), "--save-every", "1", "--keep", "1", "--ranks", "2", "--threads", "1", "--strategy", "ring",
             "--schedule", "constant", "--eval-every", "2", "--keep-best"]

    def begin(self):
        shutil.copy(f"{HERE}/tiny_config.json", f"{self.work}/config.json")
        for name, lines in (("text.txt", 100), ("other.txt", 20)):
            with open(f"{self.work}/{name}", "w") as file:
                file.writelines(f"line {i} of a text that is long enough\n" for i in range(lines))

    def run(self, folder, *more, **environment):
        return call("train", "--model", f"{self.work}/config.json", "--data", f"{self.work}/text.txt", "--eval-data", f"{self.work}/other.txt",
                    "--out", f"{folder}/out", *self.flags, *more, **environment)

    def finish(self, record):
        def names(step):
            return lambda op: op.what in ("rename", "exchange") and op.paths[-1].endswith(f"checkpoint-{step:08d}")
        self.promised = {step: record.safe_since(names(step)) for step in range(1, self.steps + 1)}
        assert None not in self.promised.values(), self.promised
        self.result = self.last(self.folder)

    def loss(self, tree, folder):
        wanted = max((step for step, moment in self.promised.items() if moment <= tree.moment), default=0)
        out = f"{folder}/out"
        names = os.listdir(out) if os.path.isdir(out) else []
        steps = sorted((int(m.group(1)) for m in map(CHECKPOINT.match, names) if m), reverse=True)
        for step in steps:
            if call("checkpoint", "verify", f"{out}/checkpoint-{step:08d}").returncode == 0:
                return f"step {wanted} was saved, {step} is the newest whole one" if step < wanted else None
        return f"step {wanted} was saved, no whole one is left of {steps}" if wanted > 0 else None

    def again(self, folder):
        there = any(CHECKPOINT.match(n) for n in os.listdir(f"{folder}/out")) if os.path.isdir(f"{folder}/out") else False
        result = self.run(folder, *(["--resume"] if there else []))
        if result.returncode != 0:
            return result.stdout.decode(errors="replace")
        return None if self.last(folder) == self.result else "other bits"

    def last(self, folder):
        return bytes_of(f"{folder}/out/checkpoint-{self.steps:08d}", ["state.json"])  # its times differ


class Export(Scenario):
    """A folder for other programs, over an earlier one."""

    def begin(self):
        shutil.copy(f"{HERE}/tiny_config.json", f"{self.work}/config.json")
        with open(f"{self.work}/text.txt", "w") as file:
            file.writelines(f"line {i} of a text that is long enough\n" for i in range(100))
        for steps in ("1", "2"):
            must(call("train", "--model", f"{self.work}/config.json", "--data", f"{self.work}/text.txt", "--out", f"{self.work}/run{steps}",
                      "--seq", "32", "--steps", steps, "--ranks", "1"), "train")

    def run(self, folder, **environment):
        for steps in ("1", "2"):
            result = call("checkpoint", "export", f"{self.work}/run{steps}", "--out", f"{folder}/out", **environment)
            if result.returncode != 0:
                break
            if folder == self.folder:
                self.wholes.append(bytes_of(f"{folder}/out"))
        return result

    wholes = []

    def finish(self, record):
        named = [c.synced for c in record.changes if record.operations[c.moment - 1].what in ("rename", "exchange")
                 and record.operations[c.moment - 1].paths[-1] == "out"]
        assert len(named) == 2 and None not in named, named
        self.promised = named

    def loss(self, tree, folder):
        done = sum(moment <= tree.moment for moment in self.promised)
        if not os.path.exists(f"{folder}/out"):
            return f"{done} exports were done, and nothing is there" if done > 0 else None
        held = bytes_of(f"{folder}/out")
        if held not in self.wholes:
            return f"an export that is not whole: {sorted(held)}"
        return None if self.wholes.index(held) + 1 >= done else "the earlier export is there, the later one was done"

    def again(self, folder):
        result = self.run(folder)
        return result.stdout.decode() if result.returncode != 0 else None if bytes_of(f"{folder}/out") == self.wholes[1] else "other bytes"


class Build(Scenario):
    """Token shards: three of them and their list."""

    def begin(self):
        with open(f"{self.work}/text.jsonl", "w") as file:
            file.writelines('{"text": "document %d of some that are cut into shards"}\n' % i for i in range(60))

    def run(self, folder, *more, **environment):
        return call("data", "build", f"{self.work}/text.jsonl", "--out", f"{folder}/out", "--shard-tokens", "1000", *more,
                    **environment)

    def finish(self, record):
        self.promised = record.safe_since(lambda op: op.what == "rename" and op.paths[-1] == "out/shards.json")
        assert self.promised is not None
        self.result = bytes_of(f"{self.folder}/out")

    def loss(self, tree, folder):
        done = os.path.exists(f"{folder}/out/shards.json")
        if done:
            result = call("data", "inspect", f"{folder}/out", "--verify")
            return result.stdout.decode(errors="replace") if result.returncode != 0 else None
        return "shards.json is gone" if tree.moment >= self.promised else None

    def again(self, folder):
        there = os.path.isdir(f"{folder}/out") and len(os.listdir(f"{folder}/out")) > 0
        result = self.run(folder, *(["--resume"] if there else []))
        if result.returncode != 0:
            return result.stdout.decode(errors="replace")
        return None if bytes_of(f"{folder}/out") == self.result else "other bytes"


def spread(all_, n):
    return [all_[i * len(all_) // n] for i in range(n)] if n < len(all_) else all_


def check(name, scenario):
    scenario.begin()
    record_file = f"{scenario.work}/record"
    must(scenario.run(scenario.folder, LD_PRELOAD=FAULTS, LS_RECORD=record_file, LS_RECORD_FOLDER=scenario.folder), name)
    record = power.Record(record_file, scenario.folder)
    scenario.finish(record)
    states = record.states(1, DRAWS)
    found = len(states)
    if STATES > 0:
        states = [t for t in states if t.least] + spread([t for t in states if not t.least], STATES)
    resumed = 0
    go_on = set(id(tree) for tree in spread(states, RESUMED))
    for i, tree in enumerate(states):
        folder = f"{scenario.work}/state"
        tree.write(folder)
        why = scenario.loss(tree, folder)
        if why is None and id(tree) in go_on:
            resumed += 1
            why = scenario.again(folder)
        if why is not None:
            op = record.operations[tree.moment - 1] if tree.moment > 0 else None
            held = "\n".join(f"    {path}" for path, _, _ in tree.walk(0, ""))
            raise SystemExit(f"power: {name}: state {i} of {len(states)}, after {op and (op.what, op.paths)}: {why}\n  it holds\n{held}")
        shutil.rmtree(folder)
    print(f"power: {name}: {len(record.operations)} operations, {found} states, {len(states)} looked at, {resumed} gone on from")


def main():
    chosen = sys.argv[6:]
    for name, kind in (("train", Train), ("export", Export), ("build", Build)):
        if not chosen or name in chosen:
            with tempfile.TemporaryDirectory(prefix="longspan-power-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as work:
                check(name, kind(os.path.realpath(work)))


main()
