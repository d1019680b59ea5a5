"""longspan.compile: steps of a model on several ranks within a loop of the user's, by the program over a pipe (`longspan steps`)."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import warnings

import numpy

from . import batch as batches
from . import folder as folders
from . import program
from .training import as_state, exported


def scratch():
    """A new folder, in memory where there is a place for that."""
    return tempfile.mkdtemp(prefix="longspan-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


def teacher_inputs(batch, k):
    """The k likeliest words of a teacher, arrays [batch, tokens, k] of a batch, as the program's inputs; and the batch without them."""
    left, inputs = dict(batch), {}
    for name in ("teacher_ids", "teacher_logprobs"):
        array = left.pop(name, None)
        array = None if array is None else numpy.asarray(array.detach().cpu() if hasattr(array, "detach") else array)
        if array is None or array.ndim != 3 or array.shape[2] != k:
            raise ValueError(f"the batch needs {name}, [batch, tokens, {k}]" + ("" if array is None else f"; it is {list(array.shape)}"))
        inputs.update({f"{name}.{i}": array[..., i] for i in range(k)})
    return inputs, left


def joined(micro_batches):
    """One batch of several, {name: array [batch, tokens]}."""
    if not micro_batches or any(set(b) != set(micro_batches[0]) for b in micro_batches):
        raise ValueError("micro-batches need the same names, and one of them at least")
    parts = [Compiled.numbers(batch) for batch in micro_batches]
    return {name: numpy.concatenate([part[name] for part in parts]) for name in parts[0]}


class Compiled:
    """
    A model on ranks that wait for batches. `loss` and `grad_norm` are of the last step, `gradients` of the last one without an optimiser.
    Close it, or use it in a with statement. place: a folder for its files, which it removes. With weighted=True it has `logprobs`, and its
    steps take the derivatives of a loss of the caller's by them. With teacher=k its batches have teacher_ids and teacher_logprobs.
    """

    def __init__(self, model, example, loss=None, optimizer="adamw", lr=1e-3, clip=0.0, place=None, weighted=False, teacher=0, **options):
        self.place, self.process, self.closed = place or scratch(), None, False
        self.optimizer, self.lr, self.clip, self.weighted = optimizer, lr, clip, weighted
        self.teacher = teacher
        self.loss = self.grad_norm = self.gradients = None
        self.step_number = 0
        try:
            self.folder, self.export = exported(model, example, loss, os.path.join(self.place, "model"))
            self.module = model if self.export is not None and self.export is not model else None
            arrays = batches.arrays_of(self.folder, self.numbers(example))
            ids, apart = arrays[0][2], batches.has_documents(arrays)
            self.errors = tempfile.TemporaryFile("w+")
            words = ["steps", "--model", self.folder, "--batch", str(ids.shape[0]), "--seq", str(ids.shape[1])]
            words += program.flags({"optimizer": optimizer or "none", "documents": apart, "weighted": weighted, "teacher": teacher or None, **options})
            self.process = program.start(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
            self.answer()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def numbers(batch):
        """Arrays of NumPy of a batch, whatever library's they are."""
        return {name: numpy.asarray(x.detach().cpu() if hasattr(x, "detach") else x) for name, x in batch.items() if getattr(x, "ndim", 0) == 2}

    def ask(self, request):
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says why
        return self.answer()

    def answer(self):
        try:
            line = self.process.stdout.readline()
        except KeyboardInterrupt:
            program.interrupted(self.process)
            self.close()
            raise
        if not line:
            self.process.wait()
            self.errors.seek(0)
            failed = program.failure(self.process, self.errors.read())
            self.close()
            raise failed
        return json.loads(line)

    def put(self, batch, more=None):
        """Writes a batch where the ranks read it. more: inputs of its loss."""
        if self.closed:
            raise program.Failed("the ranks have ended")
        for flag, name, array in batches.arrays_of(self.folder, self.numbers(batch), more):
            numpy.save(os.path.join(self.place, f"{name if flag == 'input' else flag}.npy"), batches.as_file(array))

    def logprobs(self, batch):
        """
        Of weighted ranks: the log-probability of each label, f32 [batch, tokens], 0 where it is -100. A batch has input_ids and, where they
        are not the next tokens, labels, each beside the token that predicts it.
        """
        self.put(batch)
        self.ask(f"logprobs {self.place}")
        return numpy.load(os.path.join(self.place, "logprobs.npy"))

    def step(self, batch, lr=None, by_logprobs=None):
        """
        One step of the optimiser on a batch of the example's sizes, or on a list of micro-batches that have them together; without an
        optimiser the gradients, which a module of PyTorch gets as its parameters' .grad (its weights are sent first). Gives the loss.
        by_logprobs, of weighted ranks: the derivative of the caller's loss by what `logprobs` gives, [batch, tokens]; the gradient is that
        of this loss, and what is given is the sum of derivatives times log-probabilities.
        """
        if self.weighted != (by_logprobs is not None):
            raise ValueError("by_logprobs is for weighted ranks" if not self.weighted else "weighted ranks need by_logprobs")
        more = {} if by_logprobs is None else {"weights": -numpy.asarray(by_logprobs, dtype="f8")}
        parts = list(batch) if isinstance(batch, (list, tuple)) else [batch]
        if self.teacher:
            apart = [teacher_inputs(part, self.teacher) for part in parts]
            more, parts = joined([inputs for inputs, _ in apart]), [left for _, left in apart]
        self.put(joined(parts), more)
        if self.optimizer:
            answer = self.ask(f"step {self.lr if lr is None else lr!r} {self.clip!r} {self.place}")
            self.grad_norm, self.step_number = answer["grad_norm"], answer["step"]
        else:
            if self.module is not None:
                self.send([(p.value.name, p.data) for p in self.export.graph.parameters])
            answer = self.ask(f"grad {self.place}")
            self.gradients = {name: numpy.array(x) for name, x in folders.read_safetensors(os.path.join(self.place, "gradients.safetensors")).items()}
            if self.module is not None:
                self.give_gradients()
        self.loss = answer["loss"]
        return self.loss

    def send(self, tensors):
        """The weights of the next gradients: [(name, array)], all that the folder has."""
        folders.write_safetensors(os.path.join(self.folder, "model.safetensors"), tensors)
        self.ask("load")

    def give_gradients(self):
        import torch
        for name, parameter in self.module.named_parameters():
            if name in self.gradients:
                gradient = torch.from_numpy(self.gradients[name]).to(parameter.dtype).to(parameter.device)
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient

    def save(self, folder):
        """Writes a checkpoint of weights and optimiser into a folder, from which `resume`, and `longspan checkpoint`, go on."""
        folder = os.path.abspath(folder)
        os.makedirs(folder, exist_ok=True)
        self.ask_about(folder, "save")

    def resume(self, folder):
        """
        Goes on from a checkpoint, or from the newest one in a folder, on any mesh: the steps that follow are those that would have followed
        `save`. Another optimiser is refused; other numbers of it, sizes and parameters that are frozen now are warned of. Gives the number of
        steps done, which `step_number` is, too.
        """
        said = os.fstat(self.errors.fileno()).st_size
        self.step_number = self.ask_about(os.path.abspath(folder), "resume")["step"]
        for line in os.pread(self.errors.fileno(), 1 << 20, said).decode(errors="replace").splitlines():
            if "from here on" in line:
                warnings.warn(line, stacklevel=2)
        return self.step_number

    def ask_about(self, folder, verb):
        if self.closed:
            raise program.Failed("the ranks have ended")
        if not self.optimizer:
            raise program.Failed("without an optimiser the weights are the caller's")
        if "\n" in folder:
            raise ValueError(f"the folder's name {folder!r} has a line break")
        return self.ask(f"{verb} {folder}")

    def state_dict(self):
        """{name: weight} under the user's names, as Trained.state_dict gives it."""
        return as_state(self.arrays())

    def arrays(self):
        """{name: array of NumPy} of the weights."""
        run = os.path.join(self.place, "run")
        shutil.rmtree(run, ignore_errors=True)
        self.save(run)
        program.run(["checkpoint", "export", run, "--out", os.path.join(run, "model")])
        found = {name: numpy.array(x) for name, x in folders.read(run).items()}
        shutil.rmtree(run)
        return found

    def close(self):
        """Ends the ranks. What they computed is gone."""
        if self.closed:
            return
        self.closed = True
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.errors.close()
        shutil.rmtree(self.place, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if hasattr(self, "closed"):
            self.close()


def compile(model, example, loss=None, optimizer="adamw", lr=1e-3, clip=0.0, **options):
    """
    Starts ranks for a model and gives a Compiled: `.step(batch)` gives the loss, `.state_dict()` the weights. model, example and loss are
    as for longspan.train; batches have the sizes of the example. optimizer: "adamw", "sgd", "lion", "muon", or None for gradients alone.
    lr, clip: of each step. accumulate=4: a step is cut into so many micro-batches. group=["*.norm.*:lr=0.5,decay=0", "wte.*:frozen"]:
    settings of parameters by patterns of their names. weighted=True: steps of a loss of the caller's, by log-probabilities (Compiled.logprobs),
    of a folder with a config.json. teacher=k: the loss is the divergence from a teacher, of which batches have the k likeliest words for each
    label, teacher_ids and teacher_logprobs [batch, tokens, k]. Options are those of `longspan steps`: ranks=2, mesh="ring=2", beta2=0.999,
    weight_decay=0.01, dtype="bf16", memory="8G" ... Raises Refused and Failed.
    """
    return Compiled(model, example, loss, optimizer, lr, clip, **options)
