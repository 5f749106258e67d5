"""What PCs are made of: a Debian below, which all share and none changes, and the packages to be installed on top of it."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from plan import PACKAGES

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "stria"
SUITE = "bookworm"
# load.py runs on the client.
ALWAYS = ["python3", "procps", "util-linux"]


class NotHere(Exception):
    """What is missing on this machine, and what to do."""


def names_needed(depends):
    """Of a Depends field the packages to install for it: of alternatives the first, without those of Stria itself."""
    found = []
    for one in depends.split(","):
        name = re.split(r"[\s(:|]", one.strip(), maxsplit=1)[0]
        if name and name not in found and name not in PACKAGES:
            found.append(name)
    return found


def find_debs(directory):
    """Package to file, the youngest of each."""
    found = {}
    for package in PACKAGES:
        debs = sorted(directory.glob(f"{package}_*.deb"), key=lambda deb: deb.stat().st_mtime)
        if not debs:
            raise NotHere(f"there is no {package}_*.deb in {directory}: run  ./tools/build && ./tools/package/build , or name another directory")
        found[package] = debs[-1]
    return found


def version_of(deb):
    return subprocess.run(["dpkg-deb", "--field", deb, "Version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def this_machine():
    """Its own root, which PCs see through an overlay: nothing is downloaded."""
    for path in ("/etc/stria", "/usr/bin/stria", "/var/lib/stria"):
        if os.path.exists(path):
            raise NotHere(f"Stria is installed on this machine ({path}), and PCs made of its root would have it, too: say --root fresh")
    if not os.path.exists("/etc/debian_version"):
        raise NotHere("this machine is no Debian: say --root fresh, with mmdebstrap")
    return pathlib.Path("/")


# What apt would download for the packages is downloaded already: a PC of the room reaches no mirror.
DOWNLOADS = ["--skip=cleanup/apt", "--customize-hook=mkdir $1/stria-debs", "--customize-hook=copy-in {debs} /stria-debs",
             "--customize-hook=chroot $1 sh -c 'apt-get install -y --download-only --install-recommends /stria-debs/*.deb'", "--customize-hook=rm -r $1/stria-debs"]


def fresh(debs, directory, say, by_apt):
    """Debian as the mirror has it, with what the packages need; kept for the next time. `by_apt`: what they need is only downloaded."""
    depends = [subprocess.run(["dpkg-deb", "--field", deb, "Depends"], stdout=subprocess.PIPE, text=True, check=True).stdout for deb in debs.values()]
    needed = names_needed(",".join(depends))
    include = sorted({*ALWAYS, *([] if by_apt else needed)})
    hooks = [hook.format(debs=" ".join(str(deb.resolve()) for deb in debs.values())) for hook in DOWNLOADS] if by_apt else []
    made_of = " ".join([*include, *([*DOWNLOADS, *sorted(needed)] if by_apt else [])])
    tar = CACHE / f"room-root-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}.tar"
    if not tar.exists():
        say(f"a fresh {SUITE} is made; the next run takes it from {tar}")
        CACHE.mkdir(parents=True, exist_ok=True)
        sources = [p for p in (pathlib.Path("/etc/apt/sources.list.d/debian.sources"), pathlib.Path("/etc/apt/sources.list")) if p.exists()]
        made = tar.with_suffix(".new")
        done = subprocess.run(["mmdebstrap", "--variant=minbase", "--format=tar", f"--include={','.join(include)}", *hooks, SUITE, made,
                               *sources[:1]],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise NotHere(f"mmdebstrap failed: {done.stdout[-1000:]}")
        made.rename(tar)
    root = directory / "debian"
    root.mkdir()
    subprocess.run(["tar", "-C", root, "--numeric-owner", "-xf", tar], check=True)
    return root


def lower(kind, debs, directory, say, by_apt=False):
    """The directory below all roots. `kind`: here, fresh, or "" for fresh where mmdebstrap is. `by_apt`: packages are installed there by apt, with what they
    need (here: of what they need this machine has all)."""
    if kind == "fresh" and not shutil.which("mmdebstrap"):
        raise NotHere("mmdebstrap is not installed: apt-get install mmdebstrap, or say --root here")
    if kind == "fresh" or (kind == "" and shutil.which("mmdebstrap")):
        return fresh(debs, directory, say, by_apt)
    return this_machine()
