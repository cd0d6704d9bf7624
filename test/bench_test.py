#!/usr/bin/env python3
"""`sluice bench kernels`: the members of the JSON and their sense, the table, refusals, and a signal. How fast anything is, is not tested."""
import json
import signal
import subprocess
import time

from harness import Suite, equal, main, refused, true

QUICK = ("--seconds", 0.01, "--shape", "96x256", "--threads", 2)


class Bench(Suite):
    def json(self, *options):
        done = self.command("bench", "kernels", "--json", *QUICK, *options)
        equal(done.code, 0, done.err)
        return json.loads(done.out)

    def check_json_has_an_object_for_each_kernel_set(self):
        sets = self.json("--tokens", "1,32", "--dtype", "bf16,q4_1")
        equal(sets[0]["kernels"], "portable")
        names = [one["kernels"] for one in sets]
        equal(names, [name for name in ("portable", "avx512bf16", "amx") if name in names])
        for one in sets:
            equal(one["threads"], 2)
            true(one["isa"] and isinstance(one["processor"], str) and isinstance(one["features"], list), one)
            true(one["peak_flops_per_second"] > 1e8 and one["memory_bytes_per_second"] > 1e8, one)
            equal([(p["dtype"], p["outputs"], p["inputs"], p["tokens"]) for p in one["products"]],
                  [(dtype, 96, 256, tokens) for dtype in ("bf16", "q4_1") for tokens in (1, 32)])
            for product in one["products"]:
                true(0 < product["flops_per_second"] < 3 * one["peak_flops_per_second"], product)
                row = {"bf16": 512, "q4_1": 160}[product["dtype"]]      # bytes of 256 values
                seconds = 2 * 96 * 256 * product["tokens"] / product["flops_per_second"]
                true(abs(product["weights_bytes_per_second"] * seconds / (96 * row) - 1) < 1e-6, product)
            equal([decode["dtype"] for decode in one["decode"]], ["bf16", "q4_1"])
            for decode in one["decode"]:
                true(decode["values_per_second"] >= 0 and decode["share_of_products_32"] >= 0, decode)

    def check_all_formats_of_products_can_be_measured(self):
        one, = self.json("--tokens", "1", "--dtype", "all", "--kernels", "portable")
        found = [product["dtype"] for product in one["products"]]
        equal(found, """f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs tq1_0 tq2_0 mxfp4 fp8_e4m3 mlx_2bit
                        mlx_3bit mlx_4bit mlx_5bit mlx_6bit mlx_7bit mlx_8bit mxfp4_split""".split())
        equal([decode["dtype"] for decode in one["decode"]], found)

    def check_formats_that_do_not_fit_are_left_out_of_the_default(self):
        done = self.command("bench", "kernels", "--json", "--seconds", 0.01, "--shape", "24x96", "--tokens", "5", "--kernels", "portable")
        found = [product["dtype"] for product in json.loads(done.out)[0]["products"]]
        true("q4_1" in found and "q4_k" not in found, found)            # blocks of 32 and of 256

    def check_the_table_has_the_formats_and_token_counts(self):
        done = self.command("bench", "kernels", *QUICK, "--tokens", "3,40", "--dtype", "f16,mlx_3bit", "--kernels", "portable")
        equal(done.code, 0, done.err)
        lines = [line.split() for line in done.out.decode().splitlines()]
        equal([line[:3] for line in lines if line[:1] == ["format"]], [["format", "3", "40"]] * 2)
        equal([line[0] for line in lines if line and line[0] in ("f16", "mlx_3bit")], ["f16", "mlx_3bit"] * 2)
        true("portable kernels: mlx_3bit, 2 of 2" in done.err, done.err)

    def check_wrong_values_are_refused(self):
        for option, value, *words in (("--dtype", "q9", "q4_1", "mxfp4_split"), ("--dtype", "f32,f32", "twice"), ("--dtype", "", "all"),
                                      ("--tokens", "0", "8192"), ("--tokens", "8,", "8192"), ("--tokens", "8193", "8192"),
                                      ("--shape", "96", "OUTxIN"), ("--shape", "0x32", "OUTxIN"), ("--shape", "32x9999999", "OUTxIN"),
                                      ("--seconds", "0", "0.001"), ("--threads", "0", "256"), ("--kernels", "fast", "portable"),
                                      ("--max-tokens", "1", "no option")):
            refused(self.command("bench", "kernels", option, value), 2, option.lstrip("-"), *words)
        refused(self.command("bench", "kernels", "--shape", "16x64", "--dtype", "f32,q4_k"), 2, "q4_k", "64", "256")
        refused(self.command("bench", "kernels", "--shape", "1048576x1048576"), 2, "1048576", "too many")
        refused(self.command("bench", "kernels", "more"), 2, "more")

    def check_a_set_that_is_not_here_is_refused_by_name(self):
        here = [one["kernels"] for one in self.json("--tokens", "1", "--dtype", "f32")]
        for name in {"avx512bf16", "amx"} - set(here):
            refused(self.command("bench", "kernels", "--kernels", name), 3, name)

    def check_the_portable_set_can_be_measured_on_other_instructions(self):
        one, = self.json("--tokens", "5", "--dtype", "f32", "--isa", "scalar")
        equal((one["kernels"], one["isa"], one["peak"]), ("portable", "scalar", "fma"))
        refused(self.command("bench", "kernels", "--isa", "sse9"), 2, "sse9")
        refused(self.command("bench", "kernels", "--isa", "scalar", "--kernels", "amx"), 2, "amx")

    def check_a_job_runs_on_the_instructions_that_are_asked_for_with_the_same_answers(self):
        model = self.model("--dtype", "q8_0", "--hidden", 64, "--heads", 4, "--kv-heads", 2, "--inner", 96, name="model.gguf")
        rows = self.rows([{"id": n, "prompt_ids": [6 + n, 7, 9]} for n in range(3)])
        texts = []
        for options in ((), ("--isa", "scalar")):
            done = self.run(model, rows, "--max-tokens", 8, "--token-ids", "--logprobs", 2, *options)
            equal((done.code, len(done.results)), (0, 3), done.err)
            texts.append(done.results)
        equal(*texts)
        for words, code, *options in (("sse9", 2, "--isa", "sse9"), ("amx", 2, "--isa", "scalar", "--kernels", "amx")):
            refused(self.command("plan", model, rows, *options), code, words)

    def check_bench_alone_tells_what_there_is(self):
        done = self.command("bench")
        equal(done.code, 0)
        true(b"bench kernels" in done.out and b"bench job" in done.out, done.out)
        refused(self.command("bench", "job"), 2, "bench job needs a MODEL")
        refused(self.command("bench", "cores"), 2, "cores")
        true(b"--tokens LIST" in self.command("bench", "--help").out, "help")

    def check_a_signal_ends_it_within_a_moment(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            run = subprocess.Popen([self.sluice, "bench", "kernels", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            true(b"1 of" in run.stderr.readline(), "no note of the first format")
            sent = time.monotonic()
            run.send_signal(number)
            out, _ = run.communicate(timeout=60)
            equal(run.returncode, code)
            equal(out, b"")
            true(time.monotonic() - sent < 10, "it went on")            # some hundredths of a second on a quiet machine


if __name__ == "__main__":
    main(Bench)
