#!/usr/bin/env python3
"""variables.py RANKS COMMAND...: the least launcher, for tests: it starts the command RANKS times with torchrun's variables, each in a session of
its own, passes signals on to all, and ends when all have, with the exit code of the first that failed. What is left 5 s after that is killed.
"""
import os
import signal
import subprocess
import sys
import time

ranks = int(sys.argv[1])
port = 20000 + os.getpid() % 20000
started = [subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, start_new_session=True,
                            env=dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
                                     MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCHELASTIC_RUN_ID=str(port))) for r in range(ranks)]
for number in signal.SIGUSR1, signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
    signal.signal(number, lambda n, _: [p.send_signal(n) for p in started])

failed, since = None, 0
while any(p.poll() is None for p in started):
    for p in started:
        if failed is None and p.poll():
            failed, since = p, time.monotonic()
        if failed is not None and time.monotonic() - since > 5 and p.poll() is None:
            p.kill()
    time.sleep(0.02)
codes = [p.returncode for p in ([failed] if failed is not None else []) + started if p.returncode]
sys.exit(0 if not codes else codes[0] if codes[0] > 0 else 128 - codes[0])
