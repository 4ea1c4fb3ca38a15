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
# # Is one model better than another?
#
# Two intervals that overlap do not answer this. Both models were asked the same prompts, so they can be compared query
# by query, which sees much smaller differences. This notebook compares the embedded model with a smaller setting of
# itself, draws the figures, and writes a report.

# %%
import importlib.util

from StaICC import Normal, load, load_kernel
from StaICC.results.comparison_formats import compare_all, format_comparisons

DATASETS = ["mini"]  # None: the ten data sets of the benchmark
kernels = {
    "order 12": load_kernel("ppm"),
    "order 1": load_kernel("ppm", order=1),  # any other model: load_kernel("smollm2"), load_kernel("hf:gpt2"), ...
}

# %% [markdown]
# ## Two runs, saved
#
# The files are all that the rest needs, so the two runs may come from two machines.

# %%
benchmark = Normal(datasets=DATASETS)
for name, kernel in kernels.items():
    benchmark(kernel).save(f"{name}.json")
results = {name: load(f"{name}.json") for name in kernels}

# %% [markdown]
# In Jupyter a result shows as a table.

# %%
results["order 12"]

# %%
results["order 1"]

# %% [markdown]
# ## The paired test
#
# * *difference*: first minus second accuracy, with an interval by bootstrap over test rows.
# * *p*: permutation test that swaps the two answers of a test row, all repeats together; *p (Holm)* corrects it for the
#   number of data sets. McNemar's test takes queries as independent, so it is too small where rows were asked twice.
# * *detectable*: the smallest true difference that such a sample would show with probability 0.8. If the difference
#   that you care about is smaller, a large p says nothing: take more rows.
#
# Results that were not asked the same are refused, and the message names the part of the signature that differs.

# %%
found, left_out = compare_all(results)
print(format_comparisons(found))

# %% [markdown]
# The numbers are there as well, for a decision that you state before you look. With several data sets, `together` has
# them all in one.

# %%
one = found[0].comparison.together or found[0].comparison.datasets[0]
verdict = "differ" if one.permutation < 0.05 else "are not shown to differ"
print(f"On {one.dataset} the two {verdict} at level 0.05; only a difference of {one.detectable:.3f} would be found.")

# %% [markdown]
# The same table for a paper (`"markdown"`, `"latex"`, `"json"`):

# %%
print(format_comparisons(found, "latex"))

# %% [markdown]
# ## Figures
#
# Each figure of a report is a function that returns a matplotlib figure, which Jupyter shows. They need `pip install
# '.[report]'`.

# %%
with_figures = importlib.util.find_spec("matplotlib") is not None
if with_figures:
    from StaICC.results.report import accuracy_by_dataset, confusion_matrices, reliability_diagrams, write_report

    accuracy = accuracy_by_dataset(results)
    accuracy.savefig("accuracy.svg")

# %% [markdown]
# Bars and points next to each other invite a glance, not a test: the intervals are of each model alone. The reliability
# diagram shows accuracy against confidence (on the diagonal: calibrated), the confusion matrix which labels are taken
# for which.

# %%
reliability_diagrams(results["order 12"]) if with_figures else None

# %%
confusion_matrices(results["order 12"]) if with_figures else None

# %% [markdown]
# ## The report
#
# One HTML file with all this, which loads nothing from elsewhere.

# %%
if with_figures:
    write_report(results, "report.html")
