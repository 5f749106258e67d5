"""The page of stria-web in a real Chromium, of recorded clusters in five states: what it shows, by the ids of its elements, that the
browser complains of nothing, and how it looks (screenshots in the test's output folder). Run by bazel, or by hand after tools/build:

    page.py [PROGRAM]
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).absolute().parent
TOP = HERE.parents[1]
sys.path.insert(0, str(HERE))
import states  # noqa: E402
from browser import LIMIT_S, Browser, expect, problems, says  # noqa: E402

SIZES = {"wall": "1920,1080", "phone": "412,915"}


class Web:
    """stria-web, serving a recording."""

    def __init__(self, program, recording):
        self.process = subprocess.Popen([program, "--replay", recording, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        self.url = self.process.stdout.readline().strip()
        if not self.url.startswith("http://127.0.0.1:"):
            self.__exit__()
            sys.exit(f"stria-web says {self.url!r} and not where it serves")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def get(self, path, **headers):
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers), timeout=LIMIT_S) as reply:
                return reply.status, reply.headers, reply.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.headers, e.read().decode()


def check_all(name, page, recording):
    """Of every state."""
    now = next(f["status"] for f in reversed(recording["frames"]) if "status" in f)
    expect("broken" not in page.text.get("clock", "") and not any(tag == "script" and "src" not in a for tag, a in page.all), f"{name}: a name came in as markup")
    says(page, "tree", states.SCRIPT, "d\\xff\\u202e")
    says(page, "clients", "<b>desk7</b>", "an older mount", "not told", "local", "remote", "decoded")
    cells = [a for tag, a in page.tags["tree"] if tag == "button"]
    expect(len(cells) == len(now["disks"]), f"{name}: {len(cells)} disks are shown, not {len(now['disks'])}")
    expect(all("aria-label" in a and "% full" in a["aria-label"] for a in cells), f"{name}: a disk has no words for those who do not see it")
    for chart in ("throughput", "latency"):
        drawn = [a for tag, a in page.tags[chart] if tag == "path" and "line" in a.get("class", "") and a.get("d", "").count("L") > 50]
        expect(len(drawn) >= 2, f"{name}: #{chart} has {len(drawn)} lines of an hour")
    says(page, "throughput", "read", "written", "iB/s", "-60 min")
    says(page, "latency", "metadata answers in", "median disk reads in", "ms")
    says(page, "totals", "1,234,567", "up to date")
    says(page, "program", "stria-web ")
    says(page, "cluster", "01234567-89ab")
    expect(not any("style" in a and tag not in ("span",) for tag, a in page.all), f"{name}: markup has styles of its own")


def check_healthy(page):
    says(page, "health-word", "Healthy")
    says(page, "health-what", "All data can be read")
    expect(page.attributes["health"]["data-level"] == "healthy", "a healthy cluster has another colour")
    says(page, "findings", "Hint: ", "would lose data")
    says(page, "tree-words", "No node or disk shows a fault.")
    says(page, "work", "Scrub of 2 disks", "Fold", "40 stripes wait", "left")
    says(page, "throughput-now", "read", "written")
    expect(not page.shown("away") and not page.shown("events-section"), "a healthy cluster without events shows events, or that it is away")
    expect(not page.shown("metas-section"), "one metadata server is shown as if there were several")


def check_degraded(page):
    says(page, "health-word", "Degraded")
    says(page, "health-what", "Node pc4 is down")
    says(page, "health-action", "stria node replace pc4 NEW")
    says(page, "more-count", "2 more findings")
    says(page, "tree", "! down", "! 4 errors")
    says(page, "tree-words", "show a fault")
    says(page, "metas-words", "pc1 serves, in term 41; 1 of 2 have everything that is durable.")
    says(page, "metas", "primary", "in sync", "! unreachable", "! not in sync, 70 changes behind", "<b>pc2</b>:7424", "not known")
    expect(page.shown("metas-section"), "metadata servers are not shown")
    expect(page.shown("events-section"), "events are not shown")
    says(page, "events", "Node <i>pc4</i> is down.", "Node pc4 is up.")


def check_rebuilding(page):
    says(page, "health-word", "Degraded, rebuilding")
    says(page, "work", "Rebuild of pc4:d1", "pc4 is out", "220 MiB/s", "58 min left", "Drain of pc2:d3", "time left not known yet")
    expect(sum(tag == "progress" for tag, _ in page.tags["work"]) == 3, "a rebuild, a drain and a scrub have no bars")
    says(page, "throughput", "rebuilt")


def check_at_risk(page):
    says(page, "health-word", "At risk")
    says(page, "health-what", "17 stripes cannot be read")
    says(page, "health-action", "do not remove any of them")
    expect(page.attributes["health"]["data-level"] == "at risk", "a cluster at risk has another colour")


def check_away(page):
    expect(page.shown("away"), "it is not said that the metadata server is away")
    says(page, "away", "Metadata away since ", "(for 1 min", "is it running?", "what was last known")
    says(page, "health-word", "Was healthy")
    expect(any(tag == "body" and a.get("data-state") == "away" for tag, a in page.all), "the last known state is not greyed")


def check_paths(web):
    code, headers, body = web.get("")
    expect(code == 200 and "default-src 'none'" in headers["Content-Security-Policy"] and "unsafe" not in headers["Content-Security-Policy"], "/ has no strict policy")
    expect(not re.search(r"(?:src|href)=\"(?:https?:)?//", body), "the page uses something from elsewhere")
    status = json.loads(web.get("api/status.json")[2])
    expect(status["state"] == "live" and status["recorded"] and status["status"]["state"] == "HEALTHY", f"status.json says {str(status)[:200]}")
    points = json.loads(web.get("api/history.json")[2])["points"]
    expect(300 < len(points) <= 360 and any(p["read"] for p in points), f"history.json has {len(points)} points")
    expect(json.loads(web.get("api/events.json")[2]) == {"available": False, "events": []}, "events.json has events")
    expect(web.get("healthz")[0] == 200, "healthz is not well")
    expect(web.get("etc/passwd")[0] == 404, "there is something at /etc/passwd")
    expect(web.get("", Host="evil.example.org")[0] == 403, "a name of another site is served")


def check_refusals(program, out):
    for words, why in ((["--replay", out / "healthy.json", "--listen", "0.0.0.0:0"], "--allow-anyone"), (["--replay", out / "none.json"], "cannot read")):
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=LIMIT_S)
        expect(done.returncode == 1 and why in done.stderr and done.stderr.count("\n") == 1, f"stria-web {words} says {done.stderr!r}, exit code {done.returncode}")


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else next((str(p) for p in (TOP / "tools/web/stria-web", TOP / "bazel-bin/tools/web/stria-web") if p.exists()), None)
    if program is None:
        sys.exit("stria-web is not built")
    pictures = pathlib.Path(os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR") or tempfile.mkdtemp(prefix="stria-web-"))
    with tempfile.TemporaryDirectory() as where:
        out = pathlib.Path(where)
        states.write(out)
        browser = Browser(out)
        for name, recording in states.recordings().items():
            with Web(program, out / f"{name}.json") as web:
                page = browser.look(web.url)
                check_all(name, page, recording)
                globals()[f"check_{name}"](page)
                if name == "healthy":
                    check_paths(web)
                if name in ("healthy", "rebuilding"):
                    for size, pixels in SIZES.items():
                        browser.picture(web.url, pictures / f"{name}-{size}.png", pixels, name == "rebuilding")
        check_refusals(program, out)
    print(f"pictures are in {pictures}")
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print("the page shows all five states")


main()
