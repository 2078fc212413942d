"""The bar of ``progress=True``."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager


class Bar:
    """A bar of tqdm, in a terminal or a notebook; silent where there is neither.

    Args:
        what: Label in front of it.

    Raises:
        ImportError: If tqdm is not installed.
    """

    def __init__(self, what: str) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            raise ImportError(
                "progress=True draws a bar with tqdm, which is not installed: pip install tqdm, "
                "or pass a function of the share done",
                name="tqdm",
            ) from error
        self._bar = tqdm(
            total=100.0,
            desc=what,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}",
            disable=None,
        )

    def __call__(self, share: float) -> None:
        """Shows the share done, 0 to 1."""
        self._bar.update(100 * share - self._bar.n)

    def close(self, complete: bool) -> None:
        """Closes the bar, after complete work or an error."""
        if complete:
            self(1.0)
        self._bar.close()


@contextmanager
def told(
    progress: Callable[[float], object] | bool | None, what: str
) -> Generator[Callable[[float], object] | None, None, None]:
    """Yields the receiver of the share done: a function, a bar, which is closed at the end, or None.

    Raises:
        ImportError: If a bar is wanted and tqdm is not installed.
        TypeError: If ``progress`` is of another type.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        bar = Bar(what)
        complete = False
        try:
            yield bar
            complete = True
        finally:
            bar.close(complete)
    elif callable(progress):
        yield progress
    else:
        raise TypeError("progress must be True or a function of the share done, 0 to 1")
