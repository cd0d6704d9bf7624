#!/usr/bin/env python3
"""Rows that begin alike: what they share is computed once, and each answers as if it were alone."""
import json
import random
import re
import signal
import subprocess
import time

from harness import Suite, equal, main, true

HEAD, ROWS, OWN_MOST = 1000, 24, 20
PAGE = 16
RECURRENT = ("qwen3_next", "qwen3_5_text")      # layers that keep a state beside layers with attention
CHECKED = ("--ignore-eos", "--token-ids", "--logprobs", 3, "--temperature", "0.8")


class Sharing(Suite):
    def alike(self, heads=1, head=HEAD, new=6):
        """Rows in turn of each head, each with tokens of its own behind it, and one row twice. Heads have their first 64 tokens in common: so far the
        order of rows looks at them."""
        rng = random.Random(7)
        common = [rng.randrange(6, 250) for _ in range(64)]
        begins = [common + [rng.randrange(6, 250) for _ in range(head - 64)] for _ in range(heads)]
        rows = [{"id": f"r{i}", "prompt_ids": begins[i % heads] + [rng.randrange(6, 250) for _ in range(1 + i * 7 % OWN_MOST)], "max_tokens": new}
                for i in range(ROWS - 1)]
        return [*rows, {**rows[0], "id": "again"}]

    def small(self, family="llama", context=4096, **more):
        options = [text for name, value in more.items() for text in (f"--{name}", value)]
        return self.model("--family", family, "--hidden", 64, "--heads", 4, "--kv-heads", 2, "--inner", 128, "--scale", "0.2", "--context", context, *options)

    def alone(self, model, rows, *options):
        """The lines of jobs of one row each."""
        return b"".join(self.run(model, [row], *CHECKED, *options).bytes for row in rows)

    def prefill(self, model, rows, *options):
        """A run, and how many tokens of prompts it computed."""
        metrics = self.folder() / "metrics"
        done = self.run(model, rows, *CHECKED, "--metrics", metrics, *options)
        equal(done.code, 0, done.err)
        return done, sum(json.loads(line).get("prefill_tokens", 0) for line in metrics.read_text().splitlines())

    def check_a_shared_head_is_computed_once_and_changes_no_answer(self):
        rows = self.alike()
        total, shared = sum(len(row["prompt_ids"]) for row in rows), HEAD // PAGE * PAGE * (ROWS - 1)
        for family in ("llama", "gemma3_text", "mixtral", *RECURRENT):
            model = self.small(family)
            alone = self.alone(model, rows)
            for options in ((), ("--engine", "stream", "--batch", 5, "--pass-tokens", 97), ("--threads", 1, "--batch", 1)):
                done, computed = self.prefill(model, rows, *options)
                equal(done.bytes, alone, f"{family} {options}")
                true(computed <= total - shared, f"{family} {options}: {computed} of {total} tokens computed, of which rows share {shared}")

    def check_what_lies_behind_a_shared_head_does_not_drive_it_out(self):
        """One head, behind it one of three others, in turn. The first stays, though few states are kept (of the others now and then one is
        lost); it is computed twice more at most, until it is known where rows part. That must not depend on how many tokens passes have, which
        follows the clock unless it is told."""
        rng = random.Random(8)
        head, *others = [[rng.randrange(6, 250) for _ in range(200)] for _ in range(4)]
        rows = [{"id": i, "prompt_ids": head * 2 + others[i % 3] + [6 + i] * (1 + i % OWN_MOST), "max_tokens": 4} for i in range(ROWS)]
        total, shared = sum(len(row["prompt_ids"]) for row in rows), 400 * (ROWS - 3)
        for family in ("llama", RECURRENT[0]):
            model = self.small(family)
            for batch, tokens in ((1, 512), (4, 16), (4, 100), (4, 256), (4, 512), (4, 1024), (ROWS, 512)):
                computed = self.prefill(model, rows, "--batch", batch, "--pass-tokens", tokens)[1]
                true(computed <= total - shared, f"{family} {batch}, {tokens}: {computed} of {total} tokens computed, of which rows share {shared} at least")

    def check_little_memory_costs_sharing_and_no_answer(self):
        """Heads in turn, more than the pages hold: what is kept is lost again, and computed again."""
        for family in ("llama", RECURRENT[0]):
            self.little_memory(self.small(family, hidden=128), self.alike(heads=6, head=300))

    def little_memory(self, model, rows):
        alone = self.alone(model, rows)
        told = self.run(model, rows, "--memory", "1M").err
        least = [amount for amount in re.findall(r"\d+(?:\.\d+)?[KMG]", told) if self.command("plan", model, self.rows(rows), "--memory", amount).code == 0]
        true(least, told)
        done, computed = self.prefill(model, rows, "--memory", least[0])
        equal(done.bytes, alone, least[0])
        plenty, computed_once = self.prefill(model, rows)
        equal(plenty.bytes, alone)
        true(computed_once < computed < sum(len(row["prompt_ids"]) for row in rows), f"{least[0]}: {computed} tokens, {computed_once} with plenty of room")

    def check_states_are_planned_and_one_more_where_rows_part(self):
        """The same rows, and with a first token of their own each: then none is kept. States are most of what these rows take."""
        self.own_memory_only()
        model = self.small(RECURRENT[1], layers=8, **{"delta-keys": 4, "delta-values": 8, "delta-dim": 128})
        alike, bytes_of = self.alike(new=30), []
        for rows in (alike, [{**row, "prompt_ids": [6 + i, *row["prompt_ids"][1:]]} for i, row in enumerate(alike)]):
            room, metrics = ("--memory", "1G", "--batch", 16), self.folder() / "metrics"
            plan = json.loads(self.command("plan", model, self.rows(rows), "--json", *room).out)
            bytes_of.append(plan["kv_bytes"])
            equal(self.run(model, rows, "--ignore-eos", "--metrics", metrics, *room).code, 0)
            summary = json.loads(metrics.read_text().splitlines()[-1])
            told = summary["predicted_peak_bytes"] / summary["peak_rss_bytes"]
            true(0.95 <= told <= 1.05, f"{summary['peak_rss_bytes']} bytes at the peak, told before {summary['predicted_peak_bytes']}")
        equal(bytes_of[0] - bytes_of[1], plan["state_bytes_per_row"])
        true(plan["state_bytes_per_row"] > 4 * 8 * 128 * 128 * 4, plan["state_bytes_per_row"])

    def check_who_goes_first_computes_the_head_in_the_plan_too(self):
        """The shortest rows go first, and none of them is the first of the file: 6 rows at once, whose first pass is that of the head alone."""
        self.own_memory_only()
        model = self.small(RECURRENT[1], hidden=256, inner=2048, layers=4, **{"delta-keys": 4, "delta-values": 8, "delta-dim": 64})
        rng, head = random.Random(3), [6 + i % 200 for i in range(400)]
        rows = [{"id": i, "prompt_ids": head + [rng.randrange(6, 250) for _ in range(64 - i)], "max_tokens": 6} for i in range(ROWS)]
        metrics = self.folder() / "metrics"
        equal(self.run(model, rows, "--ignore-eos", "--memory", "1G", "--batch", 6, "--metrics", metrics).code, 0)
        *passes, summary = [json.loads(line) for line in metrics.read_text().splitlines()]
        equal(max(one["prefill_tokens"] for one in passes), 400)
        told = summary["predicted_peak_bytes"] / summary["peak_rss_bytes"]
        true(0.97 <= told <= 1.03, f"{summary['peak_rss_bytes']} bytes at the peak, told before {summary['predicted_peak_bytes']}")

    def check_a_run_with_states_teaches_what_it_took(self):
        """The states of 24 rows are most of the memory; the next plan is made with how the peak compared with the sum."""
        self.own_memory_only()
        model = self.small(RECURRENT[1], layers=8, **{"delta-keys": 4, "delta-values": 8, "delta-dim": 128})
        rows, home = self.rows(self.alike(new=30)), {"SLUICE_HOME": str(self.folder())}
        room = ("--memory", "1G", "--batch", ROWS, "--ignore-eos")
        equal(self.run(model, rows, *room, env=home).code, 0)
        plan = json.loads(self.command("plan", model, rows, "--json", *room, env=home).out)
        true(plan["memory_ratio"] != 1 and 0.97 <= plan["memory_ratio"] <= 1.03, plan["memory_ratio"])

    def check_a_job_that_was_killed_goes_on_with_shared_pages(self):
        for family in ("llama", RECURRENT[1]):
            self.killed(self.small(family, layers=6, hidden=128), self.rows(self.alike(new=60)), self.folder() / "out.jsonl")

    def killed(self, model, rows, out):
        wanted = self.run(model, rows, *CHECKED).bytes
        job = subprocess.Popen([self.sluice, *map(str, ("run", model, rows, "-o", out, *CHECKED))], stderr=subprocess.DEVNULL)
        journal, until = out.with_name("out.jsonl.sluice-wal"), time.monotonic() + 20
        while job.poll() is None and time.monotonic() < until and not (journal.exists() and journal.stat().st_size > 200000):
            time.sleep(0.002)
        job.send_signal(signal.SIGKILL)
        job.wait()
        done = self.run(model, rows, *CHECKED, out=out)
        equal((done.code, done.bytes == wanted), (0, True), done.err)


if __name__ == "__main__":
    main(Sharing)
