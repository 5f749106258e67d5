"""Work lists: which node should read which part of a dataset. The deciding is done by `stria split`."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .locate import Path


@dataclass(frozen=True)
class WorkItem:
    """A part of a file: entries [begin, end) of its tree (align="root"), else bytes. `path` is as os.fsdecode has it, for any
    bytes."""

    path: str
    begin: int
    end: int


@dataclass(frozen=True)
class HostWork:
    """The work of one node. Nodes without work are in the list, nodes that are not up are not."""

    host: str
    bytes: int
    local_bytes: int
    items: List[WorkItem]
    remote_bytes: int = 0
    decoded_bytes: int = 0  # their disk cannot be read, nor a copy: computed from others, by whoever reads them


@dataclass(frozen=True)
class Split:
    unit: str  # "entries" or "bytes"
    hosts: List[HostWork]
    away: Mapping[str, str] = field(default_factory=dict)  # nodes that get no work as they are not up, and their state

    @property
    def locality(self) -> float:
        """The share of all bytes that lies on the nodes that shall read them and can be read there, 0 to 1."""
        total = sum(h.bytes for h in self.hosts)
        return sum(h.local_bytes for h in self.hosts) / total if total else 1.0

    @property
    def decoded(self) -> float:
        """The share of all bytes that no disk that can be read has, 0 to 1."""
        total = sum(h.bytes for h in self.hosts)
        return sum(h.decoded_bytes for h in self.hosts) / total if total else 0.0


def command() -> str:
    """The `stria` program: $STRIA, on $PATH, or of the checkout that this package lies in."""
    built = pathlib.Path(__file__).resolve().parents[4] / "bazel-bin/tools/stria"
    for path in (os.environ.get("STRIA"), shutil.which("stria"), str(built)):
        if path and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError("there is no `stria` command; put it on PATH or name it with $STRIA")


def _item(item: Dict[str, Any]) -> WorkItem:
    if "entry_start" in item:
        return WorkItem(item["path"], item["entry_start"], item["entry_stop"])
    return WorkItem(item["path"], item["offset"], item["offset"] + item["length"])


def _host(host: Dict[str, Any]) -> HostWork:
    return HostWork(host["host"], host["bytes"], host["local_bytes"], [_item(i) for i in host["work"]],
                    host.get("remote_bytes", host["bytes"] - host["local_bytes"]), host.get("decoded_bytes", 0))


def split_json(paths: Sequence[Path], align: str = "none", tree: Optional[str] = None,
               nodes: Optional[Sequence[str]] = None) -> Dict[str, Any]:
    """The output of `stria split --format json`."""
    words = [command(), "split", *map(os.fspath, paths), "--by", "host", "--format", "json", "--align", align]
    if tree:
        words += ["--tree", tree]
    if nodes:
        words += ["--nodes", ",".join(nodes)]
    here = str(pathlib.Path(__file__).resolve().parents[1])
    environment = dict(os.environ)
    environment.setdefault("STRIA_PYTHON", sys.executable)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [here, environment.get("PYTHONPATH")]))
    done = subprocess.run(words, env=environment, encoding="utf-8", errors="surrogateescape",
                          capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise OSError(f"`stria split` gave {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def split(paths: Sequence[Path], align: str = "none", tree: Optional[str] = None,
          nodes: Optional[Sequence[str]] = None) -> Split:
    """Gives each node the work whose bytes it holds, none more than 10 % over the mean where the pieces allow it.

    `align`: "none" cuts anywhere, "file" nowhere, "root" at clusters of a TTree or RNTuple (`tree`, or the one with
    most entries); then items are ranges of entries. `nodes`: only these.
    """
    answer = split_json(paths, align, tree, nodes)
    return Split(answer["unit"], [_host(h) for h in answer["hosts"]],
                 {n["node"]: n["state"] for n in answer.get("away", [])})


def load_work(path: Path) -> HostWork:
    """A list NODE.json that `stria split --format slurm|condor|parallel` wrote."""
    return _host(json.loads(pathlib.Path(path).read_text(encoding="utf-8")))
