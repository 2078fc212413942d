"""Searches over the keys of a scenario, for tuning and for the worst case of a protocol."""

from __future__ import annotations

import html
import math
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from . import _windward
from ._errors import ScenarioError
from ._progress import told
from ._windward import Scenario

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.study import Study

Bound: TypeAlias = "int | float | str"
#: Range of a key: lowest and highest value, with "log" for a logarithmic scale, or a list of choices.
Choices: TypeAlias = "tuple[Bound, Bound] | tuple[Bound, Bound, Literal['log']] | list[Any] | BaseDistribution"


class Executor(Protocol):
    """An executor of ``concurrent.futures``, or a client of Dask."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any) -> Any:
        """Submits work; the returned future has a method ``result``."""
        ...


@dataclass(frozen=True)
class Trial:
    """One point of a search.

    Attributes:
        number: Its number, from 0.
        parameters: Values by key, as ``Scenario.with_`` takes them.
        value: The mean of the objective over the seeds; None if the scenario is impossible.
        values: The objective for each seed, in the order of ``Search.seeds``.
        impossible: Reason why the scenario is impossible; None if it is possible.
    """

    number: int
    parameters: dict[str, Any]
    value: float | None
    values: tuple[float, ...]
    impossible: str | None


@dataclass(frozen=True)
class Search:
    """Results of a search. A notebook shows them.

    The best of many trials is chosen by its value over the seeds of the search, which is therefore biased.
    ``value`` is the mean for the same parameters over fresh seeds.

    Attributes:
        parameters: The best values by key.
        scenario: The scenario with them.
        value: Mean of the objective over ``fresh_seeds``.
        interval: The ends of its confidence interval, by Student's t.
        searched_value: Mean over ``seeds``, by which the best was chosen.
        values: The objective for each of the fresh seeds.
        seeds: Seeds of every trial.
        fresh_seeds: Seeds of the second run of the best.
        trials: All trials, in order.
        direction: ``"minimize"`` or ``"maximize"``.
        confidence: Confidence level of the interval.
        study: Optuna's study, for its plots and importances.
    """

    parameters: dict[str, Any]
    scenario: Scenario
    value: float
    interval: tuple[float, float]
    searched_value: float
    values: tuple[float, ...]
    seeds: tuple[int, ...]
    fresh_seeds: tuple[int, ...]
    trials: tuple[Trial, ...]
    direction: Literal["minimize", "maximize"]
    confidence: float
    study: Study = field(repr=False, compare=False)

    @property
    def impossible(self) -> list[Trial]:
        """Trials whose scenario is impossible, with the reason."""
        return [trial for trial in self.trials if trial.impossible is not None]

    def best(self, count: int = 10) -> list[Trial]:
        """The best trials by their value in the search, the best first."""
        return _ranked(self.trials, self.direction)[:count]

    def to_pydict(self) -> dict[str, list[Any]]:
        """Columns for a data frame: number, value, reason, and one for each key."""
        keys = list(self.parameters)
        columns: dict[str, list[Any]] = {"number": [trial.number for trial in self.trials]}
        for key in keys:
            columns[key] = [trial.parameters[key] for trial in self.trials]
        columns["value"] = [trial.value for trial in self.trials]
        columns["impossible"] = [trial.impossible for trial in self.trials]
        return columns

    def __repr__(self) -> str:
        found = ", ".join(f"{key} = {value}" for key, value in self.parameters.items())
        return f"<windward.Search of {len(self.trials)} trials: {found}; {self._summary()}>"

    def _summary(self) -> str:
        low, high = self.interval
        text = (
            f"{self.value:.6g} ({low:.6g} to {high:.6g}) over {len(self.fresh_seeds)} fresh seeds, "
            f"{self.searched_value:.6g} over the {len(self.seeds)} of the search"
        )
        impossible = len(self.impossible)
        return text + (f"; {impossible} of {len(self.trials)} impossible" if impossible else "")

    def _repr_html_(self) -> str:
        keys = list(self.parameters)
        head = "".join(f"<th>{html.escape(key)}</th>" for key in ["trial", *keys, "value"])
        rows = "".join(
            f"<tr><td>{trial.number}</td>"
            + "".join(f"<td>{html.escape(str(trial.parameters[key]))}</td>" for key in keys)
            + f"<td>{trial.value:.6g}</td></tr>"
            for trial in self.best()
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return f"<p>{html.escape(self._summary())}</p>{table}"


@dataclass(frozen=True)
class _Dimension:
    """A key, its distribution in Optuna, and the form of its values in a scenario."""

    distribution: BaseDistribution
    unit: str = ""

    def value(self, drawn: Any) -> Any:
        return f"{_plain(drawn)}{self.unit}" if self.unit else drawn


def _plain(number: float) -> str:
    """A number as in scenario files: six digits, without an exponent."""
    if isinstance(number, int):
        return str(number)
    return f"{float(f'{number:.6g}'):.12f}".rstrip("0").rstrip(".")


def _is(value: object, kind: type) -> bool:
    """``isinstance``, without narrowing by type checkers."""
    return isinstance(value, kind)


def _dimension(key: str, choices: Any) -> _Dimension:
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if _is(choices, BaseDistribution):
        return _Dimension(choices)
    if _is(choices, list):
        if not choices:
            raise ValueError(f"{key}: the list of choices is empty")
        return _Dimension(CategoricalDistribution(choices))
    if not _is(choices, tuple) or len(choices) not in (2, 3):
        raise TypeError(
            f'{key}: expected (low, high), (low, high, "log") or a list of choices, not {choices!r}'
        )
    first, last, *scale = choices
    if scale not in ([], ["log"]):
        raise ValueError(f'{key}: {scale[0]!r} is not a scale; expected "log"')
    log = bool(scale)
    (low, unit), (high, other) = _number(key, first), _number(key, last)
    if unit != other:
        raise ValueError(f"{key}: {first!r} and {last!r} have different units")
    if not low < high:
        raise ValueError(f"{key}: {first!r} is not below {last!r}")
    if log and not low > 0:
        raise ValueError(f"{key}: a logarithmic scale must begin above 0, not at {first!r}")
    # Packets and bytes are whole numbers.
    whole = unit in ("", "p", "B") and isinstance(low, int) and isinstance(high, int)
    distribution = (
        IntDistribution(int(low), int(high), log=log)
        if whole
        else FloatDistribution(float(low), float(high), log=log)
    )
    return _Dimension(distribution, unit)


def _number(key: str, end: Bound) -> tuple[int | float, str]:
    """A bound as a number and its unit; whole numbers stay whole."""
    if not isinstance(end, str):
        number: int | float = end if isinstance(end, int) else float(end)
        if not math.isfinite(number):
            raise ValueError(f"{key}: {end!r} is not a bound")
        return number, ""
    found = _windward.quantity(end)
    if found is None:
        raise ValueError(f"{key}: {end!r} does not begin with a number")
    number, unit = found
    return (int(number) if number.is_integer() else number), unit.strip()


class _Stopped(Exception):
    """The search has ended; this run is not needed."""


#: Set by the search in the processes of its own pool, so that their runs end with it.
_Stop: TypeAlias = "threading.Event | None"


#: The scenario of a trial, and with ``compare`` the one beside it.
_Scenarios: TypeAlias = "tuple[Scenario, ...]"


def _evaluate(
    scenarios: _Scenarios, objective: Callable[..., float], seed: int, stop: _Stop = None
) -> float:
    """Objective of one run, or of two; a function of the module, so that it can be pickled."""

    def look(_share: float) -> None:
        if stop is not None and stop.is_set():
            raise _Stopped

    progress = None if stop is None else look
    value = float(objective(*(scenario.run(seed, progress=progress) for scenario in scenarios)))
    if not math.isfinite(value):
        raise ValueError(f"the objective is {value} with seed {seed} and {scenarios[0].changes}")
    return value


class _Runner:
    """Submits runs and collects their values, in order."""

    def __init__(self, executor: Executor | None, objective: Callable[..., float]) -> None:
        self._objective = objective
        self._stop = threading.Event() if executor is None else None
        self._own = ThreadPoolExecutor(os.cpu_count() or 1) if executor is None else None
        self._executor: Any = executor or self._own
        # Dask merges equal tasks and keeps their results in memory: results do not depend on it.
        self._options = {"pure": False} if type(executor).__module__.startswith("distributed") else {}

    def values(self, jobs: Sequence[tuple[_Scenarios, int]]) -> list[float]:
        extra = (self._stop,) if self._stop is not None else ()
        futures = [
            self._executor.submit(_evaluate, scenarios, self._objective, seed, *extra, **self._options)
            for scenarios, seed in jobs
        ]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def __enter__(self) -> _Runner:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stop is not None and self._own is not None:
            self._stop.set()
            self._own.shutdown(cancel_futures=True)


def _study(
    direction: Literal["minimize", "maximize"], seed: int, sampler: BaseSampler | None
) -> Study:
    import optuna

    said = optuna.logging.get_verbosity()
    # Suppresses the message that a study was created.
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        sampler = sampler or optuna.samplers.TPESampler(seed=seed)
        return optuna.create_study(direction=direction, sampler=sampler)
    finally:
        optuna.logging.set_verbosity(said)


def _seeds(seeds: int | Sequence[int], fresh: int, first: int) -> tuple[list[int], list[int]]:
    searched = list(range(first, first + seeds)) if isinstance(seeds, int) else list(seeds)
    if not searched or fresh < 1:
        raise ValueError("seeds and fresh: there must be at least one of each")
    after = max(searched) + 1
    return searched, list(range(after, after + fresh))


def search(
    scenario: Scenario | Callable[[dict[str, Any]], Scenario],
    space: Mapping[str, Choices],
    objective: Callable[..., float],
    *,
    compare: dict[str, Any] | None = None,
    direction: Literal["minimize", "maximize"] = "minimize",
    trials: int = 100,
    seeds: int | Sequence[int] = 3,
    fresh: int = 10,
    batch: int = 8,
    seed: int = 0,
    sampler: BaseSampler | None = None,
    executor: Executor | None = None,
    confidence: float = 0.95,
    progress: Callable[[float], object] | bool | None = None,
) -> Search:
    """Searches for values of a scenario's keys that minimize or maximize an objective, with Optuna.

    It serves to tune a protocol, or to find its worst case: links on which it performs badly.

    All trials have the same seeds, so that they differ only in their parameters. The best is run again
    with fresh seeds: see ``Search``. Trials whose scenario is impossible, for instance with a threshold
    above a limit, are listed, and the search continues.

    Trials are made in batches: all trials of a batch are drawn, run in parallel, and reported to the
    sampler in order. The result therefore depends on ``batch`` and ``seed``, not on the number of workers.

    Args:
        scenario: Scenario to vary, or a function that makes one of the drawn values. Their names
            need not be keys then: a queue may follow from a rate and an RTT.
        space: Ranges by key, as in ``Scenario.with_``: a tuple ``(low, high)``, both included, or
            ``(low, high, "log")``, a list of choices, or a distribution of Optuna. Bounds are
            numbers or texts with the same unit, ``("1Mbit", "50Mbit")``. If both bounds are whole
            numbers, also with ``p`` or ``B``, only whole numbers are drawn.
        objective: A function of a ``Run``; with ``compare``, of two.
        compare: Changes as in ``Scenario.with_``. Each scenario is then also run with them and the
            same seed, and the objective gets both runs: another protocol on the same link tells
            what the link does from what the protocol does.
        direction: ``"minimize"`` or ``"maximize"``.
        trials: Number of trials.
        seeds: Seeds, or their number, beginning with the seed of the scenario, or with 1 if that is
            a function.
        fresh: Number of fresh seeds, which follow those, for the second run of the best.
        batch: Number of trials that are drawn at once. A larger batch keeps more workers busy, but
            gives the sampler less information.
        seed: Seed of the sampler; not used if a sampler is given.
        sampler: A sampler of Optuna, in place of its tree-structured Parzen estimator.
        executor: Executor of the runs: an executor of ``concurrent.futures`` or a client of Dask.
            For processes the objective must be picklable. None means threads, one per core; runs
            release the interpreter lock, except while they call parts in Python.
        confidence: Confidence level of the interval.
        progress: Called at intervals with the share done, 0 to 1. True draws a bar with tqdm.

    Raises:
        ImportError: If Optuna is not installed: ``pip install '.[search]'`` in a clone of the repository.
        ValueError: If a value is out of range, the objective is not finite, or no scenario is
            possible.
        TypeError: If the range of a key is invalid.
    """
    try:
        import optuna
    except ImportError as error:
        raise ImportError(
            "searches need Optuna, which is not installed: pip install '.[search]' in a clone of "
            "the repository",
            name="optuna",
        ) from error
    if direction not in ("minimize", "maximize"):
        raise ValueError(f'direction = {direction!r}: "minimize" or "maximize"')
    if trials < 1 or batch < 1:
        raise ValueError("trials and batch: there must be at least one of each")
    if not space:
        raise ValueError("space: there is no key to search")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence = {confidence}: must be between 0 and 1")
    dimensions = {key: _dimension(key, choices) for key, choices in space.items()}
    distributions = {key: dimension.distribution for key, dimension in dimensions.items()}
    first = 1 if callable(scenario) else scenario.seed
    searched, afterwards = _seeds(seeds, fresh, first)
    runs_of = _points(scenario, dimensions, compare)
    study = _study(direction, seed, sampler)
    work = trials * len(searched) + fresh
    done: list[Trial] = []
    with told(progress, "search") as tell, _Runner(executor, objective) as runner:
        while len(done) < trials:
            asked = [study.ask(distributions) for _ in range(min(batch, trials - len(done)))]
            points = [runs_of(trial.params) for trial in asked]
            jobs = [
                (point, run_seed)
                for point, _, _ in points
                if point is not None
                for run_seed in searched
            ]
            values = iter(runner.values(jobs))
            for trial, (point, parameters, why) in zip(asked, points, strict=True):
                if point is None:
                    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                    done.append(Trial(trial.number, parameters, None, (), why))
                    continue
                mine = tuple(next(values) for _ in searched)
                mean = sum(mine) / len(mine)
                study.tell(trial, mean)
                done.append(Trial(trial.number, parameters, mean, mine, None))
            if tell is not None:
                tell(len(done) * len(searched) / work)
        best = _best(done, direction)
        chosen, _, _ = runs_of(study.trials[best.number].params)
        assert chosen is not None
        again = runner.values([(chosen, run_seed) for run_seed in afterwards])
        if tell is not None:
            tell(1.0)
    estimate = _windward.estimate(again, confidence)
    mean, low, high = estimate or (math.nan, math.nan, math.nan)
    return Search(
        parameters=best.parameters,
        scenario=chosen[0],
        value=mean,
        interval=(low, high),
        searched_value=best.value or 0.0,
        values=tuple(again),
        seeds=tuple(searched),
        fresh_seeds=tuple(afterwards),
        trials=tuple(done),
        direction=direction,
        confidence=confidence,
        study=study,
    )


#: The scenarios of a trial, its parameters, and the reason if they are impossible.
_Point: TypeAlias = "tuple[_Scenarios | None, dict[str, Any], str | None]"


def _points(
    scenario: Scenario | Callable[[dict[str, Any]], Scenario],
    dimensions: Mapping[str, _Dimension],
    compare: dict[str, Any] | None,
) -> Callable[[Mapping[str, Any]], _Point]:
    """The function from the values that a trial has drawn to its point."""

    def point(drawn: Mapping[str, Any]) -> _Point:
        parameters = {key: dimension.value(drawn[key]) for key, dimension in dimensions.items()}
        try:
            with warnings.catch_warnings():
                # A search meets unusual values, of which warnings are not useful.
                warnings.simplefilter("ignore")
                made = scenario(parameters) if callable(scenario) else scenario.with_(parameters)
                beside = () if compare is None else (made.with_(compare),)
            return (made, *beside), parameters, None
        except ScenarioError as error:
            return None, parameters, str(error)

    return point


def _ranked(trials: Sequence[Trial], direction: str) -> list[Trial]:
    """Possible trials, the best first; equal ones in their order."""
    sign = 1.0 if direction == "minimize" else -1.0
    possible = [trial for trial in trials if trial.value is not None]
    return sorted(possible, key=lambda trial: sign * (trial.value or 0.0))


def _best(trials: Sequence[Trial], direction: str) -> Trial:
    ranked = _ranked(trials, direction)
    if not ranked:
        raise ValueError(f"no scenario was possible; the first: {trials[0].impossible}")
    return ranked[0]
