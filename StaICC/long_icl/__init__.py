"""LongICL: classification with many labels in long contexts, as LongICLBench publishes it.

Six data sets with 28 to 174 labels; one to five rounds of demonstrations, where each round adds one demonstration per
label; contexts of 1,000 to 50,000 tokens; 500 test items. Source: "Long-context LLMs Struggle with Long In-context
Learning" (Li et al., 2024) and its published code. ``docs/long_icl.md`` describes the protocol and both variants.

``variant="published"`` reproduces the prompts, parses and scores of the published code exactly, except for one division
by zero. ``variant="strict"`` writes the same prompt templates and corrects errors in the selection of rows
(:mod:`StaICC.long_icl.selection`), the parsing (:mod:`StaICC.long_icl.parsing`) and the scoring
(:mod:`StaICC.long_icl.scoring`).

Guarantees: There is no randomness. Every file is checked row by row, and against the published digest if one is known.
A missing data set is reported with instructions. A failed query is never scored as a wrong prediction.
"""
