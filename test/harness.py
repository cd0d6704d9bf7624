"""What the end-to-end tests share: models made by tools/make_model.py, runs of the program, and the count at the end."""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED_BYTES_MAX = 4 << 20
END, STOP = 2, 5                # <|end|>, <|stop|> of the synthetic tokenizer


def byte(text):
    """Ids of the byte tokens of ASCII text."""
    return [6 + b for b in text.encode()]


def chain(text, start, end=END):
    """A script in which the token start is followed by text, whose characters differ, and then by the token end."""
    ids = [start, *byte(text), end]
    return " ".join(f"{a}>{b}" for a, b in zip(ids, ids[1:]))


class Outcome:
    def __init__(self, code, out, err, results):
        self.code, self.out, self.err, self.results = code, out, err, results
        self.by_id = {json.dumps(one.get("id", one.get("custom_id"))): one for one in results}

    def row(self, name):
        return self.by_id[json.dumps(name)]


class Skip(Exception):
    """What the test needs is not to be had here; the text says what."""


class Suite:
    """Tests are methods whose names begin with `check_`; each gets a folder of its own."""
    def __init__(self, sluice, scratch):
        self.sluice, self.scratch, self.number = os.path.abspath(sluice), Path(scratch), 0
        self.made = {}      # of options and name: a model that no test touches

    def own_memory_only(self):
        """Skips a test of resident memory where a sanitizer's shadow and freed blocks count as the program's."""
        if any(name in Path(self.sluice).read_bytes() for name in (b"__asan_init", b"__tsan_init")):
            raise Skip("a sanitizer holds memory of its own")

    def folder(self):
        self.number += 1
        made = self.scratch / str(self.number)
        made.mkdir()
        return made

    def model(self, *options, name="model"):
        """A model of the test's own: small ones are made once and copied."""
        key, out = (options, name), self.folder() / name
        made = self.made.get(key)
        if made:
            shutil.copytree(made, out) if made.is_dir() else shutil.copy(made, out)
            return out
        subprocess.run([sys.executable, ROOT / "tools/make_model.py", out, *map(str, options)], check=True, stdout=subprocess.DEVNULL)
        files = [out] if out.is_file() else [path for path in out.iterdir()]
        if sum(path.stat().st_size for path in files) <= COPIED_BYTES_MAX:
            self.made[key] = self.folder() / name
            shutil.copytree(out, self.made[key]) if out.is_dir() else shutil.copy(out, self.made[key])
        return out

    def command(self, *args, stdin=b"", env=None, seconds=120, cwd=None):
        home = self.folder()
        done = subprocess.run([self.sluice, *map(str, args)], input=stdin, capture_output=True, timeout=seconds, cwd=cwd,
                              env={**os.environ, "SLUICE_HOME": str(home), **(env or {})})
        return Outcome(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"), [])

    def rows(self, rows):
        path = self.folder() / "rows.jsonl"
        lines = [row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode() for row in rows]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    def run(self, model, rows, *options, out=None, **how):
        out = out or self.folder() / "out.jsonl"
        rows = rows if isinstance(rows, Path) else self.rows(rows)
        done = self.command("run", model, rows, "-o", out, *options, **how)
        done.file = out
        text = out.read_bytes() if out.is_file() else b""
        done.bytes = text
        for line in text.splitlines():
            one = json.loads(line)
            done.results.append(one)
            done.by_id[json.dumps(one.get("id") if "custom_id" not in one else one["custom_id"])] = one
        return done


class PublishedSuite(Suite):
    """What is asked of models whose config is a published one."""
    ROWS = [{"id": 1, "prompt_ids": [40, 41, 42, 50, 51, 60, 61]}, {"id": 2, "prompt_ids": [90, 13]}]
    OPTIONS = ("--token-ids", "--max-tokens", 4, "--ignore-eos", "--kv", "f32", "--threads", 1)

    def shows(self, model, wanted):
        """`show --json` says these; of "settings" where the name has a point before it."""
        done = self.command("show", model, "--json")
        equal(done.code, 0, done.err[-300:])
        found = json.loads(done.out)
        for name, value in wanted.items():
            seen = found["settings"].get(name[1:]) if name.startswith(".") else found.get(name)
            is_near = isinstance(value, float) and seen is not None
            true(abs(seen - value) < 1e-6 if is_near else seen == value, f"{name}: {seen!r}, expected {value!r}")
        return done

    def runs(self, model):
        """Answers, the same resident and streamed."""
        answers = []
        for engine in ("resident", "stream"):
            done = self.run(model, self.ROWS, *self.OPTIONS, "--engine", engine)
            equal(done.code, 0, done.err[-300:])
            true("not used" not in done.err, f"a warning: {done.err[-300:]}")
            answers.append([row["token_ids"] for row in done.results])
        equal(answers[0], answers[1], "engines differ")


def equal(found, wanted, what=""):
    if found != wanted:
        raise AssertionError(f"{what}: {found!r}, expected {wanted!r}")


def true(condition, what):
    if not condition:
        raise AssertionError(what)


def refused(done, code, *words):
    """A refusal: exit code, and one line `sluice: ...` with all words."""
    lines = [line for line in done.err.splitlines() if line.startswith("sluice: ")]
    if done.code != code or not any(all(word in line for word in words) for line in lines):
        raise AssertionError(f"exit {done.code}, expected {code} and {words}: {done.err[-400:]!r}")


def main(suite_class):
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    # A shell starts what runs in the background with SIGINT ignored; the program would inherit that, and lose a signal that comes before it sets its own.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="sluice-test-", dir=getattr(suite_class, "scratch_in", None)) as scratch:
        suite = suite_class(args.bin, scratch)
        for name in [name for name in dir(suite) if name.startswith("check_")]:
            if args.names and not any(word in name for word in args.names):
                continue
            try:
                getattr(suite, name)()
                passed += 1
            except Skip as reason:
                skipped += 1
                print(f"skipped {name[6:]}: {reason}", flush=True)
            except Exception as problem:
                failed += 1
                where = traceback.extract_tb(problem.__traceback__)[1].lineno
                print(f"FAILED  {name[6:]} (line {where}): {type(problem).__name__}: {problem}", flush=True)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(1 if failed or not passed + skipped else 0)
