"""What tests of imports from PyTorch share: a module on several ranks beside itself."""
import json
import os
import tempfile

import numpy
import torch

import support  # noqa: F401  the package's path
import longspan
import longspan.torch
from longspan import program

V, E, H = 61, 32, 4
MESHES = ("ring=1", "ring=2", "ring=3", "ring=4", "ulysses=2", "tp=2", "tp=4", "dp=3", "ring=2,tp=2")


def spread(test, model, example, batches, dtype="f64", tolerance=(1e-7, 1e-6), meshes=("ring=1", "ring=3", "tp=2"), reference=None):
    """Loss and gradients of each batch on each mesh against the module's own, or those of another one with its parameters."""
    if program.find() is None:
        test.skipTest("needs the program longspan")
    with tempfile.TemporaryDirectory() as out:
        result = longspan.torch.export(model, example, out)
        test.assertRegex(result.checked.program, "loss within")
        if reference is not None:
            reference.load_state_dict(model.state_dict())
            model = reference
        if dtype == "f64":
            model.double()
        for given in batches:
            model.zero_grad()
            loss = model(**given)
            loss = loss if isinstance(loss, torch.Tensor) else loss.loss
            loss.backward()
            for mesh in meshes:
                with test.subTest(mesh):
                    ours, found = longspan.grad(out, {name: x.numpy() for name, x in given.items()}, mesh=mesh, dtype=dtype, ranks_as="threads")
                    test.assertLessEqual(abs(ours - loss.item()), tolerance[0] * loss.item())
                    for name, p in model.named_parameters():
                        if name in found:
                            off = numpy.abs(found[name] - p.grad.numpy()).max()
                            test.assertLessEqual(off, tolerance[1] * p.grad.abs().max().item() + 1e-12, name)
        with open(os.path.join(out, "graph.json")) as file:
            return json.load(file)
