"""What is done to the room, in which order. Pure: the same seed gives the same plan."""

import dataclasses
import random
import re

CLIENT = "wn1"
MOST_DELAY_S = 2.0
PACKAGES = ["stria-meta", "stria-data", "stria-client"]
STEPS = {"power", "disk", "node", "add", "upgrade"}


@dataclasses.dataclass
class Shape:
    servers: list  # names; the first has the metadata, too
    spares: list  # are bought when a node is replaced or added
    disks: int  # of each server
    layout: str
    steps: list

    @property
    def names(self):
        """All that ever has an address, the client last."""
        return [*self.servers, *self.spares, CLIENT]


SHORT = Shape(["pc1", "pc2", "pc3"], [], 1, "raid1:2", ["power", "disk", "upgrade"])
LONG = Shape([f"pc{n}" for n in range(1, 7)], ["pc7", "pc8"], 2, "raid5:4+1", ["power", "disk", "node", "add", "power", "upgrade", "power"])


# The first has only the metadata.
FIRST_HOUR = Shape(["pc1", "n1", "n2", "n3"], [], 2, "raid5:2+1", [])
# Names as docs/operations.md has them.
OPERATIONS = Shape(["pc1", "n1", "n2", "n3", "n4", "n5"], ["n6", "n7"], 2, "raid5:4+1", [])


def documented(text):
    """(PC, command) as docs/operations.md, "Installing", has them."""
    block = re.search(r"^## Installing$.*?^```\n(.*?)^```$", text, re.M | re.S)[1]
    return [(pc, re.sub(r"\s+#.*", "", command).strip()) for pc, command in re.findall(r"^(\w+)# +(.+)$", block, re.M)]


def first_hour(text, shape):
    """The same for the PCs of this shape, a PC after the other. Two things are otherwise, as it says there: the layout is one for so few PCs, and root of
    the only client is trusted to make the first file."""
    pcs = {"pc1": shape.servers[:1], "n3": shape.servers[1:], "wn7": [CLIENT]}
    commands = documented(text)
    if {who for who, _ in commands} != set(pcs):
        raise ValueError("docs/operations.md, \"Installing\", has other PCs now: plan.py has to be taught which")
    out = [(name, command) for who, names in pcs.items() for name in names for w, command in commands if w == who]
    own = {"stria cluster init": f"stria cluster init --layout {shape.layout}",
           "stria token make --role client --uses 50 --names 'wn*'": "stria token make --role client --trusted-root"}
    if not set(own) <= {command for _, command in out}:
        raise ValueError("docs/operations.md, \"Installing\", has other commands now: plan.py has to be taught which")
    return [(name, own.get(command, command)) for name, command in out]


def copies_by_hand(command):
    """Whether anything but what apt and stria do moves a file to a PC."""
    return any(not re.match(r"(apt|stria|mount|mkdir -p) ", part) for part in re.split(r"\s*(?:&&|;|\|)\s*", command))


def disk_names(shape):
    return [f"d{n + 1}" for n in range(shape.disks)]


def packages_of(shape, name):
    """What docs/operations.md says to install on which PC."""
    if name == CLIENT:
        return ["stria-client"]
    return [*(["stria-meta"] if name == shape.servers[0] else []), "stria-data", "stria-client"]


def boot_order(names, seed, nth):
    """The order in which PCs start after the nth power failure, each with the seconds that it is later than the one before."""
    rng = random.Random(f"{seed} {nth}")
    order = list(names)
    rng.shuffle(order)
    return [(name, rng.uniform(0, MOST_DELAY_S) if i else 0.0) for i, name in enumerate(order)]


def victim(servers, seed, what):
    """Which PC it happens to. Never the first: who loses the metadata's disk restores it, which is another story (test/cluster/meta_lost.py)."""
    return random.Random(f"{seed} {what}").choice(servers[1:])


def upgrade_order(servers):
    """docs/operations.md, "Versions": first the metadata server, then data servers, then mounts and commands; one machine after the other."""
    return [(servers[0], "stria-meta"), *((s, "stria-data") for s in servers), *((s, "stria-client") for s in servers), (CLIENT, "stria-client")]
