"""The spellings of 0.1.1: the same classes, and its documented calls unchanged."""

from __future__ import annotations

from typing import Any

import pytest

import StaICC
from StaICC import compat

ALIASES = {
    "Contextual_bias": "ContextualBias",
    "Domain_bias": "DomainBias",
    "Post_bias": "PosteriorBias",
    "Triplet_bias": "TripletBias",
    "Template_sens": "TemplateSensitivity",
    "Demo_sens": "DemonstrationSensitivity",
}


@pytest.mark.parametrize(("old", "new"), ALIASES.items())
def test_old_names_are_the_new_classes(old: str, new: str) -> None:
    assert getattr(StaICC, old) is getattr(StaICC, new) is getattr(compat, old)
    assert getattr(compat, old).__module__.startswith("StaICC.benchmarks")


def my_inference(prompt: str, label_space: list[str]) -> list[float]:
    return [float(len(prompt) % (place + 2)) for place in range(len(label_space))]


README = """
from StaICC import Normal
benchmark = Normal(datasets=["mini"])
result_dictionary = benchmark(my_inference)
result_dictionary['Divided results']['mini']['accuracy']
result_dictionary['Averaged results']['expected_calibration_error_1']
benchmark = Normal(k = 2, datasets=["mini"])
experimentor = benchmark[0]
experimentor.set_k(3)
demonstrations, tests = experimentor.demonstration_set(), experimentor.test_set()
for demo in demonstrations:
    assert len(demo[0]) == 1
sampler = [[0, 1, 2] for i in range(len(experimentor.test_set()))]
experimentor.set_demonstration_sampler(sampler)
experimentor.reset_demonstration_sampler()
prompt_former = experimentor.prompt_former
prompt_former.change_instruction('Classify the text.\\n')
prompt_former.change_input_text_prefixes(['Text: '])
prompt_former.change_input_text_affixes(['\\n'])
prompt_former.change_label_prefix('Label: ')
prompt_former.change_label_affix('\\n\\n')
prompt_former.change_query_prefix('')
prompt_former.change_label_space(['A', 'B', 'C'])
prompt_former.change_label_wrong_rate(0.0)
prompt_former.use_noisy_channel()
prompt_former.disable_noisy_channel()
config_dict = prompt_former.get_config_dict()
prompt_former.reset()
prompt_former.set_config_dict({'instruction': 'Classify.', 'use_noisy_channel': False})
prompt_former.example()
prompt_former.reset()
result, success = experimentor.auto_run(forward_inference = my_inference)
result, success, outputs = experimentor.auto_run(forward_inference = my_inference, return_outputs=True)
outputs['ground_truth'], outputs['predictions'], outputs['predicted_probabilities']
experimentor.auto_run(preentered_prediction=[0] * len(experimentor.prompt_set()))
experimentor.auto_run(lambda prompts, label_space: [0] * len(prompts), batched_inference=True)
experimentor.add_metric('mine', lambda ground_truth, prediction: 1.0)
assert experimentor(my_inference)[0]['mine'] == 1.0
benchmark.auto_run(list_of_forward_inference = [my_inference])
texts, label = experimentor.calibration_set()[0]
experimentor.test_set().label_index_to_text(label)
benchmark = Normal(k = 2, noisy_channel = True, datasets=["mini"])
benchmark(lambda prompt, label_space: [-len(one) for one in prompt])
"""


@pytest.mark.filterwarnings("ignore::StaICC.prompting.TemplateWarning")
def test_code_written_for_the_readme_of_0_1_1_runs() -> None:
    names: dict[str, Any] = {"my_inference": my_inference}
    exec(README, names)
    assert names["success"] is True
    assert names["config_dict"]["label_space"] == ["A", "B", "C"]


def test_members_of_the_split_and_of_the_sampler() -> None:
    experimentor = StaICC.Normal(datasets=["mini"])[0]
    split, test = experimentor.triplet_dataset, experimentor.test_set()
    assert (split.get_dataset_name(), split.get_label_space()) == ("mini", experimentor.get_label_space())
    for row in (0, len(test) - 1):
        assert split.get_default_ground_truth_label_index(row) == test.label(row)
        assert split.get_default_ground_truth_label(row) == test.get_label(row) == test[row][1]
    sampler = experimentor.demonstration_sampler
    assert sampler.get_sampled_indexes(3) == sampler[3] == list(experimentor.demonstration_lists()[3])
    for wrong in (-1, len(sampler), 1.0, True):
        with pytest.raises(ValueError, match="index must be an integer from 0 to"):
            sampler.get_sampled_indexes(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="index must be an integer from 0 to"):
            split.get_default_ground_truth_label(wrong)  # type: ignore[arg-type]
