"""An fsspec filesystem: stria:///data/run7.root is /data/run7.root in a mount of Stria.

    import fsspec, stria.fs
    fs = fsspec.filesystem("stria")
    fs.cat_ranges(paths, starts, ends)     # many small ranges at once
    fs.locations("/data/run7.root")

Bytes go through the mount, so that they are checked, reconstructed where a node is down, and taken from the local
disk where they lie on this node. The kernel's file interface has no read of many ranges in one call, so `cat_ranges`
is a vector of pread: ranges that touch or nearly touch become one, and the rest are asked for at the same time by a
bounded number of threads, which the mount turns into parallel requests to the nodes. Needs fsspec.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import fsspec
from fsspec.implementations.local import LocalFileSystem

from . import locate, work

_MAX_GAP_BYTES = 64 * 1024  # a checksum block: what lies between is read anyway
_MAX_RUN_BYTES = 8 << 20
_MAX_THREADS = 16


def _pread_fully(fd: int, offset: int, length: int) -> bytes:
    parts = []
    while length > 0:
        part = os.pread(fd, length, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def merge_ranges(ranges: Sequence[Tuple[int, int]], max_gap: int = _MAX_GAP_BYTES,
                 max_run: int = _MAX_RUN_BYTES) -> List[Tuple[int, int, List[int]]]:
    """[begin, end) ranges -> runs (begin, end, indices of the ranges that lie in it), ascending."""
    runs: List[Tuple[int, int, List[int]]] = []
    for i in sorted(range(len(ranges)), key=lambda i: ranges[i]):
        begin, end = ranges[i]
        if runs and begin <= runs[-1][1] + max_gap and max(end, runs[-1][1]) - runs[-1][0] <= max_run:
            runs[-1] = (runs[-1][0], max(runs[-1][1], end), [*runs[-1][2], i])
        else:
            runs.append((begin, end, [i]))
    return runs


class StriaFileSystem(LocalFileSystem):
    """Paths are of the mounted tree."""

    protocol = "stria"
    local_file = True

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, (list, tuple)):
            return [cls._strip_protocol(p) for p in path]
        path = os.fspath(path)
        if path.startswith("stria://"):
            path = "/" + path[len("stria://"):].lstrip("/")
        return LocalFileSystem._strip_protocol(path)

    def unstrip_protocol(self, name: str) -> str:
        return f"stria://{self._strip_protocol(name)}"

    def cat_ranges(self, paths: List[str], starts: Union[int, List[int]], ends: Union[int, List[int]],
                   max_gap: Optional[int] = None, on_error: str = "return", **kwargs: Any) -> List[Any]:
        """Bytes [start, end) of each path, in order; see the module. Negative and absent ends as in fsspec."""
        count = len(paths)
        starts = [starts] * count if isinstance(starts, int) or starts is None else list(starts)
        ends = [ends] * count if isinstance(ends, int) or ends is None else list(ends)
        if not len(starts) == len(ends) == count:
            raise ValueError("paths, starts and ends differ in length")
        out: List[Any] = [b""] * count
        by_path: Dict[str, List[int]] = {}
        for i, path in enumerate(paths):
            by_path.setdefault(self._strip_protocol(path), []).append(i)
        with ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="stria") as pool:
            for path, indices in by_path.items():
                self._cat_one(pool, path, indices, starts, ends, _MAX_GAP_BYTES if max_gap is None else max_gap, out)
        for got in out:
            if isinstance(got, Exception) and on_error == "raise":
                raise got
        return out

    @staticmethod
    def _cat_one(pool: ThreadPoolExecutor, path: str, indices: List[int], starts: List[Any], ends: List[Any],
                 max_gap: int, out: List[Any]) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as e:
            for i in indices:
                out[i] = e
            return
        try:
            size = os.fstat(fd).st_size
            ranges = [slice(starts[i], ends[i]).indices(size)[:2] for i in indices]
            runs = merge_ranges([(a, max(a, b)) for a, b in ranges], max_gap)

            def fetch(run: Tuple[int, int, List[int]]) -> None:
                begin, end, members = run
                try:
                    data = _pread_fully(fd, begin, end - begin)
                    for m in members:
                        a, b = ranges[m]
                        out[indices[m]] = data[a - begin:max(a, b) - begin]
                except OSError as e:
                    for m in members:
                        out[indices[m]] = e

            list(pool.map(fetch, runs))
        finally:
            os.close(fd)

    def locations(self, path: str, offset: int = 0, length: Optional[int] = None) -> List[locate.Location]:
        """Which node holds which bytes."""
        return locate.locations(self._strip_protocol(path), offset, length)

    def split(self, paths: Iterable[str], **kwargs: Any) -> work.Split:
        """As stria.split."""
        return work.split([self._strip_protocol(p) for p in paths], **kwargs)


# For imports from a checkout; an installed package is found by its entry point (pyproject.toml).
fsspec.register_implementation("stria", StriaFileSystem, clobber=True)
