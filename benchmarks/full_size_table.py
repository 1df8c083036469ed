"""The table and totals of what benchmarks/full_size.py wrote, one row a model.

    python benchmarks/full_size_table.py full_size.json again.json

Lines of later files take the place of those of the same case in earlier ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from full_size import EXPORTERS, Case, Line, totals

WITHOUT = "torch does not export it"
MAX_REASON = 100


def read(paths: Sequence[Path]) -> list[Line]:
    """The last line of each case."""
    lines: dict[Case, Line] = {}
    for path in paths:
        for fields in json.loads(path.read_text()):
            case = Case(**fields.pop("case"))
            lines[case] = Line(case, **fields)
    return list(lines.values())


def cell(lines: Sequence[Line]) -> str:
    """What became of one model from one exporter, over sizes and targets."""
    parts = []
    for sizes in dict.fromkeys(x.case.sizes for x in lines):
        mine = [x for x in lines if x.case.sizes == sizes]
        outcomes = dict.fromkeys(x.outcome for x in mine)
        text = "; ".join(outcomes)
        if text.startswith(WITHOUT):
            text = f"torch: {text.removeprefix(WITHOUT).lstrip(': ')[:MAX_REASON]}"
        parts.append((sizes, text))
    if len({text for _, text in parts}) == 1:
        parts = [(" and ".join(sizes for sizes, _ in parts), parts[0][1])]
    return "; ".join(f"{sizes} {text}".strip() for sizes, text in parts)


def rows(lines: Sequence[Line]) -> Iterator[str]:
    """A Markdown table."""
    yield f"| model | nodes | {' | '.join(EXPORTERS)} |"
    yield "|---" * (2 + len(EXPORTERS)) + "|"
    for name in dict.fromkeys(x.case.model for x in lines):
        mine = [x for x in lines if x.case.model == name]
        count = max(x.conv_transpose for x in mine)
        cells = [cell([x for x in mine if x.case.exporter == e]) for e in EXPORTERS]
        yield f"| {mine[0].case.library} {name} | {count or '-'} | {' | '.join(cells)} |"


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path), required=True)
def main(paths: Sequence[Path]) -> None:
    """Print the table, then the totals."""
    lines = read(paths)
    for text in (*rows(lines), "", *totals(lines)):
        click.echo(text)


if __name__ == "__main__":
    main()
