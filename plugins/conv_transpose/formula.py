"""Integer expressions of the run-time sizes, for hosts that know no Python.

A formula is a list of tokens in postfix order: the names of SIZES, decimal constants and the
operators + - * /, where / is the floor of the quotient. Constants only stand on the right of
an operator. "n h * 3 +" is n*h + 3. Sizes are those of x, missing axes are 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any, TypeVar

SIZES = ("n", "d", "h", "w")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Formula:
    """`tokens` in postfix order; `factor` divides every value it can have (0: it is zero)."""

    tokens: tuple[int | str, ...]
    factor: int = 1

    @staticmethod
    def size(name: str) -> Formula:
        """A run-time size, one of SIZES."""
        if name not in SIZES:
            raise ValueError(f"{name!r} is no size")
        return Formula((name,))

    @staticmethod
    def number(value: int) -> Formula:
        """A constant."""
        return Formula((value,), abs(value))

    @property
    def constant(self) -> int | None:
        """The value where it depends on no size."""
        first = self.tokens[0]
        return first if len(self.tokens) == 1 and isinstance(first, int) else None

    @property
    def text(self) -> str:
        """The tokens, separated by blanks."""
        return " ".join(map(str, self.tokens))

    def __add__(self, other: Formula | int) -> Formula:
        return _joined(self, _formula(other), "+")

    def __sub__(self, other: int) -> Formula:
        return self + -other

    def __mul__(self, other: Formula | int) -> Formula:
        return _joined(self, _formula(other), "*")

    def __floordiv__(self, other: int) -> Formula:
        if self.constant is not None:
            return Formula.number(self.constant // other)
        return self if other == 1 else Formula((*self.tokens, other, "/"))

    def evaluate(self, sizes: Mapping[str, T]) -> T | int:
        """The value for ints, or an expression in whatever has + - * // with itself and ints."""
        stack: list[Any] = []
        for token in self.tokens:
            if token in ("+", "-", "*", "/"):
                right, left = stack.pop(), stack.pop()
                stack.append(_apply(str(token), left, right))
            else:
                stack.append(sizes[token] if isinstance(token, str) else token)
        value: T | int = stack.pop()
        return value


def _formula(value: Formula | int) -> Formula:
    return value if isinstance(value, Formula) else Formula.number(value)


def _joined(a: Formula, b: Formula, operator: str) -> Formula:
    if a.constant is not None:
        a, b = b, a
    if a.constant is not None and b.constant is not None:
        return Formula.number(int(_apply(operator, a.constant, b.constant)))
    if b.constant == (0 if operator == "+" else 1):
        return a
    if operator == "*":
        return b if b.constant == 0 else Formula((*a.tokens, *b.tokens, "*"), a.factor * b.factor)
    factor = gcd(a.factor, b.factor)
    if b.constant is not None and b.constant < 0:
        return Formula((*a.tokens, -b.constant, "-"), factor)
    return Formula((*a.tokens, *b.tokens, "+"), factor)


def _apply(operator: str, left: Any, right: Any) -> Any:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    return left // right
