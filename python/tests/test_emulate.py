"""Emulations and comparisons: they need Linux, root and TUN devices, and are skipped elsewhere."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import windward as ww


def why_not():
    if sys.platform != "linux":
        return "network namespaces need Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not pathlib.Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    return None


real = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

LINK = {
    "name": "l",
    "from": "server",
    "to": "client",
    "rate": "8Mbit",
    "delay": "10ms",
    "queue": "50p",
}
PORT = {"group": "web", "protocol": "outside:port", "from": "server", "to": "client"}
# Sends 200 kB to each client.
SERVER = """python3 -c "
import socket
listening = socket.create_server(('', 8000))
connection, _ = listening.accept()
connection.sendall(bytes(200_000))
connection.close()
" """
CLIENT = """python3 -c "
import socket
connection = socket.create_connection(('server', 8000))
count = 0
while block := connection.recv(65536):
    count += len(block)
print(count)
" """


def scenario(**changes):
    return ww.Scenario(duration="20s", links=[LINK], flows=[PORT], **changes)


@real
def test_commands_send_over_the_links_of_the_scenario(tmp_path):
    record = tmp_path / "web.rec"
    shares = []
    commands = {"server": SERVER, "client": CLIENT}
    done = ww.emulate(scenario(), commands, duration=15, record=record, progress=shares.append)
    assert [command.node for command in done.commands] == ["server", "client"]
    assert done.commands[1].status == 0, done.commands
    assert done.commands[1].stdout == "200000\n"
    ways = {port["from"]: port for port in done.ports}
    assert ways.keys() == {"server", "client"}
    # 200 kB in packets of at most 1500 bytes, and their ACKs.
    assert ways["server"]["packets_delivered"] > 133
    assert 0 < ways["client"]["packets_delivered"] <= ways["server"]["packets_delivered"]
    assert done.clock["packets"] > 200
    assert isinstance(done.usable, bool)
    # 200 kB at 8 Mbit/s take 200 ms at least, and a round trip goes before.
    assert 0.2 < done.run.duration < 15
    assert any(name.startswith("l") for name in done.run.links["name"])
    assert all(0 <= share <= 1 for share in shares)
    replayed = subprocess.run(
        [sys.executable, "-m", "windward", "replay", str(record), "--json"],
        check=True,
        capture_output=True,
    )
    assert json.loads(replayed.stdout)["fingerprint"] == done.run.fingerprint


@real
def test_without_commands_it_lasts_as_long_as_the_scenario():
    done = ww.emulate(scenario().with_(duration="1s"))
    assert done.commands == []
    assert done.run.duration == pytest.approx(1.0, abs=0.2)


@real
def test_what_is_wrong_is_an_exception():
    with pytest.raises(ValueError, match="no port begins or ends at a node `nowhere`"):
        ww.emulate(scenario(), {"nowhere": "true"})
    alone = ww.Scenario(
        duration="1s",
        links=[LINK],
        flows=[{"group": "a", "protocol": "cubic", "from": "server", "to": "client"}],
    )
    with pytest.raises(ValueError, match="no flow is a port"):
        ww.emulate(alone)
    with pytest.raises(ValueError, match=r"use windward\.emulate"):
        scenario().run()
    link = {"rate": "8Mbit", "delay": "10ms"}
    with pytest.raises(ValueError, match="no program is called `nothing`"):
        ww.compare(link, ["nothing"])
    with pytest.raises(ValueError, match="a link has no 'speed'"):
        ww.compare({"speed": "8Mbit"}, ["cubic"])
    with pytest.raises(ValueError, match="time = 0: must be from 1 to 3600"):
        ww.compare(link, ["cubic"], time=0)


@pytest.fixture
def interruptible():
    """Lets SIGINT raise KeyboardInterrupt, whatever an imported package or the shell has set."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# The command sends the signal: the test needs no timer.
@real
@pytest.mark.parametrize("rest", ["sleep 60", "true"], ids=["while it runs", "as it ends"])
def test_control_c_ends_an_emulation(interruptible, rest):
    with pytest.raises(KeyboardInterrupt):
        ww.emulate(scenario(), {"client": f"kill -INT {os.getpid()}; {rest}"})


@real
def test_control_c_ends_an_emulation_that_begins(interruptible):
    # The first report is made while namespaces are made or the command runs.
    def progress(share):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        ww.emulate(scenario(), {"client": "sleep 15"}, progress=progress)


@real
def test_control_c_takes_precedence_over_an_error(interruptible):
    # The unknown node is noticed after the first command has started.
    commands = [("client", f"kill -INT {os.getpid()}; sleep 60"), ("nowhere", "true")]
    with pytest.raises(KeyboardInterrupt) as raised:
        ww.emulate(scenario(), commands)
    assert raised.value.__context__ is None


@real
def test_programs_are_compared(tmp_path):
    link = {"rate": 8 * ww.Mbit, "delay": 10 * ww.ms, "queue": "50p"}
    folder = tmp_path / "out"
    shares = []
    found = ww.compare(
        link,
        ["cubic"],
        loss=[0.01],
        alone=True,
        time=2,
        warmup=1,
        runs=1,
        simulate=True,
        folder=folder,
        progress=shares.append,
    )
    [run] = found.runs
    assert (run["program"], run["loss"], run["seed"]) == ("cubic", 0.01, 1)
    assert run["simulated"] is not None
    # A machine that is too slow says so.
    assert run["alone"] is not None or run["unusable"]
    assert found.rows[0]["program"] == "cubic"
    assert "rate 8Mbit" in found.link
    assert found.rival is None
    assert json.loads(found.to_json())["runs"] == found.runs
    assert "cubic" in repr(found)
    assert "<table>" in found._repr_html_()
    names = {path.name for path in folder.iterdir() if path.is_file()}
    assert names == {"index.html", "programs.csv", "runs.csv", "compare.json"}
    assert all(0 <= share <= 1 for share in shares)


def test_elsewhere_it_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NotImplementedError, match=r"windward\.emulate needs Linux; on darwin"):
        ww.emulate(None)
    with pytest.raises(NotImplementedError, match=r"windward\.compare needs Linux; on darwin"):
        ww.compare({})
