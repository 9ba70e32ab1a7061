# SPDX-License-Identifier: BSD-2-Clause
"""Tests with nginx (wrk, ab, curl) and Python's http.server."""

import http.client
import os
import re
import signal
import time

from programs import MIB, Test
from world import Failed, free_port, need, sha

NGINX = """
daemon off;
master_process on;
worker_processes {workers};
{user}
pid {tmp}/nginx.pid;
error_log {tmp}/error.log notice;
events {{ worker_connections 512; accept_mutex {mutex}; }}
http {{
    access_log off;
    log_not_found off;
    client_body_temp_path {tmp}/body;
    proxy_temp_path {tmp}/proxy;
    fastcgi_temp_path {tmp}/fastcgi;
    uwsgi_temp_path {tmp}/uwsgi;
    scgi_temp_path {tmp}/scgi;
    sendfile {sendfile};
    keepalive_requests 100000;
    client_max_body_size 20m;
    server {{
        listen 127.0.0.1:{port}{listen};
        root {tmp}/www;
        location /back/ {{ proxy_pass http://127.0.0.1:{back}/; proxy_buffering off; }}
        location /put/ {{ proxy_pass http://127.0.0.1:{back}/put/; proxy_request_buffering off; }}
    }}
    server {{
        listen 127.0.0.1:{back};
        root {tmp}/www;
        location /put/ {{ return 200 "$content_length $request_length\\n"; }}
    }}
}}
"""


class Nginx:
    def __init__(self, w, workers=2, mutex="off", sendfile="on", listen=""):
        need("nginx")
        self.w, self.port, self.back = w, free_port(), free_port()
        os.makedirs(w.path("www"))
        self.files = {name: w.random_file(f"www/{name}", size) for name, size in
                      (("small", 700), ("page", 100_000), ("large", 8 * MIB))}
        config = NGINX.format(
            tmp=w.tmp, workers=workers, mutex=mutex, sendfile=sendfile, listen=listen, port=self.port,
            back=self.back, user="user root;" if os.geteuid() == 0 else "",
        )
        self.server = w.start("nginx", "-p", w.tmp, "-c", w.write("nginx.conf", config), port=self.port)
        w.wait_for(lambda: len(self.workers()) >= workers, "nginx workers")

    def workers(self):
        try:
            with open(f"/proc/{self.server.pid}/task/{self.server.pid}/children", encoding="ascii") as f:
                return f.read().split()
        except OSError:
            return []

    def url(self, path):
        return f"http://127.0.0.1:{self.port}/{path}"

    def stop(self):
        code = self.w.stop(self.server, signal.SIGQUIT, 10)
        with open(self.w.path("error.log"), encoding="utf-8", errors="replace") as f:
            bad = [line.strip() for line in f if re.search(r"\[(alert|crit|emerg|error)\]|exited on signal", line)]
        return {"exit": code, "errors": bad[:5]}


def curl(w, *urls):
    need("curl")
    outs = [w.path(f"curl{i}") for i in range(len(urls))]
    args = [a for url, out in zip(urls, outs) for a in ("-o", out, url)]
    w.run("curl", "-sS", "--fail", "--noproxy", "*", *args)
    return [sha(o) for o in outs]


def wrk_figures(w, out):
    w.notes += [line.strip() for line in out.splitlines() if "Requests/sec" in line]
    # wrk counts timeouts at its own end, when answers are still on their way; the others must not be.
    bad = re.findall(r"(?:connect|read|write) [1-9]\d*|Non-2xx.*", out)
    return {"bad": bad, "some": "Requests/sec" in out}


def nginx_files(w):
    n = Nginx(w)
    names = ["small", "page", "large"]
    result = {
        "direct": curl(w, *[n.url(name) for name in names]) == [sha(n.files[name]) for name in names],
        "proxied": curl(w, *[n.url("back/" + name) for name in names]) == [sha(n.files[name]) for name in names],
        "range": w.run("curl", "-sS", "--noproxy", "*", "-r", "100-199", "-o", w.path("part"), n.url("large")),
        "part": sha(w.path("part")),
        "put": w.run("curl", "-sS", "--noproxy", "*", "-T", n.files["large"], n.url("put/x")).split()[0],
        "404": w.run("curl", "-sS", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}", n.url("none")),
    }
    return {**result, **n.stop()}


def nginx_wrk(w):
    need("wrk")
    n = Nginx(w, mutex="on")
    result = {}
    for path in ("small", "page", "back/page"):
        out = w.run("wrk", "-t", "2", "-c", "20", "-d", "1", n.url(path))
        result[path] = wrk_figures(w, out)
    out = w.run("wrk", "-t", "1", "-c", "10", "-d", "1", "-H", "Connection: close", n.url("small"))
    result["close"] = wrk_figures(w, out)
    return {**result, **n.stop()}


def nginx_ab(w):
    need("ab")
    n = Nginx(w, sendfile="off", listen=" reuseport")
    result = {}
    for name, options in (("keepalive", ["-k"]), ("close", [])):
        out = w.run("ab", "-q", "-n", "3000", "-c", "10", *options, n.url("page"))
        w.notes += [line.strip() for line in out.splitlines() if "Requests per second" in line]
        result[name] = [
            line for line in out.splitlines()
            if re.match(r"(Complete requests|Failed requests|Write errors|Document Length|HTML transferred)", line)
        ]
    return {**result, **n.stop()}


def nginx_reload(w):
    """Reloads under load: nobody notices, a slow download goes on through it."""
    need("wrk", "curl")
    n = Nginx(w)
    load = w.start("wrk", "-t", "1", "-c", "8", "-d", "4", n.url("small"), out="wrk.out")
    slow = w.start(
        "curl", "-sS", "--fail", "--noproxy", "*", "--limit-rate", "3M", "-o", w.path("slow"), n.url("large"),
    )
    for _ in range(5):
        time.sleep(0.5)
        n.server.send_signal(signal.SIGHUP)
    slow.wait(15)
    load.wait(15)
    figures = wrk_figures(w, w.output(load))
    # A worker that ends may close a kept connection just as a request comes: so does it without the library.
    figures["bad"] = [b for b in figures["bad"] if not b.startswith("read")]
    return {"slow": slow.returncode, "intact": sha(w.path("slow")) == sha(n.files["large"]), **figures, **n.stop()}


def http_server(w):
    os.makedirs(w.path("www"))
    big, small = w.random_file("www/big", 8 * MIB), w.random_file("www/small", 900)
    port = free_port()
    server = w.start(
        "/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", "--protocol", "HTTP/1.1",
        "--directory", w.path("www"), str(port), port=port,
    )
    base = f"http://127.0.0.1:{port}"
    result = {
        "kept": curl(w, *[f"{base}/small"] * 20, f"{base}/big") == [sha(small)] * 20 + [sha(big)],
        "close": w.run(
            "curl", "-sS", "--noproxy", "*", "-H", "Connection: close", "-o", w.path("c"), f"{base}/big",
        ) + sha(w.path("c")),
        "ten": [curl(w, f"{base}/small") == [sha(small)] for _ in range(10)],
        "urllib": w.run("/usr/bin/python3", w.write("get.py", URLLIB), base).splitlines(),
        "head": w.run("curl", "-sSI", "--noproxy", "*", f"{base}/big").splitlines()[0],
    }
    # A client without the library at the same server.
    plain = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    for _ in range(5):
        plain.request("GET", "/big")
        if sha(plain.getresponse().read()) != sha(big):
            raise Failed("a plain client got something else")
    plain.close()
    w.stop(server, signal.SIGINT)
    return result


URLLIB = """
import hashlib, sys, urllib.request
for i in range(10):
    with urllib.request.urlopen(sys.argv[1] + ("/big" if i % 3 == 0 else "/small"), timeout=10) as r:
        print(r.status, hashlib.sha256(r.read()).hexdigest()[:16])
"""

TESTS = [
    Test("nginx files", nginx_files, 0.1),
    Test("nginx wrk", nginx_wrk, 0.3),
    Test("nginx ab", nginx_ab, 0.1),
    Test("nginx reload", nginx_reload, 0.1),
    Test("http.server", http_server, 0.1),
]
