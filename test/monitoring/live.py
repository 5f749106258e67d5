"""The metrics of real programs: stria-meta, a data server and a mount tell what docs/monitoring lists, count what was done, and log a slow call
with where its time went. A mount's file is there while it runs and goes with it."""

import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]

import told  # noqa: E402
from stria_cluster import MIB, Cluster, main, say, wait_for  # noqa: E402

MUST_TELL = {
    "stria-meta": ["stria_cluster_node_up", "stria_cluster_degraded_stripes", "stria_meta_sessions", "stria_rpc_duration_seconds"],
    "stria-data": ["stria_data_registered", "stria_disk_operation_duration_seconds", "stria_rpc_duration_seconds"],
    "stria-mount": ["stria_mount_written_bytes_total", "stria_mount_request_duration_seconds", "stria_mount_lease_left_seconds"],
}


def free_address():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{s.getsockname()[1]}"


def scrape(address):
    """"" if nobody serves there yet."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as reply:
            return reply.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return ""


def value(text, series):
    """The sum of the series whose name and labels match."""
    return sum(float(v) for v in re.findall(rf"^{series}(?:\{{[^}}]*\}})? (\S+)$", text, re.M))


def check(program, text):
    judged = told.check_text(text, program)
    assert f'program="{program}"' in text, text[:2000]
    assert value(text, "stria_scrape_answered") == 1, text[:2000]
    for name in MUST_TELL[program]:
        assert name in told.families(text), f"{program} does not tell {name}"
    say(f"{program}: {len(told.families(text))} metrics" + (", promtool finds nothing" if judged else ""))


def metrics_of_meta(c):
    address, arguments = free_address(), c.arguments("meta")
    c.kill("meta")
    c.start_with("meta", [*arguments, "--metrics", address], await_up=False)
    wait_for("it looks at the stripes", lambda: "stria_cluster_degraded_stripes" in scrape(address), 120, 0.5)
    wait_for("its nodes are heard", lambda: value(scrape(address), "stria_cluster_node_up") == 3, 60, 0.5)
    return address


def metrics_of_node(c, directory):
    address, arguments = free_address(), c.arguments("n1")
    c.kill("n1")
    settings = directory / "data.toml"
    settings.write_text('slow_request = "1ms"\n')  # so that a common one is slow
    c.start_with("n1", [*arguments, "--metrics", address, "--config", settings])
    wait_for("it serves its metrics", lambda: scrape(address), 60)
    return address


def mount_with_metrics(c, directory, meta, node):
    known = json.loads((c.cluster / "cluster.json").read_text())
    point, file, address = directory / "mnt", directory / "mount.prom", free_address()
    point.mkdir()
    process = subprocess.Popen([c.program("stria-mount"), "--meta", known["meta"], *map(str, c.mount_trust()), "-f", "-o",
                                f"metrics={address},metrics_file={file}", point], stdin=subprocess.DEVNULL)
    try:
        wait_for("it is mounted", lambda: point.is_mount(), 60)
        (point / "file").write_bytes(b"x" * (8 * MIB))
        assert len((point / "file").read_bytes()) == 8 * MIB
        text = wait_for("it serves its metrics", lambda: scrape(address), 60)
        check("stria-mount", text)
        assert value(text, "stria_mount_written_bytes_total") >= 8 * MIB, text
        assert f'mount="{point}"' in text, text[:2000]
        wait_for("the file has what was done meanwhile", lambda: file.exists() and "stria_mount_request_duration" in file.read_text(), 120)
        check("stria-mount", file.read_text())
        text = scrape(meta)
        check("stria-meta", text)
        assert value(text, "stria_meta_sessions") >= 2, "two mounts are there"
        text = scrape(node)
        check("stria-data", text)
        assert value(text, "stria_data_written_bytes_total") > 0, text
        log = c.cluster / "log/n1.log"
        wait_for("a call that took longer than slow_request is in the log",
                 lambda: re.search(r"slow request: \w+ of .* took \d+\.\d+ s: \d+\.\d+ s queued, \d+\.\d+ s run", log.read_text(errors="replace")), 60)
        assert value(scrape(node), "stria_rpc_slow_total") > 0
        subprocess.run(["umount", point], check=True, timeout=120)
        process.wait(120)
        assert not file.exists(), "the file of a mount that has ended stays"
    finally:
        subprocess.run(["umount", "-l", point], check=False, capture_output=True)
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def scenario():
    with tempfile.TemporaryDirectory(prefix="stria-metrics-") as d, Cluster(nodes=3, disks=1, layout="raid5:2+1") as c:
        meta = metrics_of_meta(c)
        node = metrics_of_node(c, pathlib.Path(d))
        mount_with_metrics(c, pathlib.Path(d), meta, node)
        for name in ("meta", "n1"):  # as they were: what the cluster's own mount has is written before all ends
            c.end_own(name)
            c.start(name)


main(scenario)
