#!/usr/bin/env python3
"""Plans against what happens, and for machines that are not here. test/plan_test.py --bin SLUICE"""
import json
import os
import resource
import shutil
import subprocess
import time

from harness import Suite, chain, equal, main, refused, true

SIXTEEN, EIGHT, FOUR = ("--dtype bf16", "--dtype q8_0", "--dtype q4_1")
SHAPE = "--hidden 128 --heads 4 --kv-heads 2 --inner 256 --layers 4 --vocab 600"


class PlanTests(Suite):
    def plan(self, *args, **how):
        done = self.command("plan", *args, "--json", **how)
        equal(done.code, 0, done.err)
        return json.loads(done.out)

    def form(self, options, name):
        return self.model(*SHAPE.split(), *options.split(), name=name)

    def forms(self, home):
        """A published model, and its forms of 8 and 4 bits in the home's models and in a Hugging Face cache."""
        published = self.form(SIXTEEN, "published")
        (home / "sluice/models/some").mkdir(parents=True)
        eight = shutil.copy(self.form(EIGHT, "e.gguf"), home / "sluice/models/some/e.gguf")
        snapshot = home / "hf/hub/models--some--four/snapshots/0123"
        snapshot.mkdir(parents=True)
        four = shutil.copy(self.form(FOUR, "f.gguf"), snapshot / "f.gguf")
        other = self.model("--hidden", 96, "--layers", 4, "--vocab", 600, "--dtype", "q8_0", name="other.gguf")
        shutil.copy(other, home / "sluice/models/other.gguf")    # smaller, and another model
        return published, eight, four, {"SLUICE_HOME": str(home / "sluice"), "HF_HOME": str(home / "hf")}

    def check_a_model_of_70b_is_planned_for_another_machine_from_its_headers(self):
        model = self.model("--preset", "70b", "--sparse")
        rows = self.rows([{"id": i, "prompt": f"{i:04} " + "x" * 85} for i in range(2000)])      # that share no head
        start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        plan = self.plan(model, rows, "--max-tokens", 128, "--memory", "36G", "--rate", 5206950000, "--flops", "2T")
        seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        true(seconds < 20, f"{seconds} s: 141 GB cannot be read in that time, but its headers in less")
        true(after.ru_maxrss < max(200 << 10, before.ru_maxrss + 1), f"{after.ru_maxrss} KiB")
        equal(plan["weights_bytes"], 2 * 70553706496, "of the published model")
        equal((plan["engine"], plan["rate_source"], plan["compute_source"]), ("stream", "--rate", "--flops"))
        equal(plan["kv_bytes_per_token"], 2 * 80 * 8 * 128 * 2)     # keys and values, layers, heads, features, bytes
        # What a pass reads is all but the embedding and the blocks that stay; the sum by hand is in docs/planning.md.
        true(abs((plan["pass_bytes"] + plan["pinned_bytes"]) / 139e9 - 1) < 0.01, plan)
        compute = 2 * (70.55e9 - 1.05e9) * (plan["prompt_tokens"] + 256000) / 2e12
        true(compute * 0.95 < plan["seconds"] < compute * 1.15, f"{plan['seconds']} s, of which {compute} are computing")
        text = self.command("plan", model, rows, "--max-tokens", 128, "--memory", "36G", "--rate", "5.4G", "--flops", "2T").out.decode()
        for words in ("(36.0G budget - ", " ring (", " activations) / ", " KV a row (prompt + 128, ", "if every row runs to its limit", "2 TFLOP/s, --flops",
                      "read rate 5.40G/s, --rate", "The first answer comes after about ", "each reading 1"):
            true(words in text, f"{words!r} is not in {text}")

    def check_twice_the_flops_or_the_rate_of_what_decides_is_half_the_time(self):
        model = self.model("--preset", "70b", "--sparse")
        rows = self.rows([{"id": i, "prompt": "x"} for i in range(20)])
        seconds = lambda *more: self.plan(model, rows, "--max-tokens", 50, "--memory", "20G", *more)["seconds"]
        slow = seconds("--rate", "1G", "--flops", "100T")
        true(abs(slow / seconds("--rate", "2G", "--flops", "100T") - 2) < 0.02, "the drive decides")
        slow = seconds("--rate", "1T", "--flops", "1T")
        true(abs(slow / seconds("--rate", "1T", "--flops", "2T") - 2) < 0.02, "the processor decides")
        for wrong in ("--flops", "2Q"), ("--flops", "0"), ("--flops", "-1T"), ("--rate", "fast"):
            refused(self.command("plan", model, rows, *wrong), 2, wrong[0])

    def check_answers_of_earlier_jobs_are_expected_and_come_true(self):
        env = {"SLUICE_HOME": str(self.folder())}
        model = self.model("--script", chain("abcdefg", 99), "--vocab", 300)
        rows = self.rows([{"id": i, "prompt_ids": [99]} for i in range(300)])
        options = ("--max-tokens", 80, "--batch", 16)
        first = self.plan(model, rows, *options, env=env)
        equal((first["expected_answer_share"], first["passes"]), (1.0, first["limit_passes"]))
        metrics = self.folder() / "metrics"
        done = self.run(model, rows, *options, "--metrics", metrics, env=env)
        equal(done.code, 0, done.err)
        passes = json.loads(metrics.read_text().splitlines()[-1])["passes"]
        second = self.plan(model, rows, *options, env=env)
        true(0.03 < second["expected_answer_share"] < 0.16, f"7 of 80 tokens: {second['expected_answer_share']}")
        equal(second["limit_passes"] > 4 * second["passes"], True, f"{second}")
        true(abs(second["passes"] / passes - 1) < 0.15, f"planned {second['passes']}, were {passes}")
        true("300 rows of earlier jobs" in self.command("plan", model, rows, *options, env=env).out.decode(), "the paragraph says so")
        certain = self.plan(model, rows, *options, "--ignore-eos", env=env)
        equal(certain["expected_answer_share"], 1.0, "no answer ends by itself")
        other = self.plan(model, rows, "--max-tokens", 1000, env=env)
        equal(other["expected_answer_share"], 1.0, "another limit: nothing is known")

    def check_one_short_answer_does_not_foretell_a_job(self):
        env = {"SLUICE_HOME": str(self.folder())}
        model = self.model("--script", chain("abcdefg", 99), "--vocab", 300)
        options = ("--max-tokens", 80)
        equal(self.run(model, self.rows([{"prompt_ids": [99]}]), *options, env=env).code, 0)
        plan = self.plan(model, self.rows([{"id": i, "prompt_ids": [99]} for i in range(9)]), *options, env=env)
        true(plan["expected_answer_share"] > 0.85 and plan["passes"] == plan["limit_passes"], f"{plan}")
        true("1 row of earlier jobs" in plan["answers_source"], plan["answers_source"])

    def check_broken_records_are_none(self):
        home = self.folder()
        env = {"SLUICE_HOME": str(home)}
        model, rows = self.model("--script", chain("abc", 99), "--vocab", 300), self.rows([{"id": i, "prompt_ids": [99]} for i in range(40)])
        plan = self.plan(model, rows, "--max-tokens", 40, env=env)
        equal(self.run(model, rows, "--max-tokens", 40, "--batch", 4, env=env).code, 0)
        kinds = sorted(path.parent.name for path in home.glob("*/*.json"))
        true({"answers", "compute"} <= set(kinds), f"{kinds}")
        for path in home.glob("*/*.json"):
            whole = path.read_bytes()
            for text in (b"", whole[:len(whole) // 2], whole.replace(b"[", b"[-1, "), whole.replace(b"runs", b"ruins").replace(b"rows", b"raws"), b"[" * 5000):
                path.write_bytes(text)
                again = self.plan(model, rows, "--max-tokens", 40, env=env)
                true(again["passes"] in (plan["passes"], again["limit_passes"]), f"{path} {text[:60]}")

    def check_precision_takes_a_form_that_was_fetched(self):
        published, eight, four, env = self.forms(self.folder())
        rows = self.rows([{"id": i, "prompt": f"row {i}"} for i in range(5)])
        options = ("--max-tokens", 8, "--token-ids")
        for bits, path in ((8, eight), (4, four)):
            done = self.run(published, rows, *options, "--precision", bits, env=env)
            equal(done.code, 0, done.err)
            equal(done.bytes, self.run(path, rows, *options, env=env).bytes, "as if it had been named")
            plan = self.plan(published, rows, *options, "--precision", bits, env=env)
            true(str(path)[-40:] in plan["precision_reason"] or "form that --precision asks for" in plan["precision_reason"], plan["precision_reason"])
        elsewhere = env | {"HF_HUB_CACHE": env["HF_HOME"] + "/hub", "HF_HOME": "/none"}
        equal(self.run(published, rows, *options, "--precision", 4, env=elsewhere).code, 0)
        nothing = {"SLUICE_HOME": str(self.folder()), "HF_HOME": str(self.folder())}
        refused(self.run(published, rows, *options, "--precision", 8, env=nothing), 3, "--precision 8", "Hugging Face cache")

    def check_the_deadline_takes_fewer_bits_and_a_resumed_job_keeps_them(self):
        published, eight, four, env = self.forms(self.folder())
        rows = self.rows([{"id": i, "prompt": f"row {i}", "ignore_eos": True} for i in range(40)])
        options = ("--max-tokens", 60, "--token-ids", "--batch", 2)
        relaxed = self.plan(published, rows, *options, env=env)
        true(relaxed["precision"].startswith("bf16"), relaxed["precision"])
        late = (*options, "--deadline", "1e-9")
        plan = self.plan(published, rows, *late, env=env)
        true(plan["precision"].startswith("q4_1"), f"8 bits are late too: {plan['precision']}")
        true("deadline" in plan["precision_reason"], plan["precision_reason"])
        out = self.folder() / "out.jsonl"
        begun = subprocess.Popen([self.sluice, "run", published, rows, "-o", out, *map(str, late)], env={**os.environ, **env},
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            if out.exists() and out.stat().st_size:
                break
            time.sleep(0.02)
        begun.terminate()
        true(begun.wait(60) in (0, 143), begun.returncode)
        done = self.run(published, rows, *options, out=out, env=env)     # without a deadline
        equal(done.code, 0, done.err)
        equal(done.bytes, self.run(four, rows, *options, env=env).bytes, "as the form that it was begun with")

    def check_the_plan_says_what_to_fetch(self):
        published = self.form(SIXTEEN, "published")
        rows = self.rows([{"id": 1, "prompt": "x"}])
        env = {"HF_HOME": str(self.folder())}
        text = self.command("plan", published, rows, "--deadline", "1e-9", env=env).out.decode()
        for words in ("more than the deadline", "of 8 bits (GGUF q8_0, MLX or FP8) would take about", "one of 4 bits"):
            true(words in text, f"{words!r} is not in {text}")
        quiet = self.command("plan", published, rows, env=env).out.decode()
        true("deadline" not in quiet, quiet)

    def check_rows_cut_by_the_context_are_counted(self):
        model = self.model("--context", 64)
        rows = self.rows([{"id": 1, "prompt": "x", "max_tokens": 500}, {"id": 2, "prompt": "x", "max_tokens": 5}])
        equal(self.plan(model, rows)["cut_rows"], 1)
        text = self.command("plan", model, rows).out.decode()
        true("1 row gets fewer answer tokens than asked for: the context of 64 tokens ends." in text, text)


if __name__ == "__main__":
    main(PlanTests)
