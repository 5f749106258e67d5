"""Where Stria differs from ext4, and why (docs/posix.md has the same list in prose).

(case, label): (ext4's outcome, Stria's outcome, reason). An entry that does not apply any more is a failure
too, so that this list stays true.
"""

NOT_IN_FUSE = "the FUSE protocol has no such operation"
NOT_IN_LIBFUSE = "libfuse 3.14 does not know FUSE_TMPFILE"
FAR = "ext4's files end at 16 TiB"
NODEV = "mounted nosuid,nodev, as all FUSE filesystems are unless root says otherwise"

DIFFERENCES = {
    ("rights.times_are_kept", "atime 2400"): ("13569465600000000000", "9223372035000000000", "times end in 2262"),
    ("rights.times_are_kept", "mtime 2400"): ("13569465600000000001", "9223372035000000000", "times end in 2262"),
    ("names.renames", "whiteout"): ("ok", "EINVAL", "only overlayfs needs it, and it refuses FUSE"),
    ("names.special_files", "open null"): ("ok", "EACCES", NODEV),
    ("files.opening_flags", "O_TMPFILE"): ("ok", "EOPNOTSUPP", NOT_IN_LIBFUSE),
    ("files.allocation", "collapse"): ("ok", "EOPNOTSUPP", NOT_IN_FUSE),
    ("files.allocation", "insert"): ("ok", "EOPNOTSUPP", NOT_IN_FUSE),
}
for how in ("read and write", "write", "read", "truncate"):
    DIFFERENCES[("names.create_over_special", f"root: null, {how}")] = ("'0o20000'", "EACCES", NODEV)
    DIFFERENCES[("names.create_over_special", f"root: block, {how}")] = ("ENXIO", "EACCES", NODEV)
DIFFERENCES[("names.create_over_special", "other: null, read")] = ("'0o20000'", "EACCES", NODEV)
DIFFERENCES[("names.create_over_special", "other: block, read")] = ("ENXIO", "EACCES", NODEV)
for at in (20, 1000):
    DIFFERENCES |= {
        ("files.far_away", f"write at {at} TiB"): ("EFBIG", "ok", FAR),
        ("files.far_away", f"size at {at} TiB"): ("False", "True", FAR),
        ("files.far_away", f"read at {at} TiB"): ("b''", "b'\\x00far away'", FAR),
    }
DIFFERENCES[("files.far_away", "truncate to 17 TiB")] = ("EFBIG", "ok", FAR)
DIFFERENCES[("files.sizes", "truncate to the largest size")] = ("EFBIG", "ok", FAR)
