#!/usr/bin/env python3
"""Answers of another engine to the same rows, greedy, for `sluice verify MODEL ROWS --against FILE`. Standard library; the engine is the user's own.

    bench/answers_of.py llama MODEL.gguf ROWS -o FILE [--server llama-server] [--limit 20] [--max-tokens 64] [--sluice sluice]
    bench/answers_of.py transformers FOLDER ROWS -o FILE [--limit 20] [--max-tokens 64] [--sluice sluice]

What both engines read must be the same, so the prompts are the ids that `sluice render` prints, and go to the other engine as ids. `llama` starts llama.cpp's
llama-server (from PATH, or --server) with one slot, without its prompt cache, and asks its /completion; `transformers` runs the library in float32. Each line
of FILE has id, text and token_ids.
"""
import argparse
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request


def prompts(args):
    """(id, ids) of the first rows, as sluice renders them; rows that are errors are left out."""
    command = [args.sluice, "render", args.model, args.rows, "--limit", str(args.limit)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if done.returncode > 1:
        sys.exit(f"answers_of.py: {' '.join(command)} ended with {done.returncode}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [(line["id"], line["ids"]) for line in lines if "ids" in line]


def ask(url, body=None, seconds=600):
    request = urllib.request.Request(url, json.dumps(body).encode() if body is not None else None, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=seconds) as answer:
        return json.load(answer)


def wait_for(server, url):
    for _ in range(1200):
        if server.poll() is not None:
            sys.exit(f"answers_of.py: llama-server ended with {server.returncode} before it answered")
        try:
            ask(url + "/health", seconds=5)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    sys.exit("answers_of.py: llama-server does not answer")


def by_llama(args):
    program = args.server or shutil.which("llama-server")
    if not program:
        sys.exit("answers_of.py: llama-server is not in PATH: name it with --server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([program, "-m", args.model, "--host", "127.0.0.1", "--port", str(port), "-np", "1"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(server, url)
        for name, ids in prompts(args):
            body = {"prompt": ids, "n_predict": args.max_tokens, "temperature": 0, "top_k": 1, "cache_prompt": False, "return_tokens": True, "repeat_penalty": 1}
            answer = ask(url + "/completion", body)
            tokens = answer.get("tokens", [])
            ended = answer.get("stop_type") == "eos" and tokens     # its end token is in the list; ours leaves it out
            yield {"id": name, "text": answer["content"], "token_ids": tokens[:-1] if ended else tokens}
    finally:
        server.terminate()
        server.wait()


def by_transformers(args):
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as missing:
        sys.exit(f"answers_of.py: {missing}: install torch and transformers in the environment that runs this")
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, torch_dtype=torch.float32).eval()
    for name, ids in prompts(args):
        with torch.no_grad():
            out = model.generate(torch.tensor([ids]), max_new_tokens=args.max_tokens, do_sample=False, num_beams=1)[0][len(ids):].tolist()
        ends = model.generation_config.eos_token_id
        ends = {ends} if isinstance(ends, int) else set(ends or [])
        while out and out[-1] in ends:
            out.pop()
        yield {"id": name, "text": tokenizer.decode(out, skip_special_tokens=True), "token_ids": out}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=["llama", "transformers"])
    parser.add_argument("model")
    parser.add_argument("rows")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--sluice", default="sluice")
    parser.add_argument("--server")
    args = parser.parse_args()
    with open(args.output, "w", encoding="utf-8") as out:
        for line in (by_llama if args.engine == "llama" else by_transformers)(args):
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
