"""The dimuon analysis on a Dask cluster whose workers are named as Stria's nodes: dask_run.py ADDRESS WHAT DIR OUT.json

Each piece of work goes to the worker that holds its bytes, and to another one if that is busy or dead
(allow_other_workers): `stria split` says which.
"""

import json
import pathlib
import sys

from dask.distributed import Client

import stria
from dimuon_part import analyse


def main():
    address, what, directory, out = sys.argv[1:]
    split = stria.split([directory], align="root")
    with Client(address, timeout=60) as client:
        alive = {w["name"]: a for a, w in client.scheduler_info()["workers"].items()}
        futures = []
        for host in split.hosts:
            for item in host.items:
                where = {"workers": [alive[host.host]], "allow_other_workers": True} if host.host in alive else {}
                futures.append(client.submit(analyse, item.path, item.begin, item.end, pure=False, **where))
        results = client.gather(futures)
    pathlib.Path(out).write_text(json.dumps(results))
    pathlib.Path(out + ".promise").write_text(f"{100 * split.locality:.0f}")
    away = "".join(f"; {node} is {state}" for node, state in split.away.items())
    print(f"{what}: {len(results)} tasks; the split promises {100 * split.locality:.1f} % local, {100 * split.decoded:.1f} % "
          f"decoded{away}", file=sys.stderr)


if __name__ == "__main__":
    main()
