"""Three of 24 columns of a ROOT file, as an analysis reads them: with uproot, which opens the file once per basket, and with uproot
on the file's memory.

uproot is not in Debian: $STRIA_PYTHON names a Python that has it; there this file is run as a program."""

import os
import pathlib
import subprocess
import sys

from results import CPU_PER_GB, Measure
from work import MIB, drop_caches

COLUMNS = [f"c{i:02}" for i in range(24)]
READ = COLUMNS[2::9]
BASKET_EVENTS = 8192  # of 4 bytes: 32 KiB
HANDLERS = ["default", "mmap"]


def make(path, mib):
    import numpy as np
    import uproot
    rng = np.random.default_rng(1)
    with uproot.recreate(path, compression=None) as out:
        table = out.mktree("Events", {name: "float32" for name in COLUMNS})
        for _ in range(mib * MIB // (4 * BASKET_EVENTS * len(COLUMNS))):
            table.extend({name: rng.random(BASKET_EVENTS, "float32") for name in COLUMNS})


def scan(path, handler):
    """Reports that it is ready, waits until it may begin, and reports the bytes that it read."""
    import numpy as np
    import uproot
    print("ready", flush=True)
    sys.stdin.readline()
    how = {"handler": uproot.source.file.MemmapSource} if handler == "mmap" else {}
    with uproot.open(path, **how) as file:
        arrays = file["Events"].arrays(READ, library="np")
    bits = sum(int(np.sum(a.view("uint32"), dtype="uint64")) for a in arrays.values())
    print(sum(a.nbytes for a in arrays.values()), bits, flush=True)


def python_with_uproot():
    python = os.environ.get("STRIA_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import uproot"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise RuntimeError(f"{python} has no uproot (pip install uproot): let STRIA_PYTHON name one that has")
    return python


def scan_once(python, path, handler):
    """(name of the measurement, bytes, their content)."""
    with subprocess.Popen([python, __file__, "scan", path, handler], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        if child.stdout.readline() != "ready\n":
            raise RuntimeError(f"{python} cannot read ROOT files")
        drop_caches()
        with Measure() as m:
            child.stdin.write("\n")
            child.stdin.flush()
            told = child.stdout.readline().split()
        if len(told) != 2:
            raise RuntimeError(f"uproot could not read {path}")
        return m, int(told[0]), int(told[1])


def root_columns(system, mount, args, results):
    python = python_with_uproot()
    here = pathlib.Path(args.dir) / "events.root"
    if not here.exists():
        subprocess.run([python, __file__, "make", here, str(max(32, args.size_mib // 4))], stdin=subprocess.DEVNULL, check=True)
    path = mount / "events.root"
    # Past what copy_file_range would do: the bytes are written, as if they came from elsewhere.
    with open(here, "rb") as f, open(path, "wb", buffering=0) as to:
        while block := f.read(4 * MIB):
            to.write(block)
        os.fsync(to.fileno())
    right = scan_once(python, here, "default")[2]
    for handler in HANDLERS:
        m, amount, bits = scan_once(python, path, handler)
        if bits != right:
            raise RuntimeError(f"{path}: wrong bytes")
        results.add(f"3 of 24 ROOT columns, uproot, {handler}", "MB/s", system.name, amount / 1e6 / m.seconds, m, CPU_PER_GB, amount / 1e9)
    path.unlink()


if __name__ == "__main__":
    make(sys.argv[2], int(sys.argv[3])) if sys.argv[1] == "make" else scan(sys.argv[2], sys.argv[3])
