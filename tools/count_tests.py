"""Counts the results of several `bazel test` runs: count_tests.py DIR

DIR has RUN.json (--build_event_json_file) and RUN.exit (bazel's exit code) for each, and RUN.cut for one that was
ended because its time was over. Prints what failed, what was cut, then
"N passed, N failed" as the last line. A test counts once per run. Exit 1 if anything failed or was cut,
or if no test ran.
"""

import json
import pathlib
import sys


def read_events(path):
    events = []
    if path.exists():
        for line in path.read_text(errors="replace").splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:  # cut short when bazel died
                continue
    return events


def count_run(events, exit_code, cut):
    """(number that passed, names that failed) of one run; tests left out by the cut are neither."""
    passed, failed, configured = 0, [], set()
    for event in events:
        ident = event.get("id", {})
        if "testSummary" in ident:
            label = ident["testSummary"]["label"]
            status = event.get("testSummary", {}).get("overallStatus", "NO_STATUS")
            configured.discard(label)
            if status in ("PASSED", "FLAKY"):
                passed += 1
            elif not cut or status not in ("NO_STATUS", "INCOMPLETE"):
                failed.append(f"{label} ({status.lower()})")
        elif "targetCompleted" in ident and not event.get("completed", {}).get("success", False):
            configured.add(ident["targetCompleted"]["label"])
    if cut:
        return passed, failed
    failed += [f"{label} (not built)" for label in sorted(configured)]
    if exit_code != 0 and not failed:
        failed.append(f"bazel itself (exit {exit_code})")
    return passed, failed


def main(folder):
    passed, failed, cuts = 0, [], []
    for exit_file in sorted(pathlib.Path(folder).glob("*.exit")):
        cut = exit_file.with_suffix(".cut")
        run_passed, run_failed = count_run(read_events(exit_file.with_suffix(".json")), int(exit_file.read_text()),
                                           cut.exists())
        passed += run_passed
        failed += run_failed
        if cut.exists():
            cuts.append(f"{cut.read_text().strip()} ({run_passed + len(run_failed)} tests had run)")
    for name in failed:
        print("FAILED", name)
    for what in cuts:
        print("NOT RUN, no time was left:", what)
    print(f"{passed} passed, {len(failed)} failed")
    return 0 if passed and not failed and not cuts else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
