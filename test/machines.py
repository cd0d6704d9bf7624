#!/usr/bin/env python3
"""The program built for another machine against the program of this one: kernel set `portable` promises the same bits on every instruction set,
so the result files must be equal byte for byte. Models are synthetic, as in the end-to-end tests; sampled rows, so that every logit counts.

    test/machines.py --bin SLUICE --other 'qemu-aarch64 -L /usr/aarch64-linux-gnu SLUICE'

The last line is `N passed, N failed`.
"""
import argparse
import os
import random
import shlex
import subprocess
import sys
import tempfile

from harness import Suite

OPTIONS = ("--token-ids", "--logprobs", 5, "--max-tokens", 12, "--temperature", 0.7, "--kernels", "portable", "--threads", 2)
SIZES = {   # of a format; odd ones, so that no loop ends evenly, and groups of one to four query heads
    "bf16": "--hidden 84 --heads 6 --kv-heads 2 --inner 130",
    "f16": "--hidden 160 --heads 8 --kv-heads 2 --inner 201",
    "f32": "--hidden 140 --heads 5 --kv-heads 5 --inner 310",
    "q8_0": "--hidden 288 --heads 6 --kv-heads 3 --inner 320",
    "q4_0": "--hidden 288 --heads 6 --kv-heads 3 --inner 320",
    "q4_1": "--hidden 320 --heads 8 --kv-heads 2 --inner 288",
    "q6_k": "--hidden 256 --heads 4 --kv-heads 2 --inner 256",
}
MODELS = {f"llama in {dtype}": f"--dtype {dtype} {sizes} --layers 1 --vocab 515" for dtype, sizes in SIZES.items()}
MODELS["caps and windows"] = "--family gemma2 --hidden 96 --heads 4 --kv-heads 2 --inner 112"
MODELS["experts"] = "--family qwen3_moe --hidden 96 --heads 4 --kv-heads 2 --inner 64"
WAYS = {"llama in bf16": ("--kv f32", "--engine stream --batch 3"), "llama in f32": ("--kv f32", "--batch 1")}
PROMPTS = (1, 2, 5, 16, 17, 33, 70)     # tokens


def answers(suite, program, model, rows, options):
    """The bytes of the result file."""
    out = suite.folder() / "out.jsonl"
    done = subprocess.run([*program, *map(str, ("run", model, rows, "-o", out, *OPTIONS, *options))], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120,
                          env={**os.environ, "SLUICE_HOME": str(suite.folder())})
    if done.returncode:
        raise AssertionError(f"{program[-1]}: exit {done.returncode}: {done.stderr.decode('utf-8', 'replace')[-400:]}")
    return out.read_bytes()


def compare(suite, programs, model, rows, options):
    here, there = (answers(suite, program, model, rows, options) for program in programs)
    lines = here.splitlines(), there.splitlines()
    if len(lines[0]) != len(PROMPTS):
        raise AssertionError(f"{len(lines[0])} results")
    for number, (one, other) in enumerate(zip(*lines), 1):
        if one != other:
            raise AssertionError(f"line {number} differs:\n    {one[:400]}\n    {other[:400]}")
    if here != there:
        raise AssertionError("one file is longer")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--other", required=True, help="a command, perhaps of several words")
    args = parser.parse_args()
    rng, passed, failed = random.Random(6), 0, 0
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as scratch:
        suite = Suite(args.bin, scratch)
        programs = [suite.sluice], shlex.split(args.other)
        rows = suite.rows([{"id": size, "seed": size, "prompt_ids": [rng.randrange(6, 500) for _ in range(size)]} for size in PROMPTS])
        for name, options in MODELS.items():
            model = suite.model(*options.split(), name="model.gguf" if "--dtype q" in options else "model")
            for way in ("", *WAYS.get(name, ())):
                try:
                    compare(suite, programs, model, rows, way.split())
                    passed += 1
                except (AssertionError, OSError, subprocess.TimeoutExpired) as problem:
                    failed += 1
                    print(f"FAILED  {name} {way}: {problem}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
