"""Command lines, each with the run file that says the same."""

from __future__ import annotations

from typing import Any

RUN_FILES: dict[str, str] = {
    "normal --datasets mini --limit 4": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
    """,
    "normal --datasets mini --limit 4 --k 0": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
        k = 0
    """,
    "normal --datasets mini --limit 4 --model ppm --model-option order=5 --model-option escape=D": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
        [model_option]
        order = 5
        escape = "D"
    """,
    "normal --datasets mini --limit 4 --k 3 --sampler nested": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
        k = 3
        sampler = "nested"
    """,
    "normal --datasets mini --limit 4 --noisy-channel": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
        noisy_channel = true
    """,
    "normal --datasets mini --limit 4 --tried 7 --level 0.9": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
        tried = 7
        level = 0.9
    """,
    "normal --datasets mini --limit 4 --no-intervals": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
        no_intervals = true
    """,
    "normal --datasets mini --limit 4 --metrics 0.1.1": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
        metrics = "0.1.1"
    """,
    "normal --datasets mini --limit 4 --outputs probabilities --unparsed wrong": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
        outputs = "probabilities"
        unparsed = "wrong"
    """,
    "normal --datasets mini --precision 0.2": """
        benchmark = "normal"
        datasets = ["mini"]
        precision = 0.2
    """,
    "normal --datasets mini --precision 0.2 --score likelihood --outputs probabilities": """
        benchmark = "normal"
        datasets = ["mini"]
        precision = 0.2
        score = "likelihood"
        outputs = "probabilities"
    """,
    "normal --datasets mini --limit 4 --k 0,2": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
        k = "0,2"
    """,
    "normal --datasets mini --limit 4 --model-name my_model": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
        model_name = "my_model"
    """,
    "normal --datasets mini --limit 4 --method batch-calibration --method-option batch_size=8": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
        method = "batch_calibration"
        [method_option]
        batch_size = 8
    """,
    "normal --datasets mini --limit 4 --method domain-calibration --method-variant staicc --calibration-number 8": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 4
        method = "domain_calibration"
        method_variant = "staicc"
        calibration_number = 8
    """,
    "normal --datasets mini --limit 2 --method all --calibration-number 8 --method-variant staicc": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 2
        method = "all"
        method_variant = "staicc"
        calibration_number = 8
    """,
    "contextual-bias --datasets mini --limit 4": """
        benchmark = "contextual-bias"
        datasets = ["mini"]
        limit = 4
    """,
    "domain-bias --datasets mini --limit 4 --domain-query-length 16": """
        benchmark = "domain-bias"
        datasets = ["mini"]
        limit = 4
        domain_query_length = 16
    """,
    "post-bias --datasets mini --limit 4": """
        benchmark = "post-bias"
        datasets = ["mini"]
        limit = 4
    """,
    "gler --datasets mini --limit 4 --interpolations 3": """
        benchmark = "gler"
        datasets = ["mini"]
        limit = 4
        interpolations = 3
    """,
    "template --datasets mini --limit 2": """
        benchmark = "template"
        datasets = ["mini"]
        limit = 2
    """,
    "demonstration --datasets mini --limit 2": """
        benchmark = "demonstration"
        datasets = ["mini"]
        limit = 2
    """,
    "generalisation --datasets mini --limit 2 --draws 3 --templates 2": """
        benchmark = "generalisation"
        datasets = ["mini"]
        limit = 2
        draws = 3
        templates = 2
    """,
    "triplet-bias --datasets mini --limit 2 --domain-query-length 9": """
        benchmark = "triplet-bias"
        datasets = ["mini"]
        limit = 2
        domain_query_length = 9
    """,
    "suite --datasets mini --limit 2 --method batch-calibration": """
        benchmark = "suite"
        datasets = ["mini"]
        limit = 2
        method = "batch_calibration"
    """,
    "normal --datasets mini --limit 2 --method ensemble --method-option sets=2": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 2
        method = "ensemble"
        [method_option]
        sets = 2
    """,
    "normal --datasets mini --limit 2 --metrics standard+brier+nll": """
        benchmark = "normal"
        datasets = ["mini"]
        limit = 2
        metrics = "standard+brier+nll"
    """,
    "diagnosis --datasets mini --limit 2": """
        benchmark = "diagnosis"
        datasets = ["mini"]
        limit = 2
    """,
    "suite --datasets mini --limit 2 --k 2": """
        benchmark = "suite"
        datasets = ["mini"]
        limit = 2
        k = 2
    """,
    "normal --data own.csv --text review --label mood --limit 4": """
        benchmark = "normal"
        data = "own.csv"
        text = ["review"]
        label = "mood"
        limit = 4
    """,
    "normal --datasets mini --data own.csv --text review --label mood --cluster who --limit 4": """
        benchmark = "normal"
        datasets = ["mini"]
        data = "own.csv"
        text = ["review"]
        label = "mood"
        cluster = "who"
        limit = 4
    """,
    "normal --data bare.tsv --columns words mood who --text words --label mood --quoting none --limit 4 "
    "--subgroups who": """
        benchmark = "normal"
        data = "bare.tsv"
        columns = ["words", "mood", "who"]
        text = ["words"]
        label = "mood"
        quoting = "none"
        subgroups = ["who"]
        limit = 4
    """,
    "normal --data latin.csv --text review --label mood --encoding latin-1 --limit 4": """
        benchmark = "normal"
        data = "latin.csv"
        text = ["review"]
        label = "mood"
        encoding = "latin-1"
        limit = 4
    """,
    "long-icl --data many.csv --text text --label label --experiment context --levels 1K 2K --share 0.5 --limit 4": """
        benchmark = "long-icl"
        data = "many.csv"
        text = ["text"]
        label = "label"
        experiment = "context"
        levels = [1024, 2048]
        share = 0.5
        limit = 4
    """,
    "long-icl --data many.csv --text text --label label --experiment order --seed 7 --unparsed excluded --limit 4": """
        benchmark = "long-icl"
        data = "many.csv"
        text = ["text"]
        label = "label"
        experiment = "order"
        seed = 7
        unparsed = "excluded"
        limit = 4
    """,
    "long-icl --data many.csv --text text --label label --rounds 1 --parsing published --limit all": """
        benchmark = "long-icl"
        data = "many.csv"
        text = ["text"]
        label = "label"
        rounds = [1]
        parsing = "published"
        limit = "all"
    """,
    "long-icl --data many.csv --text text --label label --experiment order --levels 2 --shots 2 --limit 4": """
        benchmark = "long-icl"
        data = "many.csv"
        text = ["text"]
        label = "label"
        experiment = "order"
        levels = [2]
        shots = 2
        limit = 4
    """,
    "long-icl --data many.csv --text text --label label --rounds 2 --instruct --limit 4": """
        benchmark = "long-icl"
        data = "many.csv"
        text = ["text"]
        label = "label"
        rounds = [2]
        instruct = true
        limit = 4
    """,
}
"""The words after ``run`` of a command, each with the run file that says the same."""


def defaults_left_out(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a run file without ``model = "ppm"``, which is the default model."""
    return {name: value for name, value in values.items() if (name, value) != ("model", "ppm")}
