"""Where bytes of a file are, and where they were read from, as the mount says."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Iterator, List, Mapping, Optional, Union

Path = Union[str, "os.PathLike[str]"]

_CUT = "... "


@dataclass(frozen=True)
class Location:
    """A range of a file and the disk that holds it. `role` is data, parity, copy, meta (in the metadata) or hole."""

    offset: int
    length: int
    node: str
    disk: str
    role: str
    health: str


@dataclass(frozen=True)
class Reads:
    """Bytes that a mount read, since it was mounted: by where they came from."""

    local: int
    network: int
    reconstructed: int  # of those: decoded, as their own disk could not give them

    @property
    def locality(self) -> float:
        """The share that came from the mount's own node, 0 to 1; 1 if nothing was read."""
        total = self.local + self.network
        return self.local / total if total else 1.0

    def __sub__(self, before: "Reads") -> "Reads":
        return Reads(self.local - before.local, self.network - before.network,
                     self.reconstructed - before.reconstructed)

    def __add__(self, other: "Reads") -> "Reads":
        return Reads(self.local + other.local, self.network + other.network, self.reconstructed + other.reconstructed)


def attribute(path: Path, name: str) -> str:
    """The virtual attribute user.stria.NAME. FileNotFoundError if `path` is in no mount of Stria."""
    try:
        return os.getxattr(path, f"user.stria.{name}").decode()
    except OSError as e:
        if e.errno in (errno.ENODATA, errno.EOPNOTSUPP):
            raise FileNotFoundError(f"{os.fspath(path)} is in no mount of Stria, or has no user.stria.{name}") from None
        raise


def node(path: Path) -> Optional[str]:
    """The node that the mount of `path` is on; None if on none."""
    try:
        return attribute(path, "node")
    except FileNotFoundError:
        return None


def reads(path: Path) -> Reads:
    """Of a file; of a directory: of its whole mount."""
    values = dict(part.split("=", 1) for part in attribute(path, "io").split(","))
    return Reads(int(values["local"]), int(values["network"]), int(values["reconstructed"]))


def hosts(path: Path) -> Mapping[str, float]:
    """Which share (0 to 1) of a file's bytes each node holds, the largest first."""
    shares = {}
    text = attribute(path, "hosts").split(" of the first ")[0]
    for part in filter(None, text.split(",")):
        name, percent = part.rsplit(":", 1)
        shares[name] = float(percent.rstrip("%")) / 100
    return shares


def _parse(text: str) -> "tuple[list[Location], Optional[int]]":
    """The rows, and where to ask on (None: they are complete)."""
    rows = []
    for line in text.splitlines():
        if line.startswith(_CUT):
            more = line[len(_CUT):]
            return rows, None if more == "redundancy" else int(more)
        span, place, role, health = line.split(" ")
        offset, length = span.split("+")
        host, disk = place.rsplit(":", 1)
        rows.append(Location(int(offset), int(length), host, disk, role, health))
    return rows, None


def _rows(path: Path, begin: int, end: int) -> Iterator[Location]:
    while begin < end:
        rows, more = _parse(attribute(path, f"locations@{begin}+{end - begin}"))
        yield from rows
        if more is None:
            return
        if more <= begin:
            raise OSError(errno.EIO, f"the mount does not say where {os.fspath(path)} is from {begin} on")
        begin = more


def locations(path: Path, offset: int = 0, length: Optional[int] = None, redundancy: bool = False) -> List[Location]:
    """Where bytes [offset, offset + length) are, in file order; with `redundancy`, also their parity and copies
    (of long files not all of them)."""
    end = os.stat(path).st_size
    if length is not None:
        end = min(end, offset + length)
    return [r for r in _rows(path, offset, end) if redundancy or r.role not in ("parity", "copy")]
