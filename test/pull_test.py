#!/usr/bin/env python3
"""`sluice pull`, `list`, `rm` and names as MODEL, against a hub on the loopback that misbehaves in every way that users reported: partial files, changed
files, redirects, tokens, full disks, interruptions. No test needs the internet."""
import hashlib
import json
import os
import random
import signal
import subprocess
import threading
import time
import urllib.request

from harness import Skip, Suite, equal, main, refused, true
from hub_server import COMMIT, Hub, key_of

REPO = "org/tiny"
WEIGHTS = "model.safetensors"
PIECE_BYTES = 1 << 20       # a part grows by these (hub/flow.h)
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


class Pull(Suite):
    def repo(self):
        """Files of a real small model, and what does not belong to it."""
        folder = self.model("--family", "llama")
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        files |= {"README.md": b"hello", "original/consolidated.00.pth": b"x" * 30000, "consolidated.safetensors": b"y" * 30000, ".gitattributes": b"z"}
        return files

    def hub(self, files=None, repo=REPO):
        hub = Hub({repo: files or self.repo()})
        hub.cache = self.folder() / "cache"
        hub.env = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(hub.cache), "HF_HOME": str(hub.cache), "HF_TOKEN": "", "NO_PROXY": "127.0.0.1"}
        return hub

    def pull(self, hub, *words, name=REPO, **how):
        return self.command("pull", name, "--disk-floor", "0", *words, env={**hub.env, **how.pop("env", {})}, **how)

    def begin_pull(self, hub, stderr=subprocess.PIPE):
        env = {**os.environ, **hub.env, "SLUICE_HOME": str(self.scratch)}
        return subprocess.Popen([self.sluice, "pull", REPO, "--disk-floor", "0"], env=env, stdout=subprocess.DEVNULL, stderr=stderr)

    def folder_of(self, hub, repo=REPO):
        return hub.cache / ("models--" + repo.replace("/", "--"))

    def pulled(self, hub, files=None, repo=REPO):
        """Every chosen file is there under its own name, whole, and nothing else is."""
        files = files or {name: data for name, data in hub.repos[repo].items()
                          if "/" not in name and name not in ("README.md", "consolidated.safetensors", ".gitattributes")}
        snapshot = self.folder_of(hub, repo) / "snapshots" / COMMIT
        found = {str(path.relative_to(snapshot)): path for path in snapshot.rglob("*") if not path.is_dir()}
        equal(sorted(found), sorted(files))
        for name, path in found.items():
            equal(hashlib.sha256(path.read_bytes()).hexdigest(), hashlib.sha256(files[name]).hexdigest(), name)
            true(path.is_symlink() and path.resolve().name == key_of(files[name]), f"{name} -> {path.resolve()}")
        equal((self.folder_of(hub, repo) / "refs/main").read_text(), COMMIT)
        blobs = sorted(path.name for path in (self.folder_of(hub, repo) / "blobs").iterdir())
        equal(blobs, sorted({key_of(data) for data in files.values()}))

    def check_a_folder_of_safetensors_is_fetched_into_the_layout_of_the_cache(self):
        hub = self.hub()
        done = self.pull(hub)
        equal(done.code, 0, done.err)
        equal(done.out.decode().strip(), str(self.folder_of(hub) / "snapshots" / COMMIT))
        self.pulled(hub)
        asked = len(hub.files_asked())
        equal(self.pull(hub).code, 0)
        equal(len(hub.files_asked()), asked, "files fetched twice")

    def check_run_fetches_a_model_by_its_name_and_the_others_find_it(self):
        hub = self.hub()
        rows = self.rows([{"id": 1, "prompt": "ab"}])
        refused(self.command("plan", REPO, rows, env=hub.env), 3, "sluice pull org/tiny")
        equal(hub.log, [])
        done = self.run(REPO, rows, "--max-tokens", 4, "--disk-floor", "0", env=hub.env)
        equal(done.code, 0, done.err)
        true("not on this machine: fetching it" in done.err, done.err)
        asked = len(hub.log)
        for words in (("plan", REPO, rows), ("show", REPO), ("render", REPO, rows), ("tokenize", REPO), ("plan", f"{REPO}@{COMMIT}", rows)):
            done = self.command(*words, env=hub.env)
            equal(done.code, 0, done.err)
        equal(len(hub.log), asked, "the hub was asked for what is here")

    def check_a_complete_job_is_told_without_its_model(self):
        hub, model = self.hub(), ("--disk-floor", "0", "--max-tokens", 4)
        for rows, code in ((self.rows([{"id": 1, "prompt": "ab"}]), 0), (self.rows([{"id": 1, "prompt": "ab"}, b"[1]"]), 1)):
            first = self.run(REPO, rows, *model, env=hub.env)
            equal(first.code, code, first.err)
            equal(self.command("rm", REPO, env=hub.env).code, 0)
            asked = len(hub.log)
            for name in (REPO, f"{REPO}@main"):
                again = self.run(name, rows, *model, "--threads", 1, out=first.file, env=hub.env)
                equal((again.code, again.bytes), (code, first.bytes), again.err)
                true(f"{first.file} is complete: there is nothing to do" in again.err and f"{name} is not on this machine" in again.err, again.err)
            refused(self.run(REPO, rows, *model, "--seed", 1, out=first.file, env=hub.env), 2, "another job", "--seed was 0, is 1: ")
            refused(self.run(REPO, rows, *model, "--kernels", "avx512bf16", out=first.file, env=hub.env), 2, "another job", "--kernels")
            refused(self.run(REPO, [{"id": 1, "prompt": "ac"}], *model, out=first.file, env=hub.env), 2, "another job", "rows was")
            refused(self.command("score", REPO, rows, "-o", first.file, env=hub.env), 2, "another job", "command")
            for name in (f"{REPO}@{COMMIT}", "org/other"):
                refused(self.run(name, rows, *model, out=first.file, env=hub.env), 3, "is complete", f"{REPO}@main", f"sluice pull {name}")
            equal(first.file.read_bytes(), first.bytes)
            first.file.write_bytes(first.bytes[first.bytes.index(b"\n") + 1:])
            refused(self.run(REPO, rows, *model, out=first.file, env=hub.env), 2, "the job is complete, but its results")
            equal(len(hub.log), asked, "the hub was asked")
            over = self.run(REPO, rows, *model, "--overwrite", out=first.file, env=hub.env)
            equal((over.code, over.bytes, len(hub.log) > asked), (code, first.bytes, True), over.err)

    def check_a_complete_job_of_a_path_does_not_tell_which_name_it_has(self):
        hub, rows = self.hub(), self.rows([{"id": 1, "prompt": "ab"}])
        self.pull(hub)
        path = self.folder_of(hub) / "snapshots" / COMMIT
        first = self.run(path, rows, env=hub.env)
        equal(first.code, 0, first.err)
        here = self.run(REPO, rows, out=first.file, env=hub.env)
        equal((here.code, "complete: there is nothing to do" in here.err), (0, True), here.err)
        equal(self.command("rm", REPO, env=hub.env).code, 0)
        asked = len(hub.log)
        refused(self.run(REPO, rows, out=first.file, env=hub.env), 3, "is complete", COMMIT, f"sluice pull {REPO}", "--overwrite")
        equal(len(hub.log), asked, "the hub was asked")
        self.pull(hub)
        equal(self.run(REPO, rows, out=first.file, env=hub.env).code, 0)

    def check_what_can_be_refused_without_the_model_is_refused_before_it_is_fetched(self):
        hub, rows = self.hub(), self.rows([{"id": number, "prompt": "ab"} for number in range(400)])
        refused(self.run(REPO, self.folder() / "none.jsonl", env=hub.env), 2, "none.jsonl")
        equal(hub.log, [])
        stopped = self.run(REPO, rows, "--disk-floor", "0", "--time-box", "1s", "--max-tokens", 100000, "--ignore-eos", "--batch", 1, env=hub.env)
        equal(stopped.code, 130, stopped.err)
        equal(self.command("rm", REPO, env=hub.env).code, 0)
        asked = len(hub.log)
        refused(self.run(REPO, rows, "--max-tokens", 5, "--ignore-eos", out=stopped.file, env=hub.env), 2, "--max-tokens was 100000, is 5")
        equal(len(hub.log), asked, "the hub was asked")
        on = self.run(REPO, rows, "--disk-floor", "0", "--max-tokens", 100000, "--ignore-eos", "--time-box", "1s", out=stopped.file, env=hub.env)
        equal((on.code, len(hub.log) > asked), (130, True), on.err)

    def check_models_that_other_tools_fetched_are_found(self):
        hub, files = self.hub(), self.repo()
        blobs, snapshot = self.folder_of(hub) / "blobs", self.folder_of(hub) / "snapshots/abc"
        for folder in (blobs, snapshot, self.folder_of(hub) / "refs"):
            folder.mkdir(parents=True)
        (self.folder_of(hub) / "refs/main").write_text("abc")
        (blobs / "c").write_bytes(files["config.json"])
        (snapshot / "config.json").symlink_to("../../blobs/c")
        refused(self.command("show", REPO, env=hub.env), 3, "sluice pull")     # its config alone is no model
        for name, data in files.items():
            if "/" not in name and name != "config.json":
                (blobs / name).write_bytes(data)
                (snapshot / name).symlink_to(f"../../blobs/{name}")
        equal(self.command("show", REPO, env=hub.env).code, 0)
        equal(hub.log, [])

    def begun(self, hub, part, etag=None):
        """A part of the weights, as an interrupted download leaves it."""
        data = hub.repos[REPO][WEIGHTS]
        path = self.folder_of(hub) / "blobs" / (key_of(data) + ".incomplete")
        path.parent.mkdir(parents=True)
        path.write_bytes(data[:part] if isinstance(part, int) else part)
        if etag:
            path.with_name(path.name + ".etag").write_text(etag)

    def check_a_part_of_a_file_is_gone_on_with_whatever_the_server_does(self):
        for trick in ("", "full", "from:256", "from:0", "200-range", "short", "cut", "416", "longer", "gone", "500", "from:900"):
            hub = self.hub()
            self.begun(hub, 300)
            hub.tricks[WEIGHTS] = [trick]
            done = self.pull(hub)
            equal(done.code, 0, (trick, done.err))
            self.pulled(hub)
            hub.close()

    def check_the_part_is_not_fetched_again(self):
        hub = self.hub()
        whole = len(hub.repos[REPO][WEIGHTS])
        self.begun(hub, whole - 100)
        equal(self.pull(hub).code, 0)
        asked = [headers.get("Range") for path, headers in hub.log if path.endswith(WEIGHTS)]
        equal(asked, [f"bytes={whole - 100}-"])

    def check_a_part_of_another_file_begins_anew(self):
        for part, etag in ((b"q" * 300, '"other"'), (b"q" * 300, None), (b"q" * 10_000_000, None)):
            hub = self.hub()
            self.begun(hub, part, etag)
            done = self.pull(hub)
            equal(done.code, 0, done.err)
            self.pulled(hub)
            hub.close()

    def check_a_file_that_is_not_what_the_hub_declares_never_gets_its_name(self):
        hub = self.hub()
        hub.served[WEIGHTS] = bytes(len(hub.repos[REPO][WEIGHTS]))
        refused(self.pull(hub), 3, WEIGHTS, "the hub declares")
        true(not (self.folder_of(hub) / "blobs" / key_of(hub.repos[REPO][WEIGHTS])).exists(), "a wrong file")
        hub.served.clear()
        equal(self.pull(hub).code, 0)
        self.pulled(hub)

    def check_a_busy_server_is_tried_again_and_a_refusal_is_not(self):
        hub = self.hub()
        hub.tricks = {"api": ["503", "429"], WEIGHTS: ["503", "429", "500"]}
        equal(self.pull(hub).code, 0)
        self.pulled(hub)
        for status, words in (("404", ("404", WEIGHTS)), ("401", ("401",)), ("403", ("403", "licence"))):
            hub = self.hub()
            hub.tricks[WEIGHTS] = [status] * 5
            refused(self.pull(hub, "--downloads", 1), 3, *words)
            equal(hub.files_asked().count(WEIGHTS), 1, status)

    def check_nonsense_of_the_hub_is_refused(self):
        hub = self.hub()
        hub.tricks["api"] = ["nonsense"]
        refused(self.pull(hub), 3, REPO, "answer")
        refused(self.pull(hub, name="org/none"), 3, "org/none", "404")
        bad = [{"rfilename": "../../../evil.json", "size": 1, "blobId": "0" * 40}, {"rfilename": "model-x.safetensors", "size": -1, "blobId": "0" * 40},
               {"rfilename": "model-y.safetensors", "size": 1, "blobId": "../../x"}, {"rfilename": 5}, 7, {"rfilename": "/etc/model.safetensors"}]
        hub.more = bad
        equal(self.pull(hub).code, 0)
        self.pulled(hub)
        hub = self.hub({"README.md": b"nothing"})
        refused(self.pull(hub), 2, REPO, "GGUF")

    def check_tokens_go_to_the_hub_alone(self):
        hub, other = self.hub(), self.hub()
        hub.token = "hf_secret"
        refused(self.pull(hub), 3, "401", "HF_TOKEN")
        refused(self.pull(hub, env={"HF_TOKEN": "hf_wrong"}), 3, "403", "licence")
        hub.tricks[WEIGHTS] = [f"to:/{REPO}/resolve/{COMMIT}/{WEIGHTS}", f"to:{other.url}/{REPO}/resolve/{COMMIT}/{WEIGHTS}"]
        done = self.pull(hub, env={"HF_TOKEN": "hf_secret"})
        equal(done.code, 0, done.err)
        true("hf_secret" not in done.err, "the token is printed")
        equal([headers.get("Authorization") for path, headers in other.log], [None])
        self.pulled(hub)
        hub = self.hub()
        hub.token = "hf_file"
        hub.cache.mkdir()
        (hub.cache / "token").write_text("hf_file\n")
        equal(self.pull(hub).code, 0)
        for bad in ("two words", "x" * 2000):
            refused(self.pull(hub, env={"HF_TOKEN": bad}), 2, "HF_TOKEN")

    def check_redirects_end(self):
        hub = self.hub()
        hub.tricks[WEIGHTS] = [f"to:/{REPO}/resolve/{COMMIT}/{WEIGHTS}"] * 12
        refused(self.pull(hub), 3, WEIGHTS, "10 redirects")
        hub.tricks[WEIGHTS] = ["to:ftp://127.0.0.1/x"]
        refused(self.pull(hub), 3, WEIGHTS)
        refused(self.pull(hub, env={"HF_ENDPOINT": "file:///etc"}), 2, "HF_ENDPOINT")
        refused(self.pull(hub, env={"HF_ENDPOINT": "http://127.0.0.1:1"}), 3, "cannot be asked")

    def check_a_gguf_file_is_chosen_by_its_name(self):
        files = {"a-Q4_K_M.gguf": b"4" * 30000, "a-Q8_0.gguf": b"8" * 30000, "big/b-00001-of-00002.gguf": b"1" * 30000, "big/b-00002-of-00002.gguf": b"2" * 30000,
                 "config.json": b"{}"}
        hub = self.hub(files)
        refused(self.pull(hub), 2, "several GGUF files", "a-Q4_K_M.gguf", "org/tiny:FILE")
        refused(self.pull(hub, name=f"{REPO}:Q5"), 2, "Q5", "a-Q8_0.gguf")
        done = self.pull(hub, name=f"{REPO}:Q8_0")
        equal(done.out.decode().strip().rsplit("/", 1)[1], "a-Q8_0.gguf", done.err)
        done = self.pull(hub, name=f"{REPO}:big/b-00001-of-00002.gguf")
        equal(done.code, 0, done.err)
        equal(sorted(set(hub.files_asked())), ["a-Q8_0.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf"])

    def check_room_for_all_files_is_asked_for_before_the_first_byte(self):
        hub = self.hub()
        free = os.statvfs(self.scratch).f_bavail * os.statvfs(self.scratch).f_frsize
        refused(self.command("pull", REPO, "--disk-floor", free, env=hub.env), 3, "no room", "--disk-floor", "nothing was downloaded")
        equal(hub.files_asked(), [])

    def tmpfs(self, megabytes):
        place = self.folder()
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}M", "none", place], capture_output=True).returncode != 0:
            raise Skip("a small file system needs root")
        return place

    def check_a_disk_that_fills_up_ends_the_download_and_the_part_stays(self):
        files = {"model-1.safetensors": random.Random(1).randbytes(4 << 20), "model-2.safetensors": random.Random(2).randbytes(4 << 20), "config.json": b"{}"}
        hub, place = self.hub(files), self.tmpfs(10)
        try:
            hub.env["HF_HUB_CACHE"] = str(place)
            refused(self.command("pull", REPO, "--disk-floor", "4M", env=hub.env), 3, "no room")
            hub.piece, hub.pause = 1 << 19, 0.02
            timer = threading.Timer(0.1, lambda: (place / "other").write_bytes(bytes(5 << 20)))
            timer.start()
            refused(self.pull(hub, "--downloads", 1), 3, "No space left")
            timer.join()
            parts = list((place / "models--org--tiny/blobs").glob("*.incomplete"))
            true(parts and parts[0].stat().st_size > 0, parts)
            (place / "other").unlink()
            hub.piece = 0
            hub.repos[REPO]["model.safetensors"] = b"m" * 30000     # that the folder is a whole model
            done = self.pull(hub)
            equal(done.code, 0, done.err)
        finally:
            subprocess.run(["umount", place], check=True)

    def declared(self, hub, name):
        """The SHA-256 that the hub gives for a file to whoever asks."""
        ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        with ask(f"{hub.url}/api/models/{REPO}/revision/main?blobs=true") as answer:
            return next(one["lfs"]["sha256"] for one in json.load(answer)["siblings"] if one["rfilename"] == name)

    def interrupted(self, hub, part, signal_, is_time):
        """Starts `pull`, sends it a signal once is_time() is true, and returns how many bytes of the part are there."""
        running = self.begin_pull(hub, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not is_time() and time.monotonic() < deadline:
            true(running.poll() is None, f"it ended with {running.poll()} before the signal")
            time.sleep(0.0005)
        running.send_signal(signal_)
        code = running.wait(20)
        true(code in ({signal.SIGINT: 130, signal.SIGTERM: 143}.get(signal_), -signal_), (code, signal_))
        return part.stat().st_size if part.exists() else 0

    def check_killed_in_mid_transfer_or_at_any_instant_the_same_command_goes_on(self):
        """Fifty times: a download that lost its process once or more, with a part of the file there, ends with the right file, and the part is not asked for
        again. The server withholds the end of the file until the last run, so that no kill comes too late."""
        name, random_ = "model-00002.safetensors", random.Random(5)
        files = self.repo()
        files[name] = random_.randbytes((4 << 20) + 12345)
        hub, finished = self.hub(files), 0
        hub.piece, hub.pause = 1 << 16, 0.0005
        part, whole = self.folder_of(hub) / "blobs" / (key_of(files[name]) + ".incomplete"), len(files[name])
        for round_ in range(50):
            hub.hold = random_.randint(PIECE_BYTES + 1, whole - 1)
            enough = max(1, random_.randint(1, hub.hold) // PIECE_BYTES * PIECE_BYTES)
            have = self.interrupted(hub, part, SIGNALS[round_ % 3], lambda: part.exists() and part.stat().st_size >= enough)
            true(0 < have <= hub.hold, f"{have} bytes before the first signal, {hub.hold} were sent")
            if round_ % 2:      # once more, in any state
                after = time.monotonic() + random_.uniform(0, 0.08)
                more = self.interrupted(hub, part, random_.choice(SIGNALS), lambda: time.monotonic() >= after)
                true(have <= more <= hub.hold, f"{more} bytes of {have} after a second signal")
                have = more
            hub.hold, hub.bodies = None, []
            done = self.pull(hub)
            equal(done.code, 0, done.err)
            began = [body[1:] for body in hub.bodies if body[0] == name]    # a request of the process before may be answered late
            true((206, have) in began and (200, 0) not in began, f"the answers began at {began}, the part had {have} bytes")
            blob = (self.folder_of(hub) / "snapshots" / COMMIT / name).resolve()
            equal(hashlib.sha256(blob.read_bytes()).hexdigest(), self.declared(hub, name), f"round {round_}")
            finished += 1
            self.pulled(hub)
            subprocess.run(["rm", "-r", self.folder_of(hub)], check=True)
        equal(finished, 50)

    def check_a_large_part_is_summed_only_until_a_signal(self):
        hub = self.hub()
        key, whole = "a" * 64, 1 << 36      # a minute to sum
        hub.more = [{"rfilename": "model-x.safetensors", "lfs": {"sha256": key, "size": whole}, "size": whole, "blobId": "b" * 40}]
        part = self.folder_of(hub) / "blobs" / (key + ".incomplete")
        part.parent.mkdir(parents=True)
        with part.open("wb") as file:
            file.truncate(whole - 1)
        running = self.begin_pull(hub)
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        _, text = running.communicate(timeout=10)
        equal(running.returncode, 130, text)
        true(b"what is downloaded is kept" in text, text)
        equal(part.stat().st_size, whole - 1)

    def check_a_hub_that_is_busy_is_waited_for_only_until_a_signal(self):
        hub = self.hub()
        hub.tricks["api"] = ["busy:9"]
        running = self.begin_pull(hub)
        deadline = time.monotonic() + 20
        while not hub.log and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        _, text = running.communicate(timeout=5)
        equal(running.returncode, 130, text)
        true(b"nothing was downloaded" in text, text)

    def check_two_processes_fetch_one_model_together(self):
        hub = self.hub()
        hub.piece, hub.pause = 1 << 14, 0.002
        both = [self.begin_pull(hub) for _ in range(2)]
        for one in both:
            _, text = one.communicate(timeout=60)
            equal(one.returncode, 0, text)
        self.pulled(hub)
        equal(hub.files_asked().count(WEIGHTS), 1)

    def check_what_is_here_is_listed_and_removed(self):
        hub = self.hub()
        equal(json.loads(self.command("list", "--json", env=hub.env).out)["models"], [])
        self.pull(hub)
        found = json.loads(self.command("list", "--json", env=hub.env).out)
        equal([one["repository"] for one in found["models"]], [REPO])
        equal(found["models"][0]["bytes"], sum(path.stat().st_size for path in (self.folder_of(hub) / "blobs").iterdir()))
        true(all(line["licence"] and line["gigabytes"] > 0 for line in found["names"]), "the table")
        true(REPO in self.command("list", env=hub.env).out.decode(), "text")
        refused(self.command("rm", "org/none", env=hub.env), 2, "org/none")
        refused(self.command("rm", f"{REPO}:x.gguf", env=hub.env), 2, "whole repositories")
        equal(self.command("rm", REPO, env=hub.env).code, 0)
        true(not self.folder_of(hub).exists(), "still there")

    def check_names_of_the_table_mean_their_repositories(self):
        files = self.repo()
        hub = self.hub(files, repo="Qwen/Qwen2.5-0.5B-Instruct")
        done = self.pull(hub, name="qwen2.5:0.5b")
        equal(done.code, 0, done.err)
        self.pulled(hub, repo="Qwen/Qwen2.5-0.5B-Instruct")
        for name, words in (("qwen2.5:0.6b", ("qwen2.5",)), ("org/../x", ()), ("", ()), ("a/b/c", ()), ("org/x y", ()), ("-", ()), ("org/.git", ())):
            refused(self.pull(hub, name=name), 2, *words)


if __name__ == "__main__":
    main(Pull)
