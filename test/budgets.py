#!/usr/bin/env python3
"""Random jobs on synthetic models: the peak of every run stays within its budget, and near what the plan has foretold.

    test/budgets.py --bin SLUICE [--jobs 200] [--seed N] [--verbose]

Models, rows, options and budgets are drawn at random: dense, windowed and mixed families, safetensors and GGUF, few and many rows, short and long prompts,
logprobs, either engine, budgets from the least that the plan accepts upwards. Rows run to their limits (--ignore-eos), as the plan has them.
No peak may be over its budget. The foretold one is within 3 % or SLACK bytes, which count in jobs of a few MiB: a process that does the same twice differs by
some hundred KiB (what the page cache holds of the program). KV pages come in huge pages, and a job that needs one page more or less than foretold may touch a
whole one: of twenty jobs one may be off by HUGE bytes besides. Which experts a streamed job of fewer than ROUTED tokens reads, and so what of those that are
kept becomes resident, nobody can foretell: there the peak may be as far below. The last line is `N passed, N failed`.
"""
import argparse
import json
import random
import sys
import tempfile

from harness import Suite

SLACK, HUGE = 768 << 10, 2 << 20
ROUTED = 40     # 2 of 16 experts a token: after so many one in two hundred is left
MODELS = {
    "llama": "--hidden 256 --layers 6 --heads 4 --kv-heads 2 --inner 512 --vocab 3000 --context 4096",
    "wide": "--hidden 768 --layers 3 --heads 12 --kv-heads 4 --inner 2048 --vocab 20000 --context 4096",
    "deep": "--hidden 192 --layers 24 --heads 3 --kv-heads 3 --inner 384 --vocab 1000 --context 4096",
    "tied f32": "--hidden 320 --layers 4 --heads 5 --kv-heads 5 --inner 640 --vocab 8000 --dtype f32 --tied --context 4096",
    "windows": "--family gemma2 --hidden 256 --layers 6 --heads 4 --kv-heads 2 --inner 512 --vocab 2000 --context 4096",
    "experts": "--family qwen3_moe --hidden 256 --layers 4 --heads 4 --kv-heads 2 --inner 512 --experts 16 --expert-inner 192 --vocab 2000 --context 4096",
    "q4_1.gguf": "--hidden 512 --layers 6 --heads 8 --kv-heads 2 --inner 1024 --vocab 4000 --dtype q4_1 --context 4096",
    "q8_0.gguf": "--hidden 256 --layers 8 --heads 4 --kv-heads 4 --inner 512 --vocab 2000 --dtype q8_0 --context 4096",
}


def draw(rng):
    """Rows and options of a job."""
    longest, count = rng.choice((5, 40, 300, 900)), rng.choice((1, 3, 12, 40, 120))
    count = min(count, 4000 // longest)
    rows = [{"id": i, "prompt_ids": [rng.randrange(6, 262) for _ in range(rng.randint(1, longest))]} for i in range(count)]
    options = ["--ignore-eos", "--token-ids", "--max-tokens", rng.choice((1, 4, 12, 24)), "--threads", rng.choice((1, 2))]
    if rng.random() < 0.3:
        options += ["--logprobs", rng.choice((0, 5, 20))]
    if rng.random() < 0.3:
        options += ["--kv", "f32"]
    if rng.random() < 0.2:
        options += ["--pass-tokens", rng.choice((7, 64, 300))]
    if rng.random() < 0.2:
        options += ["--batch", rng.choice((1, 5, 30))]
    options += ["--engine", rng.choice(("auto", "stream", "stream"))]
    return rows, options


def play(suite, rng, models):
    name = rng.choice(list(models))
    rows, options = draw(rng)
    path = suite.rows(rows)
    plan = suite.command("plan", models[name], path, *options, "--memory", "8G", "--json")
    if plan.code:
        raise AssertionError(f"{name} {options}: plan: exit {plan.code}: {plan.err[-300:]}")
    budget = int(json.loads(plan.out)["needed_bytes"] * rng.choice((1.03, 1.1, 1.3, 2, 4))) + (512 << 10)
    options += ["--memory", budget]
    what = f"{name} {len(rows)} rows {' '.join(map(str, options))}"
    metrics = suite.folder() / "metrics"
    done = suite.run(models[name], path, *options, "--metrics", metrics)
    if done.code:
        raise AssertionError(f"{what}: exit {done.code}: {done.err[-300:]}")
    planned = json.loads(suite.command("plan", models[name], path, *options, "--json").out)["predicted_peak_bytes"]
    peak = json.loads(metrics.read_text().splitlines()[-1])["peak_rss_bytes"]
    tokens = sum(len(row["prompt_ids"]) for row in rows) + len(rows) * (options[options.index("--max-tokens") + 1] - 1)
    is_open = name == "experts" and options[options.index("--engine") + 1] == "stream" and tokens < ROUTED
    return what, budget, planned, peak, is_open


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    passed = failed = near = 0
    errors = []
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as scratch:
        suite, rng = Suite(args.bin, scratch), random.Random(args.seed)
        models = {name: suite.model(*options.split(), name=name if name.endswith(".gguf") else "model") for name, options in MODELS.items()}
        for _ in range(args.jobs):
            try:
                what, budget, planned, peak, is_open = play(suite, rng, models)
                if not is_open:
                    errors.append(abs(planned - peak) / peak)
                if args.verbose:
                    print(f"{planned / peak - 1:+7.2%} planned {planned / 2**20:6.1f}M peak {peak / 2**20:6.1f}M budget {budget / 2**20:6.1f}M  {what}", flush=True)
                if peak > budget:
                    raise AssertionError(f"{what}: the peak is {peak}, the budget {budget}")
                off, least = max(peak - planned, 0) if is_open else abs(planned - peak), max(0.03 * peak, SLACK)
                near += least < off <= least + HUGE
                if off > least + HUGE or off > least and near > 1 + args.jobs // 20:
                    raise AssertionError(f"{what}: planned {planned}, the peak is {peak}: {planned / peak - 1:+.1%}")
                passed += 1
            except AssertionError as problem:
                failed += 1
                print(f"FAILED  {problem}", flush=True)
    errors.sort()
    if errors:
        print(f"foretold peaks are off by {errors[len(errors) // 2]:.1%} in the middle, {errors[-1]:.1%} at most; {near} by one huge page")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
