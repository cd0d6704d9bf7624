"""A hub on the loopback for pull_test.py: repositories in memory, in the form of the Hugging Face API, and ways to misbehave.

Each request takes the next word of `hub.tricks` for its file (when there is one); what was asked stands in `hub.log`, and in `hub.bodies` where the answers
began. No byte of a file from `hub.hold` on is sent until that is None again.
"""
import functools
import hashlib
import http.server
import json
import threading
import time
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SMALL_BYTES = 20_000    # larger files are "lfs": their key is a SHA-256


@functools.lru_cache(maxsize=None)
def sha256(data):
    return hashlib.sha256(data).hexdigest()


@functools.lru_cache(maxsize=None)
def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def key_of(data):
    return sha256(data) if len(data) > SMALL_BYTES else git_sha1(data)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def drop(self):
        self.close_connection = True
        self.wfile.flush()

    def do_GET(self):
        hub = self.server.hub
        url = urllib.parse.urlparse(self.path)
        path = urllib.parse.unquote(url.path)
        with hub.lock:
            hub.log.append((path, dict(self.headers)))
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.answer(403 if "Authorization" in self.headers else 401)
        try:
            if path.startswith("/api/models/"):
                return self.listing(hub, path)
            return self.file(hub, path)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def trick(self, hub, name):
        with hub.lock:
            tricks = hub.tricks.get(name)
            return tricks.pop(0) if tricks else ""

    def listing(self, hub, path):
        repo, revision = path[len("/api/models/"):].split("/revision/")
        trick = self.trick(hub, "api")
        if trick.isdigit():
            return self.answer(int(trick))
        if trick.startswith("busy:"):
            return self.answer(503, Retry_After=trick[5:])
        if trick == "nonsense":
            return self.answer(200, b'{"sha": 1')
        if repo not in hub.repos:
            return self.answer(404)
        siblings = []
        for name, data in hub.repos[repo].items():
            entry = {"rfilename": name, "size": len(data), "blobId": git_sha1(data)}
            if len(data) > SMALL_BYTES:
                entry["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 130}
            siblings.append(entry)
        return self.answer(200, json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings + hub.more}).encode())

    def file(self, hub, path):
        owner, _, name = path[1:].partition(f"/resolve/{COMMIT}/")
        data = hub.served.get(name, hub.repos.get(owner, {}).get(name))
        if data is None:
            return self.answer(404)
        trick = self.trick(hub, name)
        etag = f'"{sha256(data)[:16]}"'
        asked = self.headers.get("Range")
        start = int(asked[len("bytes="):].split("-")[0]) if asked else 0
        if self.headers.get("If-Range", etag) != etag:
            asked, start = None, 0
        total = len(data)
        if trick.isdigit():
            return self.answer(int(trick), Retry_After=0)
        if trick.startswith("to:"):
            return self.answer(302, Location=trick[3:])
        if trick == "full":
            return self.answer(200, data, ETag=etag)
        if trick.startswith("from:"):
            start = int(trick[5:])
            return self.answer(206, data[start:], ETag=etag, Content_Range=f"bytes {start}-{total - 1}/{total}")
        if trick == "200-range":
            return self.answer(200, data[start:], ETag=etag, Content_Range=f"bytes {start}-{total - 1}/{total}")
        if trick == "short":       # a whole answer, of fewer bytes than there are
            body = data[start:start + 1000]
            return self.answer(206, body, ETag=etag, Content_Range=f"bytes {start}-{start + len(body) - 1}/{total}")
        if trick == "cut":         # the connection ends before the answer does
            self.answer(206 if asked else 200, data[start:start + 1000], ETag=etag, Content_Length=total - start,
                        **({"Content_Range": f"bytes {start}-{total - 1}/{total}"} if asked else {}))
            return self.drop()
        if trick == "longer":
            return self.answer(200, data + b"more", ETag=etag)
        if trick == "wrong":
            return self.answer(200, bytes(len(data)), ETag=etag)
        if trick == "gone":
            return self.drop()
        body = memoryview(data)[start:]
        headers = {"ETag": etag, "Content_Length": len(body)}
        if asked:
            headers["Content_Range"] = f"bytes {start}-{total - 1}/{total}"
        with hub.lock:
            hub.bodies.append((name, 206 if asked else 200, start))
        self.answer(206 if asked else 200, b"", **headers)
        if not hub.piece:
            self.wfile.write(body)
            return None
        at = start
        while at < total:
            hold = hub.hold
            end = min(at + hub.piece, total if hold is None else max(at, hold))
            self.wfile.write(body[at - start:end - start])
            at = end
            time.sleep(hub.pause)
        return None


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass        # connections that the other side dropped


class Hub:
    def __init__(self, repos):
        self.repos, self.tricks, self.log, self.served, self.more = repos, {}, [], {}, []
        self.token, self.piece, self.pause = "", 0, 0.0
        self.hold, self.bodies = None, []
        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.hub = self
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def files_asked(self):
        return [path.rsplit("/", 1)[1] for path, _ in self.log if "/resolve/" in path]

    def close(self):
        self.server.shutdown()
        self.server.server_close()
