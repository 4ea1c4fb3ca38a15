# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Quickstart
#
# You bring a function that reads a prompt; StaICC brings the prompts, the metrics and the statistics. This notebook
# evaluates a function and an embedded model, reads the result, saves it, and runs rows of your own.
#
# It needs `pip install .` and nothing else: `mini`, a data set with three labels, ships inside the library.

# %%
import os

from StaICC import Dataset, Normal, load, load_kernel

DATASETS = ["mini"]  # None: the ten data sets of the benchmark, which are fetched with pip on first use
MODEL = os.environ.get("STAICC_EXAMPLES_MODEL", "ppm")  # "smollm2", "hf:gpt2", ... need the extra hf

# %% [markdown]
# ## What is asked
#
# Each prompt shows `k` demonstrations and one query, and ends where the label is to come. Prompts are frozen: the same
# settings give the same bytes everywhere. Each data set of a benchmark is an *experimentor*, which shows them.

# %%
benchmark = Normal(k=4, datasets=DATASETS)
first = benchmark[0]
print(first.prompt_set()[0])
print("\nlabels:", first.get_label_space(), "- queries:", len(first))

# %% [markdown]
# ## A function of your own
#
# It gets a prompt and the labels by keyword and returns a number for each label (probabilities or logits), the index of
# a label, or its text. This one prefers the label that the demonstrations show most often, a bias that real models have
# too.


# %%
def my_inference(prompt: str, label_space: list[str]) -> list[int]:
    """Count how often each label stands in the prompt: one number for each label."""
    return [prompt.count(f" {label}\n") for label in label_space]


result = benchmark(my_inference)
print(result)

# %% [markdown]
# Beside the accuracy stand its 95 % interval, what guessing would score (`random`) and what the most frequent label
# would score (`majority`). An accuracy whose interval holds 0.3333 does not show that this function knows anything.
#
# The last line is the signature: everything that can move a number, down to a digest of all prompts. Print it in a
# paper, and others can check that they asked the same.
#
# A result is also a dictionary.

# %%
print(result["Averaged results"])
for name, details in result.details.items():
    accuracy = details.intervals["accuracy"]
    print(f"{name}: {details.asked} queries, accuracy between {accuracy.low:.3f} and {accuracy.high:.3f}")

# %% [markdown]
# ## A model
#
# `ppm` is an embedded model without weights: it predicts the label from the characters of the prompt. It is there so
# that everything runs anywhere, not to be good. In Jupyter, a result on the last line of a cell shows as a table.

# %%
of_the_model = benchmark(load_kernel(MODEL))
print(of_the_model)
of_the_model

# %% [markdown]
# ## Keep it
#
# A saved result is one JSON file, and reading it gives the same result. `python -m StaICC verify quickstart.json`
# writes all prompts anew and compares their digest.

# %%
of_the_model.save("quickstart.json")
assert load("quickstart.json") == of_the_model

# %% [markdown]
# ## Rows of your own
#
# A row is one or more input texts and the index of its label. Splits and demonstrations are drawn by the frozen
# generator, so the same rows give the same benchmark everywhere. These sentences are made up; real ones should be some
# hundred.

# %%
SCENES = ("on a roof", "in the rain", "by a river", "at the station", "under a tree", "near the old mill")
TIMES = ("at noon", "at night", "on Sunday", "in spring", "after work", "before lunch", "all day", "for hours")
rows = [
    ((f"A man sleeps {scene} {time}.", "Nobody is awake there." if label else "Someone rests."), label)
    for scene in SCENES
    for time in TIMES
    for label in (0, 1)
]
pairs = Dataset.from_rows(rows, name="made-up pairs", label_space=["follows", "unclear"])
own = Normal(k=2, datasets=[pairs])
print(own[0].prompt_set()[0])
print(own(load_kernel(MODEL)))
