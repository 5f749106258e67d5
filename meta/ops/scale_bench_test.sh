#!/bin/sh
# That the measurement of scaling still measures: small sizes, every operation once.
set -eu
for what in "names 1000" "extents 1" "extents 300"; do
  # shellcheck disable=SC2086
  "$1" $what "$TEST_TMPDIR/store" 100 >"$TEST_TMPDIR/out"
  grep -q '"progress": 1.0000' "$TEST_TMPDIR/out"
  grep -q '"row": "resident memory"' "$TEST_TMPDIR/out"
  test ! -e "$TEST_TMPDIR/store"
done
