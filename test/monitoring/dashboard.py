"""Pure: what is wrong with a Grafana dashboard, as far as it can be seen without Grafana."""

import itertools
import re

WIDTH = 24
GIVEN = {"__rate_interval", "source"}  # by Grafana, and the data source
SCRAPED = {"instance", "job", "mount"}  # labels that any series may have


def overlap(a, b):
    return a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]


def faults(dashboard, labels):
    """Sentences. `labels`: {metric: labels} of what programs tell."""
    panels = dashboard["panels"]
    found = []
    ids = [p["id"] for p in panels]
    if len(set(ids)) != len(ids):
        found.append("two panels have one id")
    for p in panels:
        if p["gridPos"]["x"] + p["gridPos"]["w"] > WIDTH:
            found.append(f"panel '{p['title']}' is wider than the page")
        if p["type"] != "row" and not p.get("targets"):
            found.append(f"panel '{p['title']}' asks for nothing")
    for a, b in itertools.combinations(panels, 2):
        if overlap(a["gridPos"], b["gridPos"]):
            found.append(f"panels '{a['title']}' and '{b['title']}' lie upon each other")
    variables = {v["name"] for v in dashboard["templating"]["list"]}
    for p in panels:
        for target in p.get("targets", []):
            found += target_faults(f"panel '{p['title']}'", target, variables, labels)
    return found


def target_faults(where, target, variables, labels):
    expression, found = target["expr"], []
    for name in set(re.findall(r"\$\{?(\w+)", expression)) - GIVEN - variables:
        found.append(f"{where} uses ${name}, which is no variable")
    metrics = [m for m in labels if re.search(rf"\b{m}(_bucket|_sum|_count)?\b", expression)]
    has = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", expression))))
    if not has:
        has = SCRAPED.union(*(labels[m] for m in metrics))
    for label in set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))) - has:
        found.append(f"{where} names series by {label}, which they do not have")
    for label in set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)):
        if not all(label in labels[m] | SCRAPED | {"le"} for m in metrics):
            found.append(f"{where} chooses by {label}, which {' or '.join(metrics)} does not have")
    return found


def as_rules(expressions):
    """A file of rules for promtool, which so reads every expression."""
    lines = ["groups:", "  - name: dashboard", "    rules:"]
    for number, (_, expression) in enumerate(expressions):
        text = re.sub(r"\$\{?\w+\}?", lambda m: "5m" if m[0] == "$__rate_interval" else ".*", expression)
        lines += [f"      - record: panel:expression{number}:now", "        expr: |", *(f"          {line}" for line in text.splitlines())]
    return "\n".join(lines) + "\n"
