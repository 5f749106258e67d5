"""stress-ng's filesystem stressors, one after the other, verifying what they do."""

import re
import subprocess

from place import command, need
from stria_cluster import say

HELP = "stress-ng's filesystem stressors, ten minutes in all, with --verify"

# Those of the class that work on files of a directory; the others are about /proc, devices, loop mounts,
# or ioctls of certain filesystems.
STRESSORS = ["access", "chattr", "chdir", "chmod", "chown", "copy-file", "dentry", "dir", "dirdeep", "dirmany",
             "dnotify", "dup", "fallocate", "fcntl", "fiemap", "file-ioctl", "filename", "flock", "fpunch", "fsize",
             "fstat", "getdent", "handle", "hdd", "inode-flags", "inotify", "io", "iomix", "lease", "link", "locka",
             "lockf", "lockofd", "mknod", "open", "rename", "symlink", "sync-file", "touch", "utime", "xattr",
             "seek", "readahead", "sendfile", "splice", "aio", "mmap", "metamix"]


def add_options(parser):
    parser.add_argument("--seconds", type=int, default=600, help="of all stressors together (600)")
    parser.add_argument("--only", help="a comma-separated list of stressors")


def known():
    return set(re.findall(r"--([a-z0-9-]+) N\b", command("stress-ng", "--help", timeout=60)))


def run(args, place):
    need("stress-ng")
    there = known()
    chosen = args.only.split(",") if args.only else [s for s in STRESSORS if s in there]
    each = max(1, args.seconds // len(chosen))
    failed = []
    for name in chosen:
        # 0 passed, 3 and 4: cannot be done here (not implemented, no resources)
        try:
            out = command("stress-ng", f"--{name}", "2", "--timeout", f"{each}s", "--temp-path", place.dir, "--verify",
                          "--seed", args.seed, "--hdd-bytes", "16m", "--iomix-bytes", "16m", "--readahead-bytes", "16m",
                          "--seek-size", "16m", "--fallocate-bytes", "16m", "--mmap-bytes", "16m", "--mmap-file",
                          "--sync-file-bytes", "16m", timeout=each * 4 + 600, ok=(0, 3, 4))
        except (AssertionError, subprocess.TimeoutExpired) as e:
            failed.append(name)
            say(f"{name}: {e}")
            continue
        skipped = re.findall(r"skipped: \d+: (.*)", out)
        say(f"{name}: {'skipped' if skipped else 'passed'}")
    assert not failed, f"these failed: {', '.join(failed)}"
