"""Analysis next to the data of a Stria mount.

    import stria
    stria.locations("/data/run7.root")        # which node holds which bytes
    stria.split(["/data/run7"], align="root") # a work list for each node
    stria.reads("/data/run7.root")            # where this mount read it from, so far

Everything is asked of the mount (virtual attributes user.stria.*) or of the `stria` command, which is found in
$STRIA, beside $PATH's, or as bazel-bin/tools/stria of the checkout. Nothing here needs more than the standard
library; `stria.fs` needs fsspec, `stria.clusters` needs uproot.
"""

from .locate import Location, Reads, attribute, hosts, locations, node, reads
from .work import HostWork, Split, WorkItem, load_work, split, split_json

__all__ = ["HostWork", "Location", "Reads", "Split", "WorkItem", "attribute", "hosts", "load_work", "locations", "node",
           "reads", "split", "split_json"]
