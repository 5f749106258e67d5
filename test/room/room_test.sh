#!/bin/sh
# Runs the tests of this folder's pure parts.
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/room_test.py"
