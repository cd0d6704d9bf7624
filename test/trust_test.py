#!/usr/bin/env python3
"""`verify`, `bench job` and `report`: answers compared, jobs measured, pages drawn. The page is looked at in a browser where there is one."""
import html.parser
import json
import re
import shutil
import signal
import struct
import subprocess
import time
import zlib

from harness import Skip, Suite, equal, main, refused, true

ROWS = [{"id": f"r{i}", "prompt": "ab" * (i + 1)} for i in range(6)]


class Page(html.parser.HTMLParser):
    """Which tags stand open, what was seen, and all attributes."""
    ALONE = {"meta", "link", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.attributes, self.text = [], [], [], []
        self.feed(text)
        self.close()
        equal(self.open, [], "tags left open")

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in self.ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        equal(self.open.pop(), tag)

    def handle_data(self, data):
        self.text.append(data)


def pixels(path):
    """Colours of a PNG of 8 bits without interlacing, row filters undone enough to count them: the set of its raw bytes a row is enough."""
    data, at, body = path.read_bytes(), 8, b""
    equal(data[:8], b"\x89PNG\r\n\x1a\n")
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IDAT":
            body += data[at + 8:at + 8 + length]
        at += 12 + length
    return zlib.decompress(body)


class Trust(Suite):
    def job(self, *options, rows=ROWS):
        model, metrics = self.model("--context", 4096), self.folder() / "metrics"
        done = self.run(model, rows, "--max-tokens", 6, "--metrics", metrics, *options)
        equal(done.code, 0, done.err)
        return model, metrics, done

    def check_answers_are_the_same_however_they_are_made(self):
        model = self.model("--context", 4096)
        for options in ((), ("--limit", 3), ("--temperature", 1, "--seed", 5)):
            done = self.command("verify", model, self.rows(ROWS), "--max-tokens", 5, *options)
            count = 3 if "--limit" in options else 6
            equal((done.code, done.out.decode()), (0, f"identical {count}/{count}\n"), done.err)
            true("resident:" in done.err and "stream:" in done.err, done.err)

    def check_a_model_that_does_not_fit_is_streamed_twice(self):
        model = self.model("--context", 4096, "--layers", 8, "--hidden", 512)
        plan = self.command("plan", model, self.rows(ROWS), "--engine", "stream", "--memory", "1K", "--max-tokens", 5)
        least = re.search(r"--memory (\d+[KM])", plan.err)[1]
        done = self.command("verify", model, self.rows(ROWS), "--max-tokens", 5, "--memory", least)
        equal((done.code, done.out.decode()), (0, "identical 6/6\n"), done.err)
        true("streamed twice" in done.err and done.err.count("stream:") == 2, done.err)

    def check_an_engine_that_is_named_is_compared_with_itself(self):
        model = self.model("--context", 4096)
        for engine, other in (("stream", "resident"), ("resident", "stream")):
            done = self.command("verify", model, self.rows(ROWS), "--max-tokens", 5, "--engine", engine)
            equal((done.code, done.out.decode()), (0, "identical 6/6\n"), done.err)
            equal((done.err.count(f"{engine}:"), done.err.count(f"{other}:")), (2, 0), done.err)
            true("1 thread" in done.err, done.err)
        refused(self.command("verify", model, self.rows(ROWS), "--max-tokens", 5, "--engine", "resident", "--memory", "1K"), 3, "--memory")

    def check_a_file_of_settings_may_hold_those_of_the_command_alone(self):
        model, folder = self.model("--context", 4096), self.folder()
        rows = self.rows(ROWS)
        answers = self.run(model, rows, "--max-tokens", 3)
        equal(answers.code, 0, answers.err)
        settings = f"# against = nothing\n  max-tokens=3 \t\r\nlimit = 4\n\nengine = stream\nstop = against = x\nignore-eos\n"
        (folder / "verify").write_text(settings + f"against = {answers.file}")
        done = self.command("verify", "--config", folder / "verify", model, rows)
        equal(done.out.decode(), "identical 4/4\nagainst: the same answer 4/4, the same first character 4/4, the same length 4/4\n", done.err)
        equal((done.code, done.err.count("stream:")), (0, 2), done.err)
        (folder / "bench").write_text(settings + f"batches = 2,3\noutput = {folder / 'record'}\n")
        done = self.command("bench", "job", f"--config={folder / 'bench'}", "--limit", 3, model, rows)
        equal((done.code, done.out), (0, b""), done.err)
        equal([(point["batch"], point["rows_done"]) for point in json.loads((folder / "record").read_text())["points"]], [(2, 3), (3, 3)])
        (folder / "bad").write_text("limit = 4\nbatches = 2\n")
        refused(self.command("verify", "--config", folder / "bad", model, rows), 2, "bad, line 2", "batches")

    def check_answers_of_another_program_are_compared_honestly(self):
        model, _, done = self.job("--token-ids")
        lines = [json.loads(line) for line in done.bytes.splitlines()]
        same = self.folder() / "same.jsonl"
        same.write_bytes(done.bytes)
        command = ("verify", model, self.rows(ROWS), "--max-tokens", 6, "--against")
        out = self.command(*command, same)
        equal(out.code, 0, out.err)
        true("the same answer 6/6, the same first token 6/6, the same length 6/6" in out.out.decode(), out.out)
        lines[0]["token_ids"][1] ^= 1
        lines[1]["text"] = lines[1]["text"] + "<b>"
        del lines[2]
        other = self.folder() / "other.jsonl"
        other.write_text("\n".join(json.dumps(line) for line in lines))
        out = self.command(*command, other)
        equal(out.code, 1, out.err)
        text = out.out.decode()
        true("identical 6/6" in text and "the same answer 3/5, the same first token 5/5, the same length 5/5" in text, text)
        true('row "r0": token 1' in text, text)
        texts = self.folder() / "texts.jsonl"
        texts.write_text("\n".join(json.dumps({"id": line["id"], "text": line["text"]}) for line in lines[2:]))
        true("the same answer 3/3, the same first character 3/3" in self.command(*command, texts).out.decode(), "texts")

    def check_files_of_answers_that_are_none_are_refused(self):
        model, rows = self.model("--context", 4096), self.rows(ROWS)
        for text, words in ((b"{", ("line 1",)), (b"[]\n", ("without an id",)), (b'{"id": 1, "token_ids": ["x"]}', ("token",)), (b'{"id": "zz", "text": ""}', ("no row",))):
            path = self.folder() / "bad"
            path.write_bytes(text)
            refused(self.command("verify", model, rows, "--max-tokens", 2, "--against", path), 2, *words)
        refused(self.command("verify", model, rows, "--against", "/none"), 3, "/none")
        refused(self.command("verify", model), 2, "ROWS")
        refused(self.command("verify", "/none", rows), 3, "/none")
        refused(self.command("verify", model, rows, "-o", "x"), 2, "-o")

    def check_jobs_are_measured_by_batch_size(self):
        model, rows = self.model("--context", 4096), self.rows(ROWS)
        path = self.folder() / "record.json"
        done = self.command("bench", "job", model, rows, "--batches", "1,4", "--max-tokens", 5, "-o", path, "--engine", "stream")
        equal((done.code, done.out), (0, b""), done.err)
        record = json.loads(path.read_text())
        equal([point["batch"] for point in record["points"]], [1, 4])
        equal([point["batch_max"] for point in record["points"]], [1, 4])
        true(record["points"][0]["passes"] > record["points"][1]["passes"], record)
        for point in record["points"]:
            true(point["is_whole"] and point["rows_done"] == 6 and point["tokens_per_second"] > 0 and point["peak_rss_bytes"] > 1 << 20, point)
            true(0 <= point["read_share"] <= 1.01, point)
        true(record["machine"]["cores"] >= 1 and record["engine"] == "stream" and record["command"][:3] == ["sluice", "bench", "job"], record)
        for bad in ("0", "1,,2", "x", "1,", ",".join("1" * 40)):
            refused(self.command("bench", "job", model, rows, "--batches", bad), 2, "--batches")
        refused(self.command("bench", "job", model), 2, "ROWS")
        refused(self.command("bench", "job", "/none", rows), 3, "/none")

    def check_names_and_values_may_look_like_options(self):
        model, rows = self.model("--context", 4096, name="-o"), self.rows(ROWS)
        folder = rows.parent / "-rows"
        folder.mkdir()
        for name in ("-o", "--against"):
            (folder / name).symlink_to(model if name == "-o" else rows)
        for words in (["--limit", "2", "--max-tokens=3", "--", "-o", "--against"], ["--limit=2", "--max-tokens", "3", "--stop", "--", "--stop", "-o", "--", "-o", "--against"]):
            done = self.command("verify", *words, cwd=folder)
            equal((done.code, done.out.decode()), (0, "identical 2/2\n"), done.err)
            done = self.command("bench", "job", "--batches=2", "-orecord", *words, cwd=folder)
            equal((done.code, done.out), (0, b""), done.err)
            equal([point["rows_done"] for point in json.loads((folder / "record").read_text())["points"]], [2])
        refused(self.command("verify", "--", "-o", "--against", "--limit", cwd=folder), 2, "--limit", "one argument too many")

    def check_a_time_box_and_a_signal_stop_it(self):
        model = self.model("--context", 4096, "--hidden", 512, "--layers", 8)
        rows = self.rows([{"id": i, "prompt": "ab" * 20} for i in range(50)])
        done = self.command("bench", "job", model, rows, "--batches", "2", "--max-tokens", 400, "--ignore-eos", "--time-box", "1s")
        if done.code == 0:
            true(not json.loads(done.out)["points"][0]["is_whole"], done.out)
        else:
            refused(done, 3, "time box")        # of a busy machine
        running = subprocess.Popen([self.sluice, "bench", "job", str(model), str(rows), "--batches", "2", "--max-tokens", "400", "--ignore-eos"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.7)
        running.send_signal(signal.SIGTERM)
        equal(running.wait(30), 143)

    def page(self, *files):
        path = self.folder() / "page.html"
        done = self.command("report", *files, "-o", path)
        equal(done.code, 0, done.err)
        return path, Page(path.read_text())

    def check_a_page_shows_jobs_and_needs_nothing_else(self):
        _, metrics, _ = self.job("--engine", "stream")
        record = self.folder() / "record.json"
        record.write_text(json.dumps({"kind": "bench job", "points": [
            {"batch": b, "tokens_per_second": b, "median_pass_seconds": 1, "peak_rss_bytes": 1 << 20, "read_bytes_per_second": 0} for b in (1, 4)]}))
        path, page = self.page(metrics, record)
        equal(page.seen.count("svg"), 5 + 3)
        equal([value for name, value in page.attributes if name in ("src", "href", "action") or "url(" in (value or "")], [])
        true("script" not in page.seen and "http" not in path.read_text() and "@import" not in path.read_text(), "the network")
        text = " ".join(page.text)
        for word in ("6 of 6", "tokens a second", "peak memory", "Memory", "Share of the pass", str(metrics)):
            true(word in text, word)
        equal(self.command("report", metrics, record).out.decode().count("<svg"), 8)

    def check_hostile_metrics_stay_text(self):
        one = {"pass": 1, "seconds": 1, "read_bytes": 1}
        for changes in ({"seconds": 1e308}, {"seconds": -5}, {"rss_bytes": -1}, {"kv_bytes": 2**64}, {"rows_done": "<script>"}, {"read_seconds": [1]}):
            path = self.folder() / "<b>&m"
            summary = {"summary": True, "engine": "<script>alert(1)</script>", "precision": "x" * 5000, "kernels": "\u0000\u001b[31m", "seconds": "1"}
            path.write_text("\n".join(json.dumps(line) for line in [one | changes, one, summary]))
            html_path, page = self.page(path)
            true("script" not in page.seen and "b" not in set(page.seen) - {"b"}, page.seen)
            true("nan" not in re.sub(r"<style>.*?</style>", "", html_path.read_text(), flags=re.S).lower().replace("span", ""), changes)
            true("&lt;b&gt;&amp;m" in html_path.read_text(), "the name")

    def check_what_is_no_metrics_is_refused(self):
        for text in (b"", b"{}", b"[1, 2]", b"\xff", b'{"summary": true}', b'{"kind": "bench job"}', b'{"kind": "bench job", "points": [{}]}'):
            path = self.folder() / "bad"
            path.write_bytes(text)
            refused(self.command("report", path), 2, "bad")
        refused(self.command("report"), 2, "report needs")
        refused(self.command("report", "/none"), 3, "/none")

    def check_a_browser_shows_the_page(self):
        browser = next((shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)), None)
        if not browser:
            raise Skip("no Chromium is installed")
        _, metrics, _ = self.job("--engine", "stream")
        path, _ = self.page(metrics)
        folder = self.folder()
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--hide-scrollbars", "--window-size=1200,1400"]
        subprocess.run([*command, f"--screenshot={folder / 'page.png'}", path.as_uri()], check=True, timeout=100, capture_output=True)
        shown = pixels(folder / "page.png")
        true(len(set(shown)) > 50, "the picture is empty")
        dom = subprocess.run([*command, "--dump-dom", path.as_uri()], check=True, timeout=100, capture_output=True).stdout.decode()
        equal(dom.count("<svg"), 5)


if __name__ == "__main__":
    main(Trust)
