#!/bin/sh
# Runs one scenario: run_scenario.sh NAME
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/$1.py"
