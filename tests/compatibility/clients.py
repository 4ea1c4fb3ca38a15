"""Workflows in the shapes that public code on top of 0.1.1 uses: what its users import, call, read and assign.

The repositories of the authors' later papers, and others, were read for the shapes; the code here is our own.
"""

from __future__ import annotations

from tests.compatibility.workflows import KERNEL, SETUP, Workflow, scripts

IMPORTS = scripts(r"""
#: imports: all helpers in one line
from StaICC.util import stable_random, functional, experimentor, dataset_interface
show('callable', [callable(functional.softmax), callable(experimentor.single_experimentor), callable(stable_random.stable_random)])
#: imports: a helper that is never used
from StaICC.util import experimentor
from StaICC import Normal
show('prompts', sha(Normal(k=2)[0].prompt_set()))
#: imports: a module by its path
import StaICC.util.functional as functional
show('row', functional.softmax([1.0, 2.0, 4.0]))
#: imports: as attributes of the package
import StaICC
show('row', StaICC.util.functional.softmax([0.5, 0.5]))
show('length', len(StaICC.normal.Normal()))
show('names', [name for name in ('Contextual_bias', 'Template_sens') if hasattr(StaICC.diagnosis, name)])
#: imports: one name of a helper
from StaICC.util.dataset_interface import demonstration_sampler
from StaICC.util.functional import argmax, argmin
show('places', [argmax([1, 3, 3]), argmin([3, 1, 1]), len(demonstration_sampler(1, 4, 2))])
#: imports: benchmarks by their modules
from StaICC.normal import Normal
from StaICC.diagnosis import GLER, Demo_sens, Triplet_bias
show('lengths', [len(Normal()), len(GLER()), len(Demo_sens())])
#: imports: names that are gone, unused
from StaICC.util import configs, hgf_dataset_loader
from StaICC.util.configs import STANDARD_SETTINGS, WARNING_SETTINGS
from StaICC.util.experimentor import GLER_experimentor, prior_bias_experimentor
from StaICC.util.functional import linspace, two_dimensional_list_mean
from StaICC.util.hgf_dataset_loader import basic_datasets_loader
from StaICC.prefabricate_inference.model_kernel import inference_standard_template
def annotated(given: basic_datasets_loader, found: GLER_experimentor = None) -> None:
    return None
show('imported', annotated(None))
#: imports: a name that never was
from StaICC.util.functional import hardmax
""")

HELPERS = scripts(r"""
#: functional: softmax
from StaICC.util import functional
show('rows', [functional.softmax(row) for row in ([0.1, 0.2], [1000.0, 1001.0], [-3.5, 0.0, 2.25, 9.0], [5])])
show('of an array', functional.softmax(np.array([0.5, 1.5], dtype=np.float32)))
show('of scalars', functional.softmax([np.float32(0.5), np.float64(1.5)]))
fails('of nothing', lambda: functional.softmax([]))
#: functional: distances, and the nearest centroid
from StaICC.util import functional
centroids, state = [[0.0, 0.5, 1.0], [2.0, 2.5, -1.0], [0.25, 0.25, 0.75]], np.array([0.5, 0.25, 1.0])
distances = [functional.L2_dist(state.tolist(), centroid) for centroid in centroids]
show('distances', distances)
show('nearest', functional.argmin(distances))
show('as probabilities', functional.softmax([distances[0] - distance for distance in distances]))
fails('of two lengths', lambda: functional.L2_dist([1.0], [1.0, 2.0]))
#: functional: argmax of a prediction
from StaICC.util import functional
show('labels', [functional.argmax(row) for row in ([0.1, 0.7, 0.2], [0.5, 0.5], [-1.0, -2.0])])
fails('of nothing', lambda: functional.argmax([]))
#: functional: metrics of rows
from StaICC.util import functional
truth, rows = [0, 1, 1, 2] * 4, [[0.7, 0.2, 0.1], [0.25, 0.5, 0.25], [0.6, 0.3, 0.1], [0.0, 0.25, 0.75]] * 4
names = ('accuracy', 'averaged_truelabel_likelihood', 'macro_F1', 'expected_calibration_error_1')
show('values', [getattr(functional, name)(truth, rows) for name in names])
logits = [[2.0, -1.0, 0.5], [0.0, 0.25, 0.125]] * 8
show('of logits', [getattr(functional, name)(truth, logits) for name in names])
#: functional: entropy and divergence
from StaICC.util import functional
show('entropies', [functional.entropy([0.5, 0.5]), functional.entropy([0.25, 0.75])])
show('divergence', functional.kl_divergence([0.5, 0.5], [0.25, 0.75]))
#: functional: metrics of the benchmark
from StaICC import Normal
from StaICC.util import functional
metrics = {'accuracy': functional.accuracy, 'calibration': functional.expected_calibration_error_1}
show('probabilities', Normal(metrics=metrics)(probabilities))
show('logits', Normal(metrics=metrics)(logits))
#: functional: metrics of the benchmark, with one of the user's own
from StaICC import Normal
from StaICC.util import functional
def largest(ground_truth, prediction):
    return max(map(max, prediction))
show('result', Normal(metrics={'likelihood': functional.averaged_truelabel_likelihood, 'largest': largest})(logits))
#: functional: linspace, used [removed]
from StaICC.util import functional
show('values', functional.linspace(0, 1, 5))
#> now
start, end, num = 0, 1, 5
show('values', [start + (end - start) * i / (num - 1) for i in range(num)])
#: functional: exponentials [removed]
from StaICC.util import functional
show('values', functional.exp_to_list([0.0, 1.0]))
#> now
show('values', [math.exp(value) for value in (0.0, 1.0)])
#: functional: predicted labels of rows [removed]
from StaICC.util import functional
show('labels', functional.compress_logits_prediction_to_onehot([[1, 0], [0, 3]]))
#> now
show('labels', [max(range(len(row)), key=row.__getitem__) for row in [[1, 0], [0, 3]]])
#: stable_random: positions of training examples
from StaICC.util import stable_random
drawn = stable_random.stable_random().sample_index_set(128 * 5, 1024, allow_repetition=True)
show('positions', [len(drawn), drawn[:10], sha(drawn)])
show('few', stable_random.stable_random().sample_index_set(12, 3, allow_repetition=True))
#: stable_random: positions without repetition
from StaICC.util import stable_random
random = stable_random.stable_random(7)
show('positions', [random.sample_index_set(3, 10), random.sample_index_set(40, 100), random.sample_index_set(10, 10)])
fails('too many', lambda: random.sample_index_set(5, 3))
#: stable_random: its other draws
from StaICC.util.stable_random import stable_random
random, letters = stable_random(), list('abcdefgh')
show('numbers', [random.get_float(), random.get_int_from_range(3, 9), random.get_int_from_range(0, 1000)])
show('elements', [random.sample_one_element_from_list(letters), random.sample_n_elements_from_list(letters, 5)])
show('shuffled', [random.shuffle_list(letters), letters])
show('repeated', random.sample_n_elements_from_list(letters, 12, True))
fails('too many', lambda: random.sample_n_elements_from_list(letters, 9))
#: demonstration_sampler: of data of the user's own
from StaICC.util.dataset_interface import demonstration_sampler
sampler = demonstration_sampler(k=3, demonstration_set_size=50, query_numbers=20)
show('lists', [len(sampler), [sampler[place] for place in range(len(sampler))]])
show('by method', sampler.get_sampled_indexes(19))
show('kinds', [type(sampler[0]), type(sampler[0][0])])
#: demonstration_sampler: by position, with a seed
from StaICC.util.dataset_interface import demonstration_sampler
show('lists', [demonstration_sampler(2, 10, 3)[1], demonstration_sampler(2, 10, 3, seed=7)[1], demonstration_sampler(0, 10, 2)[1]])
#: demonstration_sampler: a class derived from it
from StaICC.util.dataset_interface import demonstration_sampler
class mine(demonstration_sampler):
    pass
made = mine(2, 10, 3)
show('lists', [isinstance(made, demonstration_sampler), made[1], len(made)])
#: functional: arguments by name
from StaICC.util import functional
show('values', [functional.softmax(x=[1.0, 2.0]), functional.argmax(x=[1, 2]), functional.argmin(x=[1, 2])])
show('of two', [functional.L2_dist(x=[1.0], y=[3.0]), functional.kl_divergence(x=[0.5, 0.5], y=[0.25, 0.75])])
#: imports: all modules by a star
from StaICC.util import *
show('row', functional.softmax([1.0, 2.0]))
#: stable_random: copies of elements
from StaICC.util import stable_random
rows = [['a'], ['b'], ['c']]
for row in stable_random.stable_random().sample_n_elements_from_list(rows, 2):
    row.append('x')
show('rows', rows)
#: demonstration_sampler: more demonstrations than there are
from StaICC.util.dataset_interface import demonstration_sampler
sampler = demonstration_sampler(4, 3, 2)
show('lists', [sampler[0], sampler[1]])
#: data sets by class
from StaICC import Normal
from StaICC.util import hgf_dataset_loader
made = Normal(datasets=[hgf_dataset_loader.trec, hgf_dataset_loader.sst5])
show('prompts', [[one.triplet_dataset.dataset_name, sha(one.prompt_set())] for one in made])
#: data sets: all rows
from StaICC.util import hgf_dataset_loader
rows = hgf_dataset_loader.trec()
show('rows', [len(rows), rows[0], rows[5951], rows.get_dataset_name(), rows.get_label_space(), rows.get_label(17)])
#: configs: a size of the split [removed]
from StaICC.util import configs
show('rows', configs.STANDARD_SETTINGS['test_number'])
#> now
from StaICC import get_card
show('rows', get_card('TREC').split.test)
""")

SINGLE = scripts(
    r"""
#: single_experimentor: other sizes of the sets
made = module.single_experimentor(original_dataset=benchmark._original_data[1], k=benchmark[1]._k, metrics=benchmark.metrics, dividing=[64, 128, 32])
show('sizes', [len(made.calibration_set()), len(made.demonstration_set()), len(made.test_set()), len(made.prompt_set())])
show('prompts', sha(made.prompt_set()))
show('result', made(probabilities))
#: single_experimentor: the same split, with another k
made = module.single_experimentor(benchmark[0].triplet_dataset, k=2)
show('prompts', [len(made.prompt_set()), sha(made.prompt_set())])
#: single_experimentor: three repeats
made = module.single_experimentor(original_dataset=benchmark._original_data[0], k=1, repeat_times=3, dividing=[8, 16, 4])
show('prompts', [made.get_repeat_times(), made.prompt_set()])
#: single_experimentor: the noisy channel
made = module.single_experimentor(original_dataset=benchmark._original_data[0], noisy_channel=True, dividing=[8, 16, 4])
show('prompts', made.prompt_set())
#: single_experimentor: the published sizes by default
made = module.single_experimentor(original_dataset=benchmark._original_data[0])
show('prompts', sha(made.prompt_set()))
#: single_experimentor: a class derived from it
single_experimentor = module.single_experimentor
class mine(single_experimentor):
    def count(self):
        return len(self.prompt_set())
show('prompts', mine(original_dataset=benchmark._original_data[0], dividing=[8, 16, 4]).count())
#: single_experimentor: nothing, and too many rows
single_experimentor = module.single_experimentor
fails('nothing', lambda: single_experimentor())
fails('too many', lambda: single_experimentor(original_dataset=benchmark._original_data[0], dividing=[5000, 5000, 5000]))
#: triplet_dataset and prompt_writter
split = dataset_interface.triplet_dataset(benchmark._original_data[0], 10, 20, 30)
show('sizes', [len(split.calibration), len(split.demonstration), len(split.test), split.dataset_name, split.test[0]])
show('prompt', dataset_interface.prompt_writter(split).write_prompt([0, 1], 2))
#: GLER_experimentor [removed]
show('prompts', len(module.GLER_experimentor(benchmark[0].triplet_dataset)))
#: single_experimentor: the same generator in a loop, by the name of the class
random = stable_random.stable_random()
made = module.single_experimentor(original_dataset=benchmark._original_data[1], dividing=[4, 8, 2])
rows = made.calibration_set()
show('texts', [rows.get_input_text(place) for place in random.sample_index_set(6, len(rows), allow_repetition=True)])
""",
    SETUP
    + "from StaICC.util import dataset_interface, stable_random\nfrom StaICC.util import experimentor as module\n",
)

ATTRIBUTES = scripts(r"""
#: _repeat_times: read
show('times', [one._repeat_times for one in benchmark])
show('labels', len([experimentor.test_set().get_label(i % 512) for i in range(len(experimentor.test_set()) * experimentor._repeat_times)]))
#: _repeat_times: one repeat
experimentor._repeat_times = 1
show('prompts', [experimentor._repeat_times, experimentor.get_repeat_times(), len(experimentor.prompt_set()), sha(experimentor.prompt_set())])
show('result', experimentor(probabilities))
show('demonstrations', [len(experimentor.demonstration_sampler), experimentor.demonstration_sampler[700]])
#: _repeat_times: one repeat in all data sets
for one in benchmark:
    one._repeat_times = 1
show('result', benchmark(probabilities))
#: _repeat_times: back after a reset or another k
experimentor._repeat_times = 1
experimentor.reset_demonstration_sampler()
show('reset', [experimentor._repeat_times, len(experimentor.prompt_set())])
experimentor._repeat_times = 1
experimentor.set_k(2)
show('k', [experimentor._repeat_times, len(experimentor.prompt_set())])
experimentor._repeat_times = 1
experimentor.set_in_domain_mode()
show('in-domain', experimentor._repeat_times)
#: _repeat_times: three, beyond the demonstrations that were drawn
experimentor._repeat_times = 3
show('prompts', len(experimentor.prompt_set()))
#: _repeat_times: after demonstrations by hand
experimentor.set_demonstration_sampler([[0, 1, 2, 3]] * 512)
show('times', experimentor._repeat_times)
#: _repeat_times: of other benchmarks
from StaICC import GLER, Contextual_bias, Demo_sens
show('times', [kind()[0]._repeat_times for kind in (GLER, Contextual_bias, Demo_sens)])
#: _original_data: all rows of a data set
rows = benchmark._original_data[0]
show('rows', [len(benchmark._original_data), len(rows), rows.get_dataset_name(), rows.get_label_space(), rows[0], rows[100]])
show('labels', [rows.get_label(3), rows.get_input_text(3), rows.find_index_from_label('person'), rows.label_index_to_text(2)])
show('all', sha([rows[place] for place in range(len(rows))]))
#: _original_data: names of the data sets
show('names', [rows.get_dataset_name() for rows in benchmark._original_data])
#: _label_space of a set and of the prompts
rows = experimentor.test_set()
show('labels', [rows._label_space, experimentor.calibration_set()._label_space, prompt_former._label_space])
show('completed', [prompt + prompt_former._label_space[rows._label_space.index(rows[place][1])] for place, prompt in enumerate(experimentor.prompt_set()[:5])])
#: _label_prefix: where a label begins in a prompt
show('prefix', [prompt_former._label_prefix, prompt_former._label_prefix[:-1], len(prompt_former._label_prefix)])
show('cut', experimentor.prompt_set()[3][: -len(prompt_former._label_prefix) - 1])
#: cut_by_index: the first demonstrations
rows = experimentor.demonstration_set().cut_by_index(16)
show('rows', [len(rows), [rows[place] for place in range(16)], rows.get_label(7), rows.get_dataset_name()])
#: cut_by_index: shortens the set of the experimentor
experimentor.demonstration_set().cut_by_index(64)
show('size', len(experimentor.demonstration_set()))
experimentor.set_k(3)
show('prompts', [experimentor.demonstration_sampler[0], sha(experimentor.prompt_set())])
show('result', experimentor(probabilities))
#: cut_by_index: demonstrations chosen from the first ones
rows = experimentor.demonstration_set().cut_by_index(8)
experimentor.set_demonstration_sampler([[place % len(rows), 1, 2, 3] for place in range(len(experimentor.test_set()))])
show('result', [sha(experimentor.prompt_set()), experimentor(logits)])
#: cut_by_index: fewer test rows
experimentor.test_set().cut_by_index(8)
show('prompts', [len(experimentor.prompt_set()), sha(experimentor.prompt_set()), experimentor(probabilities)[0]['accuracy']])
#: cut_by_index: test rows, then a mode
experimentor.test_set().cut_by_index(8)
experimentor.set_in_domain_mode()
show('prompts', [experimentor.demonstration_sampler[3], sha(experimentor.prompt_set())])
experimentor.reset_demonstration_sampler()
experimentor.set_out_of_domain_mode()
show('out of domain', sha(experimentor.prompt_set()))
#: cut_by_index: a mode, then test rows
experimentor.set_in_domain_mode()
experimentor.test_set().cut_by_index(8)
show('prompts', sha(experimentor.prompt_set()))
#: cut_by_index: demonstrations that were drawn before
experimentor.demonstration_set().cut_by_index(4000)
show('list', experimentor.demonstration_sampler[0])
experimentor.demonstration_set().cut_by_index(64)
fails('prompts', lambda: experimentor.prompt_set())
#: cut_by_index: by its keyword
show('rows', len(experimentor.demonstration_set().cut_by_index(index=20)))
#: cut_by_index: beyond the end
fails('too many', lambda: experimentor.demonstration_set().cut_by_index(10**6))
fails('negative', lambda: experimentor.demonstration_set().cut_by_index(-1))
#: input_prediction
rows = [logits(prompt, experimentor.get_label_space()) for prompt in experimentor.prompt_set()]
show('result', experimentor(input_prediction=rows))
#: a metric by the names of the code
experimentor.add_metric(metric_name='rows', metric_function=lambda ground_truth, prediction: float(len(prediction)))
show('value', experimentor(probabilities)[0]['rows'])
#: triplet_dataset: its sets and labels
split = experimentor.triplet_dataset
show('sets', [len(split.test), split.test.get_label(3), split.demonstration.get_input_text(9)[0], split.calibration[5]])
show('indexes', [split.test.find_index_from_label(split.test.get_label(place)) for place in range(20)])
#: demonstrations of a prompt, with their labels
for place in range(5):
    positions = experimentor.demonstration_sampler[place]
    show(str(place), [[experimentor.get_label_space().index(experimentor.demonstration_set()[position][1]) for position in positions]])
#: _k and the names of the metrics
show('k', [one._k for one in benchmark])
show('metrics', list(benchmark.metrics))
#: prompts: a demonstration list that is shared
experimentor.set_demonstration_sampler([list((5, 9, 17, 2))] * 512)
show('prompts', sha(experimentor.prompt_set()))
show('outputs', experimentor.auto_run(probabilities, return_outputs=True)[1])
#: prompts: abstract labels
prompt_former.change_label_space(['A', 'B', 'C', 'D', 'E', 'F'][: len(prompt_former._label_space)])
show('prompts', sha(experimentor.prompt_set()))
#: prompts: an instruction, then a run
prompt_former.change_instruction('Classify the question. ')
show('result', experimentor(probabilities))
#: prompts: written from calibration rows
rows = experimentor.calibration_set()
lines = [rows[place] for place in (4, 8, 15)]
show('prompts', [prompt_former.write_prompt_from_dataline(lines, rows[place][0])[:-1] for place in range(8)])
#: prompts: of training examples, drawn with the generator
from StaICC import Normal
from StaICC.util import stable_random
made, k = Normal()[1], 4
rows, random = made.calibration_set(), stable_random.stable_random()
drawn = random.sample_index_set(16 * (k + 1), len(rows), allow_repetition=True)
groups = [drawn[place : place + k + 1] for place in range(0, len(drawn), k + 1)]
write = made.get_prompt_writter_from_dataline()
show('prompts', [write([rows[place] for place in group[:-1]], rows[group[-1]][0]) for group in groups])
show('labels', [rows.find_index_from_label(rows.get_label(group[-1])) for group in groups])
#: runs: a bound label space, single and batched
def inference(prompt, label_space, scale=1.0):
    return probabilities(prompt, label_space)
show('single', benchmark(functools.partial(inference, label_space=['x'], scale=2.0)))
show('prompt', experimentor(functools.partial(inference, prompt='x')))
show('batched', experimentor(functools.partial(many(probabilities), label_space=['x']), batched_inference=True))
#: runs: one function for each data set
show('result', benchmark.auto_run([functools.partial(lambda prompt, label_space, add: [value + add for value in logits(prompt, label_space)], add=add) for add in (0, 1)], return_divided_results=True)['Divided results']['TREC']['accuracy'])
#: runs: data sets removed from the list
del benchmark.experimentor[0]
show('result', benchmark(probabilities))
#: runs: data sets removed, then made again
del benchmark.experimentor[0]
show('original', [rows.get_dataset_name() for rows in benchmark._original_data])
benchmark.re_initialize(k=2)
show('prompts', [sha(one.prompt_set()) for one in benchmark])
#: runs: a class with another auto_run
from StaICC.util.experimentor import single_experimentor
from StaICC import Normal
class mine(single_experimentor):
    def auto_run(self, *arguments, **keywords):
        return 'mine'
class benchmark_of_mine(Normal):
    def auto_run(self, *arguments, **keywords):
        return 'mine'
show('results', [mine(Normal()[0].triplet_dataset)(probabilities), benchmark_of_mine()(probabilities)])
#: classes: every experimentor is a single_experimentor
from StaICC import GLER, Normal
from StaICC.util.experimentor import single_experimentor
show('instances', [isinstance(kind()[0], single_experimentor) for kind in (Normal, GLER)])
show('another', isinstance(1, single_experimentor))
#: runs: data sets replaced
from StaICC import Normal
from StaICC.util import experimentor as module
benchmark = Normal()
benchmark.experimentor[0] = module.single_experimentor(original_dataset=benchmark._original_data[0], metrics=benchmark.metrics, dividing=[8, 16, 32])
show('result', benchmark(probabilities))
#: runs: the accuracy of each data set
found = benchmark(probabilities)
show('accuracies', {name: values['accuracy'] for name, values in found['Divided results'].items()})
#: runs: of a benchmark and of its data sets
show('same', benchmark(probabilities)['Divided results']['TREC'] == experimentor(probabilities)[0])
""")

KERNELS = scripts(
    r"""
#: kernels: label space bound, single and batched
batched = functools.partial(model_kernel.batched_ICL_inference_with_torch_Causal_LM, **parts)
show('single', functools.partial(standard, **parts)(prompt='who is it?', label_space=['where', 'who']))
show('batched', batched(prompt=['who', 'is it?'], label_space=['where', 'who']))
#: kernels: label space bound, in an experimentor
few = make_benchmark(k=1)[1]
few.prompt_former.change_label_space(['A', 'B', 'C'])
few.set_demonstration_sampler([[5]] * 512)
inference = functools.partial(model_kernel.batched_ICL_inference_with_torch_Causal_LM, **parts)
few.test_set().cut_by_index(12)
few.set_demonstration_sampler([[5]] * 12)
show('accuracy', few(inference, batched_inference=True)[0]['accuracy'])
#: kernels: logits of the vocabulary through softmax of the labels
row, vocabulary = standard(prompt='who is it?', return_full_vocab_prob=True, **parts)
show('row', functional.softmax([vocabulary[tokenizer(label).input_ids[-1]] for label in ['good', 'bad']]))
""",
    KERNEL + "from StaICC import Normal as make_benchmark\nfrom StaICC.util import functional\n",
    torch=True,
)

GROUPS: dict[str, list[Workflow]] = {
    "Client code: imports": IMPORTS,
    "Client code: helpers": HELPERS,
    "Client code: single_experimentor": SINGLE,
    "Client code: attributes": ATTRIBUTES,
    "Client code: kernels": KERNELS,
}
