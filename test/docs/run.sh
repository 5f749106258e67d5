#!/bin/sh
# Runs one test of this folder: run.sh NAME
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/$1.py"
