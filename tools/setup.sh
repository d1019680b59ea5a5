#!/bin/bash
# Installs what the build needs and this machine lacks. Silent and instant when nothing is missing.
# Without the right to install, prints the one line to run and exits 1. Options: --print never installs.
set -u

# what to look for: a command, a header searched by the C compiler, a module of Python, or clang's own fuzzer | Debian package
needs='
cmd:gcc          gcc
cmd:cmake        cmake
cmd:ninja        ninja-build
cmd:python3      python3
header:stdio.h   libc6-dev
header:dnnl.h    libdnnl-dev
header:jansson.h libjansson-dev
header:zstd.h    libzstd-dev
header:zlib.h    zlib1g-dev
header:snappy-c.h libsnappy-dev
header:lz4.h     liblz4-dev
header:yaml.h    libyaml-dev
header:pcre2.h   libpcre2-dev
header:utf8proc.h libutf8proc-dev
header:cmocka.h  libcmocka-dev
'
# `make check` needs these as well: a compiler of C++ and pkg-config for the tests of what is installed, NumPy for those of the Python package, an
# emulator on x86.
check_needs='
cmd:c++          g++
cmd:pkg-config   pkg-config
module:numpy     python3-numpy
'
[ "$(uname -m)" = x86_64 ] && check_needs+='
cmd:qemu-x86_64  qemu-user
'
# The transport `mpi` needs one of these; with both, one build serves the launchers of both (--mpi).
mpi_needs='
cmd:mpicc.openmpi  libopenmpi-dev
cmd:mpirun.openmpi openmpi-bin
cmd:mpicc.mpich    libmpich-dev
cmd:mpirun.mpich   mpich
'
# `make lint` alone needs these.
lint_needs='
cmd:clang-tidy   clang-tidy
cmd:clang-format clang-format
'
# `make fuzz` alone needs these.
fuzz_needs='
cmd:clang        clang
fuzzer:          libclang-rt-dev
'
# `make check-aarch64` alone needs these.
aarch64_needs='
cmd:aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
cmd:qemu-aarch64          qemu-user
'

print_only=no
for argument in "$@"; do
    case $argument in
    --print) print_only=yes ;;
    --check) needs+=$check_needs ;;
    --lint) needs+=$lint_needs ;;
    --mpi) needs+=$mpi_needs ;;
    --fuzz) needs+=$fuzz_needs ;;
    --aarch64) needs+=$aarch64_needs ;;
    *) echo "setup.sh: unknown argument '$argument'; expected --print, --check, --lint, --mpi, --fuzz or --aarch64" >&2; exit 2 ;;
    esac
done

has_header() { # in the folders where C compilers look, without starting one
    local folder
    for folder in /usr/include /usr/local/include "/usr/include/$(uname -m)-linux-gnu"; do
        [ -e "$folder/$1" ] && return 0
    done
    command -v cc >/dev/null && echo "#include <$1>" | cc -E -xc - >/dev/null 2>&1 && return 0
    command -v gcc >/dev/null && echo "#include <$1>" | gcc -E -xc - >/dev/null 2>&1
}

has_fuzzer() { # the part of libFuzzer that clang links
    compgen -G "$(clang -print-resource-dir 2>/dev/null)/lib/*/libclang_rt.fuzzer*.a" >/dev/null
}

has_module() { # for a Python on the path, or the system's
    python3 -c "import $1" 2>/dev/null || /usr/bin/python3 -c "import $1" 2>/dev/null
}

missing=()
while read -r what package; do
    case $what in
    cmd:*) command -v "${what#cmd:}" >/dev/null || missing+=("$package") ;;
    header:*) has_header "${what#header:}" || missing+=("$package") ;;
    module:*) has_module "${what#module:}" || missing+=("$package") ;;
    fuzzer:) has_fuzzer || missing+=("$package") ;;
    esac
done <<<"$needs"
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "Longspan needs these, under your system's own names for them (the names are Debian's): ${missing[*]}" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as_root=(sudo -n); else print_only=yes; fi
fi
if [ $print_only = yes ]; then
    echo "Longspan needs packages that are not installed. Run:" >&2
    echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
fi

echo "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
if ! { "${install[@]}" update && "${install[@]}" install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -20 "$log" >&2
    echo "setup.sh: apt-get could not install ${missing[*]} (its last lines are above)" >&2
    exit 1
fi
