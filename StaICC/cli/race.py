"""The command ``race``: which of two models is better."""

from __future__ import annotations

import argparse

from StaICC.benchmarks.race import race as race_models
from StaICC.cli import model_options, options
from StaICC.cli.evaluating import explained_interrupt, name_models
from StaICC.cli.parser import add_arguments
from StaICC.cli.saving import ResultSaver, add_result_outputs
from StaICC.errors import ArgumentError
from StaICC.kernels.registry import load_kernel


def add_race(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.set_defaults(benchmark="normal")
    model_options.add_model(parser, "a model as for run; give it twice")
    add_arguments(parser, race_models, "margin", "score")
    options.add_prompt_options(parser)
    options.add_execution_options(parser)
    add_result_outputs(parser)


def race(args: argparse.Namespace) -> int:
    """Evaluate two models until the better one is known.

    Both models predict the same test rows of the benchmark normal, in a random order that is the same for all models.
    The race ends when it is known with 95 % confidence which model is better in the full benchmark, or that
    the models are equivalent within the margin.

    examples:
      python -m StaICC race --model smollm2 --model ppm
      python -m StaICC race --model hf:gpt2 --model hf:distilgpt2 --margin 0.03 --store run.sqlite
      python -m StaICC race --model smollm2 --model smollm2 --model-option dtype=bfloat16
    """
    if len(args.model) != 2:
        raise ArgumentError(f"wrong number of models: got {len(args.model)}, expected two. Give --model twice")
    if args.model_option:
        raise ArgumentError(f"--model-option {args.model_option[0]}: put it after the model that it is about")
    first_model, second_model = args.model
    if first_model == second_model:
        raise ArgumentError(f"--model: got {first_model} twice, expected two different models or options")

    input_files = options.inputs_of(args)
    input_files += model_options.model_files(first_model) + model_options.model_files(second_model)
    saver = ResultSaver(args, input_files, args.store)
    benchmark = options.make(args)
    with explained_interrupt(args, saver):
        result = race_models(
            benchmark,
            load_kernel(first_model),
            load_kernel(second_model),
            args.margin,
            args.score,
            return_outputs=args.records is not None,
            **options.run_settings(args),
        )
    name_models(result, model_options.shown_model(first_model), model_options.shown_model(second_model))
    return saver.finish(result)
