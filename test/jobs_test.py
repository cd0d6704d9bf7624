#!/usr/bin/env python3
"""Whole jobs on small models: the same bits however they run, memory, output files, signals, plan against run."""
import json
import re
import signal
import subprocess
import time

from harness import Suite, equal, main, refused, true

PROMPTS = ["The quick brown fox", "jumps", "over the lazy dog and then some more words that make this a longer row", "x", "12345", "Zebra "]

KERNEL_FLAGS = {"avx512bf16": "avx512_bf16", "amx": "amx_bf16"}     # of /proc/cpuinfo


def processor_flags():
    with open("/proc/cpuinfo") as file:
        return set(next((line for line in file if line.startswith("flags")), "").split())


class Jobs(Suite):
    def job(self):
        return self.rows([{"id": f"r{i}", "prompt": text, "max_tokens": 3 + 5 * i} for i, text in enumerate(PROMPTS)])

    def check_every_family_and_format_is_the_same_streamed_and_resident(self):
        kinds = [("llama", "bf16", "folder"), ("qwen2", "f16", "folder"), ("qwen3", "f32", "folder"), ("mistral", "bf16", "folder"),
                 ("llama", "q8_0", "g.gguf"), ("llama", "q4_0", "g.gguf"), ("qwen3", "q4_1", "g.gguf"), ("qwen2", "q6_k", "g.gguf"),
                 ("gemma2", "bf16", "folder"), ("gemma3_text", "bf16", "folder"), ("phi3", "bf16", "folder"), ("olmo2", "bf16", "folder"),
                 ("smollm3", "bf16", "folder"), ("granite", "bf16", "folder"), ("gemma2", "q8_0", "g.gguf"), ("gemma3_text", "q4_0", "g.gguf"),
                 ("phi3", "q8_0", "g.gguf"), ("olmo2", "q8_0", "g.gguf"), ("smollm3", "q4_1", "g.gguf"), ("granite", "q8_0", "g.gguf"),
                 ("mixtral", "bf16", "folder"), ("qwen3_moe", "f32", "folder"), ("mixtral", "q8_0", "g.gguf"), ("qwen3_moe", "q4_0", "g.gguf")]
        rows = self.job()
        for family, dtype, name in kinds:
            model = self.model("--family", family, "--dtype", dtype, "--hidden", 256, "--heads", 4, "--kv-heads", 2, "--inner", 512, "--scale", "0.1",
                               name=name)
            base = self.run(model, rows, "--ignore-eos", "--token-ids", "--logprobs", 3, "--engine", "resident")
            equal(base.code, 0, base.err)
            for options in (("--engine", "stream"), ("--engine", "stream", "--batch", 2, "--pass-tokens", 7), ("--threads", 1, "--batch", 1),
                            ("--engine", "stream", "--reader", "sync", "--chunk", "64K", "--depth", 1),
                            ("--engine", "stream", "--reader", "uring", "--chunk", "64K", "--depth", 5)):
                done = self.run(model, rows, "--ignore-eos", "--token-ids", "--logprobs", 3, *options)
                if "the kernel refuses io_uring" in done.err:
                    continue
                equal((done.code, done.bytes == base.bytes), (0, True), f"{family} {dtype} {options} {done.err}")

    def check_every_kernel_set_of_this_processor_has_bits_of_its_own_and_keeps_them(self):
        sets = ["portable", *(name for name, flag in KERNEL_FLAGS.items() if flag in processor_flags())]
        rows = self.job()
        options = ("--ignore-eos", "--token-ids", "--logprobs", 3)
        for family, dtype, name in (("llama", "bf16", "folder"), ("llama", "q8_0", "g.gguf"), ("qwen3_moe", "f32", "folder"), ("mixtral", "bf16", "folder")):
            model = self.model("--family", family, "--dtype", dtype, "--hidden", 256, "--heads", 4, "--kv-heads", 2, "--inner", 512, "--scale", "0.1",
                               name=name)
            seen = {}
            for kernels in sets:
                base = self.run(model, rows, "--kernels", kernels, *options)
                equal((base.code, f"{kernels} kernels (--kernels)" in base.err), (0, True), base.err)
                for others in (("--engine", "stream", "--batch", 2, "--pass-tokens", 7), ("--threads", 1, "--batch", 1)):
                    done = self.run(model, rows, "--kernels", kernels, *options, *others)
                    equal((done.code, done.bytes == base.bytes), (0, True), f"{family} {dtype} {kernels} {others} {done.err}")
                seen[base.bytes] = kernels
            equal(sorted(seen.values()), sorted(sets), "sets with the same bits")
            # Nothing but activations is rounded unless asked for: only all-bf16 weights get a bf16 set.
            plan = json.loads(self.command("plan", model, rows, "--json").out)
            equal(plan["kernels"], sets[-1] if dtype == "bf16" else "portable", plan["kernels_reason"])
            forced = json.loads(self.command("plan", model, rows, "--json", "--kernels", sets[-1]).out)
            equal("rounded to bf16" in forced["precision_reason"], len(sets) > 1 and dtype != "bf16", forced["precision_reason"])

    def check_experts_are_read_only_when_tokens_are_routed_to_them(self):
        model = self.model("--family", "qwen3_moe", "--experts", 32, "--experts-used", 2, "--hidden", 64, "--inner", 64, "--vocab", 256, "--tied")
        metrics = self.folder() / "metrics"
        done = self.run(model, self.rows([{"id": "a", "prompt_ids": [9], "max_tokens": 6}]), "--ignore-eos", "--engine", "stream", "--metrics", metrics)
        equal(done.code, 0, done.err)
        passes = [line for line in map(json.loads, metrics.read_text().splitlines()) if "read_bytes" in line and "pass" in line]
        # By hand: 2 layers of q, o 64 x 64, k, v 32 x 64, a router 32 x 64 and 2 experts of three 64 x 64; the tied head; two bytes a weight.
        equal([line["read_bytes"] for line in passes], [2 * (2 * (2 * 64 * 64 + 2 * 32 * 64 + 32 * 64 + 2 * 3 * 64 * 64) + 256 * 64)] * 6)

    def check_plan_and_run_agree_on_the_least_memory(self):
        model, rows = self.model("--hidden", 256, "--inner", 512), self.job()
        done = self.run(model, rows, "--engine", "stream", "--memory", "1M")
        refused(done, 3, "memory")
        amounts = re.findall(r"\d+(?:\.\d+)?[KMG]", done.err)
        true(any(self.command("plan", model, rows, "--engine", "stream", "--memory", amount).code == 0 for amount in amounts),
             f"no amount that plan accepts in {done.err!r}")
        refused(self.command("plan", model, rows, "--engine", "stream", "--memory", "1M"), 3, "memory")

    def check_the_plan_is_a_paragraph_and_an_object(self):
        model, rows = self.model(), self.job()
        text = self.command("plan", model, rows)
        equal(text.code, 0, text.err)
        true("batch" in text.out.decode() and "budget" in text.out.decode(), text.out)
        plan = json.loads(self.command("plan", model, rows, "--json").out)
        members = ("model family engine engine_reason precision precision_reason kernels rows prompt_tokens budget_bytes weights_bytes resident_bytes "
                   "ring_bytes activation_bytes kv_bytes_per_token kv_bytes pinned_bytes batch pass_tokens passes pass_bytes pass_seconds seconds "
                   "read_bytes_per_second rate_source predicted_peak_bytes")
        equal([m for m in members.split() if m not in plan], [])

    def check_without_progress_the_plan_and_what_came_of_it_are_told(self):
        model, rows = self.model(), self.job()
        for mode in ("log", "none"):
            lines = self.run(model, rows, "--progress", mode).err.splitlines()
            true(lines[0].startswith("plan: "), lines)
            true(re.match(r"\d+ of \d+ rows answered.* \(planned .*peak memory", lines[-1]), lines)
            equal(len(lines), 2, lines)

    def check_lines_that_ask_for_memory_are_errors_and_the_budget_holds(self):
        # An eighth of the budget is for reading a row: a twelfth of that for its line, and so many values.
        budget, model = 96 << 20, self.model("--hidden", 64)
        most = budget // 8 // 12
        def line(head, unit, tail, size=most):
            return head + unit * ((size - len(head) - len(tail)) // len(unit)) + tail
        good = b'{"id": "good", "prompt": "x", "max_tokens": 3}'
        hostile = [(line(b'{"id": "deep", "prompt": "x", "note": ', b"[", b""), "nested deeper than 512"),
                   (line(b'{"id": "names", "prompt": "x", "note": {', b'"a":0,', b'"a":0}}'), "more than 41943 JSON values"),
                   (line(b'{"id": "lists", "prompt": "x", "note": [', b"[[1]],", b"1]}"), "more than 41943 JSON values"),
                   (line(b'{"id": "ids", "prompt_ids": [', b"1,", b"1]}"), "more than 41943 JSON values"),
                   (line(b'{"id": "text", "prompt": "', b"ab c", b'"}'), "more than the context"),
                   (line(b'{"id": "chat", "messages": [{"role": "user", "content": "', b"\\n", b'"}]}'), "more than the context"),
                   (line(b'{"id": "long", "prompt": "x", "note": "', b"y", b'"}', most + 2), "that the memory budget leaves for a row"),
                   (line(b'{"id": "vast", "note": [', b"1,", b"1]}", (64 << 20) + 5), "more than 64 MiB")]
        metrics = self.folder() / "metrics"
        alone = self.run(model, [good], "--engine", "stream", "--memory", budget)
        for text, says in [*hostile, (b"".join(text + b"\n" for text, _ in hostile)[:-1], None)]:
            done = self.run(model, [good, text], "--engine", "stream", "--memory", budget, "--metrics", metrics)
            peak = json.loads(metrics.read_text().splitlines()[-1])["peak_rss_bytes"]
            equal((done.code, done.bytes.split(b"\n")[0]), (1, alone.bytes.strip()), done.err)
            true(peak <= budget, f"{text[:40]}: the peak is {peak}")
            true(says is None or says in done.results[1]["error"]["message"], done.results[1])
        # What only a larger budget reads.
        wide = line(b'{"id": "wide", "prompt": "x", "max_tokens": 3, "note": "', b"y", b'"}', 2 * most)
        done = self.run(model, [wide], "--engine", "stream", "--memory", "256M")
        true("text" in done.results[0], done.results[0])

    def check_foreign_results_are_kept_and_overwrite_starts_again(self):
        model, rows, out = self.model(), self.job(), self.folder() / "old.jsonl"
        out.write_text('{"precious": true}\n')
        refused(self.run(model, rows, out=out), 2, "old.jsonl")
        equal(out.read_text(), '{"precious": true}\n')
        equal(self.run(model, rows, "--overwrite", out=out).code, 0)
        true(b"precious" not in out.read_bytes(), "the old line is there")

    def check_files_of_the_model_are_never_written_to(self):
        folder, gguf, rows = self.model(), self.model("--dtype", "q8_0", name="g.gguf"), self.job()
        for file in sorted(folder.iterdir()):
            before = file.read_bytes()
            refused(self.run(folder, rows, "--metrics", file), 2, file.name)
            refused(self.command("run", folder, rows, "--overwrite", "-o", file), 2, file.name)
            equal(file.read_bytes(), before, file.name)
        before = gguf.read_bytes()
        refused(self.run(gguf, rows, "--metrics", gguf), 2, gguf.name)
        equal(gguf.read_bytes(), before)
        beside = folder / "answers.jsonl"
        equal([self.run(folder, rows, "--overwrite", out=beside).code for _ in range(2)], [0, 0])

    def check_templates_see_one_clock_however_long_the_job(self):
        model = self.model()
        (model / "chat_template.jinja").write_text("{{ 'x' * (strftime_now('%S') | int + 1) }}")
        rows = self.rows([{"id": i, "messages": [{"role": "user", "content": "x"}], "max_tokens": 300, "ignore_eos": True} for i in range(5)])
        out = self.folder() / "out.jsonl"
        job = subprocess.Popen([self.sluice, "run", model, rows, "-o", out, "--batch", "1"], stderr=subprocess.PIPE)
        until = time.monotonic() + 20
        while not (out.exists() and out.read_bytes()) and time.monotonic() < until:
            time.sleep(0.005)
        job.send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        job.send_signal(signal.SIGCONT)
        told = job.communicate(timeout=60)[1]
        equal(job.returncode, 0, told)
        equal(len({json.loads(line)["usage"]["prompt_tokens"] for line in out.read_text().splitlines()}), 1)

    def check_an_output_that_cannot_be_written_is_refused_at_once(self):
        model, rows = self.model(), self.job()
        refused(self.run(model, rows, out=self.folder() / "none" / "out.jsonl"), 3, "none")
        folder = self.folder()
        done = self.command("run", model, rows, "-o", folder)
        true(done.code in (2, 3) and folder.name in done.err, done.err)
        refused(self.command("run", model, rows, "-o", "/dev/full"), 3, "/dev/full")

    def check_results_go_to_stdout_and_a_closed_pipe_is_quiet(self):
        model, rows = self.model(), self.job()
        done = self.command("run", model, rows, "-o", "-", "--max-tokens", 3)
        equal((done.code, len(done.out.splitlines())), (0, len(PROMPTS)))
        piped = subprocess.run(["sh", "-c", '"$0" run "$1" "$2" -o - --progress none | head -1', self.sluice, model, rows], capture_output=True, timeout=60)
        true(b"roken pipe" not in piped.stderr and len(piped.stdout.splitlines()) == 1, piped.stderr)

    def check_two_runs_on_one_output_leave_the_first_alone(self):
        model, out = self.model("--hidden", 256, "--layers", 8, "--context", 100000), self.folder() / "out.jsonl"
        rows = self.rows([{"id": i, "prompt": "x", "ignore_eos": True, "max_tokens": 20000} for i in range(4)])
        first = subprocess.Popen([self.sluice, "run", model, rows, "-o", out], stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 20
            while not out.exists() and time.monotonic() < until:
                time.sleep(0.02)
            time.sleep(0.2)
            refused(self.run(model, rows, out=out), 3, str(first.pid))
        finally:
            first.send_signal(signal.SIGINT)
            equal(first.wait(20), 130)

    def check_an_interrupt_keeps_finished_rows_and_says_how_to_go_on(self):
        model, out = self.model("--hidden", 256, "--layers", 8, "--context", 100000), self.folder() / "out.jsonl"
        rows = self.rows([{"id": "quick", "prompt": "x", "ignore_eos": True, "max_tokens": 4}] +
                         [{"id": i, "prompt": "x", "ignore_eos": True, "max_tokens": 50000} for i in range(3)])
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            out.unlink(missing_ok=True)
            (out.parent / "out.jsonl.sluice").unlink(missing_ok=True)
            run = subprocess.Popen([self.sluice, "run", model, rows, "-o", out, "--overwrite"], stderr=subprocess.PIPE)
            until = time.monotonic() + 20
            while (not out.exists() or b"quick" not in out.read_bytes()) and time.monotonic() < until:
                time.sleep(0.02)
            sent = time.monotonic()
            run.send_signal(number)
            err = run.communicate(timeout=20)[1].decode()
            equal(run.returncode, code, err)
            true(time.monotonic() - sent < 5, "took long")
            true("quick" in out.read_text() and out.read_bytes().endswith(b"\n"), "the finished row is gone")
            true("same command" in err or "overwrite" in err or "resum" in err, err)

    def check_a_time_box_ends_cleanly(self):
        model = self.model("--hidden", 256, "--layers", 8, "--context", 100000)
        rows = self.rows([{"id": i, "prompt": "x", "ignore_eos": True, "max_tokens": 50000} for i in range(3)])
        equal(self.run(model, rows, "--time-box", "1s").code, 130)

    def check_closed_streams_do_not_matter(self):
        model, rows, out = self.model(), self.job(), self.folder() / "out.jsonl"
        code = subprocess.run(["sh", "-c", '"$0" run "$1" "$2" -o "$3" --max-tokens 3 <&- >&- 2>&-', self.sluice, model, rows, out], timeout=60).returncode
        equal((code, len(out.read_text().splitlines())), (0, len(PROMPTS)))

    def check_metrics_tell_each_pass_and_a_summary(self):
        path = self.folder() / "metrics.jsonl"
        done = self.run(self.model(), self.job(), "--metrics", path, "--engine", "stream", "--ignore-eos")
        equal(done.code, 0, done.err)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        passes, summary = lines[:-1], lines[-1]
        true(summary.get("summary") is True and summary["passes"] == len(passes), summary)
        wanted = sum(3 + 5 * i for i in range(len(PROMPTS)))
        equal(summary["completion_tokens"], wanted)
        equal(sum(p["decode_tokens"] for p in passes), wanted - len(PROMPTS))
        equal(sum(p["prefill_tokens"] for p in passes), summary["prompt_tokens"])
        for member in ("pass seconds read_bytes read_seconds wait_seconds compute_seconds decode_tokens prefill_tokens draft_tokens rows_live rows_done "
                       "rows_total kv_bytes_used kv_bytes rss_bytes eta_seconds").split():
            true(member in passes[0], member)

    def check_an_empty_rows_file_gives_an_empty_result(self):
        done = self.run(self.model(), [])
        equal((done.code, done.file.exists(), done.bytes), (0, True, b""))

    def check_duplicate_ids_are_refused_with_both_lines(self):
        refused(self.run(self.model(), [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x"}, {"id": "a", "prompt": "y"}]), 2, "1", "3", "a")

    def check_rows_that_the_budget_cannot_hold_are_their_own_errors(self):
        model = self.model("--hidden", 256, "--layers", 8, "--context", 200000)
        rows = self.rows([{"id": "short", "prompt": "x", "max_tokens": 3}, {"id": "long", "prompt": "x", "ignore_eos": True, "max_tokens": 150000}])
        refused(self.command("plan", model, rows, "--memory", "1M"), 3, "--memory")
        done = self.run(model, rows, "--memory", "60M")
        equal(done.code, 1, done.err)
        equal(done.row("short")["usage"]["completion_tokens"], 3)
        error = done.row("long")["error"]
        equal((error["code"], error["line"]), ("too_long", 2))
        amount = re.search(r"--memory (\d+[KM])", error["message"])[1]
        true(amount in done.err, f"{amount} is not in {done.err!r}")
        equal([self.command("plan", model, rows, "--memory", m).code for m in ("60M", amount)], [1, 0])
        planned = json.loads(self.command("plan", model, rows, "--memory", "60M", "--json").out)
        equal(planned["rows"], 1)

    def check_a_stop_before_the_first_result_leaves_the_journal_alone(self):
        model, out = self.model("--hidden", 256, "--layers", 8, "--context", 100000), self.folder() / "out.jsonl"
        rows = self.rows([{"id": i, "prompt": "x", "ignore_eos": True, "max_tokens": 50000} for i in range(3)])
        done = self.run(model, rows, "--time-box", "1s", out=out)
        equal((done.code, [path.name for path in out.parent.iterdir()]), (130, ["out.jsonl.sluice"]), done.err)
        true("the same command goes on" in done.err and "overwrite" not in done.err, done.err)

    def check_render_refuses_and_warns_as_run_does(self):
        model = self.model()
        twice = self.command("render", model, self.rows([{"id": "a", "prompt": "x"}, {"prompt": "x"}, {"id": "a", "prompt": "y"}]))
        refused(twice, 2, "lines 1 and 3 have the same id")
        equal(twice.out, b"")
        odd = self.command("render", model, self.rows([b'{"prompt": "a\\ud800", "note": 1}', b'{"prompt": "\\udc00", "note": 2}']))
        equal((odd.code, odd.err.count("note"), odd.err.count("surrogate"), len(odd.out.splitlines())), (0, 1, 1, 2), odd.err)

    def check_what_this_build_lacks_is_refused_with_one_code(self):
        model, rows = self.model(), self.job()
        lacking = [("--kernels", name) for name, flag in KERNEL_FLAGS.items() if flag not in processor_flags()]
        for options in (*lacking, ("--precision", "4")):
            for command in (("run", model, rows, "-o", self.folder() / "out.jsonl"), ("plan", model, rows)):
                refused(self.command(*command, *options), 3, options[0])
        for command in (("run", model, rows, "-o", self.folder() / "out.jsonl"), ("plan", model, rows)):
            refused(self.command(*command, "--chunk", "3"), 2, "--chunk")
            refused(self.command(*command, "--isa", "none"), 2, "--isa none", "scalar")

    def check_the_command_line_wins_over_the_config_file(self):
        model, config = self.model(), self.folder() / "job.conf"
        config.write_text("max-tokens = 2\nignore-eos\n")
        for options in (("--max-tokens", 3, "--config", config), ("--config", config, "--max-tokens", 3)):
            equal(self.run(model, [{"id": 1, "prompt": "x"}], *options).row(1)["usage"]["completion_tokens"], 3)

    def check_wrong_usage_names_the_option(self):
        model, rows = self.model(), self.job()
        refused(self.run(model, rows, "--max-tokens", "many"), 2, "max-tokens")
        refused(self.run(model, rows, "--maxtokens", "5"), 2, "max-tokens")
        refused(self.run(model, rows, "--memory", "3X"), 2, "memory")
        refused(self.command("rnu"), 2, "rnu")
        for command in ("run", "plan", "show", "render", "tokenize"):
            helped = self.command(command, "--help")
            true(helped.code == 0 and command.encode() in helped.out, helped.err)
        true(b"run" in self.command("--help").out and b"sluice" in self.command("--version").out, "help or version")


if __name__ == "__main__":
    main(Jobs)
