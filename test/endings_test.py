#!/usr/bin/env python3
"""How rows end, on scripted models whose greedy output is a chain fixed by construction (CASES 01, 02, 04, 05, 41, 43)."""
import json

from harness import END, STOP, Suite, byte, chain, equal, main, true

TEXT = "abcdefgh"
SCRIPT = chain(TEXT, 7)


class Endings(Suite):
    def scripted(self, script=SCRIPT, *more):
        return self.model("--vocab", 262, "--script", script, *more)

    def edit(self, model, file, **members):
        path = model / file
        data = json.loads(path.read_text()) if path.exists() else {}
        data.update(members)
        path.write_text(json.dumps({k: v for k, v in data.items() if v != "absent"}))

    def answer(self, model, *options, **row):
        done = self.run(model, [{"id": 1, "prompt_ids": [7], **row}], "--token-ids", *options)
        equal(done.code, 0, done.err)
        one = done.row(1)
        return one["text"], one["finish_reason"], one["usage"]["completion_tokens"], one["token_ids"]

    def check_a_chain_ends_with_its_stop_token(self):
        equal(self.answer(self.scripted()), (TEXT, "stop", 8, byte(TEXT)))

    def check_ids_of_both_files_end_a_row(self):
        model = self.scripted(chain("x", 7, STOP))
        self.edit(model, "config.json", eos_token_id=END)
        self.edit(model, "generation_config.json", eos_token_id=[1, STOP])
        equal(self.answer(model, "--max-tokens", 5)[:3], ("x", "stop", 1))

    def check_without_generation_config_the_config_decides(self):
        model = self.scripted(chain("x", 7, STOP))
        self.edit(model, "config.json", eos_token_id=[STOP])
        (model / "generation_config.json").unlink()
        equal(self.answer(model, "--max-tokens", 5)[:3], ("x", "stop", 1))

    def check_null_and_empty_lists_fall_back_to_the_other_sources(self):
        for nothing in (None, []):
            model = self.scripted(chain("x", 7, STOP))
            self.edit(model, "generation_config.json", eos_token_id=nothing)
            self.edit(model, "config.json", eos_token_id=STOP)
            equal(self.answer(model, "--max-tokens", 5)[:3], ("x", "stop", 1))

    def check_a_stop_id_outside_the_vocabulary_is_never_silent(self):
        model = self.scripted()
        self.edit(model, "generation_config.json", eos_token_id=[END, 999999])
        done = self.run(model, [{"id": 1, "prompt_ids": [7]}])
        true("999999" in done.err, f"nothing said of the id 999999: {done.err!r}")

    def check_the_tokenizers_own_eos_ends_a_row(self):
        model = self.scripted(chain("x", 7, 4))
        self.edit(model, "generation_config.json", eos_token_id=0)
        self.edit(model, "config.json", eos_token_id=0)
        self.edit(model, "tokenizer_config.json", eos_token="<|im_end|>")
        equal(self.answer(model, "--max-tokens", 5)[:3], ("x", "stop", 1))

    def check_the_last_allowed_token_may_be_the_stop_token(self):
        model = self.scripted(chain("x", 7))
        equal(self.answer(model, "--max-tokens", 2)[:3], ("x", "stop", 1))
        equal(self.answer(model, "--max-tokens", 1)[:3], ("x", "length", 1))

    def check_a_stop_token_that_comes_first_gives_an_empty_answer(self):
        equal(self.answer(self.scripted(f"7>{END}")), ("", "stop", 0, []))

    def check_a_stop_text_completed_by_the_last_allowed_token_is_a_stop(self):
        equal(self.answer(self.scripted(), stop="cd", max_tokens=4)[:2], ("ab", "stop"))

    def check_stop_texts_cross_tokens_and_the_earliest_wins(self):
        model = self.scripted()
        equal(self.answer(model, stop=["ef", "de"])[:2], ("abc", "stop"))
        equal(self.answer(model, "--stop", "fg", "--stop", "zz")[:2], ("abcde", "stop"))

    def check_forms_of_stop_that_mean_nothing_change_nothing(self):
        model = self.scripted()
        for stop in (None, [], "", ["", "zz"]):
            equal(self.answer(model, stop=stop)[:2], (TEXT, "stop"), repr(stop))
        equal(self.answer(model, stop=["", "cd"])[:2], ("ab", "stop"))

    def check_a_number_as_stop_is_that_rows_error(self):
        done = self.run(self.scripted(), [{"id": 1, "prompt_ids": [7], "stop": 5}, {"id": 2, "prompt_ids": [7]}])
        equal(done.code, 1)
        true("stop" in done.row(1)["error"]["message"], done.row(1))
        equal(done.row(2)["text"], TEXT)

    def check_ignore_eos_goes_on_and_keeps_the_token(self):
        text, reason, count, ids = self.answer(self.scripted(f"7>{END} {END}>7"), "--ignore-eos", "--max-tokens", 4)
        equal((reason, count, ids), ("length", 4, [END, 7, END, 7]))

    def check_answers_keep_to_their_rows_in_every_arrangement(self):
        model = self.scripted(" ".join([chain("abcdefgh", 7), chain("ABCDEFGH", 8), chain("12345678", 9)]))
        rows = [{"id": name, "prompt_ids": [start], "max_tokens": count} for name, start, count in (("x", 7, 1), ("y", 8, 8), ("z", 9, 3))]
        want = {"x": ("a", "length"), "y": ("ABCDEFGH", "length"), "z": ("123", "length")}
        for order in (rows, rows[::-1], [rows[1], rows[2], rows[0]]):
            for batch in (1, 2, 3):
                done = self.run(model, order, "--batch", batch)
                equal([one["id"] for one in done.results], [row["id"] for row in order], "input order")
                for name, expected in want.items():
                    equal((done.row(name)["text"], done.row(name)["finish_reason"]), expected)

    def check_a_tie_goes_to_the_lowest_id(self):
        model = self.scripted(f"7>100 100>{END}", "--tie", "90,100")
        for options in ((), ("--kernels", "portable", "--threads", 1)):
            equal(self.answer(model, "--max-tokens", 1, *options)[3], [90])

    def check_temperature_zero_is_greedy_and_seeds_repeat(self):
        model = self.model("--hidden", 64, "--vocab", 300, "--scale", "0.2")
        rows = [{"id": i, "prompt_ids": [40 + i], "temperature": t, "ignore_eos": True} for i, t in enumerate((0, 0.0, 1.5, 1.5, 1.5))]
        first = self.run(model, rows, "--max-tokens", 12, "--seed", 3, "--token-ids")
        again = self.run(model, rows, "--max-tokens", 12, "--seed", 3, "--token-ids", "--batch", 2)
        greedy = self.run(model, [{k: v for k, v in row.items() if k != "temperature"} for row in rows], "--max-tokens", 12, "--token-ids")
        equal(again.bytes, first.bytes)
        for i in (0, 1):
            equal(first.row(i), greedy.row(i))
        true(any(first.row(i)["token_ids"] != greedy.row(i)["token_ids"] for i in (2, 3, 4)), "sampling changed nothing")

    def check_special_tokens_stay_out_of_the_text_unless_asked(self):
        model = self.scripted(f"7>{byte('a')[0]} {byte('a')[0]}>4 4>{byte('b')[0]} {byte('b')[0]}>{END}")
        self.edit(model, "tokenizer_config.json", eos_token="<|end|>")
        equal(self.answer(model)[0], "ab")
        equal(self.answer(model, skip_special_tokens=False)[0], "a<|im_end|>b")


if __name__ == "__main__":
    main(Endings)
