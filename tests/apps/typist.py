"""Types lines into a program and waits for each to come back: typist.py LINES PROGRAM...

Prints `lines/s`, `p50` and `p99` in microseconds; exits with 1 at the first line that came back changed.
"""

import subprocess
import sys
import time

count, command = int(sys.argv[1]), sys.argv[2:]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
times = []
begin = time.monotonic()
for number in range(count):
    line = b"line %d typed\n" % number
    start = time.monotonic()
    child.stdin.write(line)
    got = b""
    while not got.endswith(b"\n"):
        more = child.stdout.read(4096)
        if not more:
            sys.exit(f"the connection ended after {number} lines")
        got += more
    times.append(time.monotonic() - start)
    if got != line:
        sys.exit(f"{line!r} came back as {got!r}")
elapsed = time.monotonic() - begin
child.stdin.close()
rest = child.stdout.read()
if rest or child.wait() != 0:
    sys.exit(f"at the end: {rest!r}, status {child.returncode}")
times.sort()
microseconds = [times[len(times) * percent // 100] * 1e6 for percent in (50, 99)]
print(f"lines/s {count / elapsed:.1f} p50 {microseconds[0]:.1f} p99 {microseconds[1]:.1f}")
