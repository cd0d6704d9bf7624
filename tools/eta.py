#!/usr/bin/env python3
"""How far the time left was foretold wrong: eta.py METRICS [PASS ...] compares, for each pass of a file that `run --metrics` wrote, the
seconds that it had left with those that the passes after it took."""
import json
import sys

PASSES = (1, 2, 3, 5, 8, 12, 20, 30, 50, 75, 100, 200, 500, 1000)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    passes = [line for line in lines if "pass" in line]
    wanted = {int(word) for word in sys.argv[2:]} or set(PASSES)
    rest = sum(line["seconds"] for line in passes)
    for line in passes:
        rest -= line["seconds"]
        if rest > 0 and line["pass"] in wanted:
            print(f"pass {line['pass']}: {line['eta_seconds']:.2f} s foretold, {rest:.2f} s came: {100 * (line['eta_seconds'] / rest - 1):+.1f} %")


main()
