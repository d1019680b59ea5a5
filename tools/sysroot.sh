#!/bin/bash
# Makes a folder with the C library and the libraries that Longspan links, for another architecture or of another release of Debian:
#   sysroot.sh ARCHITECTURE FOLDER [RELEASE]
# They are Debian's packages, unpacked; nothing is installed, and no right to install is needed. Silent and instant when the folder is there.
# ARCHITECTURE is Debian's name (arm64), RELEASE too (bullseye): one before that which runs here, from MIRROR, Debian's own when empty.
# The libraries with Unicode's tables are always those of the release that runs here: which tokens a text has depends on them.
set -eu
[ $# -eq 2 ] || [ $# -eq 3 ] || { echo "usage: sysroot.sh ARCHITECTURE FOLDER [RELEASE]" >&2; exit 2; }
architecture=$1
folder=$2
release=${3:-}
unicode='libpcre2-dev libutf8proc-dev'
packages='libc6-dev libdnnl-dev libjansson-dev libzstd-dev zlib1g-dev libsnappy-dev liblz4-dev libyaml-dev libcmocka-dev'
[ ! -d "$folder" ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

download() { # NAME PACKAGES [OPTION...]: packages and what they depend on, as if nothing were installed, into $work/NAME/archives
    local at=$work/$1 wanted=$2
    shift 2
    mkdir -p "$at/lists/partial" "$at/archives/partial"
    : >"$at/status"
    set -- -y --no-install-recommends -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
        -o Dir::State="$at" -o Dir::State::lists="$at/lists" -o Dir::State::status="$at/status" \
        -o Dir::Cache="$at" -o Dir::Cache::archives="$at/archives" -o APT::Sandbox::User= -o Debug::NoLocking=1 "$@"
    apt-get "$@" update >"$work/log" 2>&1 || true # another source of packages may not have this architecture; what counts is the next line
    # shellcheck disable=SC2086 # words are meant
    if ! apt-get "$@" install --download-only $wanted >>"$work/log" 2>&1; then
        tail -20 "$work/log" >&2
        echo "sysroot.sh: apt-get could not download $wanted for $architecture (its last lines are above)" >&2
        exit 1
    fi
}

echo "downloading packages for $folder"
if [ -n "$release" ]; then
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [signed-by=$keys] ${MIRROR:-http://deb.debian.org/debian} $release main" >"$work/sources"
    download release "$packages" -o Dir::Etc::SourceList="$work/sources" -o Dir::Etc::SourceParts=/dev/null
    download here "$unicode"
    unpack=("$work"/release/archives/*.deb "$work"/here/archives/lib{pcre2,utf8proc}*.deb) # in this order: the later one stays
else
    download here "$packages $unicode"
    unpack=("$work"/here/archives/*.deb)
fi
files=$work/root/var/lib/dpkg/info # where dpkg has the names of each package's files
mkdir -p "$files"
for package in "${unpack[@]}"; do
    dpkg-deb --vextract "$package" "$work/root" | sed 's/^\.//' >"$files/$(dpkg-deb -f "$package" Package).list"
done
# Links to absolute paths would lead out of the folder.
find "$work/root" -type l -lname '/*' | while read -r link; do ln -srnf "$work/root$(readlink "$link")" "$link"; done
mkdir -p "$(dirname "$folder")"
mv "$work/root" "$folder"
