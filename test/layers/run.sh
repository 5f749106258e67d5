#!/bin/sh
# $1: which of the checks.
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/$1.py"
