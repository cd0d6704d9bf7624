#!/usr/bin/env python3
"""Runs the tests and adds up what passed. Standard library only; called by `make check` and `make check-deep`.

    tools/check.py --build BUILD [--also LABEL=BUILD ...] [--aarch64 LABEL=BUILD] [--deep] [--only WORD]

Steps: tidy, unit tests (cmocka, every *_test.c), the same in other builds (clang, sanitizers), end-to-end tests in test/, the fixtures of ../shared (or of
SLUICE_SHARED) when they are there, the promises on a real model, a few fixtures on every instruction set. --deep runs the end-to-end tests in the other
builds too, the promises at full size, and all models, SmolLM2 and the promise of equal bits on every set. --aarch64 names a build of `make cross`: its
unit tests under an emulator, and its answers against those of BUILD. Each step prints its name, its counts and, where it failed, its output. The last
line is `N passed, N failed, N skipped`. Exit 1 if anything failed.
"""
import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STEP_SECONDS = 1200
ISAS = ("scalar", "avx2", "avx512", "neon")     # of the kernel set `portable`
BF16_SETS = ("avx512bf16", "amx")
FEW_MODELS = ("llama-gqa", "gemma2", "qwen3-moe", "mlx-4bit")     # of the fixtures, for each instruction set
MEMCHECK = ["-q", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"]
# A report is told from exit code 1, which says that a row had an error.
SANITIZERS = {name + "_OPTIONS": "exitcode=99" for name in ("ASAN", "UBSAN", "TSAN", "LSAN")}
EMULATOR = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, name, passed, failed, skipped, output, seconds):
        self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped
        state = "FAILED" if failed else "skipped" if skipped and not passed else "ok"
        counts = f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")
        print(f"{state:8}{name}: {counts} ({seconds:.1f} s)", flush=True)
        if failed:
            print("\n".join("    " + line for line in output.splitlines()[-60:]), flush=True)

    def skip(self, name, why):
        self.skipped += 1
        print(f"skipped {name}: {why}", flush=True)


def run(command, **env):
    start = time.monotonic()
    try:
        done = subprocess.run(list(map(str, command)), cwd=ROOT, env={**SANITIZERS, **os.environ, **env}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=STEP_SECONDS)
        code, output = done.returncode, done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired as late:
        code, output = 124, (late.stdout or b"").decode("utf-8", "replace") + f"\nno end after {STEP_SECONDS} s"
    return code, output, time.monotonic() - start


def unit(tally, build, label, env, emulator=(), only="*_test"):
    tests = sorted(build.rglob(only))
    if not tests:
        tally.add(f"{label} {build}", 0, 1, 0, "no test was built", 0)
    for test in tests:
        code, output, seconds = run([*emulator, test], **env)
        passed = len(re.findall(r"^\[       OK \]", output, re.M))
        failed = len(set(re.findall(r"^\[  FAILED  \] (\w+)$", output, re.M)))
        skipped = len(set(re.findall(r"^\[  SKIPPED \] (\w+)$", output, re.M)))
        if code and not failed or passed + failed + skipped == 0:
            failed, output = 1, output + f"\nexit {code}, and no test failed: a crash?"
        tally.add(f"{label} {test.relative_to(build)}", passed, failed, skipped, output, seconds)


def valgrind(tally, build, env):
    """Unit tests of what reads files and keeps books, under memcheck; kernels have instructions that it does not know."""
    if not shutil.which("valgrind"):
        tally.skip("valgrind", "it is not there (tools/deps.sh deep)")
        return
    for layer in ("base", "io", "weights", "job"):
        unit(tally, build / layer, f"valgrind ({layer})", {**env, "SLUICE_MEMCHECK": "1"}, ["valgrind", *MEMCHECK])


def script(tally, name, command, **env):
    """A script whose last line is `N passed, N failed[, N skipped]`."""
    code, output, seconds = run(command, **env)
    match = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", output, re.M)
    passed, failed, skipped = map(int, (n or 0 for n in match[-1])) if match else (0, 1, 0)
    tally.add(name, passed, failed + (code != 0 and not failed), skipped, output, seconds)


def aarch64(tally, build, label, sluice, env, wants):
    """Unit tests of a build for another machine, and whether its program answers as that of this one does."""
    if not (build / "sluice").is_file() or not shutil.which(EMULATOR[0]):
        tally.skip(label, "the aarch64 compiler, its libraries or the emulator are not there (tools/cross.sh)")
        return
    if wants("unit"):
        unit(tally, build, f"unit ({label})", env, EMULATOR)
    if wants("machines"):
        script(tally, f"test/machines.py {label}",
               [sys.executable, "test/machines.py", "--bin", sluice, "--other", shlex.join([*EMULATOR, str(build / "sluice")])])


def forced(sluice, folder, *options):
    """A program that is sluice with these options for every run and plan."""
    path = Path(folder) / "-".join(("sluice", *(option.strip("-") for option in options)))
    path.write_text(f"#!/bin/sh\ncase $1 in run|plan) exec {shlex.quote(str(sluice))} \"$@\" {shlex.join(options)};; esac\n"
                    f"exec {shlex.quote(str(sluice))} \"$@\"\n")
    path.chmod(0o755)
    return path


def can(sluice, *options):
    """Whether this processor has the kernels that the options ask for."""
    return run([sluice, "bench", "kernels", "--dtype", "f32", "--tokens", 1, "--shape", "32x32", "--seconds", 0.001, *options])[0] == 0


def every_set(tally, sluice, checks, model, is_deep, folder):
    """Right answers on each instruction set of `portable`, and the promise of equal bits by the bf16 sets too."""
    for isa in filter(lambda isa: can(sluice, "--isa", isa), ISAS):
        program, names = forced(sluice, folder, "--isa", isa), () if is_deep else FEW_MODELS
        script(tally, f"fixtures: every set: models on {isa}", [sys.executable, checks / "answers.py", "--bin", program, "models", *names])
        if is_deep and model:
            script(tally, f"fixtures: every set: smollm2 on {isa}", [sys.executable, checks / "answers.py", "--bin", program, "smollm2", "--model", model])
    for options in [("--isa", isa) for isa in ISAS] + [("--kernels", kernels) for kernels in BF16_SETS]:
        if is_deep and model and can(sluice, *options):
            script(tally, f"promises: every set: bits with {' '.join(options)}",
                   [sys.executable, checks / "promises.py", "--bin", forced(sluice, folder, *options), "--model", model, "--take", 12, "--max-tokens", 12, "bits"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--also", action="append", default=[], metavar="LABEL=BUILD", help="another build of the tests")
    parser.add_argument("--aarch64", metavar="LABEL=BUILD", help="a build for that machine, run by an emulator")
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--only", help="steps whose name holds this word")
    args = parser.parse_args()
    shared = Path(os.environ.get("SLUICE_SHARED", ROOT.parent / "shared")).resolve()
    sluice, tally = (ROOT / args.build / "sluice").resolve(), Tally()
    env = {"SLUICE_CORPUS": str(ROOT / "test/corpus")}
    if shared.is_dir():
        env["SLUICE_SHARED"] = str(shared)
    others = [(label, (ROOT / build).resolve()) for label, _, build in (one.partition("=") for one in args.also)]
    size = () if args.deep else ("--take", 12, "--max-tokens", 12)
    wants = lambda name: not args.only or args.only in name

    if wants("tidy"):
        script(tally, "tidy", [sys.executable, "tools/tidy.py"])
    if wants("unit"):
        unit(tally, args.build.resolve(), "unit", env)
        for label, build in others:
            unit(tally, build, f"unit ({label})", env)
    if args.deep and wants("sweep"):
        unit(tally, args.build.resolve() / "job", "every fault point", {**env, "SLUICE_SWEEP_ALL": "1"}, only="job_resume_test")
    if args.deep and wants("valgrind"):
        valgrind(tally, args.build.resolve(), env)
    if args.aarch64:
        label, _, build = args.aarch64.partition("=")
        aarch64(tally, (ROOT / build).resolve(), label, sluice, env, wants)
    if wants("budgets"):
        script(tally, "test/budgets.py", [sys.executable, "test/budgets.py", "--bin", sluice, "--jobs", 200 if args.deep else 10])
    for test in sorted((ROOT / "test").glob("*_test.py")):
        for label, build in [("", args.build.resolve())] + (others if args.deep else []):
            if wants(test.stem):
                script(tally, f"test/{test.name} {label}".strip(), [sys.executable, test, "--bin", build / "sluice"])
    model = None
    if wants("smollm2") or wants("promises") or wants("every set"):
        code, output, _ = run(["tools/get_model.sh", ".demo"])
        model = ROOT / output.strip().splitlines()[-1] if code == 0 else None
        if not model:
            tally.add("get the model", 0, 1, 0, output, 0)
    checks = shared / "checks"
    for name, command in (
            ("fixtures: models", ["answers.py", "--bin", sluice, "models"]),
            ("fixtures: models-recent", ["answers.py", "--bin", sluice, "models", "--root", shared / "fixtures/models-recent"]),
            ("fixtures: smollm2", model and ["answers.py", "--bin", sluice, "smollm2", "--model", model]),
            ("promises: bits", model and ["promises.py", "--bin", sluice, "--model", model, *size, "bits"]),
            ("promises: nothing is lost", model and args.deep and ["promises.py", "--bin", sluice, "--model", model, "kill", "signals", "bad-rows", "files",
                                                                   "disk-full", "memory"])):
        if not wants(name):
            continue
        if not checks.is_dir():
            tally.skip(name, "../shared is not there")
        elif command:
            script(tally, name, [sys.executable, checks / command[0], *command[1:]])
    if wants("every set") and checks.is_dir():
        with tempfile.TemporaryDirectory(prefix="sluice-check-") as folder:
            every_set(tally, sluice, checks, model, args.deep, folder)
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
