"""Broken and hostile logs of inspect_ai and HELM: each is refused, or its scores are missing, with the reason.

No such log may end in another error than one of this library, take seconds, or fill the memory.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from StaICC.errors import SchemaError
from StaICC.logs.helm import read_helm_run
from StaICC.logs.inspect_ai import read_archive, read_json_log
from StaICC.logs.samples import LoggedRun
from tests.logs.helm_logs import instance_stats, request_state, run_spec, stat, write_run
from tests.logs.inspect_logs import header, result_of_scorer, sample, write_archive, write_json

SAMPLES = [sample(row, grade) for row, grade in enumerate("CICI")]
MEGABYTE = 1 << 20

# -- archives of inspect_ai


def truncated(path: Path) -> None:
    write_archive(path, SAMPLES)
    path.write_bytes(path.read_bytes()[:-100])


def half(path: Path) -> None:
    write_archive(path, SAMPLES)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def no_archive(path: Path) -> None:
    path.write_text("[core]\nname = value\n")


def changed_byte(path: Path) -> None:
    write_archive(path, SAMPLES)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("samples/2_epoch_1.json")
    content[member.header_offset + 80] ^= 0xFF
    path.write_bytes(content)


def without_header(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("samples/0_epoch_1.json", json.dumps(SAMPLES[0]))


def bomb(path: Path) -> None:
    write_archive(path, SAMPLES, members={"samples/9_epoch_1.json": bytes(70 * MEGABYTE)})


FLAGS, COMPRESSION_METHOD, UNCOMPRESSED_SIZE = 8, 10, 24
"""Offsets of fields in an entry of the table of contents of a ZIP archive."""


def large_member(path: Path) -> None:
    """The table of contents says that a member has nearly 4 GiB, although it has not."""
    _edit_table(path, UNCOMPRESSED_SIZE, struct.pack("<I", 0xFFFFFFF0))


def lying_size(path: Path) -> None:
    """The table of contents says that a member has 10 bytes, and it has more."""
    _edit_table(path, UNCOMPRESSED_SIZE, struct.pack("<I", 10))


def position_before_the_file(path: Path) -> None:
    """The end of the archive says that the table of contents is longer than the file."""
    write_archive(path, SAMPLES)
    content = bytearray(path.read_bytes())
    end_record = content.rindex(b"PK\x05\x06")
    size_of_table = slice(end_record + 12, end_record + 16)
    content[size_of_table] = struct.pack("<I", len(content) + 1000)
    path.write_bytes(content)


def member_before_the_file(path: Path) -> None:
    """Bytes are missing at the beginning, so that the position of the first members is negative."""
    write_archive(path, SAMPLES)
    path.write_bytes(path.read_bytes()[200:])


def encrypted(path: Path) -> None:
    first_bit = 1  # of the flags: the member is encrypted
    _edit_table(path, FLAGS, struct.pack("<H", first_bit))


def unknown_compression(path: Path) -> None:
    _edit_table(path, COMPRESSION_METHOD, struct.pack("<H", 98))


def _edit_table(path: Path, offset: int, value: bytes) -> None:
    """Overwrite a field of the entry of header.json in the table of contents of an archive."""
    write_archive(path, SAMPLES)
    content = bytearray(path.read_bytes())
    bytes_before_name = 46
    entry = content.rindex(b"header.json") - bytes_before_name
    assert content[entry : entry + 4] == b"PK\x01\x02", "the signature of an entry"
    field = slice(entry + offset, entry + offset + len(value))
    content[field] = value
    path.write_bytes(content)


def member_outside(path: Path) -> None:
    write_archive(path, SAMPLES, members={"../../home/.bashrc": b"echo"})


def member_at_root(path: Path) -> None:
    write_archive(path, SAMPLES, members={"/etc/passwd": b"root"})


def member_of_windows(path: Path) -> None:
    write_archive(path, SAMPLES, members={"samples\\..\\..\\x.json": b"{}"})


def deep_header(path: Path) -> None:
    write_archive(path, SAMPLES, members={"header.json": b'{"eval": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"})


def deep_sample(path: Path) -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    write_archive(path, [sample(0, "C", store=deep)])


def sample_twice(path: Path) -> None:
    write_archive(path, SAMPLES, members={"samples/copy.json": json.dumps(SAMPLES[1]).encode()})


def sample_of_text(path: Path) -> None:
    write_archive(path, SAMPLES, members={"samples/2_epoch_1.json": b'"C"'})


def no_text(path: Path) -> None:
    write_archive(path, SAMPLES, members={"samples/2_epoch_1.json": b'{"id": "\xff\xfe"}'})


ARCHIVES: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (truncated, "this is not a whole ZIP archive"),
    "half of it": (half, "this is not a whole ZIP archive"),
    "empty": (empty, "this is not a whole ZIP archive"),
    "no archive": (no_archive, "this is not a whole ZIP archive"),
    "a changed byte": (changed_byte, "the member 'samples/2_epoch_1.json' cannot be read"),
    "no header": (without_header, "the archive has neither header.json nor _journal/start.json"),
    "a decompression bomb": (bomb, "may be a decompression bomb"),
    "a large member": (large_member, "has 4095 MB after decompression, expected at most 256 MB"),
    "a size that is not true": (lying_size, "the member 'header.json' cannot be read"),
    "a table of contents before the file": (position_before_the_file, "this is not a whole ZIP archive"),
    "a member before the file": (member_before_the_file, "cannot be read"),
    "an encrypted member": (encrypted, "the member 'header.json' is encrypted"),
    "an unknown compression": (unknown_compression, "the member 'header.json' cannot be read"),
    "a member outside": (member_outside, "a member outside of itself, '../../home/.bashrc'"),
    "a member at the root": (member_at_root, "a member outside of itself, '/etc/passwd'"),
    "a member outside, for Windows": (member_of_windows, "a member outside of itself"),
    "a deep header": (deep_header, "header.json: the JSON is nested more than 100 deep"),
    "a deep sample": (deep_sample, "0_epoch_1.json: the JSON is nested more than 100 deep"),
    "a sample twice": (sample_twice, "the log has the epoch 1 of '1' twice"),
    "a sample that is a text": (sample_of_text, "2_epoch_1.json: got 'C', expected an object"),
    "a sample that is no UTF-8": (no_text, "2_epoch_1.json: this is not text in UTF-8"),
}


@pytest.mark.parametrize(("write_broken_archive", "reason"), ARCHIVES.values(), ids=ARCHIVES)
def test_a_broken_archive_is_refused_with_the_reason(
    write_broken_archive: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.eval"
    write_broken_archive(path)

    with pytest.raises(SchemaError) as refusal:
        read_archive(path)

    message = str(refusal.value)
    assert message.startswith(str(path))
    assert reason in message
    assert len(message) < 400, "the message repeats the content of the archive"
    assert list(tmp_path.iterdir()) == [path], "a member was unpacked"


def test_an_archive_with_too_many_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("StaICC.files.zip_reading.MAX_MEMBERS", 5)
    path = write_archive(tmp_path / "log.eval", SAMPLES)
    with pytest.raises(SchemaError, match="the archive has 7 members, expected at most 5"):
        read_archive(path)


# -- JSON logs of inspect_ai


def changed(**changes: Any) -> dict[str, Any]:
    """Return a log in which the specification of the run has other values."""
    head = header()
    head["eval"].update(changes)
    return {**head, "samples": SAMPLES}


def one_sample(**changes: Any) -> dict[str, Any]:
    """Return a log of one sample that has other values."""
    return {**header(), "samples": [sample(0, "C", **changes)]}


JSON_LOGS: Mapping[str, tuple[Any, str]] = {
    "a list": ([1, 2], "got a list, expected a log of inspect_ai"),
    "no specification": ({"version": 2, "status": "success"}, "there is no object 'eval'"),
    "a newer version": ({**header(version=9), "samples": SAMPLES}, "got version 9 of the log format"),
    "a version that is a text": ({**header(version="2"), "samples": SAMPLES}, "got version '2' of the log format"),
    "no model": (changed(model=None), "got None as the model, expected a text"),
    "a task that is a number": (changed(task=5), "got 5 as the task, expected a text"),
    "no samples": ({**header(), "samples": None}, "the log has no samples"),
    "samples that were not logged": (
        {**changed(config={"log_samples": False}), "samples": None},
        "the run was made with --no-log-samples",
    ),
    "a run that failed at once": (
        {**header(status="error", error={"message": "no key"}), "samples": []},
        "the log has no samples: the run has the status 'error' (no key)",
    ),
    "a run of which all samples failed": (
        {**header(status="error"), "samples": [sample(0, "C", scores={}, error={"message": "no key"})]},
        "no sample has a score: the run has the status 'error'",
    ),
    "samples that are an object": ({**header(), "samples": {"0": SAMPLES[0]}}, "expected a list"),
    "a sample without id": (one_sample(id=None), "sample 0: got the id None"),
    "an id that is a list": (one_sample(id=[1]), "sample 0: got the id [1]"),
    "an epoch that is a text": (one_sample(epoch="three"), "got the epoch 'three', expected a whole number from 1"),
    "scores that are a list": (one_sample(scores=["C"]), "got the scores ['C'], expected an object"),
    "a score without a value": (one_sample(scores={"match": {"answer": "x"}}), "expected an object with a value"),
    "too many epochs": (changed(config={"epochs": 10**12}), "4 rows in 1000000000000 epochs, expected at most 500000"),
}


@pytest.mark.parametrize(("log", "reason"), JSON_LOGS.values(), ids=JSON_LOGS)
def test_a_log_with_a_wrong_value_is_refused_with_the_reason(log: Any, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))

    with pytest.raises(SchemaError) as refusal:
        read_json_log(path)

    message = str(refusal.value)
    assert message.startswith(str(path))
    assert reason in message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (json.dumps({**header(), "samples": SAMPLES})[:-200], "this is not JSON"),
        ('{"eval": {}, "eval": {}}', "the key 'eval' appears twice"),
        ('{"eval": ' + "[" * 50_000, "nested more than 100 deep"),
        ("", "expected JSON, found nothing"),
    ],
)
def test_a_text_that_is_not_valid_json_is_refused_with_the_reason(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(text)
    with pytest.raises(SchemaError, match=reason):
        read_json_log(path)


def scores_of(run: LoggedRun) -> list[Mapping[str, float]]:
    """Return the scores of each sample by metric."""
    return [item.values for item in run.samples]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("NaN", "the sample has no scores; match: unscored"),
        ("1e999", "the sample has no scores; match: the value inf is no finite number"),
        ("-Infinity", "the sample has no scores; match: the value -inf is no finite number"),
        ("null", "the sample has no scores; match: unscored"),
    ],
)
def test_a_value_that_is_no_finite_number_is_a_missing_score(value: str, reason: str, tmp_path: Path) -> None:
    samples = [sample(0, "VALUE"), sample(1, 0.5), sample(2, 0.5), sample(3, 0.5)]
    log = json.dumps({**header(), "samples": samples})
    path = tmp_path / "log.json"
    path.write_text(log.replace('"value": "VALUE"', f'"value": {value}'))

    (run,) = read_json_log(path).runs

    assert scores_of(run) == [{}, {"match": 0.5}, {"match": 0.5}, {"match": 0.5}]
    assert run.samples[0].reason == reason


VALUES_WITHOUT_A_NUMBER = pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("maybe", "inspect_ai logs texts such as 'maybe', which have no number"),
        ([1, 0], "inspect_ai logs several values for a sample"),
    ],
)


@VALUES_WITHOUT_A_NUMBER
def test_a_metric_is_left_out_if_a_value_of_it_has_no_number(value: Any, reason: str, tmp_path: Path) -> None:
    """The first of four samples has the value; all have a number by another metric."""
    samples = []
    for row, match in enumerate([value, "C", "C", "C"]):
        samples.append(sample(row, "", scores={"match": {"value": match}, "f1": {"value": 0.5}}))

    (run,) = read_json_log(write_json(tmp_path / "log.json", samples)).runs

    assert run.metrics == ("f1",)
    assert run.not_scores == {"match": reason}


@VALUES_WITHOUT_A_NUMBER
def test_a_log_whose_values_have_no_number_is_refused_with_the_reason(value: Any, reason: str, tmp_path: Path) -> None:
    path = write_json(tmp_path / "log.json", [sample(row, value) for row in range(4)])

    with pytest.raises(SchemaError) as refusal:
        read_json_log(path)

    assert f"no sample has a score (match: {reason})" in str(refusal.value)


def test_the_name_of_a_document_is_read_verbatim(tmp_path: Path) -> None:
    head = header()
    head["results"]["scores"] = [result_of_scorer("match", accuracy=1.0)]
    (run,) = read_json_log(write_json(tmp_path / "log.json", [sample("\x1b[2J", "C")], head)).runs
    assert run.samples[0].document == "\x1b[2J"


def test_the_name_of_a_document_is_escaped_in_messages(tmp_path: Path) -> None:
    head = header()
    head["results"]["scores"] = [result_of_scorer("match", accuracy=1.0)]
    same_document_twice = [sample("\x1b[2J", "C"), sample("\x1b[2J", "C")]
    path = write_json(tmp_path / "twice.json", same_document_twice, head)

    with pytest.raises(SchemaError) as refusal:
        read_json_log(path)

    assert "\x1b" not in str(refusal.value)


# -- HELM

ITEMS = [instance_stats("id1", stat("exact_match", 1.0)), instance_stats("id2", stat("exact_match", 0.0))]

HELM_ITEMS: Mapping[str, tuple[Any, str]] = {
    "an object": ({"id1": 1.0}, "expected a list of instances"),
    "no instances": ([], "the file has no statistics of instances"),
    "an instance that is a number": ([3], "item 0: got 3, expected an object"),
    "an instance without id": ([{"stats": []}], "item 0: got the instance_id None, expected a text"),
    "a trial that is negative": ([instance_stats("id1", trial=-1)], "got the train_trial_index -1"),
    "statistics that are an object": ([{"instance_id": "id1", "stats": {"exact_match": 1}}], "expected a list"),
    "a statistic without name": ([instance_stats("id1", {"mean": 1.0})], "expected an object with a name"),
    "a mean that is a text": (
        [instance_stats("id1", {**stat("exact_match", 1.0), "mean": "1.0"})],
        "got the mean '1.0' of exact_match, expected a number",
    ),
    "two values": (
        [*ITEMS, instance_stats("id1", stat("exact_match", 0.0))],
        "item 2: the instance has two values of exact_match: 1.0 and 0.0",
    ),
}


@pytest.mark.parametrize(("items", "reason"), HELM_ITEMS.values(), ids=HELM_ITEMS)
def test_a_broken_instance_of_helm_is_refused_with_the_reason(items: Any, reason: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", ITEMS)
    path = folder / "per_instance_stats.json"
    path.write_text(json.dumps(items))

    with pytest.raises(SchemaError) as refusal:
        read_helm_run(folder)

    message = str(refusal.value)
    assert message.startswith(str(path))
    assert reason in message


@pytest.mark.parametrize("name", ["per_instance_stats.json", "run_spec.json", "scenario_state.json", "stats.json"])
def test_a_truncated_file_of_helm_is_refused(name: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", ITEMS, [request_state("id1")], stats=[stat("exact_match", 0.5)])
    content = (folder / name).read_text()
    (folder / name).write_text(content[:-3])

    with pytest.raises(SchemaError, match=f"{name}: this is not JSON"):
        read_helm_run(folder)


def test_a_run_of_helm_without_its_specification_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", ITEMS)
    (folder / "run_spec.json").unlink()
    with pytest.raises(SchemaError, match=r"run_spec\.json: the file is missing. It names the model"):
        read_helm_run(folder)


@pytest.mark.parametrize(
    "specification",
    [
        pytest.param([], id="a list"),
        pytest.param({"name": 5}, id="a name that is a number"),
        pytest.param({**run_spec(), "adapter_spec": {}}, id="no model"),
        pytest.param({**run_spec(), "adapter_spec": {"model": ""}}, id="an empty name of the model"),
    ],
)
def test_a_specification_of_helm_that_names_no_model_is_refused(specification: Any, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", ITEMS)
    (folder / "run_spec.json").write_text(json.dumps(specification))
    with pytest.raises(SchemaError, match=r"run_spec\.json: expected an object"):
        read_helm_run(folder)


def test_a_mean_that_is_not_finite_is_a_missing_score(tmp_path: Path) -> None:
    items = [
        instance_stats("id1", stat("exact_match", float("nan"))),
        instance_stats("id2", stat("exact_match", 0.0)),
    ]
    (run,) = read_helm_run(write_run(tmp_path / "run", items)).runs
    assert scores_of(run) == [{}, {"exact_match": 0.0}]
    assert run.samples[0].reason == "the instance has no scores"
