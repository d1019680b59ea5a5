"""
scaled_dot_product_attention of PyTorch on the CPU (its flash attention; oneDNN and MKL with AMX inside), causal.
variant "gqa": the op shares keys and values among the query heads itself (enable_gqa); "expanded": they are repeated before.
"""
import peer
import torch
from torch.nn.functional import scaled_dot_product_attention

torch.set_flush_denormal(True)


def array(seed, shape, T):
    x = torch.empty(shape, dtype=T)
    for begin, end, values in peer.numbers(seed, x.numel()):
        x.view(-1)[begin:end] = torch.from_numpy(values)
    return x


class Attention:
    def __init__(self, w, seq):
        T = {"bf16": torch.bfloat16, "f32": torch.float32}[w["dtype"]]
        q_shape, kv_shape = (1, seq, w["heads"], w["head_size"]), (1, seq, w["kv_heads"], w["head_size"])
        # [B,S,H,D] in memory, as projections leave them; the op sees [B,H,S,D]
        q, k, v, do = (array(i, s, T).transpose(1, 2) for i, s in enumerate((q_shape, kv_shape, kv_shape, q_shape)))
        self.in_, self.do = [x.requires_grad_(w["backward"]) for x in (q, k, v)], do
        self.group = w["heads"] // w["kv_heads"]
        self.gqa = w["variant"] == "gqa"
        self.out = []

    def forward(self):
        q, k, v = self.in_
        if not self.gqa:
            k, v = k.repeat_interleave(self.group, 1), v.repeat_interleave(self.group, 1)
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.gqa)

    def run(self):
        self.out = []
        if not self.in_[0].requires_grad:
            with torch.no_grad():
                self.out = [self.forward()]
            return
        o = self.forward()
        self.out = [o.detach(), *torch.autograd.grad(o, self.in_, self.do)]

    def check(self):
        return [x.float().abs().mean() for x in self.out]


def main():
    w = peer.work()
    torch.set_num_threads(w["threads"])
    Attention(w, 256).run()
    resident = peer.memory("VmRSS")
    attention = Attention(w, w["seq"])
    peer.serve(attention.run, resident, attention.check)


main()
