#!/usr/bin/env python3
"""Where the time of a pass goes: one Markdown row of shares for pure decode passes, one for pure prefill passes.

    bench/profile.py BUILD MODEL [--rows 64] [--prompt 64] [--pass decode] [--threads N] [--seconds 8] [--engine resident]

Runs a job of random prompts with BUILD/sluice, waits by its metrics until such passes go on, and lets perf (cpu-clock, no
hardware counters needed) look at the process for so many seconds. A sample belongs to the part whose object file under BUILD
defines its function. Idle is time in which a thread of the team slept (wall time less time on a processor and less time in
the queue for one, from schedstat) or spun for work. What other programs took is left out of the total, but a thread that waits
for one that was held up is idle: profile on a quiet machine.
"""
import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# By object file, first match; the functions named go before their files.
FUNCTIONS = {"lanes_argmax": "sampling", "argmax_item": "sampling", "cpu_argmax": "sampling", "select_item": "sampling"}
FILES = [("backend/cpu/avx2_decode", "decoding"), ("backend/cpu/avx512_decode", "decoding"), ("tensor/", "decoding"),
         ("attention", "attention"), ("backend/cpu/attend", "attention"), ("backend/cpu/product", "products"),
         ("backend/cpu/panels", "products"), ("_panel", "products"), ("_few", "products"),
         ("bf16", "products"), ("amx", "products"), ("backend/", "norms and the like"), ("model/rope", "norms and the like"),
         ("engine/sample", "sampling"), ("base/team", "idle")]
PARTS = ["products", "decoding", "attention", "norms and the like", "sampling", "idle", "other"]
HERTZ = 997


def symbols(build):
    """The part of each function, by the object file that defines it."""
    parts = {}
    for path in sorted(build.rglob("*.o")):
        name = str(path.relative_to(build))
        part = next((part for word, part in FILES if word in name), "other")
        if name.endswith(("_test.o", "_bench.o", "_fuzz.o")):
            continue
        for line in subprocess.run(["nm", "--defined-only", path], capture_output=True, text=True).stdout.splitlines():
            kind, symbol = line.split()[-2:]
            if kind in "tT":
                parts[symbol] = FUNCTIONS.get(symbol, part)
    return parts


def task_times(pid):
    """Seconds on a processor and in the queue for one, over all threads."""
    run = wait = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            a, b, _ = (task / "schedstat").read_text().split()
        except OSError:
            continue
        run, wait = run + int(a) * 1e-9, wait + int(b) * 1e-9
    return run, wait


def last_pass(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return json.loads(lines[-1]) if lines else None


def write_rows(path, rows, tokens):
    random.seed(1)
    path.write_text("".join(json.dumps({"id": i, "prompt_ids": [random.randrange(300, 30000) for _ in range(tokens)]}) + "\n"
                            for i in range(rows)))


def shares(opt, parts, kind):
    with tempfile.TemporaryDirectory(prefix="sluice-profile-") as scratch:
        rows, metrics, data = (Path(scratch) / name for name in ("rows.jsonl", "metrics.jsonl", "perf.data"))
        prompt, answer, count = (opt.prompt, 1500, opt.rows) if kind == "decode" else (1024, 1, 16 * opt.rows)
        write_rows(rows, count, prompt)
        job = subprocess.Popen([opt.build / "sluice", "run", opt.model, rows, "-o", Path(scratch) / "out.jsonl", "--engine", opt.engine, "--batch",
                                str(opt.rows), "--max-tokens", str(answer), "--ignore-eos", "--metrics", metrics, "--threads", str(opt.threads), *opt.extra.split()],
                               stderr=subprocess.PIPE, text=True)
        try:
            for _ in range(6000):
                seen = last_pass(metrics)
                if job.poll() is not None:
                    raise SystemExit(f"profile: the job ended early: {job.stderr.read()[-400:]}")
                if seen and (seen["prefill_tokens"] == 0 if kind == "decode" else seen["prefill_tokens"] > 0):
                    break
                time.sleep(0.05)
            first, before, start = last_pass(metrics), task_times(job.pid), time.monotonic()
            subprocess.run(["perf", "record", "-q", "-o", data, "-e", "cpu-clock", "-F", str(HERTZ), "-p", str(job.pid), "--", "sleep",
                            str(opt.seconds)], check=True, stderr=subprocess.DEVNULL)
            wall, after, last = time.monotonic() - start, task_times(job.pid), last_pass(metrics)
        finally:
            job.send_signal(signal.SIGINT)
            job.communicate()
        script = subprocess.run(["perf", "script", "-i", data, "-F", "ip,sym"], capture_output=True, text=True, check=True).stdout
    run, queue = after[0] - before[0], after[1] - before[1]
    samples = collections.Counter(line.split()[1] if len(line.split()) > 1 else "?" for line in script.splitlines() if line.strip())
    time_of = collections.Counter()
    for symbol, n in samples.items():
        time_of[parts.get(symbol, "other")] += n / sum(samples.values()) * run
    time_of["idle"] += max(0.0, wall * opt.threads - run - queue)
    passes = max(1, last["pass"] - first["pass"])
    tokens = last["decode_tokens"] + last["prefill_tokens"]
    total = sum(time_of.values())
    others = [f"{symbol} {100 * n / sum(samples.values()):.1f}" for symbol, n in samples.most_common() if parts.get(symbol, "other") == "other"][:5]
    print(f"| {kind} | {tokens} | {1000 * wall / passes:.0f} | " + " | ".join(f"{100 * time_of[part] / total:.1f}" for part in PARTS)
          + f" | {100 * queue / (wall * opt.threads):.0f} |", flush=True)
    print(f"profile: {kind}: of the rest: {', '.join(others)}", file=sys.stderr)
    if opt.functions:
        for symbol, n in samples.most_common(opt.functions):
            print(f"profile:   {100 * n / sum(samples.values()):5.1f} {parts.get(symbol, 'other'):20} {symbol}", file=sys.stderr)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", type=Path)
    p.add_argument("model", type=Path)
    p.add_argument("--rows", type=int, default=64)
    p.add_argument("--prompt", type=int, default=64, help="tokens of a row before its decode passes (64); 1024 in prefill")
    p.add_argument("--pass", dest="kind", choices=("decode", "prefill"), help="this one alone")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--engine", default="resident")
    p.add_argument("--extra", default="", help="more options of run, in one argument")
    p.add_argument("--functions", type=int, default=0, help="print so many functions too")
    opt = p.parse_args()
    parts = symbols(opt.build)
    print("| pass | tokens | ms a pass | " + " | ".join(PARTS) + " | taken by others |\n" + "|---" * (len(PARTS) + 4) + "|")
    for kind in (opt.kind,) if opt.kind else ("decode", "prefill"):
        shares(opt, parts, kind)


if __name__ == "__main__":
    main()
