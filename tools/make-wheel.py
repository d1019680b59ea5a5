#!/usr/bin/env python3
"""Makes a wheel of the Python package with the program, the shared library and the libraries that they need inside:

    tools/make-wheel.py BUILD FOLDER

BUILD: where longspan and liblongspan.so were built, with the libraries in its folder sysroot (tools/sysroot.sh). Nothing in the wheel depends
on a version of Python. Its name says the oldest glibc that it runs with, as the symbols say that are taken from glibc; libstdc++ and
libgcc_s are the system's, as manylinux has it. Needs binutils.
"""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SYSTEM = re.compile(r"/(libc|libm|libdl|libpthread|librt|libresolv|libutil|ld-linux[^/]*|libstdc\+\+|libgcc_s)\.so")
MACHINE = os.uname().machine


def libraries(file, sysroot):
    """The shared libraries that a file needs, but the system's, as the loader of sysroot finds them there."""
    loader = next(sysroot.glob("lib*/ld-linux-*.so.*"))
    folders = ":".join(f"{sysroot}/{part}/{MACHINE}-linux-gnu" for part in ("lib", "usr/lib"))
    found = subprocess.run([loader, "--library-path", folders, "--list", file], capture_output=True, text=True)
    if found.returncode or found.stderr:
        first, *_ = found.stderr.split("\n")
        sys.exit(f"make-wheel.py: {file} does not fit the C library in {sysroot}: {first}")
    return {path for path in re.findall(r"=> (/\S+)", found.stdout) if not SYSTEM.search(path)}


def newest(file, prefix):
    """The newest version of a library's symbols that a file takes, as numbers."""
    symbols = subprocess.run(["objdump", "-T", file], check=True, capture_output=True, text=True).stdout
    return max((tuple(map(int, v.split("."))) for v in re.findall(rf"{prefix}_([0-9.]+)", symbols)), default=(0,))


def licence(library, sysroot):
    """The name of a library's package and the file with its licence."""
    path = "/" + os.path.relpath(os.path.realpath(library), sysroot)
    for files in (sysroot / "var/lib/dpkg/info").glob("*.list"):
        if path in files.read_text().split("\n"):
            return files.stem, sysroot / f"usr/share/doc/{files.stem}/copyright"
    sys.exit(f"make-wheel.py: no package in {sysroot}/var/lib/dpkg/info has {path}, whose licence belongs into the wheel")


class Wheel:
    def __init__(self, path):
        self.file, self.record = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED), []

    def add(self, name, data, executable=False):
        about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes whenever it is made
        about.external_attr = (0o100755 if executable else 0o100644) << 16
        about.compress_type = zipfile.ZIP_DEFLATED
        self.file.writestr(about, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def close(self, place):
        self.add(f"{place}/RECORD", ("\n".join(self.record + [f"{place}/RECORD,,"]) + "\n").encode())
        self.file.close()


def stripped(file):
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["strip", "-o", out.name, file], check=True)
        return pathlib.Path(out.name).read_bytes()


def main(build, folder):
    build = pathlib.Path(build).resolve()
    about = tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]
    version = re.search(r'__version__ = "(.*)"', (ROOT / "python/longspan/__init__.py").read_text())[1]
    shared = (build / "liblongspan.so").resolve()
    own = {"bin/longspan": build / "longspan", "lib/liblongspan.so.0": shared}
    plugin = build / "lib/longspan/cuda.so"
    if plugin.exists():
        own["lib/longspan/cuda.so"] = plugin
    sysroot = build / "sysroot"
    needed = sorted(set().union(*(libraries(file, sysroot) for file in own.values())))
    glibc = max(newest(file, "GLIBC") for file in [*own.values(), *needed])
    tag = f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_{MACHINE}"
    name, place = f"longspan-{version}-{tag}.whl", f"longspan-{version}.dist-info"
    os.makedirs(folder, exist_ok=True)
    wheel = Wheel(os.path.join(folder, name))
    for file in sorted((ROOT / "python/longspan").glob("*.py")) + sorted((ROOT / "python/longspan").glob("*.c")):
        wheel.add(f"longspan/{file.name}", file.read_bytes())
    for target, file in own.items():
        wheel.add(f"longspan/{target}", stripped(file), executable=True)
    for file in needed:
        wheel.add(f"longspan/lib/{os.path.basename(file)}", stripped(file), executable=True)
        package, text = licence(file, sysroot)
        wheel.add(f"{place}/licenses/{package}", text.read_bytes())
    wheel.add(f"{place}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes())
    fields = ["Metadata-Version: 2.4", "Name: longspan", f"Version: {version}", f"Summary: {about['description']}",
              f"Requires-Python: {about['requires-python']}"]
    fields += [f"Requires-Dist: {d}" for d in about["dependencies"]]
    for extra, wanted in about["optional-dependencies"].items():
        fields += [f"Provides-Extra: {extra}"] + [f'Requires-Dist: {d}; extra == "{extra}"' for d in wanted]
    fields += ["Description-Content-Type: text/markdown", "", (ROOT / "python/README.md").read_text()]
    wheel.add(f"{place}/METADATA", "\n".join(fields).encode())
    wheel.add(f"{place}/WHEEL", f"Wheel-Version: 1.0\nGenerator: make-wheel\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.add(f"{place}/entry_points.txt", b"[console_scripts]\nlongspan = longspan.program:main\n")
    wheel.close(place)
    size = os.path.getsize(os.path.join(folder, name)) / 1e6
    cxx = max(newest(file, "GLIBCXX") for file in [*own.values(), *needed])
    versions = [".".join(map(str, version)) for version in (glibc, cxx)]
    print(f"{folder}/{name}: {size:.1f} MB, with {len(needed)} libraries; glibc {versions[0]} and libstdc++ {versions[1]}, or newer")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: make-wheel.py BUILD FOLDER")
    main(*sys.argv[1:])
