"""Pastes a text into an interactive shell and presses Enter, as a terminal does: paste.py SHELL BRACKETED < TEXT

The first argument is the shell with its options. BRACKETED is 1 if the terminal marks what is pasted. The
command is to print `done` at its end. Prints what the shell wrote then.
"""

import os
import pty
import select
import sys
import time

shell, bracketed = sys.argv[1].split(), sys.argv[2] == "1"
pasted = sys.stdin.buffer.read().replace(b"\r\n", b"\r").replace(b"\n", b"\r")
child, terminal = pty.fork()
if child == 0:
    os.execvp(shell[0], shell)


def read_until(mark, seconds=20):
    """Returns the output of the shell up to the mark, or of that time."""
    end, seen = time.monotonic() + seconds, b""
    while mark not in seen and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:
                break
    return seen


def write(data):
    """Writes in pieces that a terminal takes."""
    for at in range(0, len(data), 512):
        os.write(terminal, data[at : at + 512])
        time.sleep(0.005)


write(b"echo read''y\r")
read_until(b"ready")
if bracketed:
    pasted = b"\x1b[200~" + pasted + b"\x1b[201~"
write(pasted + b"\r")
read_until(b"done\r\n")
# Whatever the text left open ends here, and then the shell.
write(b"\x03echo fini''shed\rexit\r")
sys.stdout.buffer.write(read_until(b"finished"))
os.close(terminal)
os.waitpid(child, 0)
