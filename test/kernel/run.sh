#!/bin/sh
# What bazel has built lies where `run` looks for it: runfiles have the layout of bazel-bin. Nothing to run with is no failure.
here=$(cd "$(dirname "$0")" && pwd)
status=0
python3 "$here/run" --programs "$here/../.." --conformance none || status=$?
[ "$status" -eq 77 ] && exit 0
exit "$status"
