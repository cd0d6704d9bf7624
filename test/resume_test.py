#!/usr/bin/env python3
"""Nothing is lost: jobs that are killed, stopped, torn or out of room, and the same command again: the bytes of an undisturbed run."""
import contextlib
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import time

from harness import STOP, Skip, Suite, byte, equal, main, refused, true

CLOCK = {"SOURCE_DATE_EPOCH": "1700000000"}
WORDS = "the quick brown fox jumps over a lazy dog while it rains and nobody looks".split()


def plain(number, **more):
    rng = random.Random(number)
    return {"id": f"r{number}", "prompt": " ".join(rng.choices(WORDS, k=3 + number % 9)), "max_tokens": 5 + number * 7 % 40, "ignore_eos": True, **more}


def mixed():
    """Rows of every kind."""
    rows = [plain(i) for i in range(8)]
    rows += [plain(i, temperature=0.9, top_p=0.95, seed=i) for i in range(10, 15)]
    rows += [plain(20, logprobs=True, top_logprobs=4, return_token_ids=True), plain(21, logprobs=True, temperature=1.5)]
    rows += [plain(i, stop=["th", "e ", "  ", "a"]) for i in range(30, 34)]
    rows += [{"id": "none"}, b"[1]", {"id": "hot", "prompt": "x", "temperature": "hot"}]
    rows += [{"custom_id": f"b{i}", "method": "POST", "url": "/v1/completions", "body": {"prompt": WORDS[i], "max_tokens": 9 + i, "logprobs": 2}} for i in range(3)]
    rows += [{"custom_id": "b-bad", "body": {"max_tokens": 3}}]
    return rows


def lines(path):
    """Those that end with LF, as the file has them."""
    return path.read_bytes().split(b"\n")[:-1] if path.is_file() else []


def without(path):
    path.unlink(missing_ok=True)
    for end in ("", "-wal"):
        path.with_name(f"{path.name}.sluice{end}").unlink(missing_ok=True)


# A library that goes before libc: writes to files whose names end like FAIL_NAME fail with FAIL_NUMBER once FAIL_AFTER bytes are written.
FAILING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int fails(int fd, size_t count) {
    static size_t written;
    char link[64], path[4096];
    const char *name = getenv("FAIL_NAME");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = name ? readlink(link, path, sizeof path - 1) : -1;
    if (length < (ssize_t)strlen(name ? name : "")) return 0;
    path[length] = 0;
    if (strcmp(path + length - strlen(name), name) != 0) return 0;
    written += count;
    if (written <= (size_t)atol(getenv("FAIL_AFTER"))) return 0;
    errno = atoi(getenv("FAIL_NUMBER"));
    return 1;
}
#define REAL(name) (__typeof__(&name))dlsym(RTLD_NEXT, #name)
ssize_t write(int fd, const void *data, size_t count) { return fails(fd, count) ? -1 : (REAL(write))(fd, data, count); }
ssize_t pwrite(int fd, const void *data, size_t count, off_t at) { return fails(fd, count) ? -1 : (REAL(pwrite))(fd, data, count, at); }
ssize_t pwrite64(int fd, const void *data, size_t count, off64_t at) { return fails(fd, count) ? -1 : (REAL(pwrite64))(fd, data, count, at); }
"""


class Resume(Suite):
    def slow(self, **more):
        """A model whose passes take some milliseconds, so that there is something to interrupt."""
        if not hasattr(self, "slow_model"):
            self.slow_model = self.model("--hidden", 256, "--layers", 8, "--inner", 1024, "--context", 8192, "--scale", "0.2")
        return self.slow_model

    def start(self, model, rows, out, *options, **how):
        env = {**os.environ, "SLUICE_HOME": str(self.folder()), **how.pop("env", {})}
        return subprocess.Popen([self.sluice, *map(str, ("run", model, rows, "-o", out, *options))], stderr=how.pop("stderr", subprocess.DEVNULL), env=env)

    def killed(self, model, rows, out, condition, *options, env={}):
        """Starts the job and kills it when condition is true; False when the job came to its end first."""
        job = self.start(model, rows, out, *options, env=env)
        until = time.monotonic() + 60
        while job.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError):
                if condition():
                    break
            time.sleep(0.002)
        job.send_signal(signal.SIGKILL)
        return job.wait() == -signal.SIGKILL

    def half_done(self, *options, wanted=4):
        """A job killed with some lines done: model, rows, results, and the bytes of an undisturbed run."""
        model, rows, out = self.slow(), self.rows(mixed()), self.folder() / "out.jsonl"
        base = self.run(model, rows, "--batch", 4, *options, env=CLOCK)
        equal(base.code, 1, base.err)
        for _ in range(5):
            without(out)
            if self.killed(model, rows, out, lambda: len(lines(out)) > wanted, "--batch", 4, *options, env=CLOCK):
                return model, rows, out, base.bytes
        raise AssertionError("the job was never killed in its middle")

    def ends_as(self, bytes, done, what=""):
        equal((done.code, done.bytes == bytes), (1, True), f"{what} {done.err[-300:]}")

    def check_a_job_that_is_killed_at_any_moment_comes_to_the_same_bytes(self):
        model, rows, rng, resumed = self.slow(), self.rows(mixed()), random.Random(5), 0
        for order in ("input", "completion"):
            metrics = self.folder() / "metrics"
            options = ("--batch", 2, "--order", order, "--token-ids", "--metrics", metrics)
            base = self.run(model, rows, *options, env=CLOCK)
            equal(base.code, 1, base.err)
            passes = metrics.read_text().count("\n") - 1
            for _ in range(6):
                out, kept, kills = self.folder() / "out.jsonl", set(), 0
                for _ in range(3):
                    wanted, moment = rng.random() * passes * 0.3, rng.random() * 0.01
                    metrics.unlink(missing_ok=True)

                    def is_time():
                        return metrics.read_text().count("\n") >= wanted and (time.sleep(moment) or True)
                    kills += self.killed(model, rows, out, is_time, *options, env=CLOCK)
                    now = set(lines(out))
                    true(kept <= now, "a line that was there is gone")
                    true(now <= set(base.bytes.split(b"\n")), "a line that an undisturbed run has not")
                    kept = now
                done = self.run(model, rows, *options, out=out)
                resumed += "going on" in done.err
                equal(done.code, 1, done.err)
                equal(sorted(done.bytes.split(b"\n")) if order == "completion" else done.bytes,
                      sorted(base.bytes.split(b"\n")) if order == "completion" else base.bytes)
        true(resumed >= 6, f"only {resumed} of 12 jobs were gone on with")

    def check_tokens_that_were_picked_are_not_picked_again(self):
        model, out, metrics = self.slow(), self.folder() / "out.jsonl", self.folder() / "metrics"
        rows = self.rows([plain(i, max_tokens=150, temperature=i % 2) for i in range(4)])
        base = self.run(model, rows, "--token-ids")
        true(self.killed(model, rows, out, lambda: metrics.read_text().count("\n") > 100, "--token-ids", "--metrics", metrics), "too fast")
        equal(lines(out), [])
        done = self.run(model, rows, "--token-ids", "--metrics", metrics, "--batch", 2, out=out)
        equal((done.code, done.bytes), (0, base.bytes), done.err)
        true("4 have begun with" in done.err, done.err)
        passes = [line for line in map(json.loads, metrics.read_text().splitlines()) if "pass" in line]
        decoded = sum(line["decode_tokens"] for line in passes)
        true(decoded < 4 * 60, f"{decoded} tokens decoded of 600, after at least 100 passes")

    def check_a_kill_while_tokens_are_taken_over_leaves_them_once(self):
        model, out, metrics = self.slow(), self.folder() / "out.jsonl", self.folder() / "metrics"
        rows = self.rows([plain(i, max_tokens=150, temperature=i % 2) for i in range(4)])
        base = self.run(model, rows, "--token-ids")
        true(self.killed(model, rows, out, lambda: metrics.read_text().count("\n") > 40, "--token-ids", "--metrics", metrics), "too fast")
        saved, hits = self.folder() / "saved", 0
        shutil.copytree(out.parent, saved)
        for pause in (0, 0, 0.001, 0.002, 0.005, 0.01):
            shutil.rmtree(out.parent)
            shutil.copytree(saved, out.parent)
            log = out.with_name(out.name + ".sluice-wal")
            before = log.stat().st_mtime_ns
            hits += self.killed(model, rows, out, lambda: log.stat().st_mtime_ns != before and (time.sleep(pause) or True), "--token-ids")
            done = self.run(model, rows, "--token-ids", out=out)
            equal((done.code, done.bytes == base.bytes), (0, True), done.err)
        true(hits > 0, "never killed there")

    def check_a_kill_within_a_prompt_costs_the_prompt_alone(self):
        model, out, metrics = self.slow(), self.folder() / "out.jsonl", self.folder() / "metrics"
        rows = self.rows([{"id": i, "prompt_ids": [6 + (i * k) % 200 for k in range(1500)], "max_tokens": 4, "ignore_eos": True} for i in range(1, 4)])
        options = ("--pass-tokens", 32, "--metrics", metrics)
        base = self.run(model, rows, *options)
        metrics.unlink()
        true(self.killed(model, rows, out, lambda: metrics.read_text().count("\n") > 5, *options), "too fast")
        done = self.run(model, rows, *options, out=out)
        equal((done.code, done.bytes), (0, base.bytes), done.err)

    def check_a_kill_while_lines_are_put_in_order_loses_none(self):
        model, hits = self.model(), 0
        rows = self.rows([{"id": f"a{i}", "prompt": "x", "max_tokens": 2} for i in range(3)] + [{"id": f"bad{i}", "note": "x" * 2000} for i in range(20000)] +
                         [{"id": "z", "prompt": "x", "max_tokens": 2}])
        base = self.run(model, rows)
        for _ in range(4):
            out = self.folder() / "out.jsonl"
            beside = out.with_name("out.jsonl.sluice.tmp")
            hit = self.killed(model, rows, out, beside.exists)
            hits += hit
            if hit:
                equal(len(lines(out)), 20004)
            done = self.run(model, rows, out=out)
            self.ends_as(base.bytes, done)
            true(not beside.exists(), "the file beside the results stays")
        true(hits > 0, "never killed there")

    def check_a_kill_between_the_ordered_file_and_the_mark_is_seen(self):
        model = self.model()
        rows = self.rows([{"id": f"a{i}", "prompt": "x", "max_tokens": 2} for i in range(3)] + [{"id": f"bad{i}", "note": "x" * 2000} for i in range(20000)])
        out, kept = self.folder() / "out.jsonl", self.folder()
        job = self.start(model, rows, out)
        while job.poll() is None and not out.with_name("out.jsonl.sluice.tmp").exists():
            time.sleep(0.001)
        job.send_signal(signal.SIGSTOP)                            # it has all lines, and puts them in order
        for path in out.parent.glob("out.jsonl.sluice*"):
            shutil.copy(path, kept / path.name)
        job.send_signal(signal.SIGCONT)
        equal(job.wait(60), 1)
        want = out.read_bytes()
        for cut in (0, 100):
            shutil.copy(kept / "out.jsonl.sluice", out.parent)
            shutil.copy(kept / "out.jsonl.sluice-wal", out.parent)
            out.write_bytes(want[:len(want) - cut])
            before = out.stat().st_ino
            done = self.command("run", model, rows, "-o", out)
            equal((done.code, out.read_bytes() == want), (1, True), done.err)
            equal(out.stat().st_ino == before, cut == 0, "written again though it was in order")

    def check_torn_and_missing_results_are_made_whole(self):
        model, rows, out, want = self.half_done()
        saved = self.folder() / "saved"
        shutil.copytree(out.parent, saved)
        whole = (saved / out.name).read_bytes()
        whole = whole[:whole.rfind(b"\n") + 1]
        missing = next(line for line in want.split(b"\n") if line not in whole.split(b"\n"))
        first = whole.index(b"\n") + 1
        for name, torn in (("half a line", whole + missing[:len(missing) // 2]), ("a whole line without LF", whole + missing), ("last LF missing", whole[:-1]),
                           ("half a character", whole + b'{"id": "\xc3'), ("NUL bytes", whole + bytes(512)), ("NUL bytes alone", bytes(len(whole))),
                           ("a line that the journal lacks", whole + missing + b"\n"), ("lines cut", whole[:first + 5]), ("first line torn", whole[:first // 2]),
                           ("empty", b""), ("gone", None)):
            shutil.rmtree(out.parent)
            shutil.copytree(saved, out.parent)
            out.unlink() if torn is None else out.write_bytes(torn)
            self.ends_as(want, self.run(model, rows, "--batch", 4, out=out), name)

    def check_a_log_cut_by_a_power_failure_costs_time_alone(self):
        model, rows, out, want = self.half_done(wanted=14)
        saved, rng = self.folder() / "saved", random.Random(3)
        shutil.copytree(out.parent, saved)
        log = out.with_name("out.jsonl.sluice-wal")
        size, first = (saved / log.name).stat().st_size, 40000      # of which the first transaction, synced, takes less
        true(size > 2 * first, f"a log of {size} bytes only")
        for cut in [size - 1, first] + [rng.randrange(first, size) for _ in range(6)]:
            for zeros in (False, True):                             # file systems may keep the length and lose the bytes
                shutil.rmtree(out.parent)
                shutil.copytree(saved, out.parent)
                os.truncate(log, cut)
                if zeros:
                    os.truncate(log, size)
                before = len(lines(out))
                self.ends_as(want, self.run(model, rows, "--batch", 4, out=out), f"cut at {cut} of {size}, {before} lines")

    def check_files_that_are_not_this_jobs_are_refused_and_stay(self):
        model, rows, out, want = self.half_done()
        journal = out.with_name("out.jsonl.sluice")
        mine, kept = out.read_bytes(), journal.read_bytes()
        out.write_bytes(b'{"precious": true}\n')
        refused(self.run(model, rows, "--batch", 4, out=out), 2, "out.jsonl", "something else")
        equal(out.read_bytes(), b'{"precious": true}\n')
        out.write_bytes(mine)
        journal.rename(journal.with_name("away"))
        refused(self.run(model, rows, "--batch", 4, out=out), 2, "out.jsonl", "--overwrite")
        equal(out.read_bytes(), mine)
        journal.write_bytes(b"precious")
        refused(self.run(model, rows, "--batch", 4, out=out), 3, "out.jsonl.sluice", "not a journal")
        equal((out.read_bytes(), journal.read_bytes()), (mine, b"precious"))
        for end in ("", "-wal"):
            journal.with_name(journal.name + end).unlink(missing_ok=True)
        journal.mkdir()
        refused(self.run(model, rows, "--batch", 4, out=out), 3, "out.jsonl.sluice", "in the way")
        journal.rmdir()
        out.unlink()
        out.touch()                                                # an empty file is no old result
        self.ends_as(want, self.run(model, rows, "--batch", 4, out=out, env=CLOCK))

    def check_other_files_of_the_job_are_not_taken_for_the_journal(self):
        model, place = self.model(), self.folder()
        for name in ("--metrics", "rows"):
            rows, out = self.rows([plain(1)]), place / "out.jsonl"
            if name == "rows":
                rows = rows.rename(place / "out.jsonl.sluice")
            done = self.run(model, rows, "--overwrite", *(("--metrics", f"{place}/./out.jsonl.sluice") if name == "--metrics" else ()), out=out)
            refused(done, 2, "out.jsonl.sluice", "journal")
            equal(rows.read_text().count("Say") + rows.read_text().count("prompt"), 1)

    def check_every_option_that_changes_answers_is_named_when_it_differs(self):
        model, rows, out, want = self.half_done()
        before = out.read_bytes()
        for options in ("--max-tokens 3", "--temperature 0.5", "--top-p 0.5", "--top-k 7", "--min-p 0.5", "--seed 9", "--stop x", "--system x", "--kv f32",
                        "--ignore-eos", "--content-specials text", "--limit 5", "--shard 1/2", "--token-ids", "--logprobs 2", "--order completion"):
            done = self.run(model, rows, "--batch", 4, *options.split(), out=out)
            refused(done, 2, options.split()[0], "--overwrite", "out.jsonl.sluice")
            equal(out.read_bytes(), before)
        refused(self.run(model, rows, "--seed", 9, "--stop", "x", "--top-k", 7, out=out), 2, "--seed was 0, is 9", '--stop was none, is "x"', "--top-k was 0, is 7")
        refused(self.run(model, self.rows(mixed()[:-1]), out=out), 2, "rows was")
        refused(self.run(model, rows, out=out, env={"SOURCE_DATE_EPOCH": "1700000001"}), 2, "SOURCE_DATE_EPOCH was 1700000000, is 1700000001")
        equal(out.read_bytes(), before)
        kernels = json.loads(self.command("plan", model, rows, "--json").out)["kernels"]
        other = "portable" if kernels != "portable" else "avx512bf16"
        refused(self.run(model, rows, "--kernels", other, out=out), 2, f"--kernels was {kernels}, is {other}")
        equal(out.read_bytes(), before)
        for options in ("--batch 2", "--threads 1", "--engine stream", "--pass-tokens 9", "--memory 900M", f"--kernels {kernels}", "--progress none --deadline 3"):
            saved = self.folder() / "saved"
            shutil.copytree(out.parent, saved)
            self.ends_as(want, self.run(model, rows, *options.split(), out=saved / out.name), options)

    def check_another_model_is_named_by_its_file(self):
        model, rows, out, _ = self.half_done()
        other = self.folder() / model.name
        shutil.copytree(model, other)
        weights = next(other.glob("*.safetensors"))
        with weights.open("r+b") as file:
            file.seek(-1, 2)
            last = file.read(1)
            file.seek(-1, 2)
            file.write(bytes([last[0] ^ 1]))
        refused(self.run(other, rows, out=out), 2, f"model file {weights.name} was")
        shutil.copy(model / weights.name, weights)
        (other / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
        refused(self.run(other, rows, out=out), 2, "chat template was")

    def check_the_clock_of_the_first_run_is_kept(self):
        model, rows, out, want = self.half_done()
        self.ends_as(want, self.run(model, rows, "--batch", 4, out=out))        # without SOURCE_DATE_EPOCH: `created` of Batch lines is the same

    def check_a_finished_job_says_so_and_has_the_code_it_had(self):
        model, good, bad = self.model(), self.rows([plain(1)]), self.rows([plain(1), b"[1]"])
        for rows, code in ((good, 0), (bad, 1)):
            first = self.run(model, rows)
            equal(first.code, code, first.err)
            journal = first.file.with_name(first.file.name + ".sluice")
            true(journal.stat().st_size <= 65536 and not journal.with_name(journal.name + "-wal").exists(), "the journal is not small")
            again = self.run(model, rows, out=first.file)
            equal((again.code, again.bytes, "complete" in again.err), (code, first.bytes, True), again.err)
            refused(self.run(model, rows, "--seed", 1, out=first.file), 2, "--seed")
            first.file.write_bytes(first.bytes[first.bytes.index(b"\n") + 1:])
            refused(self.run(model, rows, out=first.file), 2, "complete", "--overwrite")
            first.file.unlink()
            refused(self.run(model, rows, out=first.file), 2, "complete", "--overwrite")
            true(not first.file.exists(), "an empty file is left")
            over = self.run(model, rows, "--overwrite", "--seed", 1, out=first.file)
            equal((over.code, len(over.results)), (code, len(first.results)), over.err)

    def check_overwrite_begins_again_and_the_command_without_it_goes_on(self):
        model, rows, out, want = self.half_done()
        before = lines(out)
        true(self.killed(model, rows, out, lambda: 0 < len(lines(out)) < len(before), "--batch", 4, "--overwrite"), "too fast")
        true(len(lines(out)) < len(before), "nothing was begun again")
        done = self.run(model, rows, "--batch", 4, out=out)
        true("going on" in done.err, done.err)
        equal([json.loads(line).get("text") for line in lines(out)], [json.loads(line).get("text") for line in want.split(b"\n")[:-1]])

    def check_a_second_run_is_refused_and_a_lock_of_the_dead_is_not_seen(self):
        model, rows, out, want = self.half_done()
        job = self.start(model, rows, out, "--batch", 4)
        time.sleep(0.05)
        while job.poll() is None:
            second = self.run(model, rows, "--batch", 4, out=out)
            if job.poll() is None:
                refused(second, 3, str(job.pid))
                break
        equal(job.wait(60), 1)
        equal(out.read_bytes(), want)
        model, rows, out, want = self.half_done()
        job = self.start(model, rows, out, "--batch", 4)
        while job.poll() is None and len(lines(out)) < 5:
            time.sleep(0.002)
        out.unlink()                                               # the results are removed under a running job: its journal still tells
        second = self.run(model, rows, "--overwrite", out=out)
        if job.poll() is None:
            refused(second, 3, str(job.pid))
        job.send_signal(signal.SIGKILL)
        job.wait()

    def check_an_interrupt_says_that_the_same_command_goes_on(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            model, rows, out, want = self.half_done()
            metrics = self.folder() / "metrics"
            job = self.start(model, rows, out, "--batch", 4, "--metrics", metrics, stderr=subprocess.PIPE)
            while job.poll() is None and not metrics.exists():     # before that it may not listen yet
                time.sleep(0.002)
            job.send_signal(number)
            err = job.communicate(timeout=30)[1].decode()
            if job.returncode != 1:                                # else it had ended
                equal(job.returncode, code, err)
                true("same command" in err, err)
            self.ends_as(want, self.run(model, rows, "--batch", 4, out=out))

    def check_stopping_before_the_first_pass_leaves_nothing(self):
        model, rows, out = self.slow(), self.rows(mixed()), self.folder() / "out.jsonl"
        done = self.run(model, rows, "--time-box", "0.001s", out=out)
        equal((done.code, sorted(out.parent.iterdir())), (130, []), done.err)

    def check_streams_and_devices_have_no_journal(self):
        model, rows = self.model(), self.rows([plain(1)])
        place = self.folder()
        done = subprocess.run([self.sluice, "run", model, rows, "-o", "-"], capture_output=True, timeout=60, cwd=place)
        equal((done.returncode, len(done.stdout.splitlines()), list(place.iterdir())), (0, 1, []))
        (link := place / "out.jsonl").symlink_to("/dev/null")
        equal(self.run(model, rows, out=link).code, 0)
        equal(sorted(place.iterdir()), [link])

    def check_a_link_has_its_journal_beside_what_it_points_to(self):
        model, rows = self.model(), self.rows([plain(1)])
        place, link = self.folder(), self.folder() / "link.jsonl"
        link.symlink_to(place / "real.jsonl")
        equal(self.run(model, rows, out=link).code, 0)
        equal(sorted(path.name for path in place.iterdir()), ["real.jsonl", "real.jsonl.sluice"])
        true("complete" in self.run(model, rows, out=place / "real.jsonl").err, "another name is another job")

    def mounted(self, options):
        """A tmpfs of its own."""
        where = self.folder()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", where], capture_output=True).returncode:
            raise Skip("no tmpfs can be mounted here")
        return where

    def check_a_full_disk_loses_nothing(self):
        where = self.mounted("size=16m")
        try:
            model, rows, out = self.slow(), self.rows(mixed()), where / "out.jsonl"
            base = self.run(model, rows, "--batch", 4, "--logprobs", 20, env=CLOCK)
            for room in (0, 4, 12, 40, 90, 160):                   # kB that are left
                without(out)
                with contextlib.suppress(OSError):
                    with (where / "ballast").open("wb", buffering=0) as file:
                        while file.write(bytes(4096)):
                            pass
                os.truncate(where / "ballast", max(0, (where / "ballast").stat().st_size // 4096 * 4096 - room * 1024))
                done = self.run(model, rows, "--batch", 4, "--logprobs", 20, out=out, env=CLOCK)
                refused(done, 3, "out.jsonl", "No space left")
                before = lines(out)
                true(set(before) <= set(base.bytes.split(b"\n")), "a line that an undisturbed run has not")
                (where / "ballast").unlink()
                self.ends_as(base.bytes, self.run(model, rows, "--batch", 4, "--logprobs", 20, out=out, env=CLOCK), f"{room} kB")
        finally:
            subprocess.run(["umount", "-l", where])

    def failing(self):
        """The library FAILING; skipped where it cannot be built or the program does not run with it."""
        where = self.folder()
        (where / "failing.c").write_text(FAILING)
        library = where / "failing.so"
        done = subprocess.run(["cc", "-shared", "-fPIC", "-o", library, where / "failing.c", "-ldl"], capture_output=True) if shutil.which("cc") else None
        if not done or done.returncode or self.command("--version", env={"LD_PRELOAD": str(library)}).code:
            raise Skip("no library can be put before libc here")
        return str(library)

    def check_a_quota_a_read_only_disk_and_a_broken_one_lose_nothing(self):
        library, model, rows = self.failing(), self.slow(), self.rows(mixed())
        base = self.run(model, rows, "--batch", 4, env=CLOCK)
        for number in (errno.EDQUOT, errno.EROFS, errno.EIO):
            for name, amounts in (("out.jsonl", (0, 700)), ("out.jsonl.sluice", (0, 5000)), ("out.jsonl.sluice-wal", (0, 20000)), ("metrics", (0, 900))):
                for after in amounts:
                    what, out = f"{errno.errorcode[number]} on {name} after {after} bytes", self.folder() / "out.jsonl"
                    metrics = out.with_name("metrics")
                    done = self.run(model, rows, "--batch", 4, "--metrics", metrics, out=out, env={
                        **CLOCK, "LD_PRELOAD": library, "FAIL_NAME": name, "FAIL_NUMBER": str(number), "FAIL_AFTER": str(after)})
                    try:
                        if done.code != base.code or name != "out.jsonl.sluice" or after == 0:  # a small job writes there at its begin alone
                            refused(done, 3, name.removesuffix("-wal"), os.strerror(number))
                        true(set(lines(out)) <= set(base.bytes.split(b"\n")), "a line that an undisturbed run has not")
                        for one in map(json.loads, lines(metrics)):
                            true(one["rows_done"] <= len(lines(out)), "a row is told done that is not on the disk")
                        self.ends_as(base.bytes, self.run(model, rows, "--batch", 4, out=out, env=CLOCK), what)
                    except AssertionError as problem:
                        raise AssertionError(f"{what}: {problem}") from None

    def check_a_folder_that_cannot_be_written_to_is_refused_at_once(self):
        where = self.mounted("ro,size=64k")
        try:
            refused(self.run(self.model(), self.rows([plain(1)]), out=where / "out.jsonl"), 3, "Read-only")
        finally:
            subprocess.run(["umount", "-l", where])

    def check_metrics_that_cannot_be_written_end_the_run_and_lose_nothing(self):
        model, rows, out, want = self.half_done()
        refused(self.run(model, rows, "--batch", 4, "--metrics", "/dev/full", out=out), 3, "/dev/full", "No space left")
        true(set(lines(out)) <= set(want.split(b"\n")), "a line that an undisturbed run has not")
        self.ends_as(want, self.run(model, rows, "--batch", 4, out=out))

    def check_a_limit_of_file_size_loses_nothing(self):
        model, rows, out = self.slow(), self.rows(mixed()), self.folder() / "out.jsonl"
        base = self.run(model, rows, "--batch", 4, "--logprobs", 20, env=CLOCK)
        for blocks in (1, 30, 100, 200):
            done = subprocess.run(["bash", "-c", 'ulimit -f "$0"; exec "$@"', str(blocks), self.sluice, "run", model, rows, "-o", out, "--batch", "4",
                                   "--logprobs", "20"], capture_output=True, text=True, env={**os.environ, **CLOCK}, timeout=60)
            equal(done.returncode, 3, done.stderr)
            true("File too large" in done.stderr and "out.jsonl" in done.stderr, done.stderr[-300:])
        self.ends_as(base.bytes, self.run(model, rows, "--batch", 4, "--logprobs", 20, out=out, env=CLOCK))

    def check_a_scripted_stop_text_over_the_border_of_two_runs_is_found(self):
        text = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        script = " ".join(f"{a}>{b}" for a, b in zip([STOP, *byte(text)], byte(text + "a")))
        model = self.model("--script", script, "--hidden", 256, "--layers", 8, "--inner", 1024)
        row = {"id": "x", "prompt_ids": [STOP], "max_tokens": 60, "stop": text[10:45]}
        rows, metrics = self.rows([row]), self.folder() / "metrics"
        base = self.run(model, rows)
        equal((base.code, base.results[0]["text"], base.results[0]["finish_reason"]), (0, text[:10], "stop"), base.err)
        hits = 0
        for place in (12, 20, 30, 40):
            out = self.folder() / "out.jsonl"
            metrics.unlink(missing_ok=True)
            hits += self.killed(model, rows, out, lambda: metrics.read_text().count("\n") > place, "--metrics", metrics)
            done = self.run(model, rows, out=out)
            equal((done.code, done.bytes), (0, base.bytes), done.err)
        true(hits > 0, "never killed in the middle")


if __name__ == "__main__":
    main(Resume)
