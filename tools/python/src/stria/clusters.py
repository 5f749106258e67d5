"""Where the events of ROOT files lie: python3 -m stria.clusters --paths LIST.json [--tree NAME]

LIST.json is a list of paths. Prints [{"path", "tree", "entries", "clusters": [[begin, end, [[offset, length]..]]..]}..]
for each: entries that are stored together, and the bytes of the file that hold them. For `stria split --align root` and
`stria gather --align root`. Needs uproot.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any, Dict, List, Optional, Tuple

Range = Tuple[int, int]
Cluster = Tuple[int, int, List[Range]]


def _merged(ranges: List[Range]) -> List[Range]:
    out: List[Range] = []
    for offset, length in sorted(ranges):
        if out and offset <= out[-1][0] + out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][0] + out[-1][1], offset + length) - out[-1][0])
        else:
            out.append((offset, length))
    return out


def _tree_clusters(tree: Any) -> List[Cluster]:
    """Between entries at which a basket of every branch ends; a cluster's bytes are those of its baskets."""
    cuts = [int(c) for c in tree.common_entry_offsets()]
    if not cuts or cuts[-1] < tree.num_entries:  # entries that are not in baskets of their own yet
        cuts.append(tree.num_entries)
    clusters: List[Cluster] = [(a, b, []) for a, b in zip(cuts[:-1], cuts[1:]) if a < b]
    for branch in tree.itervalues(recursive=True):
        at = 0
        offsets = branch.entry_offsets
        seeks, sizes = branch.member("fBasketSeek"), branch.member("fBasketBytes")
        for i in range(min(branch.num_baskets, len(seeks), len(sizes))):
            while at < len(clusters) and offsets[i] >= clusters[at][1]:
                at += 1
            if at < len(clusters) and int(sizes[i]) > 0:
                clusters[at][2].append((int(seeks[i]), int(sizes[i])))
    return [(a, b, _merged(r)) for a, b, r in clusters]


def _page_ranges(tree: Any, cluster: int) -> List[Range]:
    ranges = []
    for column in tree.page_link_list[cluster]:
        for page in column.pages:
            ranges.append((int(page.locator.offset), int(page.locator.num_bytes)))
    return ranges


def _ntuple_clusters(tree: Any) -> List[Cluster]:
    clusters = []
    for i, summary in enumerate(tree.cluster_summaries):
        begin = int(summary.num_first_entry)
        end = begin + int(summary.num_entries)
        if begin < end:
            clusters.append((begin, end, _merged(_page_ranges(tree, i))))
    return clusters


def _objects(file: Any) -> Dict[str, Any]:
    classes = file.classnames(cycle=False)
    return {name: file[name] for name, kind in classes.items() if kind == "TTree" or kind.endswith("RNTuple")}


def clusters_of(path: str, tree: Optional[str] = None) -> Dict[str, Any]:
    """Of one file. ValueError with a sentence if there is no such tree."""
    import uproot  # here, so that the error can say what to install

    with uproot.open({path: None}) as file:  # else a colon in it would name an object
        found = _objects(file)
        if tree is not None:
            found = {name: t for name, t in found.items() if name == tree}
        if not found:
            raise ValueError(f"{path} has no {'tree ' + tree if tree else 'TTree and no RNTuple'}")
        name, best = max(found.items(), key=lambda item: int(item[1].num_entries))
        is_tree = hasattr(best, "common_entry_offsets") and hasattr(best, "branches")
        clusters = _tree_clusters(best) if is_tree else _ntuple_clusters(best)
        return {"path": path, "tree": name, "entries": int(best.num_entries), "clusters": clusters}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", type=pathlib.Path, required=True)
    parser.add_argument("--tree")
    args = parser.parse_args()
    try:
        answers = [clusters_of(path, args.tree) for path in json.loads(args.paths.read_text(encoding="utf-8"))]
    except ModuleNotFoundError as e:
        print(f"stria.clusters: there is no Python module {e.name} here ({sys.executable})", file=sys.stderr)
        return 1
    except (ValueError, OSError) as e:
        print(f"stria.clusters: {e}", file=sys.stderr)
        return 1
    json.dump(answers, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
