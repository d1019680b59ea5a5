#!/bin/bash
# Makes a folder with the C library and the libraries that Longspan links, for another architecture:  sysroot.sh ARCHITECTURE FOLDER
# They are Debian's packages of the release that runs here, unpacked; nothing is installed, and no right to install is needed.
# Silent and instant when the folder is there. ARCHITECTURE is Debian's name: arm64.
set -eu
[ $# -eq 2 ] || { echo "usage: sysroot.sh ARCHITECTURE FOLDER" >&2; exit 2; }
architecture=$1
folder=$2
packages='libc6-dev libdnnl-dev libjansson-dev libzstd-dev zlib1g-dev libpcre2-dev libutf8proc-dev libcmocka-dev'
[ ! -d "$folder" ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/root"
: >"$work/status" # as if nothing were installed, so that what the packages depend on comes too
apt() {
    apt-get -y --no-install-recommends -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
        -o Dir::State="$work" -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status" \
        -o Dir::Cache="$work" -o Dir::Cache::archives="$work/archives" -o APT::Sandbox::User= -o Debug::NoLocking=1 "$@"
}
echo "downloading $architecture packages for $folder"
apt update >"$work/log" 2>&1 || true # another source of packages may not have this architecture; what counts is the next line
# shellcheck disable=SC2086 # words are meant
if ! apt install --download-only $packages >>"$work/log" 2>&1; then
    tail -20 "$work/log" >&2
    echo "sysroot.sh: apt-get could not download $packages for $architecture (its last lines are above)" >&2
    exit 1
fi
for package in "$work"/archives/*.deb; do dpkg-deb -x "$package" "$work/root"; done
# Links to absolute paths would lead out of the folder.
find "$work/root" -type l -lname '/*' | while read -r link; do ln -srnf "$work/root$(readlink "$link")" "$link"; done
mkdir -p "$(dirname "$folder")"
mv "$work/root" "$folder"
