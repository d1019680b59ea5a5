"""
The diagonal GRU and LSTM of ParaRNN in PyTorch, token after token: the cell's formulas (longspan/rnn.h) on tensors of one token, in f32. What
does not wait for the token before is taken out of the loop, and steps are as few operators as PyTorch has for them.
    variant: loop      a loop in Python
             scripted  the same loop by torch.jit.script
"""
import math

import peer
import torch

torch.set_flush_denormal(True)


def gru(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x [S,3,E] of the gates z, r, c; w [3,E]."""
    gates, candidates, of_gates, of_candidate = x[:, :2].unbind(0), x[:, 2].unbind(0), w[:2], w[2]
    y = torch.zeros_like(of_candidate)
    out = []
    for t in range(len(candidates)):
        both = torch.sigmoid(torch.addcmul(gates[t], of_gates, y))
        c = torch.tanh(torch.addcmul(candidates[t], of_candidate * y, both[1]))
        y = torch.lerp(y, c, both[0])
        out.append(y)
    return torch.stack(out)


def lstm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x [S,3,E] of the gates f, o, z; w [5,E], of f, o, z for y, then of f, o for c."""
    f_in, o_in, z_in = x[:, 0].unbind(0), x[:, 1].unbind(0), x[:, 2].unbind(0)
    wf, wo, wz, wfc, woc = w[0], w[1], w[2], w[3], w[4]
    y = torch.zeros_like(wf)
    c = torch.zeros_like(wf)
    out = []
    for t in range(len(f_in)):
        f = torch.sigmoid(torch.addcmul(torch.addcmul(f_in[t], wf, y), wfc, c))
        z = torch.tanh(torch.addcmul(z_in[t], wz, y))
        c = torch.lerp(z, c, f)
        o = torch.sigmoid(torch.addcmul(torch.addcmul(o_in[t], wo, y), woc, c))
        y = o * torch.tanh(c)
        out.append(y)
    return torch.stack(out)


def array(seed, shape, deviation):
    x = torch.empty(shape)
    for begin, end, values in peer.numbers(seed, x.numel()):
        x.view(-1)[begin:end] = torch.from_numpy(values)
    return x.mul_(deviation * math.sqrt(3))


class Cell:
    def __init__(self, w, cell, seq):
        E = w["elements"]
        self.cell, self.back = cell, w["backward"]
        self.x = array(0, (seq, 3, E), 1).requires_grad_(self.back)
        self.w = array(1, (w["numbers"], E), 0.5).requires_grad_(self.back)
        self.dy = array(2, (seq, E), 1) if self.back else None
        self.out = []

    def run(self):
        self.out = []
        if self.back:
            self.out = torch.autograd.grad(self.cell(self.x, self.w), [self.x, self.w], self.dy)
            return
        with torch.no_grad():
            self.out = [self.cell(self.x, self.w)]

    def check(self):
        return [x.abs().mean() for x in self.out]


def main():
    w = peer.work()
    torch.set_num_threads(w["threads"])
    cell = {"gru": gru, "lstm": lstm}[w["cell"]]
    if w["variant"] == "scripted":
        cell = torch.jit.script(cell)
    for _ in range(3):  # what is scripted is compiled anew after the first runs
        Cell(w, cell, 64).run()
    resident = peer.memory("VmRSS")
    of_all = Cell(w, cell, w["seq"])
    peer.serve(of_all.run, resident, of_all.check)


main()
