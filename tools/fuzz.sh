#!/bin/sh
# Runs libFuzzer targets one after the other. usage: fuzz.sh SECONDS TARGET...
# The corpus of x_fuzz is test/corpus/x; new inputs go to build/fuzz/corpus/x. Ends with `N passed, N failed`.
set -u
seconds=${1:?usage: fuzz.sh SECONDS TARGET...}
shift
root=$(cd "$(dirname "$0")/.." && pwd)
passed=0 failed=0
for target; do
    name=$(basename "$target" _fuzz)
    found=$root/build/fuzz/corpus/$name
    mkdir -p "$found"
    echo "fuzz: $name for $seconds s"
    if "$root/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -close_fd_mask=2 \
        -artifact_prefix="$found-" "$found" "$root/test/corpus/$name" >"$found.log" 2>&1; then
        passed=$((passed + 1))
        grep -E 'number_of_executed_units' "$found.log"
    else
        failed=$((failed + 1))
        tail -20 "$found.log"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
