#!/bin/sh
# run.sh plan: the pure parts. run.sh short: the short form, with what bazel has built as both versions.
here=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1
case $1 in
  plan) exec python3 "$here/plan_test.py" ;;
  short) exec python3 "$here/versions.py" "$here/../.." "$here/../.." --short ;;
esac
echo "run.sh plan|short" >&2
exit 64
