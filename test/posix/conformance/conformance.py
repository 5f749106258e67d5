"""The same cases on a local ext4 and on a Stria mount, side by side: results and error numbers must agree.

    python3 test/posix/conformance/conformance.py                      a cluster and an ext4 of its own
    python3 test/posix/conformance/conformance.py --on DIR [CASE..]    on a mount that is there already
    python3 test/posix/conformance/conformance.py --against DIR ..     instead of an ext4 in a file

Differences that must be are in expected.py. Needs root (loop device, other users).
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))
sys.path.insert(0, str(pathlib.Path(__file__).absolute().parents[2] / "cluster"))

import cases_files
import cases_names
import cases_other
import cases_rights
import stria_cluster
from expected import DIFFERENCES
from trace import Trace

CASES = cases_names.CASES + cases_rights.CASES + cases_files.CASES + cases_other.CASES
EXT4_BYTES = 512 << 20


def name_of(case):
    return f"{case.__module__.removeprefix('cases_')}.{case.__name__}"


class Ext4:
    """An ext4 in a file, loop-mounted."""

    def __enter__(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="stria-ext4-", dir="/tmp"))
        image, self.dir = self.top / "image", self.top / "mnt"
        self.dir.mkdir()
        self.top.chmod(0o755)
        with open(image, "wb") as f:
            f.truncate(EXT4_BYTES)
        try:
            subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "ea_inode", image], check=True)
            subprocess.run(["mount", "-o", "loop", image, self.dir], check=True)
        except BaseException:
            shutil.rmtree(self.top)
            raise
        return self.dir

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.dir], check=False)
        shutil.rmtree(self.top, ignore_errors=True)


def run(case, base, hooks=None):
    directory = pathlib.Path(base) / f"case-{name_of(case)}"
    directory.mkdir(mode=0o755)
    trace = Trace(str(directory), hooks)
    here, mask = os.getcwd(), os.umask(0o022)
    try:
        case(trace)
    except Exception as e:  # a case that cannot go on is an outcome too
        trace.entries.append(("the case ends", f"{type(e).__name__}: {e}".replace(str(base), "")))
    finally:
        os.umask(mask)
        os.chdir(here)
        shutil.rmtree(directory, ignore_errors=True)
    return trace.entries


def compare(case, reference, subject):
    """Sentences about unexpected differences."""
    name = name_of(case)
    problems = []
    expected = {label: want for (n, label), want in DIFFERENCES.items() if n == name}
    if [label for label, _ in reference] != [label for label, _ in subject]:
        at = next((i for i, (a, b) in enumerate(zip(reference, subject)) if a[0] != b[0]),
                  min(len(reference), len(subject)))
        problems.append(f"{name} takes another way after {reference[at - 1] if at else 'its start'}: "
                        f"{reference[at:at + 1]}, but {subject[at:at + 1]}")
    for (label, want), (_, got) in zip(reference, subject):
        known = expected.get(label)
        if known and (want, got) == known[:2]:
            continue
        if known:
            problems.append(f"{name}, {label}: ext4 {want}, here {got}; expected.py says {known[0]} and {known[1]}")
        elif want != got:
            problems.append(f"{name}, {label}: ext4 {want}, here {got}")
    for label in expected.keys() - {label for label, _ in reference}:
        problems.append(f"{name} has no label {label!r}, which is in expected.py")
    return problems


def conform(reference, subject, wanted=(), hooks=None):
    """Sentences about unexpected differences."""
    problems, seen = [], 0
    for case in CASES:
        if wanted and not any(w in name_of(case) for w in wanted):
            continue
        began = time.monotonic()
        a, b = run(case, reference), run(case, subject, hooks)
        seen += len(b)
        found = compare(case, a, b)
        problems += found
        print(f"{'differs' if found else 'same   '} {name_of(case)} ({len(b)} observations, "
              f"{time.monotonic() - began:.1f} s)", *found, sep="\n    ", flush=True)
    print(f"{seen} observations, {len(problems)} unexpected differences")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--on", help="a directory of a Stria mount")
    parser.add_argument("--against", help="a directory of a local filesystem")
    parser.add_argument("cases", nargs="*", help="parts of names of cases")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("conformance.py needs root: it mounts, and becomes other users")

    def with_reference(subject, hooks=None):
        if args.against:
            return conform(args.against, subject, args.cases, hooks)
        with Ext4() as reference:
            return conform(reference, subject, args.cases, hooks)

    if args.on:
        sys.exit(1 if with_reference(args.on) else 0)

    def scenario():
        with stria_cluster.Cluster(nodes=4, disks=1, layout="raid5:2+1") as c:
            os.chmod(c.dir, 0o755)  # other users must get to the mount

            def restart():
                c.kill("meta")
                c.start("meta")

            differences = with_reference(c.mount, {"restart the metadata server": restart})
            c.fsck()
            # Said again at the end: of a long log that may be all that is kept.
            assert not differences, "unexpected differences from ext4:\n    " + "\n    ".join(differences)

    stria_cluster.main(scenario)


if __name__ == "__main__":
    main()
