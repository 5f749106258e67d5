"""What a program has told Prometheus, and what docs/monitoring says of it: for monitoring.py and live.py."""

import json
import pathlib
import re
import shutil
import subprocess

TOP = next(p for p in pathlib.Path(__file__).resolve().parents if (p / "WORKSPACE").exists())
DOCS = TOP / "docs/monitoring"
KINDS = ("counter", "gauge", "histogram")
# Words of expressions that look like names of metrics and are none.
METRIC = re.compile(r"\b((?:stria|process)_[a-z0-9_]+)\b")


def families(text):
    """{name: kind} of a text, without those of the HTTP library."""
    found = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
    return {name: kind for name, kind in found.items() if not name.startswith("exposer_")}


def table():
    """{name: kind} of the tables in docs/monitoring/README.md."""
    return dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", (DOCS / "README.md").read_text(), re.M))


def labels():
    """{name: labels} of the same; what every metric of a mount has is not among them."""
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| ([\w, ]*) \|", (DOCS / "README.md").read_text(), re.M)
    return {name: set(re.findall(r"\w+", told)) for name, told in rows}


def labels_told(text):
    found = {}
    for name, inner in re.findall(r"^(\w+?)(?:_bucket|_sum|_count)?(?:\{([^}]*)\})? \S+$", text, re.M):
        found.setdefault(name, set()).update(set(re.findall(r'(\w+)="', inner)) - {"le", "mount"})
    return found


def expressions():
    """[(where, expression)] of the alerts and the dashboard."""
    found = []
    alerts = (DOCS / "alerts.yml").read_text()
    for name, expr in re.findall(r"- alert: (\w+)\n\s+expr: (\|\n(?:\s{10,}.*\n)+|.*\n)", alerts):
        found.append((f"alert {name}", expr))
    assert len(found) == alerts.count("- alert:"), "told.py does not understand alerts.yml any more"
    return found + panels()


def dashboard():
    return json.loads((DOCS / "dashboard.json").read_text())


def panels():
    """[(where, expression)] of the dashboard and its variables."""
    shown = dashboard()
    found = [(f"panel '{panel['title']}'", target["expr"]) for panel in shown["panels"] for target in panel.get("targets", [])]
    return found + [(f"variable {v['name']}", v["query"]["query"]) for v in shown["templating"]["list"] if v["type"] == "query"]


def names_in(expression):
    """Of metrics; series of histograms count as these."""
    return {re.sub(r"_(?:bucket|sum|count)$", "", name) if re.search(r"_seconds_(?:bucket|sum|count)$", name) else name
            for name in METRIC.findall(re.sub(r'"[^"]*"', '""', expression))}


def promtool(*args, text=None):
    """Runs it; False if it is not here. Fails with what it says."""
    if shutil.which("promtool") is None:
        return False
    done = subprocess.run(["promtool", *map(str, args)], input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, f"promtool {' '.join(map(str, args))}:\n{done.stdout}{done.stderr}"
    return True


def check_text(text, where):
    """By promtool, if it is here; and that all of it is documented, as what it is."""
    told = families(text)
    assert told, f"{where} tells nothing"
    documented = table()
    for name, kind in told.items():
        assert documented.get(name) == kind, f"{where} tells {name}, a {kind}; docs/monitoring/README.md: {documented.get(name, 'nothing')}"
    known = labels()
    for name, has in labels_told(text).items():
        if name in told:
            assert has == known[name], f"{where}: {name} has the labels {sorted(has)}, docs/monitoring/README.md says {sorted(known[name])}"
    return promtool("check", "metrics", text=text)
