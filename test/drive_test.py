#!/usr/bin/env python3
"""The probe, its record, and the plan that uses it."""
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from harness import Skip, Suite, equal, main, refused, true


class Drive(Suite):
    def probe(self, path, home, *options, code=0):
        done = self.command("probe", path, "--seconds", 1, "--json", *options, env={"SLUICE_HOME": str(home)})
        equal(done.code, code, done.err)
        return json.loads(done.out)

    def check_a_probe_is_kept_and_the_plan_uses_it(self):
        model, home = self.model(), self.folder()
        told = self.probe(model, home)
        true(told["best"] in told["grid"] and told["sustained_bytes_per_second"] > 0, told)
        equal(sorted(told["best"]), ["bytes_per_second", "chunk_bytes", "depth", "method"])
        records = list((home / "probes").iterdir())
        equal(len(records), 1)
        record = json.loads(records[0].read_text())
        equal([record[name] for name in ("method", "chunk_bytes", "depth", "drive")],
              [told["best"][name] for name in ("method", "chunk_bytes", "depth")] + [told["drive"]])
        plan = self.command("plan", model, self.rows([{"id": 1, "prompt": "x"}]), "--engine", "stream", "--json", env={"SLUICE_HOME": str(home)})
        plan = json.loads(plan.out)
        equal(plan["read_bytes_per_second"], record["sustained_bytes_per_second"])
        true(plan["rate_source"].startswith("probe of 20") and told["best"]["method"] in plan["rate_source"], plan["rate_source"])
        records[0].write_text("nonsense")
        plan = self.command("plan", model, self.rows([{"id": 1, "prompt": "x"}]), "--engine", "stream", "--json", env={"SLUICE_HOME": str(home)})
        true("assumed" in json.loads(plan.out)["rate_source"], plan.out)

    def check_a_part_of_the_grid_is_no_record(self):
        model, home = self.model(), self.folder()
        told = self.probe(model, home, "--reader", "pool", "--depth", 2)
        equal({cell["method"] for cell in told["grid"]} | {cell["depth"] for cell in told["grid"]}, {"pool", 2})
        true(not (home / "probes").exists(), "a record was made")

    def check_a_home_that_cannot_be_written_is_a_warning(self):
        model, home = self.model(), self.folder() / "home"
        home.write_text("a file")
        done = self.command("probe", model, "--seconds", 1, "--json", env={"SLUICE_HOME": str(home)})
        equal((done.code, "is not kept" in done.err), (0, True), done.err)

    def started(self, model, rows, out, *options):
        """A job that streams, once its first passes are done."""
        metrics = self.folder() / "metrics.jsonl"
        args = ["run", model, rows, "-o", out, "--engine", "stream", "--ignore-eos", "--metrics", metrics, *options]
        job = subprocess.Popen([self.sluice, *map(str, args)], stderr=subprocess.PIPE, env={**os.environ, "SLUICE_HOME": str(self.folder())})
        until = time.monotonic() + 30
        while job.poll() is None and time.monotonic() < until and not (metrics.is_file() and metrics.read_bytes().count(b"\n") > 2):
            time.sleep(0.005)
        equal(job.poll(), None, "the job is running")
        return job

    def check_a_file_that_is_cut_while_a_job_runs_ends_it_with_a_whole_journal(self):
        for reader in ("pool", "uring", "sync"):
            model, out = self.model("--layers", 4, "--hidden", 256, "--context", 4096), self.folder() / "out.jsonl"
            rows = self.rows([{"id": 1, "prompt": "a", "max_tokens": 300}, {"id": 2, "prompt": "b", "max_tokens": 2}])
            expected = self.run(model, rows, "--ignore-eos")
            weights = model / "model.safetensors"
            whole = weights.read_bytes()
            job = self.started(model, rows, out, "--reader", reader)
            os.truncate(weights, len(whole) * 2 // 3)
            text = job.communicate(timeout=60)[1].decode()
            if reader == "uring" and "refuses io_uring" in text:
                continue
            equal(job.returncode, 3, text)
            true(re.search(r"model.safetensors: ends early: wanted \d+ bytes at offset \d+", text), text)
            when = weights.stat()
            with open(weights, "r+b") as file:
                file.write(whole)
            os.utime(weights, ns=(when.st_atime_ns, when.st_mtime_ns))
            again = self.run(model, rows, "--ignore-eos", out=out)
            equal((again.code, again.bytes), (0, expected.bytes), again.err)

    def check_a_file_that_is_removed_while_a_job_runs_is_read_to_the_end(self):
        model, out = self.model("--layers", 4, "--hidden", 256, "--context", 4096), self.folder() / "out.jsonl"
        rows = self.rows([{"id": 1, "prompt": "a", "max_tokens": 100}])
        expected = self.run(model, rows, "--ignore-eos")
        job = self.started(model, rows, out)
        (model / "model.safetensors").unlink()
        text = job.communicate(timeout=60)[1].decode()
        equal((job.returncode, out.read_bytes()), (0, expected.bytes), text)

    def check_shards_on_two_drives_are_probed_and_read_apart(self):
        model, home, other = self.model("--layers", 4, "--shards", 2), self.folder(), Path("/dev/shm")
        if not other.is_dir() or not os.access(other, os.W_OK) or other.stat().st_dev == model.stat().st_dev:
            raise Skip("there is no second drive here")
        rows = [{"id": 1, "prompt": "abc", "max_tokens": 5}]
        expected = self.run(model, rows, "--ignore-eos", "--engine", "resident")
        shard = sorted(model.glob("*.safetensors"))[1]
        with tempfile.TemporaryDirectory(dir=other) as folder:
            shutil.move(shard, folder)
            shard.symlink_to(Path(folder) / shard.name)
            for reader in ("pool", "sync", "auto"):
                done = self.run(model, rows, "--ignore-eos", "--engine", "stream", "--reader", reader, "--chunk", "64K", "--depth", 2)
                equal((done.code, done.bytes), (0, expected.bytes), done.err)
            told = self.probe(model, home)
            drives = {told["drive"], told["other_drives"][0]["drive"]}
            equal((len(drives), len(told["other_drives"]), len(list((home / "probes").iterdir()))), (2, 1, 2))
            equal(sorted(told["other_drives"][0]), sorted(set(told) - {"path", "other_drives"}))
            plan = self.command("plan", model, self.rows(rows), "--engine", "stream", "--json", env={"SLUICE_HOME": str(home)})
            plan = json.loads(plan.out)
            rates = sorted([told["sustained_bytes_per_second"], told["other_drives"][0]["sustained_bytes_per_second"]])
            true(rates[0] <= plan["read_bytes_per_second"] <= rates[1], (rates, plan["read_bytes_per_second"]))
            true("and of 1 more drive" in plan["rate_source"], plan["rate_source"])

    def check_a_pass_that_needs_no_logits_does_not_read_the_head(self):
        model, metrics = self.model("--layers", 2), self.folder() / "metrics.jsonl"
        with open(model / "model.safetensors", "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        bytes_of = {name: at["data_offsets"][1] - at["data_offsets"][0] for name, at in header.items() if name != "__metadata__" and len(at["shape"]) > 1}
        head, embedding = bytes_of["lm_head.weight"], bytes_of["model.embed_tokens.weight"]
        layers = sum(bytes_of.values()) - head - embedding
        rows = [{"id": 1, "prompt": "x" * 100, "max_tokens": 2}]
        for memory, reader in (("64M", "pool"), ("64M", "sync"), ("1G", "pool")):
            done = self.run(model, rows, "--engine", "stream", "--pass-tokens", 16, "--ignore-eos", "--metrics", metrics, "--memory", memory, "--reader", reader)
            equal(done.code, 0, done.err)
            passes = [one for one in map(json.loads, metrics.read_text().splitlines()) if "pass" in one]
            read = [one["read_bytes"] for one in passes]
            equal(read, [layers] * (len(read) - 2) + [layers + head] * 2, f"{memory} {reader}")
            true(len(read) >= 7, read)

    def check_what_cannot_be_probed_is_refused(self):
        folder = self.folder()
        empty = folder / "empty"
        empty.write_bytes(b"")
        os.mkfifo(folder / "pipe")
        refused(self.command("probe"), 2, "PATH")
        refused(self.command("probe", folder / "none"), 3, "none")
        refused(self.command("probe", empty), 3, "no bytes")
        refused(self.command("probe", folder / "pipe"), 3, "FIFO")
        refused(self.command("probe", empty, "--seconds", "0"), 2, "--seconds")
        refused(self.command("probe", empty, "--kernels", "amx"), 2, "--kernels")


if __name__ == "__main__":
    main(Drive)
