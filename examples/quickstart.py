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
# You write a function that reads a prompt; StaICC provides the prompts, the metrics and the statistics. This notebook
# evaluates a function and an embedded model, reads and saves the result, and makes a data set from your own rows.
#
# It only needs `pip install .`: the data set `mini`, with three labels, is part of the package.

# %%
import os

from StaICC import Dataset, Normal, load, load_kernel

DATASETS = ["mini"]  # None: the ten data sets of the benchmark, which pip downloads on first use
MODEL = os.environ.get("STAICC_EXAMPLES_MODEL", "ppm")  # "smollm2", "hf:gpt2", ... need the extra hf

# %% [markdown]
# ## The prompts
#
# Each prompt has `k` demonstrations and one query, and ends where the label follows. Prompts are frozen: the same
# settings give the same bytes on every machine. Each data set of a benchmark is an *experimentor*, which has the
# prompts.

# %%
benchmark = Normal(k=4, datasets=DATASETS)
first = benchmark[0]
print(first.prompt_set()[0])
print("\nlabels:", first.get_label_space(), "- queries:", len(first))

# %% [markdown]
# ## A function of your own
#
# It gets a prompt and the labels by keyword. It returns a probability or log-probability for each label, a label
# index, or a label name. This one prefers the most frequent label of the demonstrations, a bias that real models also
# have.


# %%
def my_inference(prompt: str, label_space: list[str]) -> list[float]:
    """Return a probability for each label: its share of the labels in the prompt."""
    counts = [1 + prompt.count(f" {label}\n") for label in label_space]
    return [count / sum(counts) for count in counts]


result = benchmark(my_inference)
print(result)

# %% [markdown]
# Next to the accuracy are its 95 % confidence interval, the accuracy of random guessing (`random`) and of the most
# frequent label (`majority`). The lines below the table name the baselines that the function is not shown to beat.
#
# The last line is the signature: every setting that can change a number, and a digest of all prompts. Print it in a
# paper, so that others can check that they used the same prompts.
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
# `ppm` is an embedded model without weights: it predicts the label from the characters of the prompt. It exists so
# that everything runs on any machine; it is not a good model. Jupyter shows a result on the last line of a cell as a
# table.

# %%
of_the_model = benchmark(load_kernel(MODEL))
print(of_the_model)
of_the_model

# %% [markdown]
# ## Save it
#
# A saved result is one JSON file. `python -m StaICC verify quickstart.json` recomputes the scores from the predictions
# in the file, writes all prompts again, and compares their digest.

# %%
of_the_model.save("quickstart.json")
assert load("quickstart.json") == of_the_model

# %% [markdown]
# ## Rows of your own
#
# A row is one or more input texts and a label index. The frozen generator draws splits and demonstrations,
# so the same rows give the same benchmark on every machine. These sentences are synthetic; a real data set should have
# several hundred rows.

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
