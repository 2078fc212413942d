"""examples/python/upwind.py, which is the page of upwind in Python, sends the packets of the Rust."""

import importlib.util
import pathlib

import windward as ww

PATH = pathlib.Path(__file__).parents[2] / "examples/python/upwind.py"
UPWIND = {"group": "u", "protocol": "upwind"}


def link(flows=1, *, rate="20Mbit", delay="15ms", queue="66p", duration="15s", beside=(), **bottleneck):
    """One link with ``flows`` upwinds, and further groups of flows."""
    return ww.Scenario(
        duration=duration,
        warmup="5s",
        dumbbell={
            "bottleneck": {"rate": rate, "delay": delay, "queue": queue, **bottleneck},
            "access": {"rate": "100Mbit", "delay": "5ms"},
        },
        flows=[{**UPWIND, "count": flows}, *beside],
    )


def rates(*steps):
    return {"schedule": [{"at": at, "rate": rate} for at, rate in steps]}


def delays(*steps):
    return {"schedule": [{"at": at, "delay": delay} for at, delay in steps]}


def other(protocol, count=1, **keys):
    return {"group": protocol, "protocol": protocol, "count": count, **keys}


BURSTS = {"mean_good": "2s", "mean_bad": "100ms", "loss_good": 0, "loss_bad": 0.5}
OUTAGES = {"mean_good": "3s", "mean_bad": "400ms", "loss_good": 0, "loss_bad": 1}
BACK = {"jitter": {"amount": "10ms", "in_order": False}, "loss": 0.02}
SCENARIOS = {
    "alone": link(),
    "2 % lost": link(loss=0.02),
    "8 % lost": link(loss=0.08),
    "20 % lost": link(loss=0.2),
    "jitter": link(jitter="8ms"),
    "spurious losses": link(jitter={"amount": "8ms", "in_order": False}),
    "jitter of both ways": link(jitter="8ms", queue="200p").with_({"dumbbell.reverse_bottleneck": BACK}),
    "reordering": link(2, reorder={"share": 0.02, "by": "10p"}, aqm={"kind": "pie", "ecn": True}),
    "newreno in half a BDP": link(queue="33p", beside=[other("newreno")]),
    "cubic in a BDP": link(beside=[other("cubic", start="4s")]),
    "newrenos in two BDP": link(queue="132p", beside=[other("newreno", 2)], duration="25s"),
    "CoDel": link(4, queue="200p", aqm="codel"),
    "PIE and 3 % lost": link(6, queue="200p", aqm="pie", loss=0.03),
    "RED and a cubic": link(2, queue="100p", aqm="red", beside=[other("cubic")]),
    "marks": link(2, queue="200p", aqm={"kind": "codel", "ecn": True}, beside=[other("cubic", start="4s")]),
    "marks in start-up": link(
        rate="10Mbit",
        queue="60p",
        duration="8s",
        aqm={"kind": "red", "ecn": True},
        beside=[other("cubic", 6, ecn=True), {**UPWIND, "group": "late", "count": 8, "start": "4s"}],
    ),
    "vegas": link(rate="4Mbit", queue="400p", beside=[other("vegas", 2)], duration="30s"),
    "capacity": link(rate=rates(("0s", "20Mbit"), ("5s", "4Mbit"), ("9s", "20Mbit")), queue="20p"),
    "longer path": link(delay=delays(("0s", "15ms"), ("5s", "60ms"))),
    "bursts": link(2, gilbert_elliott=BURSTS, beside=[{**UPWIND, "group": "late", "start": "5s"}]),
    "outages": link(2, rate="3Mbit", gilbert_elliott=OUTAGES, duration="25s"),
    "five in a short queue": link(5, queue="8p"),
    "slow": link(2, rate="1.3Mbit", queue="20p", loss=0.08, duration="40s"),
}


def specified():
    spec = importlib.util.spec_from_file_location("upwind_specification", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Upwind


def first_difference(rust, python, seed):
    """The first millisecond after which a window differs."""
    runs = [ww.Simulation(scenario, seed=seed) for scenario in (rust, python)]
    for ms in range(1, int(rust.duration * 1000) + 1):
        for run in runs:
            run.advance(ms / 1000)
        for name in rust.flows:
            windows = [run.flow(name)["cwnd_packets"] for run in runs]
            if abs(windows[0] - windows[1]) > 1e-9 * windows[0]:
                return f"{name} at {ms} ms has {windows[0]} packets in Rust, and {windows[1]} by the page"
    return "no window differs by more than rounding"


def test_the_page_and_the_rust_send_the_same_packets():
    own = {"base": "upwind", "window": specified()}
    for name, rust in SCENARIOS.items():
        groups = {flow.rsplit("-", 1)[0] for flow in rust.flows} & {"u", "late"}
        python = rust.with_({f"flows.{group}.protocol": own for group in groups})
        same = rust.run(seed=1).fingerprint == python.run(seed=1).fingerprint
        assert same, f"{name}: {first_difference(rust, python, 1)}"


def test_a_difference_is_found_and_named():
    class Wrong(specified()):
        def grow_ceiling(self):
            super().grow_ceiling()
            self.C = min(self.C, 20)

    rust = SCENARIOS["8 % lost"].with_(duration="3s", warmup="1s")
    python = rust.with_({"flows.u.protocol": {"base": "upwind", "window": Wrong}})
    assert rust.run(seed=1).fingerprint != python.run(seed=1).fingerprint
    assert "by the page" in first_difference(rust, python, 1)
