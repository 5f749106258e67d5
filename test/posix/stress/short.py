"""What ./tools/test runs of the stresses: those that need nothing but Python, briefly, on one cluster."""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).absolute().parent
sys.path.insert(0, str(HERE.parents[1] / "cluster"))

import directory  # noqa: E402
import fsx  # noqa: E402
import sqlite  # noqa: E402
import trials  # noqa: E402
from place import Place, on_new_cluster  # noqa: E402
from stria_cluster import main  # noqa: E402


def options(module, *words):
    parser = argparse.ArgumentParser()
    module.add_options(parser)
    args = parser.parse_args(words)
    args.seed = 7
    return args


def scenario():
    with on_new_cluster(nodes=3, mounts=2) as place:
        fsx.run(options(fsx, "--ops", "500", "--files", "2"), Place(place.dirs))
        fsx.run(options(fsx, "--ops", "500", "--files", "1"), Place(place.dirs[:1]).within("one"))
        directory.run(options(directory, "--entries", "6000", "--listings", "2", "--moving", "100"), Place(place.dirs))
        sqlite.run(options(sqlite, "--rounds", "2", "--seconds", "3", "--writers", "2"),
                   Place(place.dirs[:1], place.cluster))
        trials.run(options(trials, "--times", "1", "--seconds", "3", "--away", "4"), place)


main(scenario)
