"""Settings of logs as texts without secrets: values of known options, digests of all others.

Logs have what users passed to a harness: keys of servers, passwords in addresses, headers. No list can have the names
of all options that have a secret, so the options whose values are shown are listed here. The digest of another value
still shows that two runs differ in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

_SHOWN_OPTIONS = frozenset(
    {
        # the model
        *("pretrained", "model", "tokenizer", "revision", "subfolder", "peft", "delta", "gguf_file", "sha", "backend"),
        *("dtype", "torch_dtype", "softmax_dtype", "mixed_precision_dtype", "quantization", "attn_implementation"),
        *("bnb_4bit_quant_type", "bnb_4bit_compute_dtype", "device", "device_map", "model_deployment"),
        *("tokenizer_mode", "tokenizer_backend", "batch_size", "reasoning_effort", "effort", "service_tier"),
        # tokens of the prompt, of which "token" in the name means no access token
        *("add_bos_token", "add_eos_token", "prefix_token_id", "think_start_token", "think_end_token"),
        *("bos_token", "eos_token", "pad_token", "unk_token", "truncation", "truncation_side", "padding_side"),
        # decoding
        *("method", "until", "stop", "stop_seqs", "stop_sequences", "stop_strings", "best_of", "logit_bias"),
        *("do_sample", "temperature", "top_p", "top_k", "max_length", "max_tokens", "seed"),
        # the run
        *("limit", "epochs", "epochs_reducer", "system_message", "num_fewshot", "fewshot_seed"),
        *("message_limit", "token_limit", "turn_limit", "time_limit", "working_limit", "cost_limit"),
        *("system_instruction_sha", "chat_template_sha", "fewshot_as_multiturn", "apply_chat_template"),
        # the task
        *("task", "dataset", "dataset_name", "subset", "split", "subject", "language", "level", "difficulty"),
        *("location", "numeric", "ignore_case", "cot", "shuffle"),
    }
)
"""Options whose values are shown, in lower case with underscores."""
_SECRET_OPTION = re.compile(
    r"(?:^|_)(?:x?api_?key|access_?key|key|secret|password|passwd|pwd|auth|authorization|bearer|credentials?|cookie)"
    r"(?:$|_)"
)
"""A word in the name of an option whose value is secret. It has no digest, from which it could be guessed."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\- ]{0,59}")
"""What the name of an option is. Other texts before an equals sign may be parts of a value."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,12}(?:\.[0-9]{1,12})?(?:[eE][+-]?[0-9]{1,3})?")
_TRUTH_VALUES = frozenset({"true", "false", "none"})
_HIDDEN = "(hidden)"
_DIGEST = re.compile(r"\(SHA-256 [0-9a-f]{8}\)")
"""A value that is shown as a digest already, as in a log that was made from a result."""

LONGEST_SETTING = 200
"""Most characters of a setting that are kept as they are."""


def shown_value(name: str, value: Any) -> Any:
    """Return the JSON value of an option, in which texts that may be secret are digests.

    Args:
        name: The name of the option. It decides for all values of a list.
        value: The value. In an object, each key is the name of an option of its own.

    Example:
        >>> shown_value("model_args", {"dtype": "float32", "add_bos_token": True, "api_key": "sk-1", "host": "a"})
        {'dtype': 'float32', 'add_bos_token': True, 'api_key': '(hidden)', 'host': '(SHA-256 ca978112)'}
    """
    if isinstance(value, Mapping):
        shown = {}
        for key, item in value.items():
            shown[_shown_name(str(key))] = shown_value(str(key), item)
        return shown
    if isinstance(value, list):
        return [shown_value(name, item) for item in value]
    if value is None or isinstance(value, bool):
        return value

    normal_name = _normal_name(name)
    text = str(value)
    is_address = "://" in text  # the address of a model may have a password
    if normal_name in _SHOWN_OPTIONS and not is_address:
        return value
    if normal_name in _SHOWN_OPTIONS:
        return _digest_text(text)
    if _SECRET_OPTION.search(normal_name) is not None:
        return _HIDDEN
    if isinstance(value, (int, float)) or _is_harmless(text):
        return value
    return _digest_text(text)


def _is_harmless(text: str) -> bool:
    """Return whether a text cannot be secret: a number, a truth value, or what is hidden or a digest already."""
    if _NUMBER.fullmatch(text) or text.lower() in _TRUTH_VALUES:
        return True
    return text == _HIDDEN or _DIGEST.fullmatch(text) is not None


def shown_options(text: str) -> str:
    """Return options such as those of ``--model_args``, in which values that may be secret are digests.

    Options are ``name=value`` and joined by commas. A part that is no such option, such as the end of a value with a
    comma in it, becomes a digest.

    Example:
        >>> shown_options("pretrained=gpt2,temperature=0.5,base_url=http://me:secret@host")
        'pretrained=gpt2,temperature=0.5,base_url=(SHA-256 f3925383)'
    """
    options = []
    for option in text.split(","):
        name, _, value = option.partition("=")
        # The end of a key in base64 may be "...==", which is no option.
        if _NAME.fullmatch(name) is None or not value.strip("= "):
            options.append(_digest_text(option))
        else:
            options.append(f"{name}={shown_value(name, value)}")
    return ",".join(options)


def shown_setting(name: str, value: Any) -> str | None:
    """Return the value of an option as a short text without secrets; ``None`` if it is not set.

    Args:
        name: The name of the option.
        value: Its JSON value. Objects and lists become JSON in one line.
    """
    if value is None or value == "" or value == [] or value == {}:
        return None
    shown = shown_value(name, value)
    if not isinstance(shown, str):
        shown = json.dumps(shown, sort_keys=True, ensure_ascii=False)
    return shortened_setting(shown)


def shortened_setting(text: str) -> str:
    """Return the text of a setting; the beginning and the SHA-256 digest of one that is too long for a table.

    Example:
        >>> shortened_setting("do_sample=False")
        'do_sample=False'
        >>> shortened_setting("x" * 1000)
        'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... (SHA-256 44f8354494a5)'
    """
    if len(text) <= LONGEST_SETTING:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:40]}... (SHA-256 {digest[:12]})"


def name_without_credentials(name: str) -> str:
    """Return the name of a model; if it is an address, without user, password and query.

    Example:
        >>> name_without_credentials("https://me:secret@host/model?key=1")
        'https://host/model'
    """
    if "://" not in name:
        return name
    without_user = re.sub(r"://[^/]*@", "://", name)
    address, _, _ = without_user.partition("?")
    return address


def _normal_name(name: str) -> str:
    """Return the name of an option in lower case with underscores: ``api_key`` of ``apiKey`` and of ``API-Key``."""
    with_underscores = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[-. ]", "_", with_underscores).lower()


def _shown_name(key: str) -> str:
    """Return the key of an object; a digest of one that is no name of an option, such as an address."""
    if _NAME.fullmatch(key) is None:
        return _digest_text(key)
    return key


def _digest_text(text: str) -> str:
    """Return the beginning of the SHA-256 digest of a text, for tables."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"(SHA-256 {digest[:8]})"
