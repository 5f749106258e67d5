"""Metrics, alerts, dashboard and their documents: each names what the others have. With promtool (Debian: prometheus) it also judges the
metrics' names and runs the rules' tests."""

import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import told  # noqa: E402

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
    tested = set(re.findall(r"Stria\w+", (told.DOCS / "alerts_test.yml").read_text()))
    for name in re.findall(r"- alert: (\w+)", (told.DOCS / "alerts.yml").read_text()):
        assert name in tested, f"alert {name} has no test in alerts_test.yml"
    told.promtool("check", "rules", told.DOCS / "alerts.yml")
    told.promtool("test", "rules", told.DOCS / "alerts_test.yml")
    print(f"{len(everything)} metrics, {len(expressions)} expressions; " + ("promtool finds nothing" if all(judged) else "promtool is not here"))


main()
