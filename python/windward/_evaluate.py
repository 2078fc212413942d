"""Evaluations of congestion controllers by the criteria of RFC 9743."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import sys
import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from . import _page, _windward
from ._windward import ExpressionController

Subject = str | ExpressionController | type | Mapping[str, object]
"""A name as for ``windward evaluate``, a result of ``windward.controller``, a class with
``on_ack``, or a composition, whose ``window`` may be such a class."""


class Evaluation:
    """Results of an evaluation. A notebook shows them as a table.

    Attributes:
        folder: Folder of the report; its first page is ``index.html``.
        subjects: Names of the subjects.
        criteria: All criteria with their claims, answers and numbers, as in ``evaluation.json``.
        known: Known results for the subjects, and whether they were reproduced.
        summary: One or two sentences for each subject.
        general_use: Whether each subject meets all criteria for general use; None if undecided.
        runs: Number of runs.
    """

    folder: Path
    subjects: list[str]
    criteria: list[dict[str, Any]]
    known: list[dict[str, Any]]
    summary: list[str]
    general_use: dict[str, bool | None]
    runs: int

    def __init__(self, folder: Path, runs: int, own: _windward.Scratch | None = None) -> None:
        self.folder = folder
        self.runs = runs
        if own is not None:
            weakref.finalize(self, own.remove)
        found = json.loads((folder / "evaluation.json").read_text("utf-8"))
        self.subjects = found["subjects"]
        self.criteria = found["criteria"]
        self.known = found["known"]
        self.summary = found["summary"]
        self.general_use = dict(zip(self.subjects, found["general_use"]))

    def verdicts(self, subject: str | None = None) -> dict[str, str]:
        """Answer for each checked criterion: meets, does not, undecided or not applicable.

        Args:
            subject: The subject, by default the first.

        Raises:
            KeyError: If there is no such subject.
        """
        subject = subject or self.subjects[0]
        if subject not in self.subjects:
            raise KeyError(f"{subject} was not evaluated; the subjects are {', '.join(self.subjects)}")
        at = self.subjects.index(subject)
        answers = {c["id"]: c["answers"][at]["answer"] for c in self.criteria}
        return {id: answer for id, answer in answers.items() if answer is not None}

    def __repr__(self) -> str:
        return f"<windward.Evaluation of {', '.join(self.subjects)}>"

    def _repr_html_(self) -> str:
        rows = (
            [c["section"], c["title"], *(a["answer"] for a in c["answers"])]
            for c in self.criteria
            if any(a["answer"] for a in c["answers"])
        )
        return _page.table(["section", "criterion", *self.subjects], rows)


def evaluate(
    *subjects: Subject,
    against: Iterable[Subject] | None = None,
    standards: Iterable[Subject] | None = None,
    suite: str = "rfc9743",
    only: Iterable[str] = (),
    quick: bool = True,
    full: bool = False,
    set: Mapping[str, object] | None = None,
    seed: int | None = None,
    sensitivity: bool = False,
    junit: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    threads: int = 0,
    progress: Callable[[float], object] | bool | None = None,
    **named: Subject,
) -> Evaluation:
    """Evaluates congestion controllers by the criteria of RFC 9743: ``evaluate("cubic", Aimd)``.

    A controller in Python takes about ten times as long as one in Rust, and only one thread at a time can run
    it. Controllers of ``windward.controller`` have neither limitation.

    Args:
        subjects: Protocols, stacks and compositions as ``windward evaluate`` takes them, controllers of
            ``windward.controller``, and classes as ``windward.Controller`` describes them.
        against: Protocols that share paths with each subject, in place of those of the suite.
        standards: Controllers that bounds are relative to, in place of those of the suite. A subject is
            compared with the standards on its own stack, or with all if no standard runs on it.
        suite: Suite of criteria: a built-in one, such as ``rfc9743``, or a file.
        only: Criteria, claims or experiments to check; all by default.
        quick: Few repetitions, which is the default. ``quick=False`` is ``full=True``.
        full: Full range of paths, and more runs.
        set: Values of every scenario to change, by their dotted keys, as ``--set`` does.
        seed: Seed of the first repetition, in place of the files'; the following ones count up.
        sensitivity: Judge each claim also with buffers, RTTs and rates 20 % smaller and larger.
        junit: File for the answers as JUnit XML.
        folder: Folder for the report. None creates a folder that is removed with the result.
        resume: Continue an interrupted attempt in the same folder. Changes of a class since then
            are not detected.
        threads: Worker threads; 0 is one per core.
        progress: Called at intervals with the share done, 0 to 1. True draws a bar with tqdm.
        named: Subjects whose names in the report are the keywords: classes, controllers and compositions.

    Raises:
        ScenarioError: If a name is unknown.
        TypeError: If a subject is invalid, or there is no such keyword.
        Exception: The exception that a controller raises, with ``simulated_time``.
        OSError: If the report cannot be written.
    """
    own = None
    if folder is None:
        own = _windward.Scratch()
        folder = own.path
    for name, value in named.items():
        _must_be_subject(name, value)
    full = full or not quick
    changes = dict(set or {})
    if seed is not None:
        changes["seed"] = seed
    given = [_given(subject) for subject in subjects]
    given += [_given(subject, name) for name, subject in named.items()]
    beside = None if against is None else [_given(subject) for subject in against]
    bounds = None if standards is None else [_given(subject) for subject in standards]
    only = [only] if isinstance(only, str) else list(only)
    runs = _windward.evaluate(
        given,
        folder,
        against=beside,
        standards=bounds,
        suite=suite,
        only=only,
        full=full,
        changes=list(changes.items()),
        sensitivity=sensitivity,
        resume=resume,
        threads=threads,
        progress=progress,
        about=_page.about(_command(given, beside, bounds, suite, only, full, changes)),
    )
    if junit is not None:
        Path(junit).write_text(_windward.junit(folder), "utf-8")
    return Evaluation(Path(folder), runs, own)


def _command(
    given: list[Any], against: list[Any] | None, standards: list[Any] | None, suite: str, only: list[str], full: bool,
    changes: dict[str, object],
) -> str:
    """The call that repeats the evaluation. Classes appear by their names."""

    def shown(subject: Any) -> str:
        thing = subject if isinstance(subject, str) else subject[1]
        return str(getattr(thing, "__name__", repr(thing)))

    def text(subject: Any) -> str:
        return shown(subject) if isinstance(subject, str) else f"{subject[0]}={shown(subject)}"

    words = [text(subject) for subject in sorted(given, key=lambda subject: not isinstance(subject, str))]
    for name, value in [("against", against), ("standards", standards)]:
        if value is not None:
            words.append(f"{name}=[{', '.join(map(shown, value))}]")
    words += [f"suite={suite!r}"] * (suite != "rfc9743") + [f"only={only!r}"] * bool(only) + ["full=True"] * full
    words += [f"set={changes!r}"] * bool(changes)
    return f"windward.evaluate({', '.join(words)})"


def _must_be_subject(name: str, value: object) -> None:
    """Refuses a keyword that is neither an argument nor a subject, and names the argument that may be meant."""
    is_composition = isinstance(value, str) and value.strip().startswith("{")
    if is_composition or isinstance(value, (ExpressionController, type, Mapping)) or hasattr(value, "on_ack"):
        return
    known = [word for word in inspect.signature(evaluate).parameters if word not in ("subjects", "named")]
    elsewhere = {"out": "folder", "jobs": "threads", "quiet": "progress", "set_": "set"}
    near = elsewhere.get(name) or _windward.near(name, known)
    if near is None and isinstance(value, str):
        return  # The name of a row, which has a name already: `_given` says so.
    meant = f"did you mean {near}?" if near else f"its keywords are {', '.join(known)}"
    raise TypeError(f"evaluate() has no argument {name}, and {value!r} is not a subject: {meant}")


def _given(subject: Subject, name: str | None = None) -> str | tuple[str, object]:
    if isinstance(subject, str):
        if name is None:
            return subject
        if not subject.strip().startswith("{"):
            raise TypeError(f"{name}={subject!r}: it already has a name; pass it as a positional argument")
        return f"{name}={subject}"
    if isinstance(subject, Mapping):
        subject = dict(subject)
    name = name or getattr(subject, "name", None) or getattr(subject, "__name__", None)
    if not isinstance(name, str):
        raise TypeError(f"{subject!r} is not a subject: expected a name, a controller or a class")
    return (name, subject)


def load(file: str, name: str) -> tuple[object, str]:
    """The object of that name in a file, and its identity, for the command line."""
    path = Path(file)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{file}: cannot read: {error.strerror}") from None
    # Standard output has the results alone.
    sys.stdout = sys.stderr
    # Modules in the folder of the file can be imported, as when it is run.
    sys.path.insert(0, str(path.parent.resolve()))
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise ValueError(f"{file}: is not a Python module")
    module = importlib.util.module_from_spec(specification)
    sys.modules.setdefault(path.stem, module)
    try:
        specification.loader.exec_module(module)
    except BaseException as error:  # Also `sys.exit()`.
        raise ValueError(f"{file}: {type(error).__name__}: {error}") from None
    if not hasattr(module, name):
        near = _windward.near(name, [word for word in vars(module) if not word.startswith("_")])
        meant = f" (did you mean `{near}`?)" if near else ""
        raise ValueError(f"{file} has no `{name}`{meant}")
    return getattr(module, name), f"{file}, CRC-32 {zlib.crc32(text):08x}"
