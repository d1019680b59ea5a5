"""Machine code of kernels whose speed is known: FlashAttention-2 and -3 as wheels of PyPI have them, and Longspan's own.

pip fetches a wheel (torch 531 MB, xformers 122, fa3_fwd 28) into a folder, where it stays; cuobjdump and nvdisasm (the
toolkit, or pip's nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm) print one kernel of its library.
"""
import pathlib
import subprocess
import sys
import zipfile

TOOLS = str(pathlib.Path(__file__).resolve().parents[2] / "tools")
sys.path.insert(0, TOOLS)
from gpu_code import disassemble, read_kernels  # noqa: E402

WHEELS = {  # name: what pip fetches, the library in it
    "torch": ("torch==2.11.0", "torch/lib/libtorch_cuda.so"),
    "fa3_fwd": ("fa3_fwd==0.0.3", "fa3_fwd/_C.abi3.so"),
    "xformers": ("xformers==0.0.33", "xformers/flash_attn_3/_C.so"),
}


class Kernel:
    """
    wheel: None for Longspan's own. warps: of a block on each scheduler that multiply; blocks: on a multiprocessor; copied:
    bytes that other warps copy to shared memory in a turn; queries, keys: of a tile.
    """

    def __init__(self, wheel, symbol, tile, warps=2, blocks=1, copied=0):
        self.wheel, self.symbol, self.warps, self.blocks, self.copied = wheel, symbol, warps, blocks, copied
        self.queries, self.keys = tile


def fa2_fwd(size, queries, keys, causal, padded=1):
    tile = f"ILi{size}ELi{queries}ELi{keys}ELi4E"
    return Kernel("torch", f"_ZN13pytorch_flash16flash_fwd_kernelI23Flash_fwd_kernel_traits{tile}Lb0ELb0EN7cutlass10bfloat16_tE"
                           f"19Flash_kernel_traits{tile}S3_EELb0ELb{causal:d}ELb0ELb0ELb{padded}ELb1ELb0ELb0EEEvNS_16Flash_fwd_paramsE",
                  (queries, keys), 1, 2)


def fa2_bwd(size, queries, keys, atoms, causal):
    tile = f"ILi{size}ELi{queries}ELi{keys}ELi8E"
    return Kernel("torch", "_ZN13pytorch_flash44flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelI23Flash_bwd_kernel_traits"
                           f"{tile}Li{atoms}ELi4ELi{atoms}ELb0ELb0EN7cutlass10bfloat16_tE19Flash_kernel_traits{tile}S3_EELb0ELb{causal:d}E"
                           "Lb0ELb0ELb1ELb1ELb0EEEvNS_16Flash_bwd_paramsE", (queries, keys))


FA3 = "_ZN7cutlass13device_kernelIN5flash20enable_sm90_or_laterINS1_16FlashAttn{0}Sm90INS1_25CollectiveMainloop{0}Sm90ILi2E{1}vNT_6ParamsE"
CLUSTER, BF16 = "N4cute5tupleIJNS5_1CILi1EEES8_S8_EEENS6_IJ", "NS_10bfloat16_tEfNS_4arch4Sm90E"
FORWARD, DYNAMIC = "Lb0ELb0ELb0ELb0ELb0ELb0ELb1ELb1ELb0ELb0ELb0EEENS1_21CollectiveEpilogueFwdI", "NS1_30DynamicPersistentTileSchedulerILi{0}ELi32ELb0ELb0ELb1EEEEEEEEE"


def fa3_fwd(types, tile, warps, copied):
    return Kernel("fa3_fwd", FA3.format("Fwd", CLUSTER + types), tile, warps, 1, copied)


KERNELS = {
    "fa2_fwd_128_full": fa2_fwd(128, 128, 64, False),
    "fa2_fwd_128_causal": fa2_fwd(128, 128, 64, True),
    "fa2_fwd_64_full": fa2_fwd(64, 128, 128, False),
    "fa2_fwd_64_causal": fa2_fwd(64, 128, 128, True),
    "fa2_fwd_256_causal": fa2_fwd(256, 64, 64, True, 0),
    "fa2_bwd_128_full": fa2_bwd(128, 64, 128, 2, False),
    "fa2_bwd_128_causal": fa2_bwd(128, 64, 128, 2, True),
    "fa2_bwd_64_full": fa2_bwd(64, 128, 128, 4, False),
    "fa2_bwd_64_causal": fa2_bwd(64, 128, 128, 4, True),
    "fa3_fwd_128_full": fa3_fwd(f"NS7_ILi128EEENS7_ILi176EEESA_EEELi128E{BF16}Lb0E{FORWARD}NS6_IJSA_SA_SB_EEES9_SD_SF_Li256ELb0ELb0ELb0ELb0EEE"
                                "NS1_29StaticPersistentTileSchedulerILb0EEEEEEEEE", (128, 176), 2, 90112),
    "fa3_fwd_128_causal": fa3_fwd(f"NS7_ILi128EEESA_SA_EEELi128E{BF16}Lb1E{FORWARD}SB_S9_SC_SE_Li256ELb0ELb0ELb0ELb0EEE{DYNAMIC.format(256)}",
                                  (128, 128), 2, 65536),
    "fa3_fwd_64_causal": fa3_fwd(f"NS7_ILi192EEENS7_ILi128EEENS7_ILi64EEEEEELi64E{BF16}Lb1E{FORWARD}NS6_IJSA_SC_SB_EEES9_SE_SG_Li384ELb0ELb0ELb0ELb0EEE"
                                 f"{DYNAMIC.format(384)}", (192, 128), 3, 32768),
    "fa3_fwd_256_causal": fa3_fwd(f"NS7_ILi128EEENS7_ILi80EEENS7_ILi256EEEEEELi256E{BF16}Lb1E{FORWARD}NS6_IJSA_SC_SB_EEES9_SE_SG_Li256ELb0ELb0ELb0ELb0EEE"
                                  f"{DYNAMIC.format(256)}", (128, 80), 2, 81920),
    "fa3_bwd_128_causal": Kernel("xformers", FA3.format("Bwd", f"Li2ELi2E{CLUSTER}NS7_ILi64EEENS7_ILi128EEESB_EEE{BF16}Lb1ELb0ELb0ELb0ELb0ELb1ELb0ELb0ELi2ELi1E"
                                                                "Li2ELi1ELb0EEENS1_24CollectiveEpilogueBwdGQAISC_fSF_Li256ELb0ELb0EEENS1_25SingleTileBwdLPT"
                                                                "SchedulerILb0ELi128ELb0EEEEEEEEE"), (64, 128), 2, 1, 65536),
    "own_fwd_sm90": Kernel(None, "_Z16attend_by_groupsILi128EEv12sm90_problem", (128, 128)),
    "own_dkv_sm90": Kernel(None, "_Z12grad_of_keysILi128ELb0EEv12sm90_problem", (64, 128)),
    "own_dq_sm90": Kernel(None, "_Z15grad_of_queriesILi128ELb0EEv12sm90_problem", (128, 128)),
    "own_fwd": Kernel(None, "_Z6attendILi128EEv15forward_problem", (128, 64)),
    "own_dkv": Kernel(None, "_Z12grad_of_keysILi128EEv12grad_problem", (32, 128)),
    "own_dq": Kernel(None, "_Z15grad_of_queriesILi128EEv12grad_problem", (128, 32)),
}


def library_of(folder, wheel):
    """The library of a wheel, in the folder: taken out of the wheel, which is fetched, where it is not there."""
    wanted, name = WHEELS[wheel]
    library = folder / name
    if not library.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.11",
                        "--dest", str(folder), wanted], check=True)
        (path,) = folder.glob(wanted.replace("==", "-") + "-*.whl")
        with zipfile.ZipFile(path) as archive:
            archive.extract(name, folder)
    return library


def code_of(folder, name, ampere, own=None):
    """
    The lines that cuobjdump prints of a kernel, kept in the folder. ampere: for compute capability 8.0. own: the library of
    Longspan's kernels; None leaves those out. None where there is no such kernel.
    """
    kernel = KERNELS[name]
    gpu = "sm_80" if ampere else "sm_90" if kernel.wheel == "torch" else "sm_90a"
    if kernel.wheel is None and own is None:
        return None
    kept = pathlib.Path(folder) / f"{name}.{gpu}.sass"
    if kernel.wheel is not None and kept.exists():
        return disassemble(kept)
    library = own if kernel.wheel is None else library_of(pathlib.Path(folder), kernel.wheel)
    printed = disassemble(library, options=("-arch", gpu, "-fun", kernel.symbol))
    if not read_kernels(printed):
        return None
    if kernel.wheel is not None:
        kept.write_text("\n".join(printed), encoding="utf-8")
    return printed
