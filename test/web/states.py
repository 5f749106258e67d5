"""Recordings of a made-up cluster in five states, for stria-web --replay (docs/web.md).

    states.py OUT-DIR      writes OUT-DIR/healthy.json and the others
"""

import copy
import json
import math
import pathlib
import sys

GIB, MIB = 1 << 30, 1 << 20
SCRIPT = "<script>document.title='broken'</script>"  # a node may be called that
ODD = "d\udcff\u202e"  # a byte that is not UTF-8, and a sign that turns the direction of writing


def disk(node, label, number, used, **more):
    capacity = 4000 * GIB
    return {"name": f"{node}:{label}", "id": number, "node": node, "label": label, "uuid": "", "channel": "", "state": "up", "health": "ok",
            "problem": "", "given_up": False, "capacity_bytes": capacity, "free_bytes": int(capacity * (100 - used) / 100),
            "used_bytes": int(capacity * used / 100), "read_errors": 0, "write_errors": 0, "read_us": 4000 + 100 * number, "checksum_errors": 0} | more


def healthy():
    names = ["pc1", "pc2", "pc3", "pc4", "pc5", SCRIPT]
    nodes = [{"name": n, "id": i + 1, "uuid": "", "address": f"{'pc' + str(i + 1)}:7425", "state": "up", "since_ns": 0} for i, n in enumerate(names)]
    disks = []
    for i, n in enumerate(names):
        for d in range(4):
            label = ODD if (i, d) == (5, 3) else f"d{d + 1}"
            disks.append(disk(n, label, 10 * (i + 1) + d, 28 + 11 * ((i * 3 + d) % 6), channel="sata0" if i < 2 and d < 2 else "sata1" if i < 2 else ""))
    scrub = [{"disk": f"pc1:d{d}", "running": d < 3, "bytes_done": (400 + 50 * d) * GIB, "bytes_total": 1400 * GIB, "shards": 4000, "damaged": 0,
              "stripes": 900, "unfit": 0, "started_s": 1, "finished_s": 0} for d in (1, 2, 3)]
    return {
        "cluster": "01234567-89ab-cdef-8000-000000000001", "state": "HEALTHY", "exit_code": 0,
        "findings": [{"severity": "HEALTHY", "what": "The loss of node pc1 would lose data.", "action": "Have more nodes."}],
        "map_version": 7, "files": 1234567, "directories": 4321, "live_bytes": 30000 * GIB, "inline_bytes": 3 * GIB, "stripes": 980000,
        "degraded_stripes": 0, "lost_stripes": 0, "rebuilds": [], "nodes": nodes, "disks": disks,
        "clients": [
            {"id": 3, "client": "mount /data on pc2 (pid 123)", "owner": "pc2", "node": "pc2", "lease_left_ns": 14 * 10**9,
             "local_bytes": 700 * GIB, "network_bytes": 300 * GIB, "reconstructed_bytes": 20 * GIB, "written_bytes": 90 * GIB},
            {"id": 4, "client": "mount /data on <b>desk7</b> (pid 9)", "owner": "desk7", "node": "", "lease_left_ns": 11 * 10**9,
             "local_bytes": 0, "network_bytes": 0, "reconstructed_bytes": 0, "written_bytes": 0},
            {"id": 5, "client": "an older mount", "owner": "", "node": "", "lease_left_ns": 11 * 10**9}],
        "lost_files": [],
        "upkeep": {"message": "", "backup": {"on": True, "complete": True, "behind_s": 0, "nodes": ["pc1", "pc3"]},
                   "scrub": {"paused": False, "bytes_per_s": 0, "disks": scrub, "unfit": []},
                   "rebalance": {"running": False, "bytes_done": 0, "bytes_left": 0},
                   "folding": {"on": True, "under_way": 1, "waiting": 40, "folded": 100, "folded_bytes": 50 * GIB}}}


def metadata_servers():
    """Two, of which one is away."""
    common = {"uuid": "", "term": 41, "coordinator_problem": "", "problem": ""}
    return {"primary": "pc1", "in_sync": ["pc1"], "min_in_sync": 1, "term": 41, "incarnation": 1, "version": 9, "asked": "pc1", "findings": [],
            "members": [{"name": "pc1", "address": "pc1:7424", "role": "primary", "in_sync": True, "last": 1000, "durable": 1000, "lag": 0, "coordinator": True} | common,
                        {"name": "pc2", "address": "<b>pc2</b>:7424", "role": "unreachable", "in_sync": False, "last": 930, "durable": 930, "lag": 70,
                         "coordinator": False} | common]}


def degraded():
    s = healthy()
    s["metadata_servers"] = metadata_servers()
    s |= {"state": "DEGRADED", "exit_code": 1, "degraded_stripes": 51234}
    s["nodes"][3]["state"] = "down"
    for d in s["disks"]:
        if d["node"] == "pc4":
            d["health"] = "down"
    s["disks"][1] |= {"read_errors": 3, "checksum_errors": 1}
    s["findings"] = [{"severity": "DEGRADED", "what": "Node pc4 is down (for 2 min 5 s); its data is read through redundancy.",
                      "action": "Start stria-data on pc4 again, or give its place to another node:  stria node replace pc4 NEW"},
                     {"severity": "DEGRADED", "what": "Disk pc1:d2 has shown 3 read errors; the bytes came from redundancy.", "action": ""},
                     *s["findings"]]
    return s


def rebuilding():
    s = degraded()
    s["nodes"][3]["state"] = "out"
    for d in s["disks"]:
        if d["node"] == "pc4":
            d["health"] = "out"
    common = {"stripes_total": 12000, "stripes_done": 4680, "bytes_total": 1200 * GIB, "paused": False, "stuck": 0}
    s["rebuilds"] = [{"target": "pc4:d1", "reason": "pc4 is out", "percent": 39, "bytes_done": 468 * GIB, "bytes_per_s": 220 * MIB, "eta_s": 3480} | common,
                     {"target": "pc2:d3", "reason": "drain", "percent": 10, "bytes_done": 120 * GIB, "bytes_per_s": 0, "eta_s": None} | common]
    return s


def at_risk():
    s = degraded()
    s |= {"state": "AT RISK", "exit_code": 2, "lost_stripes": 17}
    s["nodes"][4]["state"] = "down"
    for d in s["disks"]:
        if d["node"] == "pc5":
            d["health"] = "down"
    # As the program has them: findings about the backup come last, however bad they are.
    s["findings"].append({"severity": "AT RISK", "what": "17 stripes cannot be read: more of their columns are away than their layout can stand.",
                          "action": "Bring back the nodes and disks that are down; do not remove any of them."})
    return s


def hour(now):
    """An hour of a busy cluster that ends in `now`."""
    frames, state = [], copy.deepcopy(now)
    client, work = state["clients"][0], state["upkeep"]
    client |= {k: v - 400 * GIB for k, v in client.items() if k in ("local_bytes",)}
    read = written = scrubbed = 0
    for age in range(3600, -1, -10):
        t = 3600 - age
        quiet = 1500 <= t < 1620  # the metadata server was away
        read += 0 if quiet else int(10 * MIB * (60 + 50 * math.sin(t / 240) + 25 * math.sin(t / 37)))
        written += 0 if quiet else int(10 * MIB * max(0, 30 + 40 * math.sin(t / 500 + 2)))
        scrubbed += 10 * 36 * MIB
        if quiet:
            frames.append({"age_s": age, "error": "stria-meta at pc1:7424 does not answer"})
            continue
        frame = {"clients": [dict(client, local_bytes=client["local_bytes"] + read * 7 // 10, network_bytes=client["network_bytes"] + read * 3 // 10,
                                  written_bytes=client["written_bytes"] + written)],
                 "disks": [{"read_us": int(d["read_us"] * (1 + 0.3 * math.sin(t / 90 + d["id"])))} for d in state["disks"]],
                 "upkeep": {"scrub": {"disks": [{"disk": "pc1:d1", "bytes_done": scrubbed}]},
                            "folding": {"folded": 100 + t // 60, "folded_bytes": 50 * GIB + t * MIB}}}
        if now["rebuilds"]:
            frame["rebuilds"] = [{"target": "pc4:d1", "bytes_done": max(0, t - 1800) * 220 * MIB}]
        frames.append({"age_s": age, "status": frame, "answer_ms": 0.8 + 0.4 * math.sin(t / 50) ** 2})
    whole = copy.deepcopy(now)
    last = frames[-1]["status"]
    whole["clients"][0] |= last["clients"][0]
    for d, told in zip(whole["disks"], last["disks"]):
        d["read_us"] = told["read_us"]
    whole["upkeep"]["scrub"]["disks"][0]["bytes_done"] = scrubbed
    whole["upkeep"]["folding"] |= last["upkeep"]["folding"]
    for r, told in zip(whole["rebuilds"], last.get("rebuilds", [])):
        r["bytes_done"] = told["bytes_done"]
    frames[-1]["status"] = whole
    return frames


EVENTS = [{"time_s": 1700000100, "severity": "DEGRADED", "what": "Node <i>pc4</i> is down.", "action": "stria node replace pc4 NEW"},
          {"time_s": 1700000000, "severity": "", "what": "Node pc4 is up.", "action": ""}]


def away(now, seconds=75):
    frames = [f | {"age_s": f["age_s"] + seconds} for f in hour(now)]
    return [*frames, {"age_s": seconds, "error": "stria-meta at pc1:7424 does not answer (connection refused); is it running?"}]


def recordings():
    return {"healthy": {"frames": hour(healthy())}, "degraded": {"frames": hour(degraded()), "events": EVENTS}, "rebuilding": {"frames": hour(rebuilding())},
            "at_risk": {"frames": hour(at_risk())}, "away": {"frames": away(healthy())}}


def write(out):
    out.mkdir(parents=True, exist_ok=True)
    for name, recording in recordings().items():
        (out / f"{name}.json").write_text(json.dumps(recording))


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
