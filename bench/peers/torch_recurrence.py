"""
The recurrences of the transformers library on a processor, where its kernels of Triton do not run: the gated delta rule
of Qwen3.5 (torch_chunk_gated_delta_rule) and Mamba-2's state space (mamba2_chunk_scan), in f32.
"""
import math

import peer
import torch

torch.set_flush_denormal(True)


def array(seed, shape, scale=1.0, shift=0.0):
    x = torch.empty(shape)
    for begin, end, values in peer.numbers(seed, x.numel()):
        x.view(-1)[begin:end] = torch.from_numpy(values)
    return x.mul_(scale).add_(shift)


class Recurrence:
    def __init__(self, w, seq):
        K, H, D, E = w["K"], w["H"], w["D"], w["E"]
        key = math.sqrt(3 / D)
        self.back = w["backward"]
        self.q, self.k, self.v = array(0, (1, seq, K, D), key), array(1, (1, seq, K, D), key), array(2, (1, seq, H, E))
        self.gate, self.beta = array(3, (1, seq, H), 0.1, -0.1), array(4, (1, seq, H), 0.5, 0.5)
        self.do = array(5, (1, seq, H, E)) if self.back else None
        self.scale = math.sqrt(D) if w["layer"] == "gdn" else 1.0  # the rule divides queries by it
        self.q *= self.scale
        if w["layer"] == "gdn":
            from transformers.models.qwen3_5.modeling_qwen3_5 import torch_chunk_gated_delta_rule as rule
            self.in_ = [self.q, self.k, self.v, self.gate, self.beta]
            self.forward = lambda: rule(self.q, self.k, self.v, g=self.gate, beta=self.beta)[0]
        else:
            from transformers.models.mamba2.modeling_mamba2 import mamba2_chunk_scan as scan
            A = -torch.ones(H)
            self.gate.neg_()  # the step; A is -1
            self.in_ = [self.q, self.k, self.v, self.gate]
            self.forward = lambda: scan(self.v, self.gate, A, self.k, self.q, chunk_size=256)
        for x in self.in_:
            x.requires_grad_(self.back)
        self.out = []

    def run(self):
        self.out = []
        if not self.back:
            with torch.no_grad():
                self.out = [self.forward()]
            return
        self.out = list(torch.autograd.grad(self.forward(), self.in_, self.do)[:2])
        self.out[0] = self.out[0] * self.scale

    def check(self):
        return [x.abs().mean() for x in self.out]


def main():
    w = peer.work()
    torch.set_num_threads(w["threads"])
    Recurrence(w, 256).run()
    resident = peer.memory("VmRSS")
    recurrence = Recurrence(w, w["seq"])
    peer.serve(recurrence.run, resident, recurrence.check)


main()
