#!/bin/sh
# Runs the benches that are built beside the sources: one after the other, on an otherwise quiet machine. usage: run.sh BUILD
# Figures worth keeping go to docs/measurements, with command, date and machine features.
set -eu
build=${1:?usage: run.sh BUILD}
grep -m1 'model name' /proc/cpuinfo
for bench in "$build"/*/*_bench; do
    [ -x "$bench" ] || continue
    echo "== $(basename "$bench")"
    "$bench"
done
