"""The commands of the benchmark generalisation: ``components``, ``plan``."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from StaICC.cli.output import Printed, add_prices, prices_of, table
from StaICC.cli.parser import add_arguments
from StaICC.cli.saved_results import add_results, load_named
from StaICC.comparing.comparison import compare as compare_results
from StaICC.comparing.generalisation import compare_generalising, variance_components
from StaICC.comparing.planning import SampleDesign, components_of
from StaICC.comparing.planning import plan as plan_run
from StaICC.errors import ArgumentError
from StaICC.inference.prices import cost_text, token_cost
from StaICC.layout import Block, Line, TextTable
from StaICC.results.result import Result

_GOALS = ("half_width", "difference", "power", "max_datasets", "max_rows", "max_templates")
"""The arguments of :func:`StaICC.comparing.planning.plan` that are options."""

_DEFAULT_K = "4"
"""The k of a run without ``--k``, as signatures have it."""

_TOKENS_OF_QUERY = (166, 0)
"""Tokens that SmolLM2 reads and generates for a query of Normal with k = 4: 382,592 of 2,304 queries."""


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
    runs = _load_runs(args)
    components_by_run = {name: variance_components(result) for name, result in runs.items()}

    titled_tables = [(name, found.display_blocks()) for name, found in components_by_run.items()]
    comparisons: list[dict[str, Any]] = []
    if len(runs) == 2:
        first, second = runs.values()
        first_name, second_name = runs
        over_rows = compare_results(first, second, "accuracy")
        generalising = compare_generalising(first, second)
        shown_over_rows = dataclasses.replace(over_rows, first=first_name, second=second_name)
        shown_generalising = dataclasses.replace(generalising, first=first_name, second=second_name)
        titled_tables.append(("over rows", [TextTable(*shown_over_rows.table())]))
        titled_tables.append(("", shown_generalising.display_blocks()))
        comparisons = [over_rows.to_dict(), generalising.to_dict()]

    document = {
        "components": {name: [line.to_dict() for line in found.lines] for name, found in components_by_run.items()},
        "comparisons": comparisons,
    }
    return Printed(document, _blocks_with_titles(titled_tables))


def _load_runs(args: argparse.Namespace) -> dict[str, Result]:
    """Return the results of generalisation that the command is about, by name.

    Raises:
        ArgumentError: There are more than two, or one is a group of results.
    """
    loaded = load_named(args.results)
    runs = {name: result for name, result in loaded.items() if isinstance(result, Result)}
    if len(runs) < len(loaded) or len(runs) > 2:
        raise ArgumentError(f"results: got {', '.join(loaded)}, expected at most two results of run generalisation")
    return runs


def _blocks_with_titles(titled_tables: Sequence[tuple[str, Sequence[Block]]]) -> list[Block]:
    """Return tables below their titles, with an empty line between them."""
    blocks: list[Block] = []
    for title, table_blocks in titled_tables:
        if blocks:
            blocks.append(Line(""))
        blocks.append(Line(title, "title"))
        blocks += table_blocks
    return blocks


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_results(parser, "a pilot: one result of run generalisation, or two for their difference", nargs="*")
    add_arguments(parser, plan_run, *_GOALS)
    parser.add_argument(
        "--tokens",
        nargs=2,
        type=int,
        default=_TOKENS_OF_QUERY,
        metavar=("INPUT", "OUTPUT"),
        help="of a query: tokens that the model reads and generates "
        "(default: 166 and 0, as measured for SmolLM2, k = 4)",
    )
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
    pilots = list(_load_runs(args).values())
    prices = prices_of(args)
    if min(args.tokens) < 0:
        raise ArgumentError(f"--tokens: got {args.tokens}, expected two numbers of at least 0")
    goals = {name: getattr(args, name) for name in _GOALS}
    measured_components = components_of(*pilots) if pilots else None
    planned = plan_run(measured_components, **goals)

    records = []
    rows = []
    for design in planned.designs:
        usage = _usage(design, args.tokens, prices)
        record = _without_clusters(dataclasses.asdict(design), "clusters")
        records.append({**record, **usage})
        rows.append(_design_row(design, usage, args.currency))
    blocks: list[Block] = [table(rows), Line(f"sources of variance: {planned.components.source}")]
    blocks += _commands(planned.designs[0], pilots)
    document = dataclasses.asdict(planned)
    document["components"] = _without_clusters(document["components"], "cluster_rows")
    document["designs"] = records
    return Printed(document, blocks)


def _without_clusters(values: dict[str, Any], key: str) -> dict[str, Any]:
    """Return values of a plan without the entry about clusters, if rows have none."""
    if values[key] is None:
        del values[key]
    return values


def _usage(design: SampleDesign, tokens_of_query: Sequence[int], prices: Sequence[float] | None) -> dict[str, float]:
    """Return what a design uses of one model.

    Args:
        design: The design.
        tokens_of_query: Tokens that the model reads and generates for a query.
        prices: Cost of a million tokens that it reads and generates; ``None`` for no cost.

    Returns:
        Queries, tokens, and the cost if there are prices.
    """
    tokens, output_tokens = (design.queries * count for count in tokens_of_query)
    usage: dict[str, float] = {"queries": design.queries, "tokens": tokens, "output_tokens": output_tokens}
    if prices is not None:
        usage["cost"] = token_cost(tokens, output_tokens, prices)
    return usage


def _design_row(design: SampleDesign, usage: Mapping[str, float], currency: str) -> dict[str, object]:
    """Return a design of a run as a row of the table, by column.

    Args:
        design: The numbers of data sets, rows, draws and templates, with the precision or power that they have.
        usage: The tokens of its queries, and their cost if prices were given.
        currency: The currency of the cost.
    """
    row: dict[str, object] = {
        "data sets": design.datasets,
        "rows": design.rows,
        "draws": design.draws,
        "templates": design.templates,
        "queries": f"{design.queries:,}",
        "tokens": f"{usage['tokens'] + usage['output_tokens']:,}",
        "half width": f"{design.half_width:.3f}",
    }
    if design.clusters is not None:
        row["clusters"] = design.clusters
    if design.power is not None:
        row["power"] = f"{design.power:.2f}"
    if "cost" in usage:
        row["cost"] = cost_text(usage["cost"], currency)
    return row


def _commands(design: SampleDesign, pilots: Sequence[Result]) -> list[Line]:
    """Return the commands that run a design: one for each k of the pilots, or one with the default k."""
    datasets = "1 data set" if design.datasets == 1 else f"{design.datasets} data sets"
    command = "python -m StaICC run generalisation"
    command += f" --limit {design.rows} --draws {design.draws} --templates {design.templates}"
    if not pilots:
        return [Line(f"for {datasets}: {command}", "code")]
    lines = []
    for k in dict.fromkeys(pilot.signature.fields.get("k") for pilot in pilots):
        k_option = "" if k == _DEFAULT_K else f" --k {k}"
        lines.append(Line(f"for {datasets}: {command}{k_option}", "code"))
    return lines
