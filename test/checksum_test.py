#!/usr/bin/env python3
"""--checksum: weights are recorded when they are first read, and a byte that changes afterwards ends the job."""
import json
import os
import re
import struct

from harness import Suite, equal, main, refused, true

ROWS = [{"id": i, "prompt": "abc"[: i % 3 + 1], "max_tokens": 6} for i in range(4)]
WAYS = [("stream", reader, memory) for reader in ("pool", "uring", "sync") for memory in ("64M", "1G")] + [("resident", "pool", "1G")]


def spoil(path, offset):
    """Changes one byte and nothing that tells of it: as a drive does that forgets."""
    before = path.stat()
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def data_of(path, tensor):
    """Where the bytes of a tensor of a safetensors file lie."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        begin, end = json.loads(file.read(size))[tensor]["data_offsets"]
    return 8 + size + begin, 8 + size + end


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Checksum(Suite):
    def check(self, model, home, *options, **how):
        return self.run(model, ROWS, "--ignore-eos", "--checksum", *options, env={"SLUICE_HOME": str(home)}, **how)

    def notes(self, done):
        return [line for line in done.err.splitlines() if line.startswith("checksums: ")]

    def recorded(self, *options):
        """A model and a home that has its record; both are the test's own."""
        model, home = self.model("--layers", 3, *options), self.folder()
        done = self.check(model, home, "--engine", "stream")
        equal(done.code, 0, done.err)
        return model, home, done

    def record(self, home):
        records = list((home / "checksums").iterdir())
        equal(len(records), 1)
        return records[0]

    def check_a_first_run_records_and_later_ones_verify_whatever_they_read_with(self):
        model, home, first = self.recorded()
        true("has none yet" in self.notes(first)[0] and str(home) in self.notes(first)[0], first.err)
        record = self.record(home).read_bytes()
        for engine, reader, memory in WAYS:
            done = self.check(model, home, "--engine", engine, "--reader", reader, "--memory", memory, "--chunk", "64K")
            if reader == "uring" and "refuses io_uring" in done.err:
                continue
            equal((done.code, done.bytes), (0, first.bytes), done.err)
            true("are verified by" in self.notes(done)[0], done.err)
            equal(self.record(home).read_bytes(), record)
        plain = self.run(model, ROWS, "--ignore-eos", "--engine", "stream")
        equal((plain.code, plain.bytes), (0, first.bytes))

    def check_a_byte_that_changed_ends_the_job_and_the_journal_is_whole(self):
        model, home, first = self.recorded()
        weights = model / "model.safetensors"
        begin, end = data_of(weights, "model.layers.1.mlp.up_proj.weight")
        place = begin + (end - begin) // 3
        spoil(weights, place)
        for engine, reader, memory in WAYS:
            done = self.check(model, home, "--engine", engine, "--reader", reader, "--memory", memory)
            if reader == "uring" and "refuses io_uring" in done.err:
                continue
            refused(done, 3, "model.safetensors: ", "model.layers.1.mlp.up_proj.weight", "checksum", "recorded", str(home))
            size, offset = map(int, re.search(r": (\d+) bytes at offset (\d+) \(tensor", done.err).groups())
            true(offset <= place < offset + size and begin <= offset and offset + size <= end, done.err)

    def check_the_job_goes_on_once_the_bytes_are_right_again(self):
        model, home, first = self.recorded()
        record = self.record(home)
        whole = record.read_bytes()
        # Another number in the record: to the job, that is a drive that reads wrong.
        body = whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:-4]
        record.write_bytes(body + struct.pack("<I", crc32c(body)))
        done = self.check(model, home)
        refused(done, 3, "model.safetensors: ", "checksum")
        equal(done.bytes, b"")
        record.write_bytes(whole)
        again = self.check(model, home, out=done.file)
        equal((again.code, again.bytes), (0, first.bytes), again.err)

    def check_without_the_option_nobody_looks(self):
        model, home, first = self.recorded()
        spoil(model / "model.safetensors", data_of(model / "model.safetensors", "model.layers.0.self_attn.q_proj.weight")[0])
        equal(self.run(model, ROWS, "--ignore-eos", "--engine", "stream", env={"SLUICE_HOME": str(home)}).code, 0)

    def check_other_files_and_damaged_records_begin_anew(self):
        model, home, first = self.recorded()
        weights = model / "model.safetensors"
        record = self.record(home)
        whole = record.read_bytes()
        spoil(weights, data_of(weights, "model.layers.0.mlp.up_proj.weight")[0])
        os.utime(weights)
        done = self.check(model, home, "--engine", "stream")
        equal(done.code, 0, done.err)
        true("not those that its record is of" in self.notes(done)[0], done.err)
        true(record.read_bytes() != whole, "the record stayed as it was")
        whole = record.read_bytes()
        for spoiled in (b"", whole[:-1], whole[:40] + bytes([whole[40] ^ 1]) + whole[41:], b"x" * len(whole), whole + b"more"):
            record.write_bytes(spoiled)
            done = self.check(model, home, "--engine", "stream")
            equal(done.code, 0, done.err)
            true("recorded as weights are read" in self.notes(done)[0], done.err)
            equal(record.read_bytes(), whole)

    def check_experts_that_no_row_needs_are_recorded_later(self):
        model, home = self.model("--family", "mixtral", "--layers", 2), self.folder()
        rows = [[{"id": 0, "prompt": "a", "max_tokens": 1}], [{"id": 0, "prompt": "the quick brown fox " * 20, "max_tokens": 20}]]
        known = []
        for some in rows:
            done = self.run(model, some, "--ignore-eos", "--engine", "stream", "--checksum", env={"SLUICE_HOME": str(home)})
            equal(done.code, 0, done.err)
            record = self.record(home).read_bytes()
            count = struct.unpack_from("<Q", record, 16)[0]
            known.append(sum(bin(byte).count("1") for byte in record[24:24 + (count + 7) // 8]))
        true(0 < known[0] < known[1] <= count, f"{known} of {count}")
        true(f"{known[0]} of {count} are known" in self.notes(done)[0], done.err)

    def check_a_gguf_file_has_them_too(self):
        model, home = self.model("--layers", 2, name="model.gguf"), self.folder()
        equal(self.check(model, home).code, 0)
        spoil(model, model.stat().st_size - 200)
        done = self.check(model, home)
        refused(done, 3, "model.gguf: ", "tensor", "checksum")

    def check_a_home_that_cannot_be_written_is_a_warning(self):
        model, home = self.model(), self.folder() / "home"
        home.write_text("a file")
        done = self.check(model, home, "--engine", "stream")
        equal((done.code, "are not kept" in done.err), (0, True), done.err)


if __name__ == "__main__":
    main(Checksum)
