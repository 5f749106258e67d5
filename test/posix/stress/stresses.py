"""Every stress by its name. Each is a module with HELP, add_options(parser) and run(args, place)."""

import bonnie
import dbench
import directory
import fio
import fsx
import git_build
import postgres
import rocksdb
import sqlite
import stress_ng
import trials

ALL = {
    "fsx": fsx,
    "fio": fio,
    "directory": directory,
    "sqlite": sqlite,
    "postgres": postgres,
    "rocksdb": rocksdb,
    "git": git_build,
    "dbench": dbench,
    "bonnie": bonnie,
    "stress-ng": stress_ng,
    "trials": trials,
}
