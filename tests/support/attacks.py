#!/usr/bin/env python3
"""attacks.py LONGSPAN CASE... (all without CASE): a job of 4 ranks on this host while others do what they should not at its port.

Each case is one line: the name, the seconds of the job, how it ended, and what was expected; the last line is "N passed, N failed". The jobs run in
the present folder, which has q.npy, k.npy and v.npy.
"""
import os
import socket
import struct
import subprocess
import sys
import threading
import time

longspan, chosen = sys.argv[1], sys.argv[2:]
RANKS, SECRET = 4, "what the ranks of this test know"
COMMAND = ["attention", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--mask", "causal", "--threads", "1"]
next_port = 20000 + os.getpid() % 20000


class Job:
    """Ranks with torchrun's variables. `environment` of rank r: what environment(r) adds."""

    def __init__(self, ranks=range(RANKS), environment=lambda r: {}, port=None):
        global next_port
        next_port += 20
        self.port = port or next_port
        self.began = time.monotonic()
        self.ranks = {}
        self.environment = environment
        for r in ranks:
            self.start(r)

    def start(self, r):
        variables = dict(os.environ, RANK=str(r), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                         MASTER_PORT=str(self.port), LONGSPAN_SECRET=SECRET, LONGSPAN_RENDEZVOUS_SECONDS="20")
        variables.update(self.environment(r))
        variables = {name: value for name, value in variables.items() if value is not None}
        out = f"o{self.port}"
        self.ranks[r] = subprocess.Popen([longspan, *COMMAND, "--out", out], env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.PIPE, text=True)

    def end(self, seconds=60):
        """(seconds that the job took, exit codes, messages)"""
        codes, texts = [], []
        for r, process in self.ranks.items():
            try:
                text = process.communicate(timeout=max(0.1, seconds - (time.monotonic() - self.began)))[1]
            except subprocess.TimeoutExpired:
                process.kill()
                text = process.communicate()[1] + f"(rank {r} was killed after {seconds} s)\n"
            codes.append(process.returncode)
            texts.append(text)
        return time.monotonic() - self.began, codes, "".join(texts)


# ---- strangers ----


class Strangers:
    """Threads that connect to a port until they are told to end."""

    def __init__(self, port, n, speak):
        self.over = threading.Event()
        self.heard = []  # what was said to them
        self.threads = [threading.Thread(target=self.run, args=(port, speak), daemon=True) for _ in range(n)]
        for thread in self.threads:
            thread.start()

    def run(self, port, speak):
        while not self.over.is_set():
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as s:
                    s.settimeout(0.2)
                    speak(self, s)
            except OSError:
                self.over.wait(0.1)  # strangers are to take the job's seats, not its processors

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join(5)


def silent(self, s):
    s.settimeout(20)  # the server closes it earlier, or the job's end does
    s.recv(1)


def slow(self, s):
    for byte in greeting():
        s.sendall(bytes([byte]))
        if self.over.wait(0.3):
            return


def greeting(rank=1, ranks=RANKS):
    """The first 160 bytes of a rank, without the build, which a stranger may know or not."""
    sizes = struct.pack("<6H", 8, 512, 64, 16, 512, 0)
    return b"LONGSPAN" + struct.pack("<III", 1, 1, 0x01020304) + sizes + struct.pack("<iiii", rank, ranks, 0, 1) + bytes(80) + os.urandom(32)


def listen_to(self, s):
    try:
        while data := s.recv(4096):
            self.heard.append(data)
    except socket.timeout:
        pass


def lying(self, s):
    s.sendall(greeting() + os.urandom(32))
    listen_to(self, s)
    self.over.wait(0.05)


def noise(self, s):
    s.sendall(os.urandom(4096))
    listen_to(self, s)


def xxh64(text):
    """XXH64 of less than 32 bytes."""
    p1, p2, p3, p4, p5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
    most = (1 << 64) - 1
    turn = lambda x, by: (x << by | x >> (64 - by)) & most
    h = p5 + len(text)
    while len(text) >= 8:
        h = (turn(h ^ turn(int.from_bytes(text[:8], "little") * p2 & most, 31) * p1 & most, 27) * p1 + p4) & most
        text = text[8:]
    if len(text) >= 4:
        h = (turn(h ^ int.from_bytes(text[:4], "little") * p1 & most, 23) * p2 + p3) & most
        text = text[4:]
    for byte in text:
        h = turn(h ^ byte * p5 & most, 11) * p1 & most
    h = (h ^ h >> 33) * p2 & most
    h = (h ^ h >> 29) * p3 & most
    return h ^ h >> 32


def old(self, s):
    """The greeting of a build that had no secrets: whoever knew the name of the job was a rank, and stays one."""
    s.sendall(struct.pack("<IIQii", 0, 16, xxh64(b"torchrun///%d" % RANKS), RANKS - 1, RANKS))
    listen_to(self, s)
    while self.heard and not self.over.wait(0.1):
        pass


def crowd(*kinds):
    """A case: a job among strangers, each kind so many at a time, starts within 2 s more than one without."""

    def case():
        alone, among = [], []
        for _ in range(3):  # in turn, so that other work on the machine slows both
            alone.append(run_alone())
            groups = [Strangers(next_port + 20, n, speak) for n, speak in kinds]
            seconds, codes, text = run_slowly()
            for group in groups:
                group.end()
            among.append(seconds)
            if codes != [0] * RANKS:
                return False, f"{seconds:.1f} s; exit {codes}", text
        return min(among) < min(alone) + 2, f"{min(among):.1f} s, without strangers {min(alone):.1f} s", text

    return case


def run_slowly():
    """A job whose last rank comes a second after the others: strangers have so much time."""
    job = Job(ranks=range(RANKS - 1))
    time.sleep(1)
    job.start(RANKS - 1)
    return job.end()


def run_alone():
    seconds, codes, text = run_slowly()
    assert codes == [0] * RANKS, text
    return seconds


# ---- ranks that do not fit ----


def other_secret():
    """Rank 3 has another secret: it gets no seat, and both sides say why."""
    job = Job(environment=lambda r: {"LONGSPAN_SECRET": "another secret, as long" if r == 3 else SECRET, "LONGSPAN_RENDEZVOUS_SECONDS": "6"})
    seconds, codes, text = job.end()
    good = all(codes) and "rank 3 there has another secret than rank 0" in text and "rank 0 there has another secret than rank 3" in text
    return good and seconds < 20, f"{seconds:.1f} s; exit {codes}", text


def no_secret():
    """Rank 3 has none."""
    job = Job(environment=lambda r: {"LONGSPAN_SECRET": None if r == 3 else SECRET, "LONGSPAN_RENDEZVOUS_SECONDS": "6"})
    seconds, codes, text = job.end()
    return all(codes) and "another secret" in text and seconds < 20, f"{seconds:.1f} s; exit {codes}", text


def same_rank():
    """Two processes have the same rank: the second is told so, the job goes on."""
    job = Job(ranks=[0, 1])
    second = Job(ranks=[], port=job.port)
    time.sleep(0.5)
    second.start(1)
    told = second.end(10)
    for r in range(2, RANKS):
        job.start(r)
    seconds, codes, text = job.end()
    good = "rank 1 of 4 is there already: two processes have the same rank" in told[2] and codes == [0] * RANKS
    return good, f"the second: exit {told[1]}; the job: exit {codes}", told[2] + text


def late_first():
    """Rank 0 comes 7 s after the others, who find a silent listener at its port until then."""
    with socket.create_server(("127.0.0.1", next_port + 20)) as other:
        job = Job(ranks=[1, 2, 3])
        time.sleep(7)
        job.start(0)
        seconds, codes, text = job.end()
        del other
    return codes == [0] * RANKS and "waits for rank 0" in text, f"{seconds - 7:.1f} s after rank 0 came; exit {codes}", text


def stopped_first():
    """Rank 0 is stopped for 7 s while it listens: its ranks wait for it, and nobody is taken for dead."""
    job = Job(ranks=[0])
    time.sleep(0.5)
    job.ranks[0].send_signal(19)
    for r in 1, 2, 3:
        job.start(r)
    time.sleep(7)
    job.ranks[0].send_signal(18)
    seconds, codes, text = job.end()
    return codes == [0] * RANKS, f"{seconds - 7.5:.1f} s after it went on; exit {codes}", text


def false_server():
    """A stranger listens at the port, and claims to send gigabytes: the ranks pass it, with little memory."""
    over, held = threading.Event(), []

    def serve(server):
        server.settimeout(0.2)
        while not over.is_set():
            try:
                s = server.accept()[0]
                held.append(s)  # as an older build greets, and announces values of 3 GiB; then as this one does
                s.sendall(struct.pack("<IIIIII", 0, 0, 1, 0, 2, 0xBFFFFF00) + struct.pack("<IIQ", 4, 0xFFFFFF00, 0) + bytes(1 << 16))
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", next_port + 20)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        job = Job(ranks=[1])
        time.sleep(1.5)
        with open(f"/proc/{job.ranks[1].pid}/status") as f:
            peak = max([int(line.split()[1]) / 1024 for line in f if line.startswith("VmPeak")], default=0)
        for r in 0, 2, 3:
            job.start(r)
        seconds, codes, text = job.end()
        over.set()
        thread.join()
    return codes == [0] * RANKS and peak < 1500, f"{peak:.0f} MiB of addresses; exit {codes}", text


def other_address():
    """The port is open at the loopback address alone."""
    job = Job(ranks=[0])
    time.sleep(0.7)
    with open("/proc/net/tcp") as v4, open("/proc/net/tcp6") as v6:
        rows = [line.split() for f in (v4, v6) for line in f.readlines()[1:]]
    found = {row[1].split(":")[0] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == job.port}
    for r in 1, 2, 3:
        job.start(r)
    seconds, codes, text = job.end()
    return found == {"0100007F"} and codes == [0] * RANKS, f"listens at {sorted(found)}; exit {codes}", text


def interrupted():
    """Ctrl-C of a rank 0 among 60 silent strangers ends it within 2 s."""
    job = Job(ranks=[0])
    crowd_of = Strangers(job.port, 60, silent)
    time.sleep(1.5)
    began = time.monotonic()
    job.ranks[0].send_signal(2)
    job.ranks[0].wait(30)
    seconds = time.monotonic() - began
    crowd_of.end()
    return seconds < 2, f"{seconds:.2f} s", job.end()[2]


def two_jobs():
    """Two jobs of one name on one port: their ranks do not mix. One works, or both are refused by name."""
    first = Job(ranks=[0])
    time.sleep(0.7)
    second = Job(ranks=[0], port=first.port)
    told = second.end(15)
    for r in 1, 2, 3:
        first.start(r)
    seconds, codes, text = first.end()
    good = told[1] == [2] and "rank 0 of another job of the same name" in told[2] and codes == [0] * RANKS
    return good, f"the second: exit {told[1]}; the first: exit {codes}", told[2] + text


def taken_seat():
    """A stranger sends what made it a rank before there were secrets, for each seat, until the job ends."""
    strangers = Strangers(next_port + 20, 4, old)
    seconds, codes, text = run_slowly()
    strangers.end()
    return codes == [0] * RANKS and not strangers.heard, f"{seconds:.1f} s; heard {len(strangers.heard)} messages; exit {codes}", text


CASES = {
    "60 silent": crowd((60, silent)),
    "10 slow": crowd((10, slow)),
    "5 lying": crowd((5, lying)),
    "5 with noise": crowd((5, noise)),
    "60 silent, 10 slow, 5 lying": crowd((60, silent), (10, slow), (5, lying)),
    "seat of an old build": taken_seat,
    "another secret": other_secret,
    "no secret": no_secret,
    "same rank twice": same_rank,
    "two jobs": two_jobs,
    "rank 0 late": late_first,
    "rank 0 stopped": stopped_first,
    "false server": false_server,
    "other addresses": other_address,
    "Ctrl-C": interrupted,
}
unknown = [name for name in chosen if name not in CASES]
if unknown:
    sys.exit(f"attacks.py: no case {unknown[0]!r}; expected one of: {', '.join(CASES)}")
failed = 0
for name in chosen or CASES:
    good, what, text = CASES[name]()
    failed += not good
    print(f"{'ok    ' if good else 'FAILED'} {name:28s} {what}", flush=True)
    if not good:
        print(text[-2000:])
print(f"{len(chosen or CASES) - failed} passed, {failed} failed")
sys.exit(failed > 0)
