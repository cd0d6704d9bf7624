#!/usr/bin/env python3
"""Models and rows that are broken, missing or foreign: one sentence, the right exit code, nothing overwritten (CASES 28, 29, 31, 34)."""
import json
import os
import struct
import subprocess

from harness import Suite, equal, main, refused, true

ROW = [{"id": 1, "prompt_ids": [40, 41]}]
SHARD = "model-00002-of-00003.safetensors"


class Files(Suite):
    def broken(self, model, *words, code=3):
        before = self.folder() / "out.jsonl"
        done = self.run(model, ROW, out=before)
        refused(done, code, *words)
        true(not before.exists() or before.stat().st_size == 0, "results were written")
        refused(self.command("show", model), code, *words)

    def config(self, model, **members):
        path = model / "config.json"
        data = {**json.loads(path.read_text()), **members}
        path.write_text(json.dumps({k: v for k, v in data.items() if v != "absent"}))

    def header(self, model, change, name="model.safetensors"):
        path = model / name
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        change(header)
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])

    def check_a_missing_model_is_named(self):
        refused(self.run(self.folder() / "nothing-here", ROW), 3, "nothing-here")
        refused(self.run(self.folder(), ROW), 3, "config.json")

    def check_a_shard_that_is_missing_or_short_is_named(self):
        model = self.model("--shards", 3)
        path = model / SHARD
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        self.broken(model, SHARD, str(len(whole)), str(len(whole) - 1))
        path.unlink()
        self.broken(model, SHARD)

    def check_a_cut_header_is_refused(self):
        for size in (0, 4, 8, 200):
            model = self.model()
            os.truncate(model / "model.safetensors", size)
            self.broken(model, "model.safetensors")
            model = self.model(name="model.gguf")
            os.truncate(model, size)
            self.broken(model, "model.gguf")

    def check_offsets_that_lie_are_refused(self):
        def swap(h):
            h["model.norm.weight"]["data_offsets"].reverse()

        def overlap(h):
            h["model.norm.weight"]["data_offsets"] = [0, 128]

        def shape(h):
            h["model.norm.weight"]["shape"] = [2 ** 33, 2 ** 33]

        def fraction(h):
            h["model.norm.weight"]["data_offsets"][0] += 0.5

        for change in (swap, overlap, shape, fraction):
            model = self.model()
            self.header(model, change)
            self.broken(model, "model.safetensors", "model.embed_tokens.weight" if change is overlap else "model.norm.weight")

    def check_a_header_costs_little_more_than_its_own_bytes(self):
        """Hostile headers of 40 MB: one shape, metadata, lists in a list, tensors of one name; and an index file."""
        self.own_memory_only()
        one, index = b'"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}', "model.safetensors.index.json"
        for head, unit, count, tail, name in ((b'{"a":{"dtype":"F32","shape":[1', b",1", 20_000_000, b"]}}", "model.safetensors"),
                                              (b'{"__metadata__":{"a":"b"', b',"a":"b"', 5_000_000, b"}}", "model.safetensors"),
                                              (b'{"a":[[]', b",[]", 13_000_000, b"]}", "model.safetensors"),
                                              (b"{" + one, b"," + one, 800_000, b"}", "model.safetensors"),
                                              (b'{"weight_map":{"a":"b"', b',"a":"b"', 5_000_000, b"}}", index)):
            model, size = self.model(), len(head) + len(unit) * count + len(tail)
            (model / "model.safetensors").unlink()
            with open(model / name, "wb") as file:      # in pieces: a child's peak counts what this process held
                file.write((struct.pack("<Q", size) if name == "model.safetensors" else b"") + head)
                for _ in range(count // 10_000):
                    file.write(unit * 10_000)
                file.write(tail)
            child = subprocess.Popen([self.sluice, "show", model], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            said = child.stderr.read().decode()
            _, code, usage = os.wait4(child.pid, 0)
            child.stderr.close()
            true(os.waitstatus_to_exitcode(code) == 3 and name in said and said.count("\n") == 1, said)
            true(usage.ru_maxrss << 10 < 6 * size, f"{usage.ru_maxrss >> 10} MiB for {size >> 20} MiB: {said}")
            (model / name).unlink()

    def check_an_unknown_type_that_is_needed_is_named(self):
        model = self.model()
        self.header(model, lambda h: h["model.norm.weight"].update(dtype="F8_E8M0", shape=[128]))
        self.broken(model, "model.norm.weight")

    def check_a_missing_tensor_is_named(self):
        model = self.model()
        self.header(model, lambda h: h.update({"model.layers.1.mlp.other.weight": h.pop("model.layers.1.mlp.up_proj.weight")}))
        self.broken(model, "model.layers.1.mlp.up_proj.weight")

    def check_a_shape_that_disagrees_with_the_config_is_refused(self):
        model = self.model()
        self.config(model, num_key_value_heads=4)
        self.broken(model, "k_proj", "32", "64")

    def check_an_unknown_architecture_or_setting_is_named(self):
        for change, word in (({"model_type": "mamba2"}, "mamba2"), ({"rope_scaling": {"rope_type": "dynamo", "factor": 2.0}}, "dynamo"),
                             ({"hidden_act": "relu6"}, "relu6"), ({"num_hidden_layers": -1}, "num_hidden_layers"), ({"head_dim": "x"}, "head_dim"),
                             ({"num_attention_heads": 0}, "num_attention_heads"), ({"hidden_size": 2 ** 40}, "hidden_size")):
            model = self.model()
            self.config(model, **change)
            self.broken(model, word)

    def check_broken_json_names_file_and_place(self):
        for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"):
            model = self.model()
            path = model / name
            path.write_bytes(path.read_bytes()[:-20])
            self.broken(model, name)

    def check_a_template_that_cannot_be_parsed_is_never_replaced(self):
        model = self.model()
        (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfoor %}")
        done = self.run(model, [{"id": 1, "messages": [{"role": "user", "content": "x"}]}])
        true(done.code != 0 and "endfoor" in done.err + json.dumps(done.results), done.err)
        equal(self.run(model, ROW, "--max-tokens", 2).code, 0)

    def check_an_unusable_template_costs_its_rows_and_no_others(self):
        model, chat = self.model(), {"id": 1, "messages": [{"role": "user", "content": "x"}]}
        (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfoor %}")
        done = self.run(model, [chat, {"id": 2, "prompt": "x", "max_tokens": 2}])
        equal((done.code, len(done.results)), (1, 2), done.err)
        true("endfoor" in done.row(1)["error"]["message"] and done.row(1)["error"]["line"] == 1, done.row(1))
        true("error" not in done.row(2), done.row(2))
        true("endfoor" in done.err.partition("plan:")[0], f"not told before the plan: {done.err!r}")
        rows = self.rows([chat])
        for command in (("run", model, rows, "-o", self.folder() / "out.jsonl"), ("plan", model, rows)):
            refused(self.command(*command), 3, "endfoor")
        equal(self.command("render", model, rows).code, 1)

    def check_without_a_tokenizer_rows_of_text_are_errors_and_ids_run(self):
        model = self.model()
        (model / "tokenizer.json").unlink()
        done = self.run(model, [{"id": 1, "prompt": "x"}, {"id": 2, "prompt_ids": [40], "max_tokens": 2}], "--token-ids")
        equal(done.code, 1, done.err)
        true("tokenizer.json" in done.row(1)["error"]["message"], done.row(1))
        equal(len(done.row(2)["token_ids"]), 2)
        refused(self.run(model, [{"id": 1, "prompt": "x"}], "--token-ids"), 3, "tokenizer.json")

    def check_a_base_that_is_guessed_is_a_warning(self):
        model = self.model()
        self.config(model, rope_theta="absent", rope_parameters="absent")
        refused(self.run(model, ROW, "--max-tokens", 2), 0, "rope_theta")

    def check_without_a_template_chat_rows_are_refused_and_prompts_run(self):
        model = self.model()
        path = model / "tokenizer_config.json"
        path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "chat_template"}))
        done = self.run(model, [{"id": 1, "messages": [{"role": "user", "content": "x"}]}, {"id": 2, "prompt": "x", "max_tokens": 2}])
        equal(done.code, 1)
        true("template" in done.row(1)["error"]["message"], done.row(1))
        true("error" not in done.row(2), done.row(2))

    def check_pipes_and_folders_in_the_place_of_files_do_not_hang(self):
        model = self.model()
        (model / "model.safetensors").unlink()
        os.mkfifo(model / "model.safetensors")
        self.broken(model, "model.safetensors")
        pipe = self.folder() / "rows.jsonl"
        os.mkfifo(pipe)
        refused(self.run(self.model(), pipe), 2, "rows.jsonl")

    def check_a_head_or_a_tie_in_every_combination(self):
        """CASES 31: present and tied flags; a different head wins with a warning, an absent one is the embedding."""
        own = self.model("--scale", "0.2")
        ids = lambda model: self.run(model, ROW, "--token-ids", "--max-tokens", 8).row(1)["token_ids"]
        wanted = ids(own)
        self.config(own, tie_word_embeddings=True)
        done = self.run(own, ROW, "--token-ids", "--max-tokens", 8)
        equal(done.row(1)["token_ids"], wanted)
        true("tie" in done.err, f"no warning: {done.err!r}")
        tied = self.model("--tied", "--scale", "0.2")
        wanted = ids(tied)
        self.config(tied, tie_word_embeddings=False)
        done = self.run(tied, ROW, "--token-ids", "--max-tokens", 8)
        equal((done.code, done.row(1)["token_ids"]), (0, wanted))
        true("tie" in done.err or "head" in done.err, f"no warning: {done.err!r}")

    def check_an_ids_row_out_of_range_is_its_own_error(self):
        done = self.run(self.model(), [{"id": 1, "prompt_ids": [5, 512]}, {"id": 2, "prompt_ids": [5, 511], "max_tokens": 2}])
        equal(done.code, 1)
        true("512" in done.row(1)["error"]["message"], done.row(1))
        equal(done.row(1)["error"]["line"], 1)
        true("text" in done.row(2), done.row(2))

    def check_a_prompt_longer_than_the_context_is_its_own_error(self):
        done = self.run(self.model("--context", 64), [{"id": 1, "prompt": "x" * 80}, {"id": 2, "prompt": "x" * 60, "ignore_eos": True}])
        equal(done.code, 1)
        true("64" in done.row(1)["error"]["message"], done.row(1))
        equal((done.row(2)["finish_reason"], done.row(2)["usage"]["completion_tokens"]), ("length", 4))


if __name__ == "__main__":
    main(Files)
