"""jax.nn.dot_product_attention, causal, compiled for the CPU. Keys and values are shared among the query heads by the function itself."""
import peer
import jax
import jax.numpy as jnp
import numpy


def array(seed, shape, T):
    x = numpy.empty(shape, dtype=T)
    for begin, end, values in peer.numbers(seed, x.size):
        x.reshape(-1)[begin:end] = values
    return jnp.asarray(x)


def make(w, seq):
    T = {"bf16": jnp.bfloat16, "f32": jnp.float32}[w["dtype"]]
    q_shape, kv_shape = (1, seq, w["heads"], w["head_size"]), (1, seq, w["kv_heads"], w["head_size"])
    q, k, v, do = (array(i, s, T) for i, s in enumerate((q_shape, kv_shape, kv_shape, q_shape)))

    def forward(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    def both(q, k, v, do):
        o, back = jax.vjp(forward, q, k, v)
        return o, *back(do)

    if w["backward"]:
        return jax.jit(both), (q, k, v, do)
    return jax.jit(lambda *x: (forward(*x),)), (q, k, v)


def main():
    w = peer.work()
    small, arrays = make(w, 256)
    jax.block_until_ready(small(*arrays))
    resident = peer.memory("VmRSS")
    attention, arrays = make(w, w["seq"])
    out = []

    def run():
        out[:] = []
        out[:] = jax.block_until_ready(attention(*arrays))

    peer.serve(run, resident, lambda: [jnp.abs(x.astype(jnp.float32)).mean() for x in out])


main()
