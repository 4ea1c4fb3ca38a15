"""Methods of StaICC 0.1.1 that change the prompt: noisy channel, PPL-ICL, TopK, SA-ICL."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.methods.contract import MethodData, Steps
from StaICC.methods.demonstration_orders import first_orders, in_each_order
from StaICC.methods.nearest_demonstrations import SelectionOptions, choose_near, count_duplicates
from StaICC.methods.noisy_channel import ChannelScores
from StaICC.methods.ppl_icl import candidate_instructions, least_perplexity
from StaICC.methods.requests import Request
from StaICC.methods.sa_icl import surest_predictions
from StaICC.metrics import released

CUT = 512
"""Number of demonstrations that the release chooses from: the first ones."""


def noisy_channel(data: MethodData) -> Steps:
    """Predict by minus the mean loss of the full text of each label."""
    if "noisy_channel" not in data.provides:
        got = "the kernel has no method noisy_channel (or overrides what it calls)"
        raise ArgumentError(f"variant '0.1.1': {got}. Use variant 'paper', or a local model, such as hf:NAME")
    view = data.on(noisy_channel=True)
    (rows,) = yield [view.ask(ChannelScores("0.1.1"))]
    return view.predictions(rows)


def ppl_icl(data: MethodData) -> Steps:
    """Set the instruction that has the lowest perplexity alone, without any input."""
    candidates = candidate_instructions(data)
    (losses,) = yield [data.ask("losses", candidates, role="train")]
    view = data.on(instruction=candidates[least_perplexity(losses, len(candidates))])
    (rows,) = yield [view.ask()]
    return view.predictions(rows)


def topk(data: MethodData) -> Steps:
    """Show each test example the nearest of the first 512 demonstrations, with the release's positions."""
    nearest = yield from nearest_demonstrations(data, data.k, data.options)
    view = data.on(demonstrations=nearest)
    (rows,) = yield [view.ask()]
    return view.predictions(rows)


def sa_icl(data: MethodData) -> Steps:
    """Predict with the first orders in lexicographic order, and keep the prediction of the release's lowest entropy.

    The release shuffles the orders, and throws the shuffled list away. Its entropy is that of the softmax where a row,
    added from left to right, misses 1.0 by an ulp. Which rows do is a matter of the last bit, so its choice does not
    survive another order of additions inside the model.
    """
    number = validate_integer("orders", data.options.orders, 1)
    count = data.k + 1
    if data.options.candidates is not None:
        count = validate_integer("candidates", data.options.candidates, data.k)
    near = yield from nearest_demonstrations(data, count, data.options)
    orders = first_orders(count, data.k, number)
    views = in_each_order(data, near, [orders for _ in near])
    answers = yield [view.ask() for view in views]
    return views[0].predictions(surest_predictions(answers, released.entropy))


def nearest_demonstrations(
    data: MethodData, count: int, options: SelectionOptions
) -> Generator[Sequence[Request], list[list[Any]], list[list[int]]]:
    """Choose demonstrations for each test row as the release does, which shows others than it chose.

    The release numbers the demonstrations that have a text, and takes these numbers for positions of the whole set. If
    demonstration 0 has no text, and the release chooses demonstration 1, its number is 0, so demonstration 0 is shown.
    ``tweet_eval_hate`` has four demonstrations without text.

    Args:
        data: The data of the method.
        count: How many demonstrations.
        options: How they are chosen.

    Returns:
        For each test row, positions of the demonstration set.
    """
    if options.demonstration_set_cut is None:
        options = replace(options, demonstration_set_cut=CUT)
    near = yield from choose_near(data, count, options, at_least=count)
    lists = []
    for numbers in near.chosen:
        if numbers is None:  # the test example has no text
            lists.append(near.usable[:count])
        else:
            lists.append(numbers)
    count_duplicates(data, lists)
    return lists
