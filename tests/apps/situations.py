#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Bad situations: something is missing, denied, tiny, in the way or malicious. Writes TAP.

In each the same program (talk, or a well-known one) runs plain and with the library; output and exit status
must be equal. Where the situation rules shared memory out, the debug log must show a connection on TCP with
one of the expected reasons; where it does not, that shared memory was used.
"""

import argparse
import array
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from world import CLOSE_LINE, Failed, Skip, Tap, World, free_port, need  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
LIBDIR = "/usr/lib/x86_64-linux-gnu"
ROOT = os.geteuid() == 0
args = None


class Outcome:
    """What one run showed."""

    def __init__(self, world, code, out, err):
        self.code, self.out, self.err = code, out, err
        with open(world.log, encoding="utf-8", errors="replace") as f:
            self.log = f.read()
        ends = [m for m in map(CLOSE_LINE.search, self.log.splitlines()) if m]
        self.shm = sum(m["carrier"] == "shm" for m in ends)
        self.reasons = {int(m["reason"]) for m in ends if m["carrier"] != "shm"}

    def same(self, other, stderr=True):
        for what in ("code", "out") + (("err",) if stderr else ()):
            mine, theirs = getattr(self, what), getattr(other, what)
            if mine != theirs:
                raise Failed(f"{what} with the library:\n{mine}\nplain:\n{theirs}")


def play(way, command, setup=None, env=None, preload=None, timeout=30):
    """Runs one command in a world of its own. setup(world) may return another command."""
    world = World(way, args.lib)
    try:
        world.env.update(env or {})
        if way != "plain" and preload:
            world.env["LD_PRELOAD"] = preload
        if setup:
            command = setup(world, list(command))
        child = subprocess.Popen(
            command, env=world.env, cwd=world.tmp, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )
        world.children.append(child)
        try:
            out, err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            world.close()
            raise Failed(f"{' '.join(command)} does not end") from None
        # Parent and child write when they like.
        return Outcome(world, child.returncode, "\n".join(sorted(out.splitlines())), err.replace(world.tmp, "TMP"))
    finally:
        world.close()


def preloaded(lib, *options):
    """The confining program is not to have the library itself: it gets it when all is in place."""

    def setup(world, command):
        confine = [args.confine, *options]
        if "LD_PRELOAD" in world.env:
            confine += ["--preload", world.env.pop("LD_PRELOAD")]
        return [*confine, "--", *command]

    return setup


def compare(command, setup=None, tcp=None, shm=False, stderr=True, env=None, preload=None, log=True):
    """tcp: reasons of which one must show. shm: shared memory must have been used."""
    env = dict(env or {})
    plain = play("plain", command, setup, env)
    if plain.code == 125:
        raise Skip(f"not possible here: {plain.err.strip()[-100:]}")
    if not log:
        env |= {"SMC_DEBUG": "0", "SMC_DEBUG_FILE": ""}
    fast = play("accelerated", command, setup, env, preload)
    fast.same(plain, stderr)
    if tcp is not None:
        if fast.shm:
            raise Failed("shared memory was used")
        if not fast.reasons & set(tcp):
            raise Failed(f"reasons {sorted(fast.reasons)}, expected one of {tcp}\n{fast.log[-1500:]}")
    if shm and not fast.shm:
        raise Failed(f"shared memory was not used, reasons {sorted(fast.reasons)}\n{fast.log[-1500:]}")
    return f"shared memory {fast.shm}, on TCP for reasons {sorted(fast.reasons)}"


def confined(*options, command=None, **how):
    return lambda: compare(command or [args.talk], preloaded(args.lib, *options), **how)


def root_only(test):
    def run():
        if not ROOT:
            raise Skip("needs root")
        return test()

    return run


# --- start-up, other libraries, settings ---


def with_library(name, first, program=None):
    def run():
        path = os.path.join(LIBDIR, name)
        if not os.path.exists(path):
            raise Skip(f"no {name}")
        command = program or [args.talk]
        need(command[0])
        order = [path, args.lib] if first else [args.lib, path]
        # The plain run has the other library too.
        plain = play("plain", command, env={"LD_PRELOAD": path})
        fast = play("accelerated", command, preload=":".join(order))
        fast.same(plain)
        if not program and not fast.shm:
            raise Failed(f"shared memory was not used\n{fast.log[-1500:]}")

    return run


def early(first, **env):
    """Another library makes socket calls from malloc, and before and after our constructor and destructor."""

    def run():
        if not os.path.exists(args.early):
            raise Skip("early is not built")
        order = [args.early, args.lib] if first else [args.lib, args.early]
        plain = play("plain", [args.talk], env={"LD_PRELOAD": args.early, **env})
        if plain.code:
            raise Failed(f"plain: exit status {plain.code}\n{plain.err}")
        fast = play("accelerated", [args.talk], env=env, preload=":".join(order))
        fast.same(plain)
        if not fast.shm:
            raise Failed(f"shared memory was not used\n{fast.log[-1500:]}")

    return run


def twice():
    compare([args.talk], preload=f"{args.lib}:{args.lib}", shm=True)


def copied():
    """Two copies of the library, as when two versions are installed."""

    def setup(world, command):
        if "LD_PRELOAD" in world.env:
            shutil.copy(args.lib, world.path("libsmc_preload.so"))
            world.env["LD_PRELOAD"] = f"{args.lib}:{world.path('libsmc_preload.so')}"
        return command

    compare([args.talk], setup)


def silent(*command):
    def run():
        need(command[0])
        # Nothing asks for a log here: whatever the library wrote would be seen.
        compare(list(command), log=False)

    return run


def log_to_pipe(kind):
    """The debug log goes to a standard error that nobody reads, or that nobody can read any more."""

    def run():
        reader, writer = os.pipe()
        if kind == "gone":
            os.close(reader)
        else:
            os.set_blocking(writer, False)
            try:
                while os.write(writer, b"x" * 4096):
                    pass
            except BlockingIOError:
                os.set_blocking(writer, True)
        plain = play("plain", [args.talk])
        world = World("accelerated", args.lib)
        try:
            del world.env["SMC_DEBUG_FILE"]
            world.env["SMC_DEBUG"] = "2"
            child = subprocess.Popen(
                [args.talk], env=world.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writer,
                text=True, start_new_session=True,
            )
            world.children.append(child)
            try:
                out, _ = child.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                raise Failed("waits for its log") from None
            Outcome(world, child.returncode, "\n".join(sorted(out.splitlines())), "").same(plain, stderr=False)
        finally:
            world.close()
            os.close(writer)
            if kind != "gone":
                os.close(reader)

    return run


def debugged(setup, *expected):
    """With `smc_run -d` alone, nothing else set, the reason can be read on standard error."""

    def run():
        run_by = launcher()

        def setup_all(world, command):
            for name in ("LD_PRELOAD", "SMC_DEBUG", "SMC_DEBUG_FILE"):
                world.env.pop(name, None)
            world.env["SMC_PRELOAD_LIB"] = args.lib
            return [args.confine, *setup, "--", run_by, "-d", args.talk]

        plain = play("plain", [args.talk], preloaded(args.lib, *setup))
        fast = play("accelerated", [], setup_all)
        fast.same(plain, stderr=False)
        missing = [text for text in expected if text not in fast.err]
        if missing:
            raise Failed(f"standard error does not say {missing}:\n{fast.err[-1500:]}")

    return run


def settings(**env):
    return lambda: compare([args.talk], env=env)


def missing_library():
    """ld.so complains itself; the program runs."""
    compare([args.talk], preload="/nonexistent/libsmc_preload.so", stderr=False)


# --- programs that cannot be preloaded ---


def launcher():
    path = os.path.join(HERE, "..", "..", "scripts", "smc_run")
    if not os.path.exists(path):
        raise Skip("no smc_run")
    return path


def launched(program_path, setup_file=None, uid=None):
    def run():
        if not os.path.exists(program_path):
            raise Skip(f"no {os.path.basename(program_path)}")
        run_by = launcher()

        def setup(world, command):
            program = world.path("program")
            shutil.copy(program_path, program)
            os.chmod(program, 0o755)
            if setup_file:
                setup_file(program)
            prefix = [args.confine, "--uid", str(uid), "--"] if uid else []
            use = [run_by] if world.way != "plain" else []
            world.env.pop("LD_PRELOAD", None)
            world.env["SMC_PRELOAD_LIB"] = args.lib
            return [*prefix, *use, program]

        compare([], setup)

    return run


def make_setuid(path):
    os.chown(path, 0, 0)
    os.chmod(path, 0o4755)


def give_capability(path):
    need("setcap")
    if subprocess.run(["setcap", "cap_net_raw+ep", path], capture_output=True, check=False).returncode:
        raise Skip("the file system has no capabilities")


def suid_by_ldso():
    """A setuid program straight under LD_PRELOAD: ld.so leaves the library out."""

    def setup(world, command):
        program = world.path("program")
        shutil.copy(args.talk, program)
        make_setuid(program)
        confine = [args.confine, "--uid", "65534"]
        if "LD_PRELOAD" in world.env:
            confine += ["--preload", world.env.pop("LD_PRELOAD")]
        return [*confine, "--", program]

    compare([], setup, stderr=False)


# --- file systems and namespaces ---


def mounted(script):
    """Runs in a mount namespace of its own, after `script`; CMD is the command."""

    def setup(world, command):
        need("unshare", "mount", "chroot")
        lib = world.env.pop("LD_PRELOAD", "")
        world.env["ROOT"] = world.path("root")
        os.makedirs(world.env["ROOT"], exist_ok=True)
        for program in (args.talk, args.confine):
            shutil.copy(program, world.tmp)
        world.env["TMP_"] = world.tmp
        preload = ["--preload", lib] if lib else []
        tail = " ".join([world.path("confine"), *preload, "--", world.path("talk")])
        # What cannot be prepared is a skip, not a failure.
        return ["unshare", "-m", "--propagation", "private", "sh", "-c", script.replace("CMD", tail)]

    return setup


NO_PROC = "mount -t tmpfs none /proc || exit 125; exec CMD"
TINY_SHM = "mount -t tmpfs -o size=4k none /dev/shm || exit 125; exec CMD"
READ_ONLY = (
    'mount --bind / "$ROOT" && mount -o remount,ro,bind "$ROOT" && [ -e "$ROOT$TMP_/talk" ] || exit 125; '
    'exec chroot "$ROOT" CMD'
)


def two_sides(server_options, client_options, shm=False):
    """Server and client in different situations."""

    def one(way):
        world = World(way, args.lib)
        try:
            lib = world.env.pop("LD_PRELOAD", None)
            preload = ["--preload", lib] if lib else []
            port = free_port()
            server = world.start(args.confine, *server_options, *preload, "--", args.talk, "server", str(port), port=port)
            out = world.run(args.confine, *client_options, *preload, "--", args.talk, "client", str(port))
            server.wait(5)
            return Outcome(world, server.returncode, out + world.output(server), "")
        finally:
            world.close()

    def run():
        plain = one("plain")
        if plain.code == 125:
            raise Skip("not possible here")
        fast = one("accelerated")
        fast.same(plain)
        if shm and not fast.shm:
            raise Failed(f"shared memory was not used\n{fast.log[-1500:]}")
        return f"shared memory {fast.shm}, on TCP for reasons {sorted(fast.reasons)}"

    return run


# --- address translation ---


NAT = """
ip link set lo up && {tables} -t nat -A OUTPUT -p tcp --dport 1000 -j REDIRECT --to-ports 2000 || exit 125
{preload}
{server} & server=$!
n=0; until grep -qi ':07D0 .* 0A ' /proc/net/tcp /proc/net/tcp6 || [ $((n += 1)) -gt 200 ]; do sleep 0.02; done
{client} || exit
wait $server
"""


def translated(server, client, script=NAT, tcp=(201,), tables="iptables"):
    """In a network namespace of its own, what is sent to port 1000 comes to 2000."""

    def setup(world, command):
        need("unshare", "ip", tables)
        lib = world.env.pop("LD_PRELOAD", "")
        text = script.format(
            tables=tables, preload=f"export LD_PRELOAD={lib}" if lib else "",
            server=f"{server} 2000", client=f"{client} 1000",
        )
        return ["unshare", "-n", "sh", "-c", text]

    return lambda: compare([], setup, tcp=tcp, stderr=False)


def crossed(address, tables, listen):
    """One client number is used twice: to the port that is redirected, and straight to where that leads. For the
    second the kernel takes another number on the way, so that the addresses of the two sockets that are NOT
    connected to each other match."""

    def run():
        world = World("plain", args.lib)
        script = world.write("crossed.py", CROSSED)
        try:
            translated(
                f"/usr/bin/python3 {script} server {listen}", f"/usr/bin/python3 {script} client {address}",
                tables=tables,
            )()
        finally:
            world.close()

    return run


CROSSED = r"""
import socket, sys, threading
side, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
def new():
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s
def serve(c, n):
    while data := c.recv(100):
        c.sendall(b"%d %s" % (n, data))
if side == "server":
    s = new()
    s.bind((address, port))
    s.listen(5)
    threads = [threading.Thread(target=serve, args=(s.accept()[0], n)) for n in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
else:
    ends = []
    for to in (port, port * 2):
        s = new()
        s.bind((address, 5555))
        s.connect((address, to))
        s.settimeout(5)
        ends.append(s)
    wrong = 0
    for i in range(2000):
        for n, s in enumerate(ends):
            question = b"%05d to %d" % (i, n)
            s.sendall(question)
            wrong += s.recv(100) != b"%d %s" % (n, question)
    print("wrong", wrong)
"""

# The same without translation, the loopback interface coming up when all runs already.
LATE = """
{preload}
{server} & server=$!
n=0; until grep -qi ':07D0 .* 0A ' /proc/net/tcp || [ $((n += 1)) -gt 200 ]; do sleep 0.02; done
{client}; [ $? = 1 ] || exit 125
ip link set lo up
{client} || exit
wait $server
"""


def address_later():
    """A host that has no address when the server starts."""

    def setup(world, command):
        need("unshare", "ip")
        lib = world.env.pop("LD_PRELOAD", "")
        text = LATE.format(
            preload=f"export LD_PRELOAD={lib}" if lib else "", server=f"{args.talk} server 2000",
            client=f"{args.talk} client 2000",
        )
        return ["unshare", "-n", "sh", "-c", text]

    compare([], setup, shm=True)


# --- malice at the rendezvous ---


NAME = re.compile(r"@(\S*smc_preload\S*)$")
TUPLE = re.compile(r"(?P<head>.*/)[0-9a-f]{8}:[0-9a-f]{4}-[0-9a-f]{8}:[0-9a-f]{4}$")


def names_in_use():
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        return {m[1] for m in map(NAME.search, map(str.rstrip, f)) if m}


def learn_head():
    """Where the names are made of addresses, what stands before them."""
    world = World("accelerated", args.lib)
    try:
        child = world.start(args.talk, "long", "500", out="first")
        end = time.monotonic() + 5
        while child.poll() is None and time.monotonic() < end:
            for name in names_in_use():
                m = TUPLE.match(name)
                if m:
                    return m["head"]
        raise Failed("no rendezvous name was seen")
    finally:
        world.close()


def names_to_come(head):
    """The names that the two ends of each connection of this host would use."""
    names = set()
    with open("/proc/net/tcp", encoding="ascii") as f:
        for line in list(f)[1:]:
            fields = line.split()
            if fields[3] != "01":
                continue
            ends = []
            for end in fields[1:3]:
                ip, port = end.split(":")
                ends.append(f"{int.from_bytes(bytes.fromhex(ip), sys.byteorder):08x}:{port.lower()}")
            names.add(f"{head}{ends[0]}-{ends[1]}")
    return names


class Attack(threading.Thread):
    """Connects to every name it can find or guess and throws rubbish, until told to stop."""

    KINDS = (socket.SOCK_SEQPACKET, socket.SOCK_SEQPACKET, socket.SOCK_STREAM, socket.SOCK_DGRAM)

    def __init__(self, head, seed, squats):
        super().__init__(daemon=True)
        self.head, self.random, self.squats = head, random.Random(seed), squats
        self.over, self.hits, self.held, self.taken = False, 0, [], {}

    def message(self):
        r = self.random
        size = r.choice((0, 1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 100, 128, 200, 256, 1000, 4096, 65536))
        if r.random() < 0.5:
            return r.randbytes(size)
        # Near misses are worse than noise: small integers, zeros, all ones.
        return b"".join(
            r.choice((b"\0\0\0\0", b"\1\0\0\0", b"\xff\xff\xff\xff", r.randbytes(4))) for _ in range(size // 4)
        )

    def throw(self, s):
        r = self.random
        for _ in range(r.randrange(6)):
            if r.random() < 0.4:
                fds = [os.dup(0) for _ in range(r.choice((1, 2, 5, 20)))]
                try:
                    s.sendmsg([self.message()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
                finally:
                    for fd in fds:
                        os.close(fd)
            else:
                s.send(self.message())
            if r.random() < 0.2:
                try:
                    s.recv(4096)
                except BlockingIOError:
                    pass

    def let_go(self, s):
        if self.random.random() < 0.3 and len(self.held) < 200:
            self.held.append(s)  # stays open, silent
        else:
            s.close()

    def strike(self, name):
        s = socket.socket(socket.AF_UNIX, self.random.choice(self.KINDS))
        s.setblocking(False)
        try:
            s.connect("\0" + name)
            self.hits += 1
            self.throw(s)
        except OSError:
            pass
        self.let_go(s)

    def squat(self, name):
        """Is there first: whoever comes gets rubbish."""
        s = self.taken.get(name)
        if s is None:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.setblocking(False)
            try:
                s.bind("\0" + name)
                s.listen(5)
            except OSError:
                s.close()
                return
            self.taken[name] = s
        try:
            visitor, _ = s.accept()
            self.hits += 1
            visitor.setblocking(False)
            try:
                self.throw(visitor)
            except OSError:
                pass
            self.let_go(visitor)
        except OSError:
            pass

    def run(self):
        while not self.over:
            for name in names_to_come(self.head):
                if self.squats:
                    self.squat(name)
                self.strike(name)
            if len(self.taken) > 3000:
                for s in self.taken.values():
                    s.close()
                self.taken = {}
        for s in [*self.held, *self.taken.values()]:
            s.close()


def rv_name(head, client, server):
    def text(address):
        return f"{socket.inet_aton(address[0]).hex()}:{address[1]:04x}"

    return f"{head}{text(client)}-{text(server)}"


def message_of(kind, hello, rnd):
    """What a process says at the rendezvous that really holds the other end, but does not mean it well: the
    message and its descriptors."""
    if kind == "echo":
        return hello, []
    if kind == "insider":
        # A right WELCOME but for what comes with it: memory that can shrink, and no doorbell.
        memory = [os.memfd_create("x") for _ in range(2)]
        for fd in memory:
            os.ftruncate(fd, 1 << 20)
        head = bytearray(hello)
        head[6:8] = (2).to_bytes(2, sys.byteorder)
        head[8:24] = rnd.randbytes(16)
        return bytes(head), [memory[0], os.open("/dev/null", os.O_RDWR), memory[1]]
    size = rnd.choice((0, 1, 8, len(hello) - 1, len(hello), len(hello) + 1, 5000))
    return rnd.randbytes(size), [os.dup(0) for _ in range(rnd.choice((0, 0, 1, 3, 16)))]


def tell(s, kind, hello, rnd):
    data, fds = message_of(kind, hello, rnd)
    try:
        s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
        if kind == "insider":
            os.ftruncate(fds[0], 0)
            os.ftruncate(fds[2], 0)
            s.settimeout(0.5)
            s.recv(4096)
            for kind_of in (4, 5, 6, 7):  # OFFER, ACCEPT, DECLINE, LEFT
                rest = bytearray(hello)
                rest[6:8] = kind_of.to_bytes(2, sys.byteorder)
                rest[80:] = b"".join(rnd.choice((0, 1, 4096, 1 << 17, 1 << 30, 1 << 31)).to_bytes(4, sys.byteorder)
                                     for _ in range(6))
                s.send(bytes(rest))
    except OSError:
        pass
    finally:
        for fd in fds:
            os.close(fd)


class Hostile(threading.Thread):
    """Is at the name of one connection, as the end that calls or the end that is called, and says what it likes."""

    def __init__(self, name, called, kind, seed):
        super().__init__(daemon=True)
        self.name_, self.called, self.kind, self.random = name, called, kind, random.Random(seed)
        self.over, self.hits, self.listener = False, 0, None
        if called:
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.listener.bind("\0" + name)
            self.listener.listen(5)
            self.listener.settimeout(0.05)

    def visit(self):
        if self.called:
            s, _ = self.listener.accept()
            s.settimeout(0.5)
            hello = s.recv(4096)
        else:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.settimeout(0.5)
            s.connect("\0" + self.name_)
            hello = self.random.randbytes(104)
        with s:
            self.hits += 1
            if self.kind != "silent":
                tell(s, self.kind, hello, self.random)
            # stays a moment: who goes at once is no trouble
            time.sleep(0.02)

    def run(self):
        while not self.over:
            try:
                self.visit()
            except OSError:
                time.sleep(0.002)
        if self.listener:
            self.listener.close()


def refused_by(pid):
    """What smc_stat counts, None without it."""
    stat = os.path.join(os.path.dirname(args.lib), "..", "scripts", "smc_stat")
    if not os.path.exists(stat):
        return None
    out = subprocess.run([stat, "--json", "-p", str(pid)], capture_output=True, check=False, text=True).stdout
    processes = json.loads(out)["processes"] if out else []
    return processes[0]["totals"]["refused"] if processes else None


def reflect(c, until_q):
    """Gives every byte back, as some middle boxes and test servers do; the long part once it is complete."""
    while True:
        data = c.recv(1)
        if data in (b"q", b""):
            break
        c.sendall(data)
    until_q()
    c.sendall(b"q")
    whole = b""
    while len(whole) < 2 << 20:
        whole += c.recv(1 << 20)
    c.sendall(whole)


def drive(c, seconds, until_q):
    """The client's part of talk."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        c.sendall(b"p")
        c.recv(1)
    until_q()
    c.sendall(b"q")
    c.recv(1)
    half = bytes((i * 2654435761 & 0xFFFFFFFF) >> 16 & 0xFF for i in range(2 << 20))
    c.sendall(half)
    got = b""
    while data := c.recv(1 << 20):
        got += data
    return got == half


def hostile_holder(side, kind, counted):
    """The other end of the connection is a program without the library that answers at its rendezvous."""

    def one(way, head):
        world = World(way, args.lib)
        enemy, seen = None, []

        def look(pid):
            seen.append(refused_by(pid))
            end = time.monotonic() + 4
            while counted and seen[-1] == 0 and time.monotonic() < end:
                time.sleep(0.02)
                seen.append(refused_by(pid))

        def start(connection, called):
            client, server = connection.getsockname(), connection.getpeername()
            if not called:
                client, server = server, client
            thread = Hostile(rv_name(head, client, server), called, kind, args.seed)
            thread.start()
            return thread

        try:
            if side == "client":  # the accelerated one
                with socket.create_server(("127.0.0.1", 0)) as listener:
                    child = world.start(args.talk, "client", str(listener.getsockname()[1]), out="talk")
                    c, _ = listener.accept()
                with c:
                    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    enemy = start(c, False)
                    reflect(c, lambda: look(child.pid))
            else:
                port = free_port()
                child = world.start(args.talk, "server", str(port), port=port, out="talk")
                with socket.create_connection(("127.0.0.1", port)) as c:
                    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    enemy = start(c, True)
                    if not drive(c, 0.3, lambda: look(child.pid)):
                        raise Failed("the hostile end got other bytes than it should")
            child.wait(10)
            return Outcome(world, child.returncode, world.output(child), ""), enemy.hits, seen[-1]
        finally:
            if enemy:
                enemy.over = True
                enemy.join(5)
            world.close()

    def run():
        head = learn_head()
        plain, _, _ = one("plain", head)
        fast, hits, refused = one("accelerated", head)
        fast.same(plain)
        if fast.shm:
            raise Failed(f"shared memory was used\n{fast.log[-1500:]}")
        if not hits:
            raise Failed("nothing was ever said at the rendezvous")
        if counted and refused == 0:
            raise Failed("smc_stat counts nothing as refused")
        return f"{hits} hits, {refused} refused, on TCP for reasons {sorted(fast.reasons)}"

    return run


def attacked(squats):
    """Rubbish and squatters from before the first connection until after the last one."""

    def run():
        plain = play("plain", [args.talk])
        attack = Attack(learn_head(), args.seed, squats)
        attack.start()
        # A connection that takes its time is easier to attack.
        world = World("accelerated", args.lib)
        world.env["SMC_UPGRADE_CALLS"] = "300"
        try:
            outs = []
            long = world.start(args.talk, "long", "4000", out="long")
            busy = world.start(args.stress, "--seconds", "3", out="busy") if os.path.exists(args.stress) else None
            for _ in range(6):
                outs.append(world.run(args.talk))
            long.wait(20)
            outs.append(world.output(long))
            if busy:
                busy.wait(30)
                if busy.returncode:
                    raise Failed(f"{args.stress}: {world.output(busy)}")
            attack.over = True
            attack.join(10)
            # Afterwards all is as before.
            mark = os.path.getsize(world.log)
            outs.append(world.run(args.talk))
            for out in outs:
                if "\n".join(sorted(out.splitlines())) != plain.out:
                    raise Failed(f"under attack: {out}\nplain: {plain.out}")
            with open(world.log, encoding="utf-8", errors="replace") as f:
                f.seek(mark)
                last = f.read()
            if "carrier=shm" not in last:
                raise Failed(f"no connection is accelerated after the attack\n{last}")
            result = Outcome(world, 0, "", "")
            # A listener is there for an instant only: by connecting, an attack may come too late each time.
            return f"{attack.hits} hits, shared memory {result.shm}, on TCP for reasons {sorted(result.reasons)}"
        finally:
            attack.over = True
            world.close()

    return run


def tests():
    shm_only = {"shm": True}
    yield "nothing special", lambda: compare([args.talk], shm=True)
    for deny, reasons in (
        ("memfd_create=1", [204]), ("memfd_create=38", [204]), ("memfd_create=24", [204, 500]),
        ("unix=13", [203]), ("unix=97", [203]), ("netlink=1", [202]), ("thread=11", [205]),
    ):
        yield f"denied: {deny}", confined("--deny", deny, tcp=reasons)
    for deny in ("eventfd=1", "bpf=1", "futex_waitv=38", "pidfd=38", "process_vm=1", "fallocate=95",
                 "fallocate=28", "membarrier=38", "rseq=38", "epoll_pwait2=38", "close_range=38"):
        yield f"denied: {deny}", confined("--deny", deny)
    hardened = [a for d in ("bpf", "userfaultfd", "memfd_create", "io_uring", "ptrace", "pidfd", "process_vm")
                for a in ("--deny", f"{d}=1")]
    yield "hardened like SELinux", confined(*hardened, tcp=[204])
    for limit in ("nofile=16", "nofile=8", "nofile=256", "memlock=0", "memlock=65536", "stack=262144", "core=0"):
        yield f"limit {limit}", confined("--limit", limit)
    yield "limit memlock=0 is no obstacle", confined("--limit", "memlock=0", **shm_only)
    yield "limit fsize=0", confined("--limit", "fsize=0", log=False)
    for size in (30, 60, 200):
        yield f"limit as={size} MiB", confined("--limit", f"as={size << 20}")
    yield "LD_BIND_NOW=1", lambda: compare([args.talk], env={"LD_BIND_NOW": "1"}, shm=True)
    for bind_now in ("", "1"):
        for first in (True, False):
            name = f"calls before we are ready, {'before' if first else 'after'} ours"
            yield name + ", LD_BIND_NOW=1" * bool(bind_now), early(first, LD_BIND_NOW=bind_now)
    for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"):
        for first in (True, False):
            order = "before" if first else "after"
            yield f"{name} {order} ours", with_library(name, first)
            yield f"{name} {order} ours, redis-server", with_library(name, first, ["redis-server", "--version"])
    for name in ("libeatmydata.so", "faketime/libfaketime.so.1", "libibverbs.so.1"):
        for first in (True, False):
            yield f"{os.path.basename(name)} {'before' if first else 'after'} ours", with_library(name, first)
    yield "stdbuf", lambda: compare(["stdbuf", "-oL", args.talk], shm=True)
    yield "the library twice", twice
    yield "two copies of the library", copied
    yield "the library is missing", missing_library
    for command in (["ls", "-la", "/"], ["true"], ["false"], ["bash", "-c", "echo a; echo b >&2; exit 3"],
                    ["python3", "-c", "import ssl, socket, sqlite3; print(1)"], ["java", "-version"],
                    ["sh", "-c", "ls /nonexistent"], ["git", "--version"], ["perl", "-e", "print 1"],
                    ["date", "-d", "@0"], ["dd", "if=/dev/zero", "of=/dev/null", "count=3", "status=none"]):
        yield f"silent: {' '.join(command)[:40]}", silent(*command)
    yield "nonsense settings", settings(SMC_UPGRADE_CALLS="abc", SMC_RCVBUF="-1", SMC_SNDBUF="99999999G", SMC_SPIN_US="x")
    yield "empty settings", settings(SMC_UPGRADE_CALLS="", SMC_RCVBUF="", SMC_SNDBUF="", SMC_SPIN_US="", SMC_CARRIER="")
    yield "smallest rings", settings(SMC_RCVBUF="16K", SMC_SNDBUF="16K")
    yield "largest rings", settings(SMC_RCVBUF="4M", SMC_SNDBUF="4M")
    yield "no spinning", settings(SMC_SPIN_US="0")
    yield "much spinning", settings(SMC_SPIN_US="1000")
    yield "log file impossible", settings(SMC_DEBUG_FILE="/nonexistent/folder/log")
    yield "log file full", settings(SMC_DEBUG_FILE="/dev/full")
    yield "log to a pipe that is full", log_to_pipe("full")
    yield "log to a pipe whose reader has gone", log_to_pipe("gone")
    yield "limit nofile=16, smc_run -d", debugged(["--limit", "nofile=16"], "carrier=tcp reason=500")
    yield "limit fsize=0, smc_run -d", debugged(["--limit", "fsize=0"], "carrier=tcp reason=204")
    yield "static program, launched", launched(args.talk + "_static")
    yield "32-bit program, launched", launched(args.talk + "_32")
    yield "setuid program, launched", root_only(launched(args.talk, make_setuid, 65534))
    yield "program with capabilities, launched", root_only(launched(args.talk, give_capability, 65534))
    yield "setuid program, LD_PRELOAD", root_only(suid_by_ldso)
    yield "another user", root_only(confined("--uid", "65534", shm=True))
    yield "no /proc", root_only(lambda: compare([], mounted(NO_PROC)))
    yield "tiny /dev/shm", root_only(lambda: compare([], mounted(TINY_SHM)))
    yield "read-only root without /proc and /dev", root_only(lambda: compare([], mounted(READ_ONLY), log=False))
    yield "network namespace without addresses", root_only(confined("--netns"))
    yield "network namespace with loopback", root_only(confined("--netns", "--lo", shm=True))
    yield "an address that comes later", root_only(address_later)
    for tables in ("iptables", "iptables-legacy"):
        yield f"redirected by {tables}", root_only(
            translated(f"{args.talk} server", f"{args.talk} client", tables=tables))
    yield "redirected, crossed with a direct connection", root_only(crossed("127.0.0.1", "iptables", "127.0.0.1"))
    yield "redirected, crossed, IPv6", root_only(crossed("::1", "ip6tables", "::1"))
    yield "redirected, crossed, v4-mapped server", root_only(crossed("127.0.0.1", "iptables", "::"))
    yield "user namespace", root_only(confined("--userns"))
    yield "pid namespace", root_only(confined("--pidns"))
    yield "server in a pid namespace", root_only(two_sides(["--pidns"], []))
    yield "client in a pid namespace", root_only(two_sides([], ["--pidns"]))
    yield "server in a user namespace", root_only(two_sides(["--userns"], []))
    yield "server of another user", root_only(two_sides(["--uid", "65534"], [], shm=True))
    yield "client of another user", root_only(two_sides([], ["--uid", "65534"], shm=True))
    yield "two other users", root_only(two_sides(["--uid", "65533"], ["--uid", "65534"], shm=True))
    yield "memfd denied to the server", two_sides(["--deny", "memfd_create=1"], [])
    yield "memfd denied to the client", two_sides([], ["--deny", "memfd_create=1"])
    yield "threads denied to the server", two_sides(["--deny", "thread=11"], [])
    yield "nofile=16 at the client", two_sides([], ["--limit", "nofile=16"])
    for kind in ("silent", "echo", "garbage", "insider"):
        yield f"plain server, {kind} at the rendezvous", hostile_holder("client", kind, kind != "silent")
        yield f"plain client, {kind} at the rendezvous", hostile_holder("server", kind, kind != "silent")
    yield "garbage at the rendezvous", attacked(squats=False)
    yield "rendezvous names taken by somebody else", attacked(squats=True)


def main():
    global args  # noqa: PLW0603, one set of settings for all tests
    build = os.path.join(HERE, "..", "..", "build")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lib", default=os.path.join(build, "preload", "libsmc_preload.so"))
    p.add_argument("--talk", default=os.path.join(build, "tests", "apps", "talk"))
    p.add_argument("--confine", default=os.path.join(build, "tests", "apps", "confine"))
    p.add_argument("--early", default=os.path.join(build, "tests", "apps", "libearly.so"))
    p.add_argument("--stress", default=os.path.join(build, "tests", "stress", "switch_stress"))
    p.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    p.add_argument("-k", action="append", metavar="SUBSTRING", help="only tests with this in their name")
    p.add_argument("--list", action="store_true", help="only name them")
    args = p.parse_args()
    if args.list:
        print("\n".join(name for name, _ in tests()))
        return 0
    for name in ("lib", "talk", "confine", "early", "stress"):
        setattr(args, name, os.path.abspath(getattr(args, name)))
    tap = Tap()
    print("TAP version 13")
    for name, test in tests():
        if args.k and not any(k in name for k in args.k):
            continue
        start = time.monotonic()
        if not os.path.exists(args.lib):
            tap.point(True, f"{name} # SKIP no library at {args.lib}")
            continue
        notes, ok, skip = [], True, ""
        try:
            notes = [test() or ""]
        except Skip as e:
            skip = f" # SKIP {e}"
        except Failed as e:
            ok, notes = False, [str(e)]
        except Exception:  # noqa: BLE001, a broken test must not hide the others
            ok, notes = False, [traceback.format_exc()]
        tap.point(ok, f"{name} ({time.monotonic() - start:.1f} s){skip}", notes)
    print(f"1..{tap.n}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
