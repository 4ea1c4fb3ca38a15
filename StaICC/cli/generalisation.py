"""The commands of the benchmark generalisation: ``components``, ``plan``."""

from __future__ import annotations

import argparse
import dataclasses

from StaICC.cli import output
from StaICC.cli.output import Printed, add_prices
from StaICC.cli.parser import add_arguments
from StaICC.cli.saved_results import add_results, load_named
from StaICC.comparing.comparison import compare as compare_results
from StaICC.comparing.generalisation import compare_generalising, variance_components
from StaICC.comparing.planning import components_of
from StaICC.comparing.planning import plan as plan_run
from StaICC.errors import ArgumentError
from StaICC.inference.forecast import token_cost
from StaICC.layout import Block, Line, TextTable
from StaICC.results.result import Result

_GOALS = ("half_width", "difference", "power", "max_datasets", "max_rows", "max_templates")


_TOKENS = (166, 0)  # 382,592 of 2,304 queries


def _runs(args: argparse.Namespace) -> dict[str, Result]:
    """Return the results of generalisation that the command is about."""
    found = load_named(args.results)
    runs = {name: result for name, result in found.items() if isinstance(result, Result)}
    if len(runs) < len(found) or len(runs) > 2:
        raise ArgumentError(f"results: got {', '.join(found)}, expected at most two results of run generalisation")
    return runs


def add_components(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_results(parser, "results of run generalisation: one, or two to compare")


def components(args: argparse.Namespace) -> Printed:
    """Print the sources of variance of an accuracy, with an interval over rows, demonstrations and templates.

    With two results, their difference is tested over rows, demonstrations and templates, next to the test with fixed
    ones. Results are those of the benchmark generalisation.

    examples:
      python -m StaICC run generalisation --json first.json
      python -m StaICC components first.json
      python -m StaICC components first.json second.json
    """
    runs = _runs(args)
    components = {name: variance_components(result) for name, result in runs.items()}
    compared = []
    if len(runs) == 2:
        first, second = runs.values()
        compared = [compare_results(first, second, "accuracy"), compare_generalising(first, second)]
    lines = {name: [line.to_dict() for line in part.lines] for name, part in components.items()}
    tables = [(name, part.display_blocks()) for name, part in components.items()]
    if compared:
        tables += [("over rows", [TextTable(*compared[0].table())]), ("", compared[1].display_blocks())]
    blocks = [block for title, table in tables for block in (Line(title, "title"), *table, Line(""))]
    document = {"components": lines, "comparisons": [pair.to_dict() for pair in compared]}
    return Printed(document, blocks[:-1])


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_results(parser, "a pilot: one result of run generalisation, or two for their difference", nargs="*")
    add_arguments(parser, plan_run, *_GOALS)
    text = "of a query: tokens that the model reads and generates (default: 166 and 0, as measured for SmolLM2, k = 4)"
    parser.add_argument("--tokens", nargs=2, type=int, default=_TOKENS, metavar=("INPUT", "OUTPUT"), help=text)
    add_prices(parser)


def plan(args: argparse.Namespace) -> Printed:
    """Plan a run: print the designs that reach a precision or the power for a difference with the fewest tokens.

    Each line is the cheapest design for a number of data sets. Rows, draws and templates are those of each data set;
    queries, tokens and cost those of one model. The sources of variance are those of the pilot, or, without one, of
    runs of SmolLM2-135M and ppm (docs/comparing.md).

    examples:
      python -m StaICC plan --half-width 0.05 --max-datasets 10
      python -m StaICC plan --difference 0.1 --max-datasets 10 --prices 0.1 0.4
      python -m StaICC plan first.json second.json --difference 0.2 --max-datasets 10
    """
    runs = list(_runs(args).values())
    if min(args.tokens) < 0:
        raise ArgumentError(f"--tokens: got {args.tokens}, expected two numbers of at least 0")
    given = {name: getattr(args, name) for name in _GOALS}
    planned = plan_run(components_of(*runs) if runs else None, **given)
    rows: list[dict[str, object]] = []
    lines = []
    for design in planned.designs:
        tokens, output_tokens = (design.queries * of_query for of_query in args.tokens)
        counts: dict[str, float] = {"queries": design.queries, "tokens": tokens, "output_tokens": output_tokens}
        row: dict[str, object] = {"data sets": design.datasets, "rows": design.rows, "draws": design.draws}
        row |= {"templates": design.templates, "queries": f"{design.queries:,}"}
        row |= {"tokens": f"{tokens + output_tokens:,}", "half width": f"{design.half_width:.3f}"}
        row |= {} if design.power is None else {"power": f"{design.power:.2f}"}
        if args.prices is not None:
            counts["cost"] = token_cost(tokens, output_tokens, args.prices)
            row["cost"] = f"{counts['cost']:.2f}"
        rows.append(row)
        lines.append(dataclasses.asdict(design) | counts)
    best = planned.designs[0]
    command = "python -m StaICC run generalisation"
    command += f" --limit {best.rows} --draws {best.draws} --templates {best.templates}"
    blocks: list[Block] = [output.table(rows), Line(f"sources of variance: {planned.components.source}")]
    for k in dict.fromkeys(result.signature.fields.get("k") for result in runs) if runs else ["4"]:
        more = "" if k == "4" else f" --k {k}"
        blocks.append(Line(f"for {best.datasets} data set{'s' * (best.datasets > 1)}: {command}{more}", "code"))
    return Printed({**dataclasses.asdict(planned), "designs": lines}, blocks)
