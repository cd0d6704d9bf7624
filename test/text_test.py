#!/usr/bin/env python3
"""What the model sees and what the user reads, on synthetic models: templates, special tokens, odd characters (CASES 02, 07, 08, 10, 13,
14, 19, 20, 22, 23, 25, 26). The tokenizer has a token for each byte, so expected ids are counted by hand."""
import json

from harness import END, STOP, Suite, byte, equal, main, refused, true

BEGIN, TURN = 0, 3              # <|begin|>, <|im_start|>


def raw(data):
    """Ids of the byte tokens of any bytes."""
    return [6 + b for b in data]


def turn(role, content):
    return [TURN, *byte(role + "\n"), *(byte(content) if isinstance(content, str) else content), END, *byte("\n")]


def user(content, **more):
    return {"messages": [{"role": "user", "content": content}], **more}


class Text(Suite):
    def edit(self, model, file, /, **members):
        path = model / file
        data = json.loads(path.read_text())
        data.update(members)
        path.write_text(json.dumps(data))

    def plain(self, template=None):
        """A model without merges, with a template of its own if there is one."""
        model = self.model("--vocab", 262)
        if template is not None:
            (model / "chat_template.jinja").write_text(template)
        return model

    def render(self, model, rows, *options, code=0):
        done = self.command("render", model, self.rows(rows), *options)
        equal(done.code, code, done.err)
        return [json.loads(line) for line in done.out.splitlines()]

    def texts(self, template, rows):
        return [one.get("text", one.get("error", {}).get("message")) for one in self.render_any(self.plain(template), rows)]

    def render_any(self, model, rows):
        done = self.command("render", model, self.rows(rows))
        true(done.code in (0, 1), done.err)
        return [json.loads(line) for line in done.out.splitlines()]

    def tokenize(self, model, *lines, options=()):
        done = self.command("tokenize", model, *options, stdin=b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        equal(done.code, 0, done.err)
        return [json.loads(line) for line in done.out.splitlines()]

    # Special tokens inside content

    def check_special_tokens_in_content_count_as_such_unless_told(self):
        model, row = self.plain(), user("a<|end|>b", add_generation_prompt=False)
        allowed, = self.render(model, [row])
        equal(allowed["ids"], [BEGIN, *turn("user", [*byte("a"), END, *byte("b")])])
        text, = self.render(model, [row], "--content-specials", "text")
        equal(text["text"], allowed["text"])
        equal(text["ids"], [BEGIN, *turn("user", "a<|end|>b")])
        trims = self.plain("{{ bos_token }}{% for m in messages %}<|end|>{{ m.content | trim }}<|end|>{% endfor %}")
        text, = self.render(trims, [user(" <|end|>\n")], "--content-specials", "text")
        equal(text["ids"], [BEGIN, END, *byte("<|end|>"), END])

    def check_a_prompt_is_no_message_and_keeps_its_special_tokens(self):
        text, = self.render(self.plain(), [{"prompt": "a<|end|>"}], "--content-specials", "text")
        equal(text["ids"], [*byte("a"), END])

    def check_a_run_sees_what_render_shows(self):
        model, row = self.plain(), user("a<|end|>b", id=1, max_tokens=1)
        for mode, count in (("allow", 1), ("text", 7)):
            done = self.run(model, [row], "--content-specials", mode)
            equal(done.code, 0, done.err)
            shown, = self.render(model, [row], "--content-specials", mode)
            equal(done.row(1)["usage"]["prompt_tokens"], len(shown["ids"]))
            equal(len(shown["ids"]), 2 + len("user\n") + 2 + count + 2 + 1 + len("assistant\n"))

    def check_the_plan_counts_rows_with_special_tokens_in_content(self):
        model = self.plain()
        rows = self.rows([user("a<|end|>b"), user("a"), user([{"type": "text", "text": "<|stop|>"}]), {"prompt": "<|end|>"}])
        for mode in ("allow", "text"):
            done = self.command("plan", model, rows, "--content-specials", mode)
            equal(done.code, 0, done.err)
            true(b"2 rows hold special tokens in their messages" in done.out, done.out)
            equal(json.loads(self.command("plan", model, rows, "--json").out)["special_rows"], 2)
        true(b"special tokens" not in self.command("plan", model, self.rows([user("a")])).out, "said of a row without any")

    def check_a_template_that_reads_special_tokens_in_content_is_the_rows_error(self):
        model = self.plain("{% if '<|end|>' in messages[0].content %}found{% endif %}{{ messages[0].content }}")
        one, two = self.render(model, [user("a<|end|>"), user("a")], "--content-specials", "text", code=1)
        true("--content-specials allow" in one["error"]["message"], one)
        equal(two["text"], "a")

    # Templates

    def check_the_template_is_found_by_name_and_a_file_wins_of_case_07(self):
        model, rows = self.plain(), [user("x"), user("x", tools=[{"type": "function"}])]
        both = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
        self.edit(model, "tokenizer_config.json", chat_template=both)
        equal([one["text"] for one in self.render(model, rows)], ["D", "T"])
        self.edit(model, "tokenizer_config.json", chat_template=both[:1])
        done = self.command("render", model, self.rows(rows[:1]))
        true("tool_use" in done.err + done.out.decode() and done.code != 0, done.err)
        self.edit(model, "tokenizer_config.json", chat_template="OLD")
        (model / "chat_template.jinja").write_text("NEW\n")
        equal([one["text"] for one in self.render(model, rows)], ["NEW", "NEW"])

    def check_one_newline_at_the_end_of_a_template_is_dropped_of_case_07(self):
        for end, wanted in (("\n", "P:Hi"), ("\n\n", "P:Hi\n")):
            equal(self.texts("{{ 'P:' + messages[0].content }}" + end, [user("Hi")]), [wanted])

    def check_a_message_is_continued_where_it_ends_of_case_08(self):
        template = "{% for m in messages %}[{{ m.role }}]{{ m.content|trim }}[/]{% endfor %}"
        rows = [{"messages": [{"role": "user", "content": first}, {"role": "assistant", "content": "The answer is "}], "continue_final_message": True, **more}
                for first, more in (("Hi", {}), ("The answer is ", {}), ("Hi", {"add_generation_prompt": True}))]
        texts = self.texts(template, rows)
        equal(texts[:2], ["[user]Hi[/][assistant]The answer is", "[user]The answer is[/][assistant]The answer is"])
        true("add_generation_prompt" in texts[2], texts[2])

    def check_bos_stands_there_exactly_once_of_case_10(self):
        model = self.plain("{{ bos_token }}{{ messages[0].content }}")
        self.edit(model, "tokenizer.json", post_processor={
            "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|begin|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [BEGIN], "tokens": ["<|begin|>"]}}})
        rows = [user("hi"), {"prompt": "hi"}, {"prompt": ""}, {"prompt": "<|begin|>hi"}]
        equal([one["ids"] for one in self.render(model, rows)], [[BEGIN, *byte("hi")], [BEGIN, *byte("hi")], [BEGIN], [BEGIN, BEGIN, *byte("hi")]])
        (model / "chat_template.jinja").write_text("{{ messages[0].content }}")
        equal(self.render(model, rows[:1])[0]["ids"], byte("hi"))

    def check_tools_absent_null_or_empty_of_case_13(self):
        template = "{% if tools is not none and tools is defined %}T{{ tools|length }}{% endif %}{% if tools %}Y{{ tools|tojson }}{% endif %};"
        tool = {"name": "f", "description": "Größe <b>&'\"\n", "parameters": {"z": 1, "a": 1.0, "n": None}}
        equal(self.texts(template, [user("x"), user("x", tools=None), user("x", tools=[]), user("x", tools=[tool])]),
              [";", ";", "T0;", "T1Y" + json.dumps([tool], ensure_ascii=False) + ";"])

    def check_a_template_that_refuses_a_row_leaves_the_others_alone_of_case_14(self):
        model = self.plain("{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}"
                           "{% endif %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}"
                           "{% endif %}{% endfor %}")
        system = {"role": "system", "content": "s"}
        rows = [{"custom_id": name, "body": {"messages": messages, "max_tokens": 1}} for name, messages in (
            ("plain", [{"role": "user", "content": "ab"}]), ("system", [system, {"role": "user", "content": "ab"}]),
            ("parts", [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]),
            ("null", [{"role": "assistant", "content": None}, {"role": "user", "content": "ab"}]),
            ("image", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]))]
        done = self.run(model, rows)
        equal(done.code, 1)
        for name in ("system", "null"):
            response = done.row(name)["response"]
            equal((response["status_code"], "roles must alternate" in response["body"]["error"]["message"]), (400, True), name)
        true("image_url" in done.row("image")["response"]["body"]["error"]["message"], done.row("image"))
        bodies = [done.row(name)["response"]["body"] for name in ("plain", "parts")]
        equal([body["usage"]["prompt_tokens"] for body in bodies], [len("<user>ab")] * 2)
        equal(bodies[0]["choices"][0]["message"], bodies[1]["choices"][0]["message"])

    # Tokenizers

    def check_accents_are_composed_where_the_file_says_so_of_case_19(self):
        model = self.plain()
        equal(self.tokenize(model, {"text": "e\u0301"})[0]["ids"], raw("e\u0301".encode()))
        self.edit(model, "tokenizer.json", normalizer={"type": "NFC"})
        equal(self.tokenize(model, {"text": "e\u0301"})[0]["ids"], raw("é".encode()))

    def check_a_character_over_many_tokens_is_whole_and_a_cut_one_is_shown_of_case_20(self):
        model = self.plain()
        whole, cut = raw("😀".encode()), raw("😀".encode()[:2])
        equal([one["text"] for one in self.tokenize(model, {"ids": whole}, {"ids": cut}, {"ids": byte("a") + cut[1:] + byte("b")})],
              ["😀", "\ufffd", "a\ufffdb"])
        ids = [7, *raw("é😀".encode())]
        chain = " ".join(f"{a}>{b}" for a, b in zip(ids, ids[1:]))
        model = self.model("--vocab", 262, "--script", chain)
        for count, text in ((6, "é😀"), (5, "é\ufffd"), (2, "é"), (1, "\ufffd")):
            done = self.run(model, [{"id": 1, "prompt_ids": [7], "max_tokens": count}])
            equal(done.row(1)["text"], text)
            done.bytes.decode("utf-8")

    def check_spaces_before_punctuation_stay_of_case_22(self):
        model = self.plain()
        self.edit(model, "tokenizer_config.json", clean_up_tokenization_spaces=True)
        for text in ("x != y and a.b == c", "the word 'social'", "a , b . c ?"):
            equal(self.tokenize(model, {"ids": byte(text)})[0]["text"], text)

    def check_nul_is_a_character_everywhere_of_case_23(self):
        nul = raw(b"\0")
        model = self.model("--vocab", 262, "--script", f"7>{nul[0]} {nul[0]}>{byte('a')[0]} {byte('a')[0]}>{END}")
        equal(self.tokenize(model, {"text": "ab\0cd"})[0]["ids"], byte("ab\0cd"))
        one, = self.render(model, [user("ab\0cd", add_generation_prompt=False)])
        equal(one["ids"], [BEGIN, *turn("user", "ab\0cd")])
        done = self.run(model, [{"custom_id": "n\0m", "body": {**user("ab\0cd"), "max_tokens": 1}}, {"id": "a\0", "prompt_ids": [7]},
                                {"id": "b", "prompt_ids": [7], "stop": "\0"}])
        equal(done.code, 0, done.err)
        equal(done.row("n\0m")["response"]["body"]["usage"]["prompt_tokens"], len([BEGIN, *turn("user", "ab\0cd"), TURN, *byte("assistant\n")]))
        equal((done.row("a\0")["text"], done.row("b")["text"], done.row("b")["finish_reason"]), ("\0a", "", "stop"))
        true(b"\\u0000" in done.bytes and b"\0" not in done.bytes, "a raw NUL in the results")

    def check_merges_are_read_as_texts_and_as_pairs_of_case_25(self):
        model = self.model()
        path = model / "tokenizer.json"
        whole = json.loads(path.read_text())
        before = self.tokenize(model, {"text": "in the nothing"})
        true(len(before[0]["ids"]) < len("in the nothing"), "no merge was used")
        whole["model"]["merges"] = [merge.split(" ") for merge in whole["model"]["merges"]]
        path.write_text(json.dumps(whole))
        equal(self.tokenize(model, {"text": "in the nothing"}), before)
        whole["model"]["merges"].append(["x", "y"])
        path.write_text(json.dumps(whole))
        refused(self.command("tokenize", model), 3, "tokenizer.json", "xy")

    def check_added_tokens_that_are_not_special_stay_in_answers_of_case_26(self):
        script = f"7>{STOP} {STOP}>{byte('a')[0]} {byte('a')[0]}>4 4>{byte('b')[0]} {byte('b')[0]}>{END}"
        model = self.model("--vocab", 262, "--script", script)
        tokens = json.loads((model / "tokenizer.json").read_text())["added_tokens"]
        tokens[STOP]["special"] = False
        self.edit(model, "tokenizer.json", added_tokens=tokens)
        done = self.run(model, [{"id": 1, "prompt_ids": [7]}])
        equal(done.row(1)["text"], "<|stop|>ab")
        equal(self.tokenize(model, {"ids": [STOP, 4]}, options=("--skip-special",))[0]["text"], "<|stop|>")

    def check_an_unknown_component_refuses_the_model_by_name(self):
        for member, value in (("normalizer", {"type": "Newfangled"}), ("pre_tokenizer", {"type": "Newfangled"}), ("decoder", {"type": "Newfangled"}),
                              ("post_processor", {"type": "Newfangled"}), ("model", {"type": "Newfangled", "vocab": {}})):
            model = self.plain()
            self.edit(model, "tokenizer.json", **{member: value})
            refused(self.command("tokenize", model), 3, "tokenizer.json", "Newfangled")

    # Ends, and characters that are none

    def check_show_names_the_source_of_each_end_token_of_case_02(self):
        model = self.plain()
        self.edit(model, "generation_config.json", eos_token_id=[1, STOP])
        self.edit(model, "config.json", eos_token_id=END)
        self.edit(model, "tokenizer_config.json", eos_token="<|im_end|>")
        shown = json.loads(self.command("show", model, "--json").out)["eos"]
        equal({one["id"]: one["source"].replace(",", "").split(" ")[0] for one in shown},
              {1: "generation_config.json", STOP: "generation_config.json", END: "config.json", 4: "tokenizer_config.json"})
        text = self.command("show", model).out.decode()
        for one in shown:
            true(f"{one['id']} ({one['source']})" in text, text)

    def check_what_is_no_unicode_is_said_and_never_cuts_a_text(self):
        model = self.plain()
        lone = rb'{"id": "lone", "prompt": "a\ud800b"}'
        good, bad = b'{"id": "good", "prompt": "x"}', b'{"id": "bad", "prompt": "a\xffb"}'
        one, two, three = self.render(model, [lone, bad, good], code=1)
        equal(one["ids"], raw("a\ufffdb".encode()))
        equal((two["id"], two["error"]["code"]), (2, "invalid_utf8"))
        equal(three["ids"], byte("x"))
        done = self.run(model, [lone, bad, good], "--max-tokens", 1)
        equal(done.code, 1)
        true("U+FFFD" in done.err, done.err)
        equal(done.row("lone")["usage"]["prompt_tokens"], 5)


if __name__ == "__main__":
    main(Text)
