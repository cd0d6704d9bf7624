#!/bin/sh
# Runs the benches that are built beside the sources: one after the other, on an otherwise quiet machine. usage: run.sh BUILD
# Figures worth keeping go to docs/measurements, with command, date and machine features. The tokenizer's needs the fixtures beside the checkout
# (SLUICE_SHARED names another place).
set -eu
build=${1:?usage: run.sh BUILD}
shared=${SLUICE_SHARED:-$(dirname "$0")/../../shared}
grep -m1 'model name' /proc/cpuinfo
echo "== products"
"$build/sluice" bench kernels
echo "== attention and the rest"
"$build/backend/backend_bench"
if [ ! -d "$shared/fixtures/text" ]; then
    echo "== tokenizers: skipped, no fixtures in $shared"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for family in llama3_2 qwen3 gemma3; do
    echo "== tokenizer $family"
    gzip -dc "$shared/fixtures/text/tokenizer-$family.json.gz" >"$work/tokenizer.json"
    "$build/text/tokenizer_bench" "$work/tokenizer.json" "$shared/data/eval-2000.jsonl"
done
