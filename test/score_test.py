#!/usr/bin/env python3
"""Given texts are scored: their log-likelihoods are those of the model, the same however the job is run, and what rows have in common is computed once."""
import json
import math
import os
import random
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

from harness import ROOT, Skip, Suite, byte, equal, main, refused, true

SHARED = Path(os.environ.get("SLUICE_SHARED", ROOT.parent / "shared"))
WORDS = "the cat sat on a mat while rain fell over old roofs and people ran home for tea".split()
WAYS = (("--batch", 1), ("--threads", 1, "--pass-tokens", 7), ("--engine", "stream", "--batch", 3, "--pass-tokens", 40), ("--batch", 50, "--reader", "sync"))


def text(rng, count):
    return " ".join(rng.choice(WORDS) for _ in range(count))


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def log_softmax(logits, index):
    most = max(logits)
    return logits[index] - most - math.log(math.fsum(math.exp(value - most) for value in logits))


class Score(Suite):
    def small(self, *more, family="llama", context=4096):
        return self.model("--family", family, "--hidden", 64, "--heads", 4, "--kv-heads", 2, "--inner", 128, "--scale", "0.2", "--context", context, *more)

    def score(self, model, rows, *options, out=None, **how):
        out = out or self.folder() / "out.jsonl"
        done = self.command("score", model, rows if isinstance(rows, Path) else self.rows(rows), "-o", out, *options, **how)
        done.bytes = out.read_bytes() if out.is_file() else b""
        for line in done.bytes.splitlines():
            one = json.loads(line)
            done.results.append(one)
            done.by_id[json.dumps(one["id"])] = one
        return done

    def alone(self, model, rows, *options):
        return b"".join(self.score(model, [row], *options).bytes for row in rows)

    def mixed(self):
        rng = random.Random(3)
        rows = [{"id": f"c{i}", "prompt": text(rng, 1 + 9 * i % 50), "choices": [" " + text(rng, 1 + (i + k) % 6) for k in range(1 + i % 5)]} for i in range(12)]
        return rows + [{"id": f"t{i}", "context": text(rng, 5 + i), "continuation": " " + text(rng, 1 + 7 * i)} for i in range(6)]

    def prefill(self, model, rows, *options):
        metrics = self.folder() / "metrics"
        done = self.score(model, rows, "--metrics", metrics, *options)
        equal(done.code, 0, done.err)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        return done, sum(line.get("prefill_tokens", 0) for line in lines), [line for line in lines if "pass" in line]

    def check_one_token_has_the_log_probability_of_the_reference(self):
        """logits_last of the fixtures: by transformers."""
        folders = sorted(SHARED.glob("fixtures/models/*/expected.json"))
        if not folders:
            raise Skip("no fixtures")
        for path in folders:
            prompts, rows, wanted = json.loads(path.read_text())["prompts"], [], {}
            for p, prompt in enumerate(prompts):
                logits, best = prompt["logits_last"], prompt["argmax"][-1]
                order = sorted(range(len(logits)), key=lambda i: -logits[i])
                for token in (best, order[1], order[len(order) // 2], order[-1]):
                    rows.append({"id": f"{p} {token}", "context_ids": prompt["ids"], "continuation_ids": [token]})
                    wanted[f"{p} {token}"] = (log_softmax(logits, token), token == best)
            done = self.score(path.parent, rows, "--kv", "f32", "--kernels", "portable")
            equal(done.code, 0, f"{path.parent.name}: {done.err}")
            for row in rows:
                found, (value, greedy) = done.row(row["id"]), wanted[row["id"]]
                spread = max(1.0, abs(value))
                true(abs(found["loglikelihood"] - value) < 0.004 * spread, f"{path.parent.name} {row['id']}: {found}, expected {value}")
                equal((found["tokens"], found["is_greedy"]), (1, greedy), f"{path.parent.name} {row['id']}")

    def check_every_position_knows_the_best_token_of_the_reference(self):
        """A continuation along argmax is greedy to its end; with another token somewhere it is not."""
        for name in ("llama-gqa", "gemma3", "mixtral"):
            path = SHARED / "fixtures/models" / name / "expected.json"
            if not path.is_file():
                raise Skip("no fixtures")
            prompt = json.loads(path.read_text())["prompts"][1]
            greedy = prompt["greedy"]
            other = greedy[:9] + [greedy[9] + 1] + greedy[10:]
            rows = [{"id": 1, "context_ids": prompt["ids"], "continuation_ids": greedy}, {"id": 2, "context_ids": prompt["ids"], "continuation_ids": other}]
            done = self.score(path.parent, rows, "--kv", "f32")
            equal([(one["tokens"], one["is_greedy"]) for one in done.results], [(len(greedy), True), (len(greedy), False)], name)

    def check_an_answer_has_the_sum_that_run_reports_for_it(self):
        rng = random.Random(5)
        for family in ("llama", "gemma3_text", "mixtral"):
            model = self.small(family=family)
            rows = [{"id": i, "prompt_ids": [rng.randrange(6, 250) for _ in range(3 + 11 * i)]} for i in range(5)]
            answers = self.run(model, rows, "--ignore-eos", "--token-ids", "--logprobs", 0, "--max-tokens", 21)
            equal(answers.code, 0, answers.err)
            asked = [{"id": row["id"], "context_ids": row["prompt_ids"], "continuation_ids": answers.row(row["id"])["token_ids"]} for row in rows]
            for options in ((), *WAYS):
                done = self.score(model, asked, *options)
                for row in rows:
                    total = 0.0
                    for token in answers.row(row["id"])["logprobs"]["content"]:
                        total += single(token["logprob"])
                    equal(done.row(row["id"]), {"id": row["id"], "loglikelihood": total, "tokens": 21, "is_greedy": True}, f"{family} {options}")

    def check_scores_are_the_same_however_the_job_is_run(self):
        rows = self.mixed()
        for family in ("llama", "gemma3_text", "qwen3_moe", "qwen3_next"):
            model = self.small(family=family)
            alone = self.alone(model, rows)
            for options in ((), *WAYS):
                done = self.score(model, rows, *options)
                equal((done.code, done.bytes == alone), (0, True), f"{family} {options}: {done.err}")

    def check_choices_are_compared_by_sum_and_by_character(self):
        model, rows = self.small(), self.mixed()[:12]
        done = self.score(model, rows)
        for row in rows:
            found = done.row(row["id"])
            equal([one["text"] for one in found["choices"]], row["choices"])
            sums = [one["loglikelihood"] for one in found["choices"]]
            norms = [value / len(choice.lstrip()) for value, choice in zip(sums, row["choices"])]
            equal((found["best"], found["best_norm"]), (sums.index(max(sums)), norms.index(max(norms))), row["id"])
        same = self.score(model, [{"id": 1, "prompt": "cat", "choices": [" sat", " sat"]}]).row(1)
        equal((same["best"], same["best_norm"]), (0, 0), "of equal ones the first")

    def check_a_choice_is_scored_as_if_it_were_the_only_continuation(self):
        model, rows = self.small(), self.mixed()[:12]
        single_rows = [{"id": f"{row['id']} {i}", "context": row["prompt"], "continuation": choice} for row in rows for i, choice in enumerate(row["choices"])]
        many, one = self.score(model, rows), self.score(model, single_rows)
        for row in rows:
            for i, choice in enumerate(many.row(row["id"])["choices"]):
                found = one.row(f"{row['id']} {i}")
                equal([choice[name] for name in ("loglikelihood", "tokens", "is_greedy")], [found[name] for name in ("loglikelihood", "tokens", "is_greedy")])

    def check_space_before_the_continuation_may_end_the_context(self):
        """As lm-evaluation-harness has it: white space at the end of the context belongs to the continuation. The tokenizer has a token for each byte."""
        model = self.small()
        rows = [{"id": 1, "context": "the cat", "continuation": " sat"}, {"id": 2, "context": "the cat ", "continuation": "sat"},
                {"id": 3, "context": "the cat \n\t\u3000", "continuation": "sat"}]
        one, two, three = self.score(model, rows).results
        equal({**one, "id": 2}, two)
        true(three["tokens"] > two["tokens"], "all of the white space is scored")

    def check_an_empty_context_is_the_token_that_begins_texts(self):
        model = self.small()
        rows = [{"id": 1, "context": "", "continuation": "mat"}, {"id": 2, "context_ids": [0], "continuation_ids": byte("mat")}, {"id": 3, "context": " ", "continuation": "mat"}]
        one, two, three = self.score(model, rows).results
        tokens = self.command("tokenize", model, stdin=b'{"text": "mat"}').out
        equal(json.loads(tokens)["ids"], byte("mat"), "the tokens of the second row")
        equal({**one, "id": 2}, two)
        equal(three["tokens"], one["tokens"] + 1)

    def check_rows_that_cannot_be_scored_are_errors_and_the_others_have_scores(self):
        model = self.small(context=64)
        bad = [b"{", b"[]", {"id": "b2", "prompt": "x"}, {"id": "b3", "choices": ["x"]}, {"id": "b4", "prompt": "x", "choices": []}, {"id": "b5", "prompt": "x", "choices": "y"},
               {"id": "b6", "prompt": "x", "choices": ["y", 7]}, {"id": "b7", "prompt": "x", "choices": ["y", ""]}, {"id": "b8", "context": "x", "continuation": ""},
               {"id": "b9", "context": 1, "continuation": "y"}, {"id": "b10", "context": "x", "continuation": None}, {"id": "b11", "context": "x", "choices": ["y"]},
               {"id": "b12", "context": "x", "continuation": "y", "prompt": "x"}, {"id": "b13", "messages": [{"role": "user", "content": "x"}]},
               {"id": "b14", "context_ids": [1], "continuation_ids": []}, {"id": "b15", "context_ids": [], "continuation_ids": [1]},
               {"id": "b16", "context_ids": [1], "continuation_ids": [99999]}, {"id": "b17", "context_ids": [1], "continuation_ids": [1.5]},
               {"id": "b18", "prompt": "x", "choices": ["y"] * 1025}, {"id": "b19", "prompt": "x", "choices": ["y", "z" * 90]},
               {"id": "b20", "context": "z" * 64, "continuation": "z"}, {"custom_id": "21", "body": {"prompt": "x"}}, {"id": "b22", "context_ids": [7] * 64, "continuation_ids": [7]}]
        good = [{"id": "whole", "context_ids": [7] * 60, "continuation_ids": [7] * 4}, {"id": "unicode", "prompt": "日本の首都は", "choices": ["東京", "京都😀", "e\u0301\x00"]}]
        done = self.score(model, [*bad, *good])
        equal(done.code, 1, done.err)
        equal(len(done.results), len(bad) + len(good))
        for one in done.results[:len(bad)]:
            true(one.get("finish_reason") == "error" and one["error"]["message"], one)
        equal({done.row(i)["error"]["code"] for i in ("b19", "b20", "b22")}, {"context_length_exceeded"})
        equal([len(one.get("choices", [0])) for one in done.results[len(bad):]], [1, 3])
        equal(done.bytes, self.score(model, [*bad, *good], "--batch", 1, "--engine", "stream").bytes)

    def check_a_job_that_was_killed_goes_on_to_the_same_bytes(self):
        model, rows, out = self.small("--layers", 6, "--hidden", 128), self.rows(self.many(150)), self.folder() / "out.jsonl"
        wanted = self.score(model, rows).bytes
        killed = 0
        for lines in (2, 40, 90):
            job = subprocess.Popen([self.sluice, *map(str, ("score", model, rows, "-o", out, "--pass-tokens", 64))], stderr=subprocess.DEVNULL)
            until = time.monotonic() + 20
            while job.poll() is None and time.monotonic() < until and not (out.is_file() and out.read_bytes().count(b"\n") > lines):
                time.sleep(0.002)
            killed += job.poll() is None
            job.send_signal(signal.SIGKILL)
            job.wait()
        true(killed > 0, "no job was killed before its end")
        done = self.score(model, rows, out=out)
        equal((done.code, done.bytes == wanted), (0, True), done.err)
        true("going on" in done.err, done.err)
        refused(self.command("run", model, rows, "-o", out), 2, "command")

    def many(self, count, head=300):
        rng = random.Random(9)
        shots = text(rng, head)
        return [{"id": i, "prompt": f"{shots} {text(rng, 6)}", "choices": [" " + text(rng, 2) for _ in range(4)]} for i in range(count)]

    def check_a_common_head_is_computed_once_and_few_passes_do(self):
        rows = self.many(200)
        tokens = sum(len((row["prompt"] + choice).encode()) for row in rows for choice in row["choices"])
        for family in ("llama", "qwen3_5_text"):
            model = self.small(family=family)
            done, computed, passes = self.prefill(model, rows)
            true(computed < tokens / 10, f"{family}: {computed} of about {tokens} tokens computed")
            few, again, _ = self.prefill(model, rows[:3], "--batch", 2, "--threads", 1)
            equal(few.results, done.results[:3])
            equal(few.bytes, self.alone(model, rows[:3]))
            true(len(passes) < 200, f"{family}: {len(passes)} passes")

    def check_a_small_budget_is_kept_and_changes_nothing(self):
        self.own_memory_only()
        model, rows = self.small("--layers", 8, "--hidden", 256, "--vocab", 4000), self.many(20, head=200)
        wanted = self.score(model, rows).bytes
        told = self.score(model, rows, "--memory", "1M").err
        least = re.findall(r"--memory (\d+)K", told)
        true(least, told)
        metrics = self.folder() / "metrics"
        done = self.score(model, rows, "--memory", f"{least[0]}K", "--metrics", metrics)
        equal((done.code, done.bytes == wanted), (0, True), done.err)
        peak = json.loads(metrics.read_text().splitlines()[-1])["peak_rss_bytes"]
        true(peak <= int(least[0]) * 1024, f"{peak} bytes, budget {least[0]}K")

    def check_limit_shard_and_standard_output(self):
        model, rows = self.small(), self.mixed()
        all_lines = self.score(model, rows).bytes.splitlines(keepends=True)
        equal(self.score(model, rows, "--limit", 5).bytes, b"".join(all_lines[:5]))
        equal(self.score(model, rows, "--shard", "2/3").bytes, b"".join(all_lines[1::3]))
        streamed = self.command("score", model, self.rows(rows), "-o", "-").out.splitlines(keepends=True)     # as they come
        equal(sorted(streamed), sorted(all_lines))

    def check_usage_is_refused_in_one_sentence(self):
        model, rows = self.small(), self.rows(self.mixed())
        refused(self.command("score", model, rows), 2, "-o")
        refused(self.command("score", model), 2, "MODEL", "ROWS")
        for option in ("--temperature", "--max-tokens", "--stop", "--logprobs"):
            refused(self.command("score", model, rows, "-o", "-", option, 1), 2, option)


if __name__ == "__main__":
    main(Score)
