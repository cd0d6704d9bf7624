#!/bin/sh
# The demo: a real instruct model answers real rows. usage: demo.sh SLUICE FOLDER
set -eu

sluice=${1:?usage: demo.sh SLUICE FOLDER}
folder=${2:?usage: demo.sh SLUICE FOLDER}
here=$(dirname "$0")
model=$("$here/get_model.sh" "$folder")
rows=$here/../test/data/demo.jsonl
answers=$folder/answers.jsonl

echo "\$ sluice run $(basename "$model") demo.jsonl -o answers.jsonl --max-tokens 64"
"$sluice" run "$model" "$rows" -o "$answers" --overwrite --max-tokens 64
echo
python3 - "$rows" "$answers" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
answers = {one["id"]: one for one in map(json.loads, open(sys.argv[2], encoding="utf-8"))}
for row in rows:
    one = answers[row["id"]]
    print("Q:", row["messages"][-1]["content"])
    print("A:", one["text"].strip(), "" if one["finish_reason"] == "stop" else f"[{one['finish_reason']}]")
PY
echo
echo "The answers are in $answers, one JSON object a line."
