#!/bin/sh
# Runs one of the tests: run.sh NAME
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/$1.py"
