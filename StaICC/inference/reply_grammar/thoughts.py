r"""Marks of reasoning in a reply, which are cut with what they enclose, like special tokens.

The marks are those that the models' own templates or the reasoning parsers of vLLM and SGLang name: ``<think>``
(DeepSeek, Qwen, GLM, MiniMax and others), ``<seed:think>`` (Seed-OSS), ``[THINK]`` (Magistral), ``\u25c1think\u25b7``
(Kimi), ``<|START_THINKING|>`` (Command A), ``<|inner_prefix|>`` (Apertus), ``<|begin_of_thought|>`` (OpenThinker),
``<unused94>thought`` (MedGemma), ``<|channel>thought`` (Gemma 4), the channels of gpt-oss, and tags such as
``<reason>`` that prompts ask for. A ``<reason>`` that follows an answer is an explanation, and
it is kept.
"""

from __future__ import annotations

import re

_TAG = r"(?:[a-z]{1,12}:)?(?:think|thinking|thought|thoughts|reason|reasoning|reflection|analysis|scratchpad)"
_PAIRS = (
    (rf"<{_TAG}>", rf"</{_TAG}>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    (r"\u25c1think\u25b7", r"\u25c1/think\u25b7"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<unused94>", r"<unused95>"),
    (r"<\|channel>\s*thought", r"<channel\|>"),
)
"""The marks that begin and end reasoning, as patterns."""
_STARTS = re.compile("|".join(start for start, _ in _PAIRS), re.I)
_ENDS = re.compile("|".join(end for _, end in _PAIRS), re.I)

_EXPLANATION = re.compile(r"<(?:reason|reasoning)>", re.I)

_FINAL_CHANNEL = re.compile(r"<\|channel\|>\s*final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_OTHER_CHANNEL = re.compile(r"<\|channel\|>\s*(?:analysis|commentary)\b")

_END_OF_TURN = re.compile(
    r"<\|(?:im_end|endoftext|eot_id|end_of_text|end|eom_id|return)\|>|</s>|<(?:end_of_turn|eos|eot)>"
)
_SPECIAL_TOKEN = re.compile(
    r"<\|[A-Za-z_0-9 ]{1,30}\|>(?:assistant\b)?|</?s>|<(?:end_of_turn|start_of_turn|eos|bos|pad|eot)>(?:model\b)?"
    r"|\[/?INST\]|<\uff5c[^<>]{1,40}\uff5c>"
)


def without_thoughts(reply: str) -> str | None:
    """Return the reply after its reasoning; ``None`` if the reasoning does not end.

    Reasoning is what is between marks such as ``<think>`` and ``</think>``, or before the last closing mark; in a reply
    of gpt-oss, it is every channel but the final one. An explanation after an answer is no reasoning, and stays.

    Example:
        >>> without_thoughts("<think>It may be a joke.</think>negative"), without_thoughts("<think>It may be")
        ('negative', None)
    """
    # A reply of gpt-oss has its answer in the final channel. Without one, it was cut off in another channel.
    final_channels = list(_FINAL_CHANNEL.finditer(reply))
    if final_channels:
        reply = reply[final_channels[-1].end() :]
    elif _OTHER_CHANNEL.search(reply) is not None:
        return None
    if _is_answer_with_reasons(reply):
        return reply

    # What is before the last end of reasoning is no answer.
    ends = list(_ENDS.finditer(reply))
    if ends:
        reply = reply[ends[-1].end() :]
    start = _STARTS.search(reply)
    if start is None:
        return reply
    # The reasoning that begins here does not end. If something is before it, that is the answer.
    answer = reply[: start.start()]
    if not answer.strip():
        return None
    return answer


def _is_answer_with_reasons(reply: str) -> bool:
    """Return whether a reply is an answer with an explanation after it: "positive <reason>...</reason>"."""
    explanation = _EXPLANATION.search(reply)
    if explanation is None:
        return False
    answer = reply[: explanation.start()]
    has_marks = _STARTS.search(answer) is not None or _ENDS.search(answer) is not None
    return bool(answer.strip()) and not has_marks


def without_special_tokens(text: str) -> str:
    """Return the text up to the end of the turn, with a line break in place of each special token."""
    for turn in _END_OF_TURN.split(text):
        has_text = bool(_SPECIAL_TOKEN.sub("", turn).strip())
        if has_text:
            return _SPECIAL_TOKEN.sub("\n", turn)
    return ""
