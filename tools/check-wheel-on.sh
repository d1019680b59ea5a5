#!/bin/bash
# check-wheel-on.sh WHEEL RELEASE...: makes a clean system of each release of Debian (bullseye, bookworm, trixie ...) in a folder of its own, with
# python3-venv and nothing of this machine, and runs check-wheel.sh there. As root, with debootstrap. MIRROR: where the packages come from.
set -eu
[ $# -ge 2 ] || { echo "usage: check-wheel-on.sh WHEEL RELEASE..." >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "check-wheel-on.sh: chroot and mount need root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "check-wheel-on.sh: debootstrap is missing (Debian: debootstrap)" >&2; exit 1; }
wheel=$(realpath "$1")
shift
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf --one-file-system "$place"' EXIT

for release in "$@"; do
    system=$place/$release
    if ! debootstrap --variant=minbase --include=python3-venv,ca-certificates "$release" "$system" \
        "${MIRROR:-http://deb.debian.org/debian}" >"$place/log" 2>&1; then
        tail -5 "$place/log" >&2
        echo "check-wheel-on.sh: debootstrap could not make a system of $release (its last lines are above)" >&2
        exit 1
    fi
    # What a proxy of this machine's signs is trusted there too.
    [ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$system/etc/ssl/certs/"
    mkdir -p "$system/check/examples" "$system/check/tools"
    cp -r "$root/examples/tiny" "$system/check/examples/"
    cp "$root/README.md" "$wheel" "$system/check/"
    cp "$root/tools/check-wheel.sh" "$system/check/tools/"
    begin=$(date +%s)
    # The mounts are those of a process of its own, and end with it.
    # shellcheck disable=SC2016 # $1 to $3 are the inner shell's
    unshare --mount sh -eu -c '
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        exec chroot "$1" /usr/bin/env -i HOME=/root PATH=/usr/bin:/bin:/usr/sbin:/sbin sh -eu -c "
            echo \"$2: \$(ldd --version | head -1), \$(python3 --version)\"
            /check/tools/check-wheel.sh /check/$3"' sh "$system" "$release" "$(basename "$wheel")"
    echo "$release: $(($(date +%s) - begin)) s"
    rm -rf --one-file-system "$system"
done
