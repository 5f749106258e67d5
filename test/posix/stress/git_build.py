"""git and make on the mount, with a real C project: Lua, from Debian's sources."""

import os
import pathlib
import tarfile
import tempfile

from place import command, need

from stria_cluster import say

HELP = "git clone and build of a real C project (Lua), incremental builds, git gc and fsck"
PACKAGE = "lua5.4"
STEP_S = 900


def add_options(parser):
    parser.add_argument("--jobs", type=int, default=2, help="make's (2)")


def fetch_source(to):
    """The upstream tar file of the package."""
    (to / "lists/partial").mkdir(parents=True)
    (to / "sources.list").write_text("deb-src http://deb.debian.org/debian bookworm main\n")
    apt = ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={to}/sources.list", "-o", "Dir::Etc::sourceparts=-",
           "-o", f"Dir::State::lists={to}/lists", "-o", "APT::Sandbox::User=root"]
    command(*apt, "update", timeout=STEP_S)
    command(*apt, "source", "--download-only", "--tar-only", PACKAGE, cwd=to, timeout=STEP_S)
    return next(to.glob("*.orig.tar.*"))


def run(args, place):
    need("git", "make", "gcc")
    origin, clone = place.dir / "origin", place.dir / "clone"
    with tempfile.TemporaryDirectory() as t:
        with tarfile.open(fetch_source(pathlib.Path(t))) as tar:
            tar.extractall(place.dir)
    next(d for d in place.dir.iterdir() if d.is_dir()).rename(origin)
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "safe.directory=*"]
    command(*git, "init", "-q", cwd=origin, timeout=STEP_S)
    command(*git, "add", "-A", cwd=origin, timeout=STEP_S)
    command(*git, "commit", "-qm", "all", cwd=origin, timeout=STEP_S)
    command(*git, "clone", "-q", "--no-hardlinks", origin, clone, timeout=STEP_S)
    say("cloned")
    flags = ["make", "-C", "src", f"-j{args.jobs}", "generic", "CC=gcc", "MYCFLAGS=-O0"]
    command(*flags, cwd=clone, timeout=STEP_S)
    out = command(clone / "src/lua", "-e", "print(('x'):rep(3) .. 6 * 7)", timeout=60)
    assert out.strip() == "xxx42", f"the program that was built says {out!r}"
    # Nothing changed: nothing is built again. One file touched: it is.
    before = os.stat(clone / "src/lua").st_mtime_ns
    command(*flags, cwd=clone, timeout=STEP_S)
    assert os.stat(clone / "src/lua").st_mtime_ns == before, "make built again although nothing had changed"
    (clone / "src/lua.c").touch()
    command(*flags, cwd=clone, timeout=STEP_S)
    assert os.stat(clone / "src/lua").st_mtime_ns > before, "make did not see a newer source"
    command("make", "-C", "src", "clean", cwd=clone, timeout=STEP_S)
    status = command(*git, "status", "--porcelain", cwd=clone, timeout=STEP_S)
    assert not status, f"the working tree has changed:\n{status}"
    command(*git, "gc", "-q", "--aggressive", "--prune=now", cwd=clone, timeout=STEP_S)
    for d in (origin, clone):
        command(*git, "fsck", "--full", "--strict", cwd=d, timeout=STEP_S)
    say("built, built again, packed; both repositories are whole")
