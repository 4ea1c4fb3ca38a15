"""StaICC: standardised evaluation of in-context classification.

>>> from StaICC import Normal
>>> result = Normal(datasets=["mini"])(lambda prompt, label_space: 0)
>>> sorted(result["Averaged results"])
['accuracy', 'averaged_truelabel_likelihood', 'expected_calibration_error_1', 'macro_F1']

The names below are the public interface, listed in docs/api/index.md; the paths of modules are private and can change.
Each name is imported when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.optional import lazy_names
from StaICC.version import __version__ as __version__

if TYPE_CHECKING:
    from StaICC.benchmarks.benchmark import Benchmark as Benchmark
    from StaICC.benchmarks.benchmark import TaskBenchmark as TaskBenchmark
    from StaICC.benchmarks.benchmark import classification_scores as classification_scores
    from StaICC.benchmarks.benchmark import condition_intervals as condition_intervals
    from StaICC.benchmarks.benchmark import condition_missing as condition_missing
    from StaICC.benchmarks.builtin import Diagnosis as Diagnosis
    from StaICC.benchmarks.builtin import Suite as Suite
    from StaICC.benchmarks.builtin import make_benchmark as make_benchmark
    from StaICC.benchmarks.exchange import identified_queries as identified_queries
    from StaICC.benchmarks.exchange import prompt_records as prompt_records
    from StaICC.benchmarks.exchange import read_predictions as read_predictions
    from StaICC.benchmarks.exchange import score_predictions as score_predictions
    from StaICC.benchmarks.experimentor import Experimentor as Experimentor
    from StaICC.benchmarks.findings import Contradicted as Contradicted
    from StaICC.benchmarks.findings import Recomputed as Recomputed
    from StaICC.benchmarks.findings import Unchecked as Unchecked
    from StaICC.benchmarks.findings import Verification as Verification
    from StaICC.benchmarks.findings import status_of as status_of
    from StaICC.benchmarks.group import BenchmarkGroup as BenchmarkGroup
    from StaICC.benchmarks.harness_tasks import export_tasks as export_tasks
    from StaICC.benchmarks.race import race as race
    from StaICC.benchmarks.rebuilding import rebuild as rebuild
    from StaICC.benchmarks.rerunning import Rerun as Rerun
    from StaICC.benchmarks.saved_prompts import written_prompts as written_prompts
    from StaICC.benchmarks.task import Condition as Condition
    from StaICC.benchmarks.task import Outcome as Outcome
    from StaICC.benchmarks.task import Scores as Scores
    from StaICC.benchmarks.task import Scoring as Scoring
    from StaICC.benchmarks.task import Statistics as Statistics
    from StaICC.benchmarks.task import Task as Task
    from StaICC.benchmarks.task import TaskInput as TaskInput
    from StaICC.benchmarks.tasks.bias import ContextualBias as ContextualBias
    from StaICC.benchmarks.tasks.bias import DomainBias as DomainBias
    from StaICC.benchmarks.tasks.bias import PosteriorBias as PosteriorBias
    from StaICC.benchmarks.tasks.bias import TripletBias as TripletBias
    from StaICC.benchmarks.tasks.generalisation import Generalisation as Generalisation
    from StaICC.benchmarks.tasks.label_noise import GLER as GLER
    from StaICC.benchmarks.tasks.normal import Normal as Normal
    from StaICC.benchmarks.tasks.normal import NormalTask as NormalTask
    from StaICC.benchmarks.tasks.sensitivity import DemonstrationSensitivity as DemonstrationSensitivity
    from StaICC.benchmarks.tasks.sensitivity import TemplateSensitivity as TemplateSensitivity
    from StaICC.benchmarks.verify import verify as verify
    from StaICC.benchmarks.verify import verify_file as verify_file
    from StaICC.comparing.citing import find_work as find_work
    from StaICC.comparing.citing import works as works
    from StaICC.comparing.comparison import compare as compare
    from StaICC.comparing.comparison import compare_all as compare_all
    from StaICC.comparing.comparison import compare_runs as compare_runs
    from StaICC.comparing.comparison_results import Comparison as Comparison
    from StaICC.comparing.formats import format_comparisons as format_comparisons
    from StaICC.comparing.formats import format_rankings as format_rankings
    from StaICC.comparing.generalisation import compare_generalising as compare_generalising
    from StaICC.comparing.generalisation import variance_components as variance_components
    from StaICC.comparing.planning import components_of as components_of
    from StaICC.comparing.planning import plan as plan
    from StaICC.comparing.published import published_figures as published_figures
    from StaICC.comparing.published import published_models as published_models
    from StaICC.comparing.published_comparison import compare_with_published as compare_with_published
    from StaICC.comparing.published_comparison import format_published as format_published
    from StaICC.comparing.ranking import Ranking as Ranking
    from StaICC.comparing.ranking import rank as rank
    from StaICC.comparing.setting_differences import list_differences as list_differences
    from StaICC.comparing.several_metrics import SeveralMetrics as SeveralMetrics
    from StaICC.comparing.several_metrics import compare_metrics as compare_metrics
    from StaICC.comparing.subgroup_results import SubgroupComparison as SubgroupComparison
    from StaICC.comparing.subgroups import compare_subgroups as compare_subgroups
    from StaICC.compat import Contextual_bias as Contextual_bias
    from StaICC.compat import Demo_sens as Demo_sens
    from StaICC.compat import Domain_bias as Domain_bias
    from StaICC.compat import Post_bias as Post_bias
    from StaICC.compat import Template_sens as Template_sens
    from StaICC.compat import Triplet_bias as Triplet_bias
    from StaICC.datasets.catalogue import Card as Card
    from StaICC.datasets.catalogue import SplitSizes as SplitSizes
    from StaICC.datasets.catalogue import Template as Template
    from StaICC.datasets.catalogue import TemplateAlternatives as TemplateAlternatives
    from StaICC.datasets.catalogue import cite as cite
    from StaICC.datasets.catalogue import get_card as get_card
    from StaICC.datasets.dataset import Dataset as Dataset
    from StaICC.datasets.dataset import load_dataset as load_dataset
    from StaICC.datasets.source import FileSource as FileSource
    from StaICC.datasets.source import HubSource as HubSource
    from StaICC.datasets.table import FrozenTable as FrozenTable
    from StaICC.datasets.table import write_table as write_table
    from StaICC.errors import ArgumentError as ArgumentError
    from StaICC.errors import DataDamagedError as DataDamagedError
    from StaICC.errors import DataError as DataError
    from StaICC.errors import DataMissingError as DataMissingError
    from StaICC.errors import EditionError as EditionError
    from StaICC.errors import IdentityError as IdentityError
    from StaICC.errors import LongPromptError as LongPromptError
    from StaICC.errors import MissingDependencyError as MissingDependencyError
    from StaICC.errors import OutputError as OutputError
    from StaICC.errors import PluginError as PluginError
    from StaICC.errors import PromptError as PromptError
    from StaICC.errors import PromptTooLongError as PromptTooLongError
    from StaICC.errors import RemovedNameError as RemovedNameError
    from StaICC.errors import RunEndingError as RunEndingError
    from StaICC.errors import SchemaError as SchemaError
    from StaICC.errors import StaICCError as StaICCError
    from StaICC.errors import TooFewRowsError as TooFewRowsError
    from StaICC.errors import UndefinedMetricError as UndefinedMetricError
    from StaICC.errors import UnknownKeyError as UnknownKeyError
    from StaICC.errors import UnknownNameError as UnknownNameError
    from StaICC.errors import WithheldReplyError as WithheldReplyError
    from StaICC.inference.contract import Text as Text
    from StaICC.inference.identity import Identity as Identity
    from StaICC.inference.replies import Failure as Failure
    from StaICC.inference.reply_parser import parse_reply as parse_reply
    from StaICC.inference.store import PredictionStore as PredictionStore
    from StaICC.inference.workers import worker_processes as worker_processes
    from StaICC.kernels.huggingface.kernel import CausalLMKernel as CausalLMKernel
    from StaICC.kernels.ppm import PPMKernel as PPMKernel
    from StaICC.kernels.protocol import Capability as Capability
    from StaICC.kernels.registry import load_kernel as load_kernel
    from StaICC.kernels.server.batch_files import batch_requests as batch_requests
    from StaICC.kernels.server.endpoint import EndpointKernel as EndpointKernel
    from StaICC.kernels.text_inference import TextInference as TextInference
    from StaICC.kernels.text_inference import text_inference as text_inference
    from StaICC.logs.reading import read_logs as read_logs
    from StaICC.long_icl.benchmark import LongICL as LongICL
    from StaICC.long_icl.cards import TaskCard as TaskCard
    from StaICC.long_icl.cards import task_card as task_card
    from StaICC.long_icl.experiments import Experiment as Experiment
    from StaICC.long_icl.helmet import HELMET as HELMET
    from StaICC.long_icl.parsing import parse_answer as parse_answer
    from StaICC.methods.calibrated_kernel import CalibratedKernel as CalibratedKernel
    from StaICC.methods.catalogue import METHODS as METHODS
    from StaICC.methods.contract import MethodData as MethodData
    from StaICC.methods.contract import MethodSpec as MethodSpec
    from StaICC.methods.contract import Predictions as Predictions
    from StaICC.methods.contract import Steps as Steps
    from StaICC.methods.label_scores import label_rows as label_rows
    from StaICC.methods.learned_state import learned as learned
    from StaICC.methods.learned_state import load_state as load_state
    from StaICC.methods.learned_state import save_state as save_state
    from StaICC.methods.many_shot import run_many_shot as run_many_shot
    from StaICC.methods.options import option as option
    from StaICC.methods.present_rows import apply_present as apply_present
    from StaICC.methods.present_rows import without_failures as without_failures
    from StaICC.methods.released.calibrations import ContextualCalibration as ContextualCalibration
    from StaICC.methods.released.calibrations import DomainCalibration as DomainCalibration
    from StaICC.methods.released.calibrations import DomainPMI as DomainPMI
    from StaICC.methods.released.calibrations import HiddenCalibration as HiddenCalibration
    from StaICC.methods.released.calibrations import KNNPrompting as KNNPrompting
    from StaICC.methods.released.calibrations import KNNPromptingCentroid as KNNPromptingCentroid
    from StaICC.methods.released.calibrations import LinearCalibration as LinearCalibration
    from StaICC.methods.released.calibrations import PrototypicalCalibration as PrototypicalCalibration
    from StaICC.methods.released.calibrations import TemperatureScaling as TemperatureScaling
    from StaICC.methods.released.calibrations import TrainableCalibration as TrainableCalibration
    from StaICC.methods.released.calibrations import batch_calibration as batch_calibration
    from StaICC.methods.released.calibrations import load_calibration as load_calibration
    from StaICC.methods.requests import Feature as Feature
    from StaICC.methods.requests import generated_text as generated_text
    from StaICC.methods.run import Method as Method
    from StaICC.methods.run import run_all as run_all
    from StaICC.methods.trained_calibration import Calibration as Calibration
    from StaICC.methods.trained_calibration import TrainingPrompts as TrainingPrompts
    from StaICC.methods.trained_calibration import TrainingRows as TrainingRows
    from StaICC.methods.trained_calibration import calibrate as calibrate
    from StaICC.methods.training_prompts import LabelledPrompts as LabelledPrompts
    from StaICC.methods.training_prompts import content_free_prompts as content_free_prompts
    from StaICC.methods.training_prompts import labelled_prompts as labelled_prompts
    from StaICC.metrics.balanced_accuracy import balanced_accuracy as balanced_accuracy
    from StaICC.metrics.classification import accuracy as accuracy
    from StaICC.metrics.classification import averaged_truelabel_likelihood as averaged_truelabel_likelihood
    from StaICC.metrics.classification import brier as brier
    from StaICC.metrics.classification import expected_calibration_error_1 as expected_calibration_error_1
    from StaICC.metrics.classification import macro_F1 as macro_F1
    from StaICC.metrics.classification import nll as nll
    from StaICC.metrics.classification import normalise as normalise
    from StaICC.metrics.confidence_auroc import auroc_confidence as auroc_confidence
    from StaICC.metrics.debiased_calibration_error import debiased_calibration_error as debiased_calibration_error
    from StaICC.metrics.diagnosis import consistency as consistency
    from StaICC.metrics.diagnosis import empirical_bias as empirical_bias
    from StaICC.metrics.diagnosis import entropy as entropy
    from StaICC.metrics.diagnosis import entropy_of_mean as entropy_of_mean
    from StaICC.metrics.diagnosis import gler as gler
    from StaICC.metrics.diagnosis import kl_divergence as kl_divergence
    from StaICC.metrics.diagnosis import label_frequencies as label_frequencies
    from StaICC.metrics.diagnosis import mean_distribution as mean_distribution
    from StaICC.metrics.diagnosis import negated_mean_entropy as negated_mean_entropy
    from StaICC.metrics.diagnosis import shares_of_correct_labels as shares_of_correct_labels
    from StaICC.metrics.intervals import Interval as Interval
    from StaICC.metrics.intervals import NoInterval as NoInterval
    from StaICC.metrics.intervals import combine as combine
    from StaICC.metrics.intervals import ratio_part as ratio_part
    from StaICC.metrics.matthews import matthews as matthews
    from StaICC.metrics.metric_set import Metric as Metric
    from StaICC.metrics.metric_set import MetricSet as MetricSet
    from StaICC.metrics.metric_set import metric_set as metric_set
    from StaICC.metrics.random_baselines import RandomBaseline as RandomBaseline
    from StaICC.metrics.risk_coverage import aurc as aurc
    from StaICC.metrics.statistics import MeanOf as MeanOf
    from StaICC.prompting.prompt_text import Demonstration as Demonstration
    from StaICC.prompting.prompt_text import PromptParts as PromptParts
    from StaICC.prompting.prompt_text import PromptText as PromptText
    from StaICC.prompting.prompt_writer import PromptWriter as PromptWriter
    from StaICC.prompting.prompt_writer import Query as Query
    from StaICC.prompting.prompt_writer import TemplateWarning as TemplateWarning
    from StaICC.prompting.stable_random import StableRandom as StableRandom
    from StaICC.prompting.views import split_dataset as split_dataset
    from StaICC.registry import PluginWarning as PluginWarning
    from StaICC.report.figures.accuracy_plot import accuracy_by_dataset as accuracy_by_dataset
    from StaICC.report.figures.bias_plot import bias_distributions as bias_distributions
    from StaICC.report.figures.confusion_plot import confusion_matrices as confusion_matrices
    from StaICC.report.figures.cost_plot import cost_chart as cost_chart
    from StaICC.report.figures.difference_plot import differences as differences
    from StaICC.report.figures.difference_plot import subgroup_differences as subgroup_differences
    from StaICC.report.figures.experiment_plot import experiment_chart as experiment_chart
    from StaICC.report.figures.forest_plot import forest as forest
    from StaICC.report.figures.model_size_plot import model_size_chart as model_size_chart
    from StaICC.report.figures.noise_plot import noise_lines as noise_lines
    from StaICC.report.figures.reliability_plot import reliability_diagrams as reliability_diagrams
    from StaICC.report.figures.rounds_plot import rounds_chart as rounds_chart
    from StaICC.report.figures.shots_plot import shots_chart as shots_chart
    from StaICC.report.figures.variance_plot import variance_chart as variance_chart
    from StaICC.report.page import report_html as report_html
    from StaICC.report.page import write_report as write_report
    from StaICC.results.every_eval_ever import ExportSettings as ExportSettings
    from StaICC.results.every_eval_ever import export_result as export_result
    from StaICC.results.json_schema import result_schema as result_schema
    from StaICC.results.nearest_gold_table import nearest_gold_table as nearest_gold_table
    from StaICC.results.predictor import Provenance as Provenance
    from StaICC.results.query_records import QueryRecord as QueryRecord
    from StaICC.results.query_records import save_records as save_records
    from StaICC.results.result import Result as Result
    from StaICC.results.result import ResultGroup as ResultGroup
    from StaICC.results.result import load as load
    from StaICC.results.row_scores import row_scores as row_scores
    from StaICC.results.signature import Signature as Signature


_HOMES = {
    "StaICC.benchmarks.benchmark": (
        "Benchmark TaskBenchmark classification_scores condition_intervals condition_missing"
    ),
    "StaICC.benchmarks.builtin": "Diagnosis Suite make_benchmark",
    "StaICC.benchmarks.exchange": "identified_queries prompt_records read_predictions score_predictions",
    "StaICC.benchmarks.experimentor": "Experimentor",
    "StaICC.benchmarks.findings": "Contradicted Recomputed Unchecked Verification status_of",
    "StaICC.benchmarks.group": "BenchmarkGroup",
    "StaICC.benchmarks.harness_tasks": "export_tasks",
    "StaICC.benchmarks.race": "race",
    "StaICC.benchmarks.rebuilding": "rebuild",
    "StaICC.benchmarks.rerunning": "Rerun",
    "StaICC.benchmarks.saved_prompts": "written_prompts",
    "StaICC.benchmarks.task": "Condition Outcome Scores Scoring Statistics Task TaskInput",
    "StaICC.benchmarks.tasks.bias": "ContextualBias DomainBias PosteriorBias TripletBias",
    "StaICC.benchmarks.tasks.generalisation": "Generalisation",
    "StaICC.benchmarks.tasks.label_noise": "GLER",
    "StaICC.benchmarks.tasks.normal": "Normal NormalTask",
    "StaICC.benchmarks.tasks.sensitivity": "DemonstrationSensitivity TemplateSensitivity",
    "StaICC.benchmarks.verify": "verify verify_file",
    "StaICC.comparing.citing": "find_work works",
    "StaICC.comparing.comparison": "compare compare_all compare_runs",
    "StaICC.comparing.comparison_results": "Comparison",
    "StaICC.comparing.formats": "format_comparisons format_rankings",
    "StaICC.comparing.generalisation": "compare_generalising variance_components",
    "StaICC.comparing.planning": "components_of plan",
    "StaICC.comparing.published": "published_figures published_models",
    "StaICC.comparing.published_comparison": "compare_with_published format_published",
    "StaICC.comparing.ranking": "Ranking rank",
    "StaICC.comparing.several_metrics": "SeveralMetrics compare_metrics",
    "StaICC.comparing.setting_differences": "list_differences",
    "StaICC.comparing.subgroup_results": "SubgroupComparison",
    "StaICC.comparing.subgroups": "compare_subgroups",
    "StaICC.compat": "Contextual_bias Demo_sens Domain_bias Post_bias Template_sens Triplet_bias",
    "StaICC.datasets.catalogue": "Card SplitSizes Template TemplateAlternatives cite get_card",
    "StaICC.datasets.dataset": "Dataset load_dataset",
    "StaICC.datasets.source": "FileSource HubSource",
    "StaICC.datasets.table": "FrozenTable write_table",
    "StaICC.errors": (
        "ArgumentError DataDamagedError DataError DataMissingError EditionError IdentityError "
        "LongPromptError MissingDependencyError OutputError PluginError PromptError PromptTooLongError "
        "RemovedNameError RunEndingError SchemaError StaICCError TooFewRowsError UndefinedMetricError "
        "UnknownKeyError UnknownNameError WithheldReplyError"
    ),
    "StaICC.inference.contract": "Text",
    "StaICC.inference.identity": "Identity",
    "StaICC.inference.replies": "Failure",
    "StaICC.inference.reply_parser": "parse_reply",
    "StaICC.inference.store": "PredictionStore",
    "StaICC.inference.workers": "worker_processes",
    "StaICC.kernels.huggingface.kernel": "CausalLMKernel",
    "StaICC.kernels.ppm": "PPMKernel",
    "StaICC.kernels.protocol": "Capability",
    "StaICC.kernels.registry": "load_kernel",
    "StaICC.kernels.server.batch_files": "batch_requests",
    "StaICC.kernels.server.endpoint": "EndpointKernel",
    "StaICC.kernels.text_inference": "TextInference text_inference",
    "StaICC.logs.reading": "read_logs",
    "StaICC.long_icl.benchmark": "LongICL",
    "StaICC.long_icl.cards": "TaskCard task_card",
    "StaICC.long_icl.experiments": "Experiment",
    "StaICC.long_icl.helmet": "HELMET",
    "StaICC.long_icl.parsing": "parse_answer",
    "StaICC.methods.calibrated_kernel": "CalibratedKernel",
    "StaICC.methods.label_scores": "label_rows",
    "StaICC.methods.learned_state": "learned load_state save_state",
    "StaICC.methods.released.calibrations": (
        "ContextualCalibration DomainCalibration DomainPMI HiddenCalibration KNNPrompting KNNPromptingCentroid "
        "LinearCalibration PrototypicalCalibration TemperatureScaling TrainableCalibration batch_calibration "
        "load_calibration"
    ),
    "StaICC.methods.catalogue": "METHODS",
    "StaICC.methods.contract": "MethodData MethodSpec Predictions Steps",
    "StaICC.methods.present_rows": "apply_present without_failures",
    "StaICC.methods.options": "option",
    "StaICC.methods.requests": "Feature generated_text",
    "StaICC.methods.trained_calibration": "Calibration TrainingPrompts TrainingRows calibrate",
    "StaICC.methods.training_prompts": "LabelledPrompts content_free_prompts labelled_prompts",
    "StaICC.methods.run": "Method run_all",
    "StaICC.methods.many_shot": "run_many_shot",
    "StaICC.metrics.classification": (
        "accuracy averaged_truelabel_likelihood brier expected_calibration_error_1 macro_F1 nll normalise"
    ),
    "StaICC.metrics.balanced_accuracy": "balanced_accuracy",
    "StaICC.metrics.confidence_auroc": "auroc_confidence",
    "StaICC.metrics.debiased_calibration_error": "debiased_calibration_error",
    "StaICC.metrics.matthews": "matthews",
    "StaICC.metrics.risk_coverage": "aurc",
    "StaICC.metrics.diagnosis": (
        "consistency empirical_bias entropy entropy_of_mean gler kl_divergence label_frequencies "
        "mean_distribution negated_mean_entropy shares_of_correct_labels"
    ),
    "StaICC.metrics.intervals": "Interval NoInterval combine ratio_part",
    "StaICC.metrics.metric_set": "Metric MetricSet metric_set",
    "StaICC.metrics.random_baselines": "RandomBaseline",
    "StaICC.metrics.statistics": "MeanOf",
    "StaICC.prompting.prompt_text": "Demonstration PromptParts PromptText",
    "StaICC.prompting.prompt_writer": "PromptWriter Query TemplateWarning",
    "StaICC.prompting.stable_random": "StableRandom",
    "StaICC.prompting.views": "split_dataset",
    "StaICC.registry": "PluginWarning",
    "StaICC.report.figures.accuracy_plot": "accuracy_by_dataset",
    "StaICC.report.figures.bias_plot": "bias_distributions",
    "StaICC.report.figures.confusion_plot": "confusion_matrices",
    "StaICC.report.figures.cost_plot": "cost_chart",
    "StaICC.report.figures.difference_plot": "differences subgroup_differences",
    "StaICC.report.figures.experiment_plot": "experiment_chart",
    "StaICC.report.figures.forest_plot": "forest",
    "StaICC.report.figures.model_size_plot": "model_size_chart",
    "StaICC.report.figures.noise_plot": "noise_lines",
    "StaICC.report.figures.reliability_plot": "reliability_diagrams",
    "StaICC.report.figures.rounds_plot": "rounds_chart",
    "StaICC.report.figures.shots_plot": "shots_chart",
    "StaICC.report.figures.variance_plot": "variance_chart",
    "StaICC.report.page": "report_html write_report",
    "StaICC.results.every_eval_ever": "ExportSettings export_result",
    "StaICC.results.json_schema": "result_schema",
    "StaICC.results.nearest_gold_table": "nearest_gold_table",
    "StaICC.results.predictor": "Provenance",
    "StaICC.results.query_records": "QueryRecord save_records",
    "StaICC.results.result": "Result ResultGroup load",
    "StaICC.results.row_scores": "row_scores",
    "StaICC.results.signature": "Signature",
}
"""The public names by the module that defines them."""

__all__ = sorted([*" ".join(_HOMES.values()).split(), "__version__"])
__getattr__ = lazy_names(__name__, _HOMES, submodules="diagnosis normal util")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"TYPE_CHECKING", "annotations", "lazy_names"})
