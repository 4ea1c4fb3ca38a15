"""Workflows in the words of 0.1.1: what its README documents, what its three notebooks call, and what its users reach.

Scripts are written one after the other: ``#: name [entry]``, the code, and after ``#> now`` what to write instead. The
entry is the row of docs/migration.md that explains an intended difference; without it, the release and this library
must show the same. What is written now must show what the release shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Workflow:
    """A few lines that use StaICC, and what is expected of them."""

    name: str
    code: str
    entry: str = ""
    new: str = ""
    torch: bool = False
    setup: str = ""
    """Run once for all workflows that begin with it; each workflow then changes a copy of what it made."""


SETUP = """\
from StaICC import *
benchmark = Normal()
experimentor = benchmark[0]
prompt_former = experimentor.prompt_former
"""


def scripts(text: str, setup: str = SETUP, torch: bool = False) -> list[Workflow]:
    """Return the workflows of a text, in which each begins with a line ``#: name [entry]``.

    A script that imports from StaICC has no setup.
    """
    workflows = []
    _before_first, *parts = re.split(r"^#: ", text, flags=re.MULTILINE)
    for part in parts:
        title, _, script = part.partition("\n")
        name, _, entry = title.removesuffix("]").partition(" [")
        code, _, new_code = script.partition("#> now\n")
        imports_library = re.search(r"^(from|import) StaICC", code, re.MULTILINE) is not None
        setup_of_script = "" if imports_library else setup
        workflows.append(Workflow(name, code, entry, new_code, torch, setup_of_script))
    return workflows


RUNS = scripts(r"""
#: a run: the result
result = benchmark(probabilities)
show('result', result)
show('kind', isinstance(result, dict))
show('order', list(result))
show('representation', eval(repr(result)))
show('as JSON', json.loads(json.dumps(result)))
show('logits', benchmark(logits))
show('twice', benchmark(probabilities))
#: a run: logits of minus infinity
def ruled_out(prompt, label_space):
    row = logits(prompt, label_space)
    row[len(prompt) % len(row)] = float('-inf')
    return row
show('result', benchmark(ruled_out))
#: a run: print(result) [print]
show('text', printed(lambda: print(benchmark(probabilities))))
#: a run: label indexes [label-indexes]
show('result', benchmark(last_label))
#> now
show('result', Normal(metrics='0.1.1')(last_label))
#: a run: its arguments
show('averages', benchmark(probabilities, return_divided_results=False))
show('by position', benchmark(probabilities, False))
show('auto_run', benchmark.auto_run(probabilities))
show('list', benchmark([probabilities]))
show('name', benchmark(forward_inference=probabilities))
show('other name', benchmark.auto_run(list_of_forward_inference=probabilities))
show('one for each', benchmark.auto_run(list_of_forward_inference=[probabilities, logits]))
show('list of them', benchmark([logits, probabilities]))
#: a run: no function [errors]
benchmark.auto_run()
#: a run: parameters of other names [errors]
benchmark(lambda text, labels: 0)
#: a run: f fails [errors]
def failing(prompt, label_space):
    raise KeyError('lost')
benchmark(failing)
#: a run: a tuple of scores [fixed]
show('result', benchmark(lambda prompt, label_space: tuple(probabilities(prompt, label_space))))
#: a run: the text of a label [fixed]
show('accuracy', benchmark(lambda prompt, label_space: label_space[-1])['Averaged results']['accuracy'])
#: a run: NaN [errors]
show('result', benchmark(lambda prompt, label_space: [float('nan')] * len(label_space)))
#: a run: batched
show('result', benchmark(many(probabilities), batched_inference=True))
show('by position', benchmark(many(last_label), True, True)['Averaged results']['accuracy'])
#: a run: batched, parameter prompts [readme]
show('result', benchmark.auto_run(lambda prompts, label_space: [probabilities(p, label_space) for p in prompts], batched_inference=True))
#: a number of demonstrations by position
from StaICC import Normal
show('position', sha(Normal(2)[1].prompt_set()))
#: noisy channel: prompts and run
from StaICC import Normal
benchmark = Normal(k=16, noisy_channel=True)
prompts = benchmark[0].prompt_set()
show('prompts', [len(prompts), len(prompts[0]), sha(prompts)])
show('kind', type(prompts[0]))
show('result', benchmark(lambda prompt, label_space: [len(one) % 5 - 2.5 for one in prompt]))
""")

BENCHMARKS = [
    *(
        Workflow(
            name,
            f"from StaICC import {name}\nshow('result', {name}()(probabilities))",
            "bias",
            f"from StaICC import {name}\nshow('result', {name}(metrics='0.1.1')(probabilities))",
        )
        for name in ("Contextual_bias", "Domain_bias", "Post_bias", "Triplet_bias")
    ),
    *scripts(r"""
#: Template_sens
from StaICC import Template_sens
benchmark = Template_sens(k=2)
show('result', benchmark(probabilities))
show('rows', len(benchmark[0].test_set()))
#: Demo_sens
from StaICC import Demo_sens
benchmark = Demo_sens()
show('result', benchmark(probabilities))
show('rows', [len(benchmark[0].test_set()), benchmark[0].get_repeat_times(), len(benchmark[0].prompt_set()), sha(benchmark[0].prompt_set())])
#: Domain_bias: prompts
from StaICC import Domain_bias
benchmark = Domain_bias(domain_query_length=8)
show('prompts', sha(benchmark[0].prompt_set()))
#: Triplet_bias: its parts
from StaICC import Triplet_bias
benchmark = Triplet_bias()
show('parts', [len(benchmark.contextual), len(benchmark.domain), len(benchmark.post)])
result = benchmark(list_of_forward_inference=probabilities, return_divided_results=False)
show('keys', {part: list(found) for part, found in result.items()})
#: GLER [gler]
from StaICC import GLER
show('result', json.loads(json.dumps(GLER()(probabilities))))
#> now
from StaICC import GLER
show('result', json.loads(json.dumps(GLER(metrics='0.1.1')(probabilities))))
#: GLER: prompt_set() [prompt-set]
from StaICC import GLER
show('prompts', len(GLER()[0].prompt_set()))
#: the benchmark as a list
show('length', len(benchmark))
show('same', [benchmark[0] is benchmark.experimentor[0], benchmark[-1] is benchmark.get_experimentors()[1]])
show('names', [one.triplet_dataset.dataset_name for one in benchmark])
show('label spaces', benchmark.get_label_spaces_for_experimentors())
show('data', [one.dataset_name for one in benchmark.get_experiment_data()])
show('slice', len(benchmark[0:1]))
fails('an index beyond', lambda: benchmark[2])
show('members', [list(benchmark.metrics), benchmark.noisy_channel])
#: the benchmark: str() [str]
show('text', str(benchmark)[:20])
#: re_initialize
benchmark.re_initialize(k=2)
show('k', benchmark[0].get_k())
show('prompts', sha(benchmark[0].prompt_set()))
benchmark.re_initialize(4, True)
show('noisy', sha(benchmark[0].prompt_set()))
benchmark.re_initialize()
show('back', sha(benchmark[0].prompt_set()))
"""),
]

EXPERIMENTORS = scripts(r"""
#: sizes and prompts
for one in benchmark:
    show(one.triplet_dataset.dataset_name, [len(one), len(one.prompt_set()), sha(one.prompt_set()), one.get_k(), one.get_repeat_times(), one.get_label_space()])
show('kinds', [type(experimentor.prompt_set()), type(experimentor.prompt_set()[0])])
#: the three sets
for rows in (experimentor.demonstration_set(), experimentor.test_set(), experimentor.calibration_set()):
    show(rows.get_dataset_name(), [len(rows), rows[0], rows[-1], rows.get_input_text(3), rows.get_label(3), rows.get_label_space()])
    show(rows.get_dataset_name() + ' all', sha([rows[place] for place in range(len(rows))]))
    show(rows.get_dataset_name() + ' iterated', sum(len(texts) for texts, label in rows))
show('kinds', [type(rows[0]), type(rows[0][0]), isinstance(rows[0][1], str)])
#: rows and their labels
rows = experimentor.test_set()
labels, space = [label for texts, label in rows], experimentor.get_label_space()
texts, label = rows[0]
show('counted', [Counter(labels)['person'], dict(Counter(labels))])
show('looked up', [{text: place for place, text in enumerate(space)}[label], space.index(label), label in space])
show('joined', [' ' + label, label + '.', texts[0] + ' ' + label, f'{label}', '%s' % label, label.upper()])
show('as JSON', json.dumps([rows[place] for place in range(3)]))
show('sorted', sorted(set(labels)))
show('equal', [labels[0] == 'description', labels[0] == 2, labels[0] != 'entity'])
fails('as a number', lambda: int(label))
show('texts', [texts, texts + ['more'], list(texts), json.dumps(texts), isinstance(texts, list), len(texts), texts[:1]])
show('labels of indexes', [rows.label_index_to_text(place) for place in range(6)])
show('indexes of labels', [rows.find_index_from_label(text) for text in space])
fails('a row that does not exist', lambda: rows[512])
#: labels of rows: their index [label-index]
import operator
texts, label = experimentor.test_set()[0]
show('index', operator.index(label))
#: rows: a text changed [row-texts]
experimentor.test_set()[0][0][0] = 'XXX'
show('changed', 'XXX' in experimentor.prompt_set()[0])
#: sets: split
parts = experimentor.test_set().split([[0, 1, 5], [2]])
show('parts', [[part[place] for place in range(len(part))] for part in parts])
#: demonstrations: as drawn
sampler = experimentor.demonstration_sampler
show('lists', [len(sampler), sampler[0], sampler[1023], sum(len(sampler[place]) for place in range(len(sampler)))])
show('kind', type(sampler[0]))
#: demonstrations: by hand
experimentor.set_demonstration_sampler([[place, 5, 9, 2] for place in range(len(experimentor.test_set()))])
show('lists', [experimentor.get_repeat_times(), len(experimentor), experimentor.demonstration_sampler[7], sha(experimentor.prompt_set())])
show('result', experimentor.auto_run(probabilities))
experimentor.reset_demonstration_sampler()
show('reset', [experimentor.get_repeat_times(), len(experimentor), experimentor.demonstration_sampler[7]])
#: demonstrations: ragged lists [samplers]
experimentor.set_demonstration_sampler([[0, 1, 2, 3]] * 511 + [[0]])
#: demonstrations: a position that does not exist [samplers]
experimentor.set_demonstration_sampler([[0, 1, 2, 9999]] * 512)
#: demonstrations: in-domain mode
one = benchmark[1]
one.set_in_domain_mode()
show('lists', sha([list(one.demonstration_sampler[place]) for place in range(len(one))]))
show('result', one.auto_run(probabilities))
one.reset_demonstration_sampler()
show('reset', one.demonstration_sampler[0])
#: auto_run
show('result', experimentor.auto_run(forward_inference=probabilities))
show('call', experimentor(probabilities))
show('batched', experimentor.auto_run(many(probabilities), batched_inference=True))
#: auto_run: the names of the outputs [outputs]
show('keys', list(experimentor.auto_run(probabilities, return_outputs=True)[2]))
#: auto_run: given predictions
rows = [probabilities(prompt, experimentor.get_label_space()) for prompt in experimentor.prompt_set()]
show('result', experimentor.auto_run(preentered_prediction=rows))
show('both', experimentor.auto_run(last_label, preentered_prediction=rows))
show('by position', experimentor(None, rows))
fails('too few', lambda: experimentor.auto_run(preentered_prediction=rows[:1000]))
fails('nothing', lambda: experimentor.auto_run())
#: auto_run: given predictions by the name of the code
experimentor(input_prediction=[[1.0, 0, 0, 0, 0, 0]] * len(experimentor))
#: a metric: added
experimentor.add_metric('mine', lambda ground_truth, prediction: len(prediction) + prediction[0][0])
show('result', experimentor.auto_run(probabilities))
show('all', benchmark(probabilities))
show('names', [list(benchmark.metrics), list(benchmark[1].metrics)])
#: a metric: assigned
experimentor.metrics['mine'] = lambda ground_truth, prediction: 0.25
show('result', experimentor.auto_run(probabilities))
show('mean', benchmark(probabilities)['Averaged results']['mine'])
#: a metric: by the keywords of the code
experimentor.add_metric(metric_name='mine', metric_function=lambda ground_truth, prediction: 1.0)
show('value', experimentor.auto_run(probabilities)[0]['mine'])
#: a metric: of logits [own-metrics]
experimentor.add_metric('largest', lambda ground_truth, prediction: max(map(max, prediction)))
show('value', experimentor.auto_run(logits)[0]['largest'])
#> now
import StaICC
experimentor.add_metric('largest', StaICC.Metric('largest', lambda ground_truth, prediction: max(map(max, prediction))))
show('value', experimentor.auto_run(logits)[0]['largest'])
#: a metric: a list as its value [metric-values]
experimentor.add_metric('mine', lambda ground_truth, prediction: [0.5, 1.0])
show('value', experimentor.auto_run(probabilities)[0]['mine'])
#: a metric: of another benchmark [shared-metrics]
experimentor.add_metric('mine', lambda ground_truth, prediction: 1.0)
show('names', list(Normal().metrics))
#: writing a prompt from rows
write = experimentor.get_prompt_writter_from_dataline()
rows = [experimentor.calibration_set()[place] for place in range(3)]
show('prompt', write(rows, experimentor.calibration_set()[3][0]))
#: k assigned [assignments]
experimentor.k = 8
show('k', experimentor.get_k())
#> now
experimentor.set_k(8)
experimentor.set_k(4)
show('k', experimentor.get_k())
""")

# -- what the inference function may return, with both metric sets


@dataclass(frozen=True)
class Kind:
    """One kind of predictions, as an expression of ``prompt``, ``label_space`` and ``n``, the number of labels."""

    code: str
    scores: str = ""
    """The row of docs/migration.md about the scores, outputs and given predictions; empty where they are equal."""
    outputs: str = ""
    given: str | None = None
    """Those of the scores by default."""


KINDS = {
    "logits": Kind("logits(prompt, label_space)"),
    "logits in an array": Kind("np.array(logits(prompt, label_space))", "fixed", "fixed"),
    "logits as float32 scalars": Kind(
        "[np.float32(value) for value in logits(prompt, label_space)]", outputs="number-types"
    ),
    "logits in a tuple": Kind("tuple(logits(prompt, label_space))", "fixed", "fixed"),
    "probabilities": Kind("probabilities(prompt, label_space)"),
    "probabilities as float32 scalars": Kind(
        "[np.float32(value) for value in probabilities(prompt, label_space)]", "number-types", "number-types"
    ),
    "probabilities with a sum of 1 but for the last digit": Kind("[0.7, 0.2, 0.1, 0.0, 0.0, 0.0][:n]", "numbers"),
    "rows with a sum of 0.9": Kind("[0.9 * value for value in probabilities(prompt, label_space)]", "row-sums"),
    "one-hot rows": Kind("[int(place == len(prompt) % n) for place in range(n)]", "numbers"),
    "rows of zeros": Kind("[0.0] * n", "row-sums"),
    "the same row for every query": Kind("[0.25, 0.25, 0.5, 0.0, 0.0, 0.0][:n]"),
    "label indexes": Kind("(len(prompt) + n - 1) % n", "label-indexes"),
    "label indexes of int64": Kind("np.int64(n - 1)", "label-indexes", "fixed"),
    "label names": Kind("label_space[len(prompt) % n]", "fixed", "fixed"),
    "truth values": Kind("True", "errors", "errors"),
    "an empty list": Kind("[]"),
    "too many values": Kind("[0.5] + [0.5 / n] * n", "errors", "errors"),
    "plus infinity": Kind("[float('inf')] + [0.0] * (n - 1)", "errors", "errors"),
}


def _workflows_of_predictions(name: str, kind: Kind) -> list[Workflow]:
    """Return three workflows of a kind of predictions: their scores, their outputs, and scores without a function.

    In the last one, the predictions are passed instead of the function that makes them.
    """
    show_scores = "show('scores', experimentor.auto_run(f)[0])"
    show_outputs = (
        "found = experimentor.auto_run(f, return_outputs=True)[2]\n"
        "show('outputs', [found[key] for key in ('groundtruth', 'predicted', 'prob.')])"
    )
    pass_predictions = (
        "rows = [f(prompt, experimentor.get_label_space()) for prompt in experimentor.prompt_set()]\n"
        "show('scores', experimentor.auto_run(preentered_prediction=rows)[0])"
    )
    entry_of_passed = kind.scores if kind.given is None else kind.given
    return [
        _with_predictions(kind, f"{name}: scores", show_scores, kind.scores),
        _with_predictions(kind, f"{name}: outputs", show_outputs, kind.outputs),
        _with_predictions(kind, f"{name}: given predictions", pass_predictions, entry_of_passed),
    ]


def _with_predictions(kind: Kind, name: str, code: str, entry: str) -> Workflow:
    """Return the workflow of code that calls ``f``, which returns this kind of predictions.

    What to write instead uses the metrics of the release. There is nothing to write where 0.1.1 had an error.
    """
    definition = f"def f(prompt, label_space):\n    n = len(label_space)\n    return {kind.code}\n"
    old_code = definition + code
    if entry in ("fixed", "errors", "number-types"):
        new_code = ""
    else:
        new_code = SETUP.replace("Normal()", "Normal(metrics='0.1.1')") + old_code
    return Workflow(name, old_code, entry, new_code, setup=SETUP)


VALUES = [
    *(workflow for name, kind in KINDS.items() for workflow in _workflows_of_predictions(name, kind)),
    *(
        Workflow(
            f"{name}: outputs",
            f"from StaICC import {name}\n"
            f"found = {name}()[0].auto_run({'probabilities' if name == 'Post_bias' else 'logits'}, return_outputs=True)\n"
            "show('number', len(found))\n"
            "show('outputs', [found[2][key] for key in ('groundtruth', 'predicted', 'prob.')])",
            "" if "bias" in name else "fixed",
        )
        for name in ("Contextual_bias", "Domain_bias", "Post_bias", "GLER", "Template_sens", "Demo_sens")
    ),
]

# -- numbers of NumPy as arguments, and names of 0.1.1

TYPES = scripts(r"""
#: arrays and other numbers of NumPy
show('example', prompt_former.example(np.int64(2)))
show('positions', prompt_former.write_prompt(np.array([1, 2]), 3))
for lists in (np.arange(2048).reshape(512, 4), [np.array([1, 2, 3, place]) for place in range(512)]):
    experimentor.set_demonstration_sampler(lists)
    show(type(lists).__name__, sha(experimentor.prompt_set()))
for kind in (np.float64, np.float32):
    prompt_former.set_label_wrong_rate(kind(0.5))
    show(kind.__name__, [prompt_former.write_prompt([0, 5, 3], place) for place in range(5)])
#: batched: an array of logits [fixed]
show('result', benchmark(lambda prompt, label_space: np.array([logits(p, label_space) for p in prompt]), batched_inference=True))
#: k is True [values]
experimentor.set_k(True)
""")

NAMES = scripts(r"""
#: the split and the sampler: their methods
split, sampler = experimentor.triplet_dataset, experimentor.demonstration_sampler
show('names', [split.get_dataset_name(), split.dataset_name, split.get_label_space()])
show('labels', [split.get_default_ground_truth_label(row) for row in range(512)])
show('indexes', [split.get_default_ground_truth_label_index(row) for row in range(512)])
show('lists', [sampler.get_sampled_indexes(place) for place in range(1024)])
for place in (512, -1):
    fails(f'row {place}', lambda: split.get_default_ground_truth_label(place))
for place in (1024, -1):
    fails(f'prompt {place}', lambda: sampler.get_sampled_indexes(place))
#: experimentor.predictions [predictions]
experimentor.auto_run(logits)
show('rows', experimentor.predictions)
#> now
found = experimentor.auto_run(logits, return_outputs=True)[2]
show('rows', found['predicted_probabilities'])
#: names of the classes [class-names]
import StaICC
names = 'Normal Contextual_bias Domain_bias Post_bias Triplet_bias GLER Template_sens Demo_sens'
show('names', [getattr(StaICC, name).__name__ for name in names.split()])
""")

MEMBERS = """\
import types
import StaICC
def public(thing):
    names = [name for name in dir(thing) if not name.startswith('_')]
    return [name for name in names if not isinstance(getattr(thing, name, None), types.ModuleType)]
classes = 'Normal Contextual_bias Domain_bias Post_bias GLER Template_sens Demo_sens'
made = [getattr(StaICC, name)() for name in classes.split()]
show('benchmark', sorted({name for one in [*made, StaICC.Triplet_bias()] for name in public(one)}))
show('experimentor', sorted({name for one in made for name in public(one[0])}))
one = made[0][0]
show('triplet_dataset', public(one.triplet_dataset))
show('test_set()', public(one.test_set()))
show('prompt_former', public(one.prompt_former))
show('demonstration_sampler', public(one.demonstration_sampler))
"""
"""Shows the public members of the objects that users reach."""

# -- prompts

PROMPTS = scripts(r"""
#: settings
show('settings', prompt_former.get_config_dict())
show('members', [prompt_former._instruction, prompt_former._input_text_prefixes, prompt_former._input_text_affixes, prompt_former._label_prefix, prompt_former._label_affix, prompt_former._query_prefix, prompt_former._label_space])
#: change_input_text_affixes [readme]
prompt_former.change_input_text_affixes(['\n'])
show('settings', prompt_former.get_config_dict())
#: _label_space: an item assigned [assignments]
prompt_former._label_space[0] = 'A'
show('labels', experimentor.get_label_space())
#> now
labels = experimentor.get_label_space()
labels[0] = 'A'
prompt_former.change_label_space(labels)
show('labels', experimentor.get_label_space())
#: set_config_dict: a part
prompt_former.set_config_dict({'instruction': 'Choose. ', 'label_space': ['A', 'B', 'C', 'D', 'E', 'F']})
show('settings', prompt_former.get_config_dict())
prompt_former.reset()
prompt_former.set_config_dict({'use_noisy_channel': True, 'label_prefix': 'A: '})
show('channel', prompt_former.get_config_dict())
show('prompts', sha(experimentor.prompt_set()))
#: set_config_dict: a part, with use_noisy_channel=False [config]
prompt_former.set_config_dict({'instruction': 'Choose. ', 'use_noisy_channel': False})
show('settings', prompt_former.get_config_dict())
#: set_config_dict: a part, after a change [config]
prompt_former.change_label_prefix('A: ')
prompt_former.set_config_dict({'instruction': 'Choose. '})
show('settings', prompt_former.get_config_dict())
#> now
prompt_former.reset()
prompt_former.set_config_dict({'instruction': 'Choose. '})
show('settings', prompt_former.get_config_dict())
#: set_config_dict: an unknown key [values]
prompt_former.set_config_dict({'instructions': 'Choose. '})
#: use_noisy_channel
prompt_former.use_noisy_channel()
show('settings', prompt_former.get_config_dict())
prompts = experimentor.prompt_set()
show('prompts', [len(prompts), sha(prompts)])
prompt_former.cancel_noisy_channel()
show('back', prompt_former.get_config_dict())
#: reset of a noisy-channel benchmark [reset]
from StaICC import Normal
benchmark = Normal(noisy_channel=True)
benchmark[0].prompt_former.reset()
show('settings', benchmark[0].prompt_former.get_config_dict())
#> now
from StaICC import Normal
benchmark = Normal(noisy_channel=True)
benchmark[0].prompt_former.cancel_noisy_channel()
show('settings', benchmark[0].prompt_former.get_config_dict())
#: example: twice [state]
show('first', prompt_former.example())
show('second', prompt_former.example())
#: write_prompt and write_prompt_from_dataline
lines, write = [(['one'], 'short'), (['two'], 'person')], prompt_former.write_prompt_from_dataline
show('prompts', [prompt_former.write_prompt([0, 5, 3], 2), prompt_former.write_prompt([], 0)])
show('name', prompt_former.write_prompt(demos_indexes=[1], query_index=4))
show('of rows', [write(lines, ['three']), write([], ['three']), write(lines, ['three'], cut_by_length=5)])
fails('no label', lambda: write([(['one'], 'nothing')], ['three']))
#: write_prompt: a pseudo-query
prompt_former.pseudo_prompt = iter([['first'], ['second']])
show('prompts', [prompt_former.write_prompt([0], None), prompt_former.write_prompt([1])])
#: write_prompt_from_dataline: a label index [fixed]
show('prompt', prompt_former.write_prompt_from_dataline([(['one'], 2)], ['three']))
#: write_prompt_from_dataline: a bare text [fixed]
show('prompt', prompt_former.write_prompt_from_dataline([(['one'], 'short')], 'three'))
#: a rate beyond 1 [values]
prompt_former.set_label_wrong_rate(2)
#: a run with a changed template
prompt_former.change_instruction('Choose. ')
prompt_former.change_label_space(['A', 'B', 'C', 'D', 'E', 'F'])
seen = []
show('result', experimentor.auto_run(lambda prompt, label_space: seen.append(label_space) or probabilities(prompt, label_space)))
show('labels', seen[0])
""")

KERNEL = """\
from StaICC.prefabricate_inference import model_kernel
parts = dict(model=model, tokenizer=tokenizer, label_space=['good', 'bad'])
standard = model_kernel.standard_ICL_inference_with_torch_Causal_LM
"""


KERNELS = scripts(
    r"""
#: kernel: one prompt
show('rows', [standard(prompt='who is it?', **parts), standard('who is it?', model, tokenizer, ['good', 'bad'])])
show('emptied', standard(prompt='who', cache_empty=torch.cuda.empty_cache, **parts))
show('of a row', [standard(prompt=['who is it?'], **parts), standard(prompt=['who is it?'], return_hidden_state=True, **parts)])
show('state', standard(prompt='who is it?', return_hidden_state=True, **parts))
show('vocabulary', standard(prompt='who is it?', return_full_vocab_prob=True, **parts))
fails('several', lambda: standard(prompt=['who', 'who is it?'], **parts))
#: kernel: hidden state and full vocabulary [fixed]
show('number', len(standard(prompt='who is it?', return_hidden_state=True, return_full_vocab_prob=True, **parts)))
#: kernel: calibration_function
def calibrate(label_space_prob, full_vocab_prob, hidden_state):
    show('got', [label_space_prob, full_vocab_prob, hidden_state])
    return [0.25, 0.75]
show('row', standard(prompt='who', calibration_function=calibrate, **parts))
show('state', standard(prompt='who', calibration_function=calibrate, return_hidden_state=True, **parts))
#: kernel: batched
batched = model_kernel.batched_ICL_inference_with_torch_Causal_LM
show('rows', batched(prompt=['who', 'is it?'], **parts))
show('calibrated', batched(prompt=['who', 'is it?'], batch_calibration_function=lambda rows: rows[::-1], **parts))
show('inside', batched(prompt=['who', 'is it?'], inside_calibration_function=lambda row, logits, state: [1.0, 0.0], **parts))
#: kernel: noisy channel [noisy-channel]
show('row', model_kernel.noisy_channel_ICL_inference_with_torch_Causal_LM(prompt=['good who', 'bad who'], **parts))
#> now
show('row', model_kernel.noisy_channel_ICL_inference_with_torch_Causal_LM(prompt=['good who', 'bad who'], variant='0.1.1', **parts))
#: kernel: inference_standard_template [removed]
show('row', model_kernel.inference_standard_template('who', ['good', 'bad']))
#> now
show('row', [0.5, 0.5])
#: kernel: standard_ICL_inference_with_API_call [removed]
show('row', model_kernel.standard_ICL_inference_with_API_call(lambda prompt: 'bad', 'who', ['good', 'bad']))
""",
    KERNEL,
    torch=True,
)

# -- the three notebooks: the same calls, in our words


FEW = """\
benchmark = Normal(k=1{})
del benchmark.experimentor[0]
benchmark[0].set_demonstration_sampler([[5]] * 512)
"""
NOTEBOOK = """\
import functools, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from StaICC import Normal
from StaICC.prefabricate_inference import model_kernel, standard_calibration
torch.cuda.empty_cache()
parts = dict(
    model=AutoModelForCausalLM.from_pretrained('tiny').cuda(), tokenizer=AutoTokenizer.from_pretrained('tiny'),
    cache_empty=torch.cuda.empty_cache,
)
""" + FEW.format("")
RELEASED = FEW.format(", metrics='0.1.1'")


def notebook(name: str, code: str, entry: str = "", new: str = "") -> Workflow:
    """Return a workflow with the calls of a notebook, which need a model."""
    return Workflow(name, code, entry, new, torch=True, setup=NOTEBOOK)


BATCHED = """\
inference = functools.partial(
    model_kernel.batched_ICL_inference_with_torch_Causal_LM, **parts,
    batch_calibration_function={}, inside_calibration_function=None,
)
show('result', benchmark(inference, batched_inference=True))
"""
CALIBRATION = """\
feedforward = functools.partial(
    model_kernel.standard_ICL_inference_with_torch_Causal_LM, **parts, return_hidden_state={}, return_full_vocab_prob={},
)
trained = []
for i in range(len(benchmark.experimentor)):
    calibration = standard_calibration.{}
    calibration.train(
        benchmark.experimentor[i].get_prompt_writter_from_dataline(), feedforward,
        benchmark.experimentor[i].calibration_set(), calibration_number=32,
    )
    trained.append(calibration)
inferences = [
    functools.partial(model_kernel.standard_ICL_inference_with_torch_Causal_LM, **parts, calibration_function=one)
    for one in trained
]
show('result', benchmark.auto_run(inferences))
"""
NOISY = """\
benchmark = Normal(k=1, noisy_channel=True)
inference = functools.partial(model_kernel.noisy_channel_ICL_inference_with_torch_Causal_LM, **parts)
prompts = benchmark[1].prompt_set()[:10]
show('rows', [inference(prompt=prompt, label_space=benchmark[1].get_label_space()) for prompt in prompts])
"""


def _calibration(function: str, hidden_state: bool, vocabulary: bool) -> Workflow:
    """Return the workflow of the notebook on calibration with one of its functions, and the outputs that it needs."""
    label_space = "benchmark.experimentor[i].get_label_space()"
    old_call = f"{function}({label_space})"
    new_call = f"{function}({label_space}, variant='0.1.1')"
    old_code = CALIBRATION.format(hidden_state, vocabulary, old_call)
    new_code = RELEASED + CALIBRATION.format(hidden_state, vocabulary, new_call)
    return notebook(f"notebook on calibration: {function}", old_code, "calibrations", new_code)


NOTEBOOKS = [
    notebook(
        "notebook on batched inference",
        BATCHED.format("standard_calibration.batch_calibration"),
        "calibrations",
        RELEASED + BATCHED.format("functools.partial(standard_calibration.batch_calibration, variant='0.1.1')"),
    ),
    notebook(
        "notebook on batched inference: without a calibration",
        BATCHED.format("None"),
        "numbers",
        RELEASED + BATCHED.format("None"),
    ),
    _calibration("hidden_calibration", True, False),
    _calibration("contextual_calibration", False, False),
    notebook(
        "notebook on noisy channel",
        NOISY,
        "noisy-channel",
        NOISY.replace("Causal_LM, **parts", "Causal_LM, **parts, variant='0.1.1'"),
    ),
]

GROUPS: dict[str, list[Workflow]] = {
    "Runs": RUNS,
    "Benchmarks": BENCHMARKS,
    "Experimentors": EXPERIMENTORS,
    "Values": VALUES,
    "Types": TYPES,
    "Names": NAMES,
    "Prompts": PROMPTS,
    "Kernels": KERNELS,
    "Notebooks": NOTEBOOKS,
}


# -- the Python blocks of the README, found by a line of theirs; their text is not here


BLOCKS = scripts(r"""
#: AutoModelForCausalLM
{block}
show('row', my_inference(prompt='who is it?', label_space=['good', 'bad']))
#: benchmark = Normal()
{block}
show('prompts', [sha(one.prompt_set()) for one in benchmark])
#: result_dictionary
my_inference = probabilities
{block}
show('result', result_dictionary)
#: 'Divided results': {
documented = {
{block}
}
result = benchmark(probabilities)
show('same keys', list(documented) == list(result))
show('scores', list(documented['Averaged results']) == list(result['Averaged results']))
show('of each', [list(found) for found in result['Divided results'].values()])
show('documented', [list(found) for found in documented['Divided results'].values()])
#: noisy_channel = True
{block}
show('prompts', [[len(one.prompt_set()[0]), sha(one.prompt_set())] for one in benchmark])
#: Normal(k = 16)
{block}
show('prompts', [sha(one.prompt_set()) for one in benchmark])
#: class SA_ICL
import StaICC.prefabricate_inference.model_kernel as model_kernel
{block}
few, method = FirstRows(experimentor, 6, 3), SA_ICL()
method.experimentor, method.model, method.tokenizer, method.TopK_anchors = few, model, tokenizer, []
method.label_space, method.cache_empty = experimentor.get_label_space(), torch.cuda.empty_cache
method.set_TopK_to_demonstration(4)
show('demonstrations', few.given)
show('encoded', [len(method.TopK_anchors), method.TopK_anchors[0]])
#: 'instruction': str
documented = (
{block}
)
found = prompt_former.get_config_dict()
show('keys', list(documented) == list(found))
origins = {key: getattr(kind, '__origin__', kind) for key, kind in documented.items()}
show('kinds', [isinstance(found[key], (int, float) if kind is float else kind) for key, kind in origins.items()])
""")
"""What is put around a block: names that it takes for granted, and a look at what it made."""


def readme_blocks(metadata: str) -> list[Workflow]:
    """Return a workflow for each Python block of the README in a wheel's METADATA, with what is put around it."""
    texts = re.findall(r"^``` ?python\n(.*?)^```", metadata, re.DOTALL | re.MULTILINE)
    workflows = []
    for number, text in enumerate(texts, 1):
        matching = [block for block in BLOCKS if block.name in text]
        if not matching:
            raise AssertionError(f"no test knows block {number} of the README: {text}")
        around = matching[0]
        without_ellipses = re.sub(r"^ *\.\.\.\n", "", text, flags=re.MULTILINE)
        code = around.code.replace("{block}\n", without_ellipses)
        needs_model = around.name in ("AutoModelForCausalLM", "class SA_ICL")
        setup = "" if "from StaICC import Normal" in code else SETUP
        workflows.append(Workflow(f"block {number}: {around.name}", code, torch=needs_model, setup=setup))
    return workflows
