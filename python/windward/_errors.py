"""Errors of the package."""

from __future__ import annotations


class ScenarioError(ValueError):
    """A scenario is invalid: something in it is unknown, missing or impossible.

    The text names the error, the place and the correction; these are also attributes.

    Attributes:
        file: The file, or ``scenario`` for a scenario written in Python.
        line: The line, if it is known; counted from 1.
        key: The key with its tables, if there is one.
        value: The refused value as TOML, if there is one.
        message: The error, without place and correction.
        suggestion: The valid word that is similar, if there is one.
    """

    def __init__(
        self,
        text: str,
        file: str = "",
        line: int | None = None,
        key: str | None = None,
        value: str | None = None,
        message: str = "",
        suggestion: str | None = None,
    ) -> None:
        super().__init__(text, file, line, key, value, message, suggestion)
        self.file = file
        self.line = line
        self.key = key
        self.value = value
        self.message = message or text
        self.suggestion = suggestion

    def __str__(self) -> str:
        return str(self.args[0])
