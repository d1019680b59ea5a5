#!/bin/bash
# tools/cuda-code.py over what stands in for cuobjdump: kernels as they should be, and each way in which one may be wrong.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() { echo "FAILED: $*"; exit 1; }
printf '#!/bin/bash\ncat "%s/${1#-}"\n' "$folder" >cuobjdump
chmod +x cuobjdump

small=_Z6attendILi64EEv15forward_problem large=_Z6attendILi256EEv15forward_problem
direct=_Z8multiplyILb1ELb1ELb1EEv7productI13__nv_bfloat16E slow=_Z8multiplyILb0ELb1ELb1EEv7productI13__nv_bfloat16E
groups=_Z12grad_of_keysILi64ELb0EEv12sm90_problem capped=_Z12grad_of_keysILi64ELb1EEv12sm90_problem
forward=_Z16attend_by_groupsILi64EEv15forward_problem
names=("$small" "$large" "$direct" "$slow" "$groups" "$capped" "$forward")
# make: kernels as they should be, each with a loop of products.
make() {
    echo "arch = sm_90" | tee sass >res-usage
    for name in "${names[@]}"; do
        printf ' Function %s:\n  REG:128 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:592\n' "$name" >>res-usage
        printf '\t\tFunction : %s\n' "$name" >>sass
        printf '        /*0000*/  LDGSTS.E.128 [R1], [R2] ;\n        /*0010*/  LDSM.16.M88.4 R4, [R3] ;\n' >>sass
        case $name in "$groups" | "$capped" | "$forward") product='HGMMA.64x64x16.F32.BF16 R8, gdesc[UR4], R8' ;;
                   *) product='HMMA.16816.F32.BF16 R8, R4, R6, R8' ;; esac
        printf '        /*0020*/  %s ;\n        /*0030*/  @!P0 BRA 0x10 ;\n' "$product" >>sass
    done
}
# refused WORDS: one violation, which says so.
refused() {
    if "$here/tools/cuda-code.py" cuda.so ./cuobjdump >out; then fail "no violation; expected '$1'"; fi
    grep -qF -- "$1" out || fail "expected '$1' in: $(cat out)"
    tail -1 out | grep -q "kernels, 1 violations" || fail "expected one violation: $(cat out)"
}

make
"$here/tools/cuda-code.py" cuda.so ./cuobjdump >out || fail "violations: $(cat out)"
tail -1 out | grep -qx "7 kernels, 0 violations" || fail "$(cat out)"
grep -qx "sm_90: 7 kernels, 7 with products of tensor cores, 0 with a stack, of at most 0 bytes" out || fail "no line for sm_90: $(cat out)"
grep -qx "sm_100: no kernels: nvcc does not know it, or it was left out" out || fail "no line for sm_100: $(cat out)"
grep -q "^sm_90 *128 *0 *1024 *2 *1 *1 *1 *0 *4  attend<64>(forward_problem)" out || fail "no line for attend<64>: $(cat out)"
for word in HMMA LDSM LDGSTS; do
    make
    sed -i "0,/$word/s//IMAD/" sass # of the first kernel
    refused "attend<64>(forward_problem): no $word"
done
make
sed -i "0,/HGMMA/s//HMMA/" sass
refused "grad_of_keys<64, false>(sm90_problem): no HGMMA"
sed -i "s/sm_90/sm_80/" sass res-usage # which has none
"$here/tools/cuda-code.py" cuda.so ./cuobjdump >out || fail "violations: $(cat out)"
make
sed -i "/grad_of_keysILi64ELb[01]/{n;s/STACK:0/STACK:8/}" res-usage
refused "grad_of_keys<64, false>(sm90_problem): 8 bytes of stack; at most 0"
make
sed -i "0,/STACK:0/s//STACK:8/" res-usage
refused "attend<64>(forward_problem): 8 bytes of stack; at most 0"
make
sed -i "0,/HMMA/s//LDL R5, [R1] ;\n        \/*0024*\/  HMMA/" sass
refused "attend<64>(forward_problem): 1.00 local accesses for each product in a loop; at most 0"
make
sed -i "s/$large/_Z4moreILi256EEv15forward_problem/" sass res-usage
refused "no kernel is called (attend|grad_of_queries|grad_of_keys)<256>"
echo ok
