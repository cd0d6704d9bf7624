#!/usr/bin/env python3
"""How fast `sluice pull` is beside curl, from a server on the loopback (test/hub_server.py): GB a second, and processor seconds a GB of client and server.

    bench/pull_rate.py SLUICE... [--gigabytes 1] [--files 1] [--rounds 3] [--into FOLDER]

Each round runs curl into /dev/null, curl into a file and each SLUICE once, one after the other. Files land below FOLDER (the system's folder for
scratch files), and are removed.
"""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test"))
from hub_server import COMMIT, Hub, key_of

REPO = "org/model"
UNIT = 1 << 27


def processor_seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def measured(command, env, count_bytes):
    """GB a second, processor seconds a GB of the client and of the server."""
    before = [processor_seconds(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    start = time.monotonic()
    subprocess.run(command, env={**os.environ, **env}, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    after = [processor_seconds(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    return count_bytes / seconds / 1e9, *((b - a) / count_bytes * 1e9 for a, b in zip(before, after))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="SLUICE")
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--into")
    args = parser.parse_args()
    part, units = os.urandom(UNIT), max(1, round(args.gigabytes * 1e9 / UNIT / args.files))
    names = ["model.safetensors", *(f"model-{i}.safetensors" for i in range(1, args.files))]
    files = {"config.json": b"{}"} | {name: part * units + bytes([i]) for i, name in enumerate(names)}
    count_bytes, hub = sum(map(len, files.values())), Hub({REPO: files})
    for data in files.values():
        key_of(data)        # the server's sums, which it keeps
    found = {}
    with tempfile.TemporaryDirectory(prefix="sluice-pull-", dir=args.into) as folder:
        cache, one = Path(folder) / "cache", f"{hub.url}/{REPO}/resolve/{COMMIT}/{names[0]}"
        env = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(cache), "HF_TOKEN": "", "NO_PROXY": "127.0.0.1", "SLUICE_HOME": folder}
        for _ in range(args.rounds):
            for place in ("/dev/null", f"{folder}/file"):
                found.setdefault(f"curl -o {'/dev/null' if place == '/dev/null' else 'FILE'}", []).append(
                    measured(["curl", "-sf", "-o", place, one], env, len(files[names[0]])))
            (Path(folder) / "file").unlink()
            for program in args.programs:
                found.setdefault(program, []).append(measured([program, "pull", REPO, "--disk-floor", "0"], env, count_bytes))
                subprocess.run(["rm", "-r", cache], check=True)
    for name, figures in found.items():
        rates, clients, servers = zip(*figures)
        print(f"{name}: {statistics.median(rates):.2f} GB/s ({min(rates):.2f} to {max(rates):.2f}), processor seconds a GB: "
              f"client {statistics.median(clients):.2f}, server {statistics.median(servers):.2f}")


if __name__ == "__main__":
    main()
