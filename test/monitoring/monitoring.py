"""Metrics, alerts, dashboard and their documents: each names what the others have. With promtool (Debian: prometheus) it also judges the
metrics' names and runs the rules' tests."""

import copy
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import dashboard  # noqa: E402
import told  # noqa: E402
import yaml  # noqa: E402

PROGRAMS = ("stria-meta", "stria-data", "stria-mount")


def rendered():
    """{program: text} of everything that can be told."""
    here = pathlib.Path(__file__).absolute().parent
    program = next(p for p in (here / "render", told.TOP / "bazel-bin/test/monitoring/render") if p.exists())
    with tempfile.TemporaryDirectory() as d:
        subprocess.run([program, d], check=True)
        return {name: (pathlib.Path(d) / f"{name}.prom").read_text() for name in PROGRAMS}


def check_parser():
    """The helpers find what they are to find."""
    assert told.names_in('rate(stria_a_total{job="stria-meta"}[5m]) / stria_b_seconds_bucket') == {"stria_a_total", "stria_b_seconds"}
    assert told.names_in("stria_cluster_disk_count") == {"stria_cluster_disk_count"}
    assert told.labels_told('a_seconds_bucket{mount="/x",op="r",le="1"} 1\na_seconds_count{op="r"} 1\n') == {"a_seconds": {"op"}}
    assert told.labels_told("b 1\n") == {"b": set()}


def check_dashboard(everything):
    """Its panels and variables; each metric of jobs is shown."""
    labels = told.labels()
    shown = told.dashboard()
    for fault in dashboard.faults(shown, labels):
        sys.exit(f"docs/monitoring/dashboard.json: {fault}")
    asked = set().union(*(told.names_in(expression) for _, expression in told.panels()))
    for name in sorted(n for n in everything if n.startswith("stria_mount_job_") and n not in asked):
        sys.exit(f"docs/monitoring/dashboard.json shows {name} nowhere")
    check_that_faults_are_found(shown, labels)
    with tempfile.TemporaryDirectory() as d:
        rules = pathlib.Path(d) / "dashboard.yml"
        rules.write_text(dashboard.as_rules([(where, e) for where, e in told.panels() if where.startswith("panel")]))
        told.promtool("check", "rules", rules)


def check_that_faults_are_found(good, labels):
    def spoil(change):
        bad = copy.deepcopy(good)
        change(bad["panels"])
        return dashboard.faults(bad, labels)

    def jobs(panels):
        return next(p for p in panels if p["title"] == "Jobs: decoded from other columns")

    for change in (
        lambda panels: panels[3].update(id=panels[4]["id"]),
        lambda panels: panels[3]["gridPos"].update(x=20, w=8),
        lambda panels: panels[3].update(gridPos=panels[4]["gridPos"]),
        lambda panels: panels[3].update(targets=[]),
        lambda panels: jobs(panels)["targets"][0].update(legendFormat="{{client}}"),
        lambda panels: jobs(panels)["targets"][0].update(expr=jobs(panels)["targets"][0]["expr"].replace("$batch_job", "$job")),
        lambda panels: jobs(panels)["targets"][0].update(expr=jobs(panels)["targets"][0]["expr"].replace("{batch_job", "{batch")),
    ):
        assert spoil(change), "a fault of the dashboard is not found"


def firing(tests):
    """Alerts of which a test says that they fire."""
    found = set()
    for test in tests["tests"]:
        for rule in test.get("alert_rule_test", []):
            if rule["exp_alerts"]:
                found.add(rule["alertname"])
        for asked in test.get("promql_expr_test", []):
            if re.search(r'\bALERTS\{[^}]*alertstate="firing"', asked["expr"]):
                found |= {name for sample in asked["exp_samples"] if sample["value"] > 0 for name in re.findall(r'alertname="(\w+)"', sample["labels"])}
    return found


def quiet(tests):
    """Alerts of which a test says that they do not fire."""
    return {rule["alertname"] for test in tests["tests"] for rule in test.get("alert_rule_test", []) if not rule["exp_alerts"]}


def alert_faults(rules, tests):
    for rule in (rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule):
        if rule["alert"] not in firing(tests):
            yield f"no test in alerts_test.yml has the alert {rule['alert']} firing"
        if rule["alert"] not in quiet(tests):
            yield f"no test in alerts_test.yml has the alert {rule['alert']} quiet"


def check_alerts():
    """Each alert has a test where it fires, and one where it does not."""
    rules, tests = (yaml.safe_load((told.DOCS / name).read_text()) for name in ("alerts.yml", "alerts_test.yml"))
    for fault in alert_faults(rules, tests):
        sys.exit(fault)
    names = firing(tests)
    assert len(names) > 20, "monitoring.py finds too few alerts that fire in alerts_test.yml"
    for name in sorted(names):  # a test less is noticed
        spoilt = copy.deepcopy(tests)
        for test in spoilt["tests"]:
            test["alert_rule_test"] = [rule for rule in test.get("alert_rule_test", []) if rule["alertname"] != name or not rule["exp_alerts"]]
            for asked in test.get("promql_expr_test", []):
                asked["exp_samples"] = [sample for sample in asked["exp_samples"] if f'alertname="{name}"' not in sample["labels"]]
        assert list(alert_faults(rules, spoilt)) == [f"no test in alerts_test.yml has the alert {name} firing"], f"a missing test of {name} is not noticed"


def main():
    check_parser()
    texts = rendered()
    judged = [told.check_text(text, name) for name, text in texts.items()]
    everything = set().union(*(told.families(text) for text in texts.values()))
    documented = told.table()
    assert len(documented) > 80, "told.py finds too few metrics in docs/monitoring/README.md: it has to be taught how they are listed now"
    assert set(documented.values()) <= set(told.KINDS), documented
    for name in sorted(set(documented) - everything):
        sys.exit(f"docs/monitoring/README.md lists {name}, and no program tells it")
    expressions = told.expressions()
    assert len(expressions) > 50, "told.py finds too few expressions"
    for where, expression in expressions:
        for name in sorted(told.names_in(expression) - everything):
            sys.exit(f"{where} asks for {name}, and no program tells it")
    check_alerts()
    check_dashboard(everything)
    told.promtool("check", "rules", told.DOCS / "alerts.yml")
    told.promtool("test", "rules", told.DOCS / "alerts_test.yml")
    print(f"{len(everything)} metrics, {len(expressions)} expressions; " + ("promtool finds nothing" if all(judged) else "promtool is not here"))


main()
