"""Sizes that are not known until the model runs, as exact affine expressions."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from convt_onnx.graph.symbols import is_plain

# Names that exporters give to any open size: two of them need not be equal.
NO_NAME = re.compile(r"unk|none\b|null\b|dynamic\b|any\b|dyn\b|dim\b", re.IGNORECASE)

# The smallest number that a symbol stands for, None where there is none.
Least = Callable[[Hashable], int | None]


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + sum of coefficient * symbol, in exact integers; no coefficient is 0."""

    constant: int
    terms: frozenset[tuple[Hashable, int]] = frozenset()

    @classmethod
    def symbol(cls, key: Hashable) -> Affine:
        """The symbol of that key alone."""
        return cls(0, frozenset([(key, 1)]))

    @property
    def value(self) -> int | None:
        """The number, None where it depends on a symbol."""
        return None if self.terms else self.constant

    def plus(self, other: Affine | int) -> Affine:
        """Sum."""
        if isinstance(other, int):
            return Affine(self.constant + other, self.terms)
        sums = dict(self.terms)
        for key, factor in other.terms:
            sums[key] = sums.get(key, 0) + factor
        terms = frozenset((k, f) for k, f in sums.items() if f)
        return Affine(self.constant + other.constant, terms)

    def times(self, factor: int) -> Affine:
        """Product with a number."""
        if factor == 0:
            return Affine(0)
        return Affine(self.constant * factor, frozenset((k, f * factor) for k, f in self.terms))

    def minus(self, other: Affine) -> Affine:
        """Difference."""
        return self.plus(other.times(-1))

    def lower(self, least: Least) -> int | None:
        """The smallest value where each symbol is at least `least`; None where there is none."""
        total = self.constant
        for key, factor in self.terms:
            low = least(key)
            if factor < 0 or low is None:
                return None
            total += factor * low
        return total

    def upper(self, least: Least) -> int | None:
        """The largest value where each symbol is at least `least`; None where there is none."""
        negated = self.times(-1).lower(least)
        return None if negated is None else -negated

    def __str__(self) -> str:
        parts = sorted(_term(key, factor) for key, factor in self.terms)
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts)


def _term(key: Hashable, factor: int) -> str:
    name = f"({key})" if isinstance(key, str) and not key.isidentifier() else str(key)
    return name if factor == 1 else f"{factor}*{name}"


def parse_size(text: str) -> Affine | None:
    """A size as shape inference writes it, such as `2*H + 1`; None for a name that says nothing.

    What is not affine (`floor(H/2)`) is a symbol of its own.
    """
    if NO_NAME.match(text) or not any(c.isalpha() for c in text) or not is_plain(text):
        return None
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    return _affine(tree) or Affine.symbol(text)


def _affine(tree: ast.expr) -> Affine | None:
    if isinstance(tree, ast.Name):
        return None if NO_NAME.match(tree.id) else Affine.symbol(tree.id)
    if isinstance(tree, ast.Constant):
        return Affine(tree.value) if type(tree.value) is int else None
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        operand = _affine(tree.operand)
        return None if operand is None else operand.times(-1)
    if not isinstance(tree, ast.BinOp):
        return None
    left, right = _affine(tree.left), _affine(tree.right)
    if left is None or right is None:
        return None
    if isinstance(tree.op, ast.Add):
        return left.plus(right)
    if isinstance(tree.op, ast.Sub):
        return left.minus(right)
    return product(left, right) if isinstance(tree.op, ast.Mult) else None


def product(a: Affine, b: Affine) -> Affine | None:
    """a * b where one of them is a number."""
    if a.value is not None:
        return b.times(a.value)
    return None if b.value is None else a.times(b.value)


def quotient(a: Affine, b: Affine, least: Least) -> Affine | None:
    """a / b in integers, where it is the same rounded towards zero and down."""
    d = b.value
    if d is None or d < 1 or any(f % d or least(k) is None for k, f in a.terms):
        # A number of any size may wrap when it is multiplied; what is divided must not have.
        return None
    low = a.lower(least)
    if a.constant % d and (low is None or low < 0):
        return None
    return Affine(a.constant // d, frozenset((k, f // d) for k, f in a.terms))


def remainder(a: Affine, b: Affine, least: Least) -> Affine | None:
    """a mod b for a >= 0, where it is the same number for every size."""
    d, low = b.value, a.lower(least)
    if d is None or d < 1 or low is None or low < 0 or any(f % d for _, f in a.terms):
        return None
    return Affine(a.constant % d)


def larger(a: Affine, b: Affine, least: Least) -> Affine | None:
    """max(a, b), where the same of the two is the larger one for every size."""
    low, high = a.minus(b).lower(least), a.minus(b).upper(least)
    if low is not None and low >= 0:
        return a
    return b if high is not None and high <= 0 else None


def smaller(a: Affine, b: Affine, least: Least) -> Affine | None:
    """min(a, b), where the same of the two is the smaller one for every size."""
    found = larger(a.times(-1), b.times(-1), least)
    return None if found is None else found.times(-1)
