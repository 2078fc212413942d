import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import Any, Final, Literal, final, overload

from typing_extensions import Self

from ._parts import Discriminator, LossModel, Aqm, Controller

VERSION: str
BUILD: str

_Span = float | str | timedelta

@final
class Table:
    column_names: Final[list[str]]
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: str, /) -> list[Any]: ...
    @overload
    def __getitem__(self, key: int, /) -> dict[str, Any]: ...
    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def to_pydict(self) -> dict[str, list[Any]]: ...
    def to_pylist(self) -> list[dict[str, Any]]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def _repr_html_(self) -> str: ...

@final
class Run:
    flows: Final[Table]
    transfers: Final[Table]
    groups: Final[Table]
    links: Final[Table]
    series: Final[Table]
    link_series: Final[Table]
    seed: Final[int]
    duration: Final[float]
    warmup: Final[float]
    jain: Final[float]
    packet_hops: Final[int]
    events: Final[int]
    fingerprint: Final[str]
    def to_json(self) -> str: ...
    def write(self, folder: str | PathLike[str]) -> None: ...
    def _repr_html_(self) -> str: ...

@final
class ControllerSetup:
    initial_window: Final[float]
    rwnd: Final[int]
    packet_size: Final[int]
    feedback: Final[str | None]
    seed: Final[int]

@final
class Path:
    now: Final[float]
    cwnd: Final[float]
    in_flight: Final[float]
    rtt: Final[float]
    srtt: Final[float]
    min_rtt: Final[float]
    now_ps: Final[int]
    rtt_ps: Final[int]
    srtt_ps: Final[int]
    min_rtt_ps: Final[int]

@final
class Ack:
    now: Final[float]
    cwnd: Final[float]
    in_flight: Final[float]
    rtt: Final[float]
    srtt: Final[float]
    min_rtt: Final[float]
    now_ps: Final[int]
    rtt_ps: Final[int]
    srtt_ps: Final[int]
    min_rtt_ps: Final[int]
    newly_acked: Final[int]
    newly_acked_bytes: Final[int]
    delivered: Final[int]
    lost: Final[int]
    growth: Final[float]
    in_recovery: Final[bool]
    cwnd_limited: Final[bool]
    allows_growth: Final[bool]
    is_part: Final[bool]
    raises: Final[bool]
    marked: Final[bool]
    flagged: Final[bool]
    header: Final[dict[str, Any] | None]
    una: Final[int]
    high: Final[int]
    lost_until: Final[int]
    packet_seq: Final[int]
    sent: Final[float]
    sent_ps: Final[int]

@final
class Congestion:
    path: Final[Path]
    probability: Final[float]
    marked: Final[bool]
    una: Final[int]
    high: Final[int]
    sent: Final[float]
    sent_ps: Final[int]
    def kept(self, beta: float) -> float: ...

@final
class Reset:
    path: Final[Path]
    cause: Final[str]
    repeated: Final[bool]
    probability: Final[float]
    una: Final[int]
    high: Final[int]
    def kept(self, beta: float) -> float: ...
    def window_after(self, cwnd: float) -> float: ...

@final
class Loss:
    path: Final[Path]
    seq: Final[int]
    by_timeout: Final[bool]

@final
class RateSample:
    now: Final[float]
    rate: Final[float]
    delivered: Final[int]
    total_delivered: Final[int]
    prior_delivered: Final[int]
    newly_acked: Final[int]
    newly_lost: Final[int]
    lost: Final[int]
    tx_in_flight: Final[int]
    in_flight: Final[int]
    prior_in_flight: Final[int]
    rtt: Final[float | None]
    now_ps: Final[int]
    rtt_ps: Final[int | None]
    in_recovery: Final[bool]
    is_app_limited: Final[bool]

@final
class LostPacket:
    now: Final[float]
    now_ps: Final[int]
    number: Final[int]
    sent: Final[float]
    sent_ps: Final[int]
    total_delivered: Final[int]
    tx_in_flight: Final[int]
    lost: Final[int]
    is_app_limited: Final[bool]

@final
class Instant:
    now: Final[float]
    now_ps: Final[int]

@final
class Packet:
    size: Final[int]
    seq: Final[int]
    is_data: Final[bool]
    ecn_capable: Final[bool]

@final
class QueueSetup:
    name: Final[str]
    rate_bps: Final[int]
    share_bps: Final[int]
    limit_packets: Final[int | None]
    limit_bytes: Final[int | None]
    seed: Final[int]

@final
class Queue:
    now: Final[float]
    packets: Final[int]
    bytes: Final[int]
    filled: Final[float]

@final
class Scenario:
    def __new__(cls, source: str | PathLike[str] | None = None, /, **keys: Any) -> Self: ...
    @classmethod
    def read(cls, path: str | PathLike[str]) -> Scenario: ...
    def with_(self, changes: dict[str, Any] | None = None, /, **keys: Any) -> Scenario: ...
    def with_parts(
        self,
        *,
        window: dict[str, Callable[[ControllerSetup], Controller] | type[Steered] | ExpressionController] = ...,
        discrimination: dict[str, Callable[[ControllerSetup], Discriminator]] = ...,
        loss: dict[str, Callable[[], LossModel]] = ...,
        aqm: dict[str, Callable[[QueueSetup], Aqm]] = ...,
    ) -> Scenario: ...
    def run(
        self,
        seed: int | None = None,
        *,
        trace: _Span | None = None,
        qlog: str | PathLike[str] | None = None,
        qlog_format: Literal["current", "qvis"] = "current",
        threads: int = 1,
        progress: Callable[[float], object] | bool | None = None,
    ) -> Run: ...
    name: Final[str]
    toml: Final[str]
    changes: Final[list[tuple[str, str]]]
    seed: Final[int]
    duration: Final[float]
    warmup: Final[float]
    flows: Final[list[str]]
    links: Final[list[str]]
    def bottleneck(self, connection: str) -> dict[str, Any]: ...
    warnings: Final[list[str]]
    predicted_packet_hops: Final[float]
    def _repr_html_(self) -> str: ...

@final
class Simulation:
    def __new__(
        cls, scenario: Scenario, seed: int | None = None, *, changes: bool = False
    ) -> Self: ...
    def advance(self, until: _Span) -> None: ...
    def finish(self) -> Run: ...
    @property
    def now(self) -> float: ...
    @property
    def flows(self) -> Table: ...
    @property
    def links(self) -> Table: ...
    def flow(self, name: str) -> dict[str, Any]: ...
    def link(self, name: str) -> dict[str, Any]: ...
    def change_link(
        self,
        name: str,
        *,
        rate: str | None = None,
        delay: float | str | None = None,
        loss: float | str | None = None,
    ) -> None: ...
    def steer(self, name: str, cwnd: float, *, pacing_bps: float | None = None) -> None: ...
    def heard(self, name: str) -> dict[str, Any]: ...
    def _steered(self, group: str) -> list[tuple[int, str]]: ...
    def _heard_of(self, indices: list[int]) -> bytes: ...
    def _steer_all(self, indices: list[int], cwnds: bytes) -> None: ...

@final
class Steered: ...

@final
class ExpressionController:
    name: Final[str]
    toml: Final[str]

def controller(
    on_ack: str,
    on_loss: str,
    *,
    on_mark: str | None = None,
    pacing_rate: str | None = None,
    slow_start: bool = True,
    name: str = "controller",
) -> ExpressionController: ...

@final
class Experiment:
    def __new__(cls, toml: str, /, name: str = "experiment") -> Self: ...
    @classmethod
    def read(cls, path: str | PathLike[str]) -> Experiment: ...
    def with_(self, changes: dict[str, Any] | None = None, /, **keys: Any) -> Experiment: ...
    def with_parts(self, *, window: Mapping[str, Any]) -> Experiment: ...
    id: Final[str]
    title: Final[str]
    axes: Final[dict[str, list[str]]]
    metrics: Final[list[str]]
    def sweep(
        self,
        *,
        full: bool = False,
        repetitions: int | None = None,
        threads: int = 0,
        progress: Callable[[float], object] | bool | None = None,
    ) -> Table: ...

@final
class Grid:
    def __new__(
        cls, experiment: Experiment, *, full: bool = False, repetitions: int | None = None
    ) -> Self: ...
    id: Final[str]
    runs: Final[int]
    def plan(
        self, start: int, stop: int, dataset: Dataset | None = None
    ) -> list[tuple[int, float]]: ...
    def run(self, runs: list[int]) -> bytes: ...
    def stop(self) -> None: ...
    def table(self, rows: list[bytes]) -> Table: ...

@final
class Dataset:
    def __new__(cls, folder: str | PathLike[str], grid: Grid, resume: bool) -> Self: ...
    def add(self, rows: bytes) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    @property
    def done(self) -> int: ...
    @property
    def path(self) -> pathlib.Path: ...

@final
class WorldRuns:
    def __new__(cls, names: list[str], full: bool) -> Self: ...
    def run(self, run: bytes) -> bytes: ...
    def stop(self) -> None: ...

def worlds(
    names: list[str],
    folder: str | PathLike[str],
    *,
    budget: float | None,
    full: bool,
    resume: bool,
    threads: int,
    progress: Callable[[float], object] | bool | None,
    submit: Callable[[bytes], Any] | None = None,
) -> str: ...
def read_dataset(folder: str | PathLike[str]) -> Table: ...
def reproduce(
    names: list[str],
    folder: str | PathLike[str],
    *,
    full: bool,
    all_readings: bool,
    resume: bool,
    threads: int,
    progress: Callable[[float], object] | bool | None,
    about: tuple[str, str, str],
) -> tuple[list[str], int]: ...
def evaluate(
    given: Sequence[str | tuple[str, object]],
    folder: str | PathLike[str],
    *,
    against: Sequence[str | tuple[str, object]] | None,
    standards: Sequence[str | tuple[str, object]] | None,
    suite: str,
    only: Sequence[str],
    full: bool,
    changes: Sequence[tuple[str, object]],
    sensitivity: bool,
    resume: bool,
    threads: int,
    progress: Callable[[float], object] | bool | None,
    about: tuple[str, str, str],
) -> int: ...
def junit(folder: str | PathLike[str]) -> str: ...
def child(arguments: Sequence[str]) -> None: ...
def emulate(
    scenario: Scenario,
    commands: Sequence[tuple[str, str]],
    *,
    duration: _Span | None,
    mtu: int | None,
    record: str | PathLike[str] | None,
    progress: Callable[[float], object] | bool | None,
    python: str,
) -> tuple[Run, str, list[tuple[str, int, str, str]]]: ...
def compare(
    network: Scenario | dict[str, Any],
    asked: dict[str, Any],
    *,
    folder: str | PathLike[str] | None,
    resume: bool,
    progress: Callable[[float], object] | bool | None,
    about: tuple[str, str, str],
    python: str,
) -> str: ...
def look(label: str, number: int, of: int) -> tuple[str, str, str]: ...
def estimate(
    samples: Sequence[float], confidence: float
) -> tuple[float, float, float] | None: ...
def seconds(span: _Span, name: str) -> float: ...
def quantity(label: str) -> tuple[float, str] | None: ...
def main(args: Sequence[str], python: str) -> int: ...

@final
class Scratch:
    """A temporary folder, which is removed with this object. If the process is killed, the next one removes it."""

    def __new__(cls) -> Self: ...
    @property
    def path(self) -> pathlib.Path: ...
    def remove(self) -> None: ...

@final
class Bar:
    def __new__(cls, quiet: bool) -> Self: ...
    def set(self, share: float, message: str) -> None: ...
    def clear(self) -> None: ...

def protocols_json() -> str: ...
def parts_json() -> str: ...
def explain(name: str) -> str | None: ...
def near(word: str, valid: Sequence[str]) -> str | None: ...
