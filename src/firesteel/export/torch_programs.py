"""`to_torch`: programs as those of `torch.export`.

The one module of firesteel that imports torch's export. Nothing else imports it, and `firesteel.export` does so only
when it is called: for tools that take torch's ExportedProgram.
"""

from __future__ import annotations

import io

import torch.export

from .program import ExportedProgram
from .saving.errors import SavedProgramError
from .torch_files.program_writing import save_for_torch


def to_torch(program: ExportedProgram) -> torch.export.ExportedProgram:
    """The same program as torch's ExportedProgram, with the same tensors. See `firesteel.export.to_torch`."""
    program.validate()
    file = io.BytesIO()
    save_for_torch(program, file)
    file.seek(0)
    try:
        made = torch.export.load(file)
    except Exception as error:
        raise SavedProgramError(f"torch cannot read a program of this kind: {type(error).__name__}: {error}",
                                "Numbers that vary as inputs may not work there; sizes of tensors do.") from error
    made.state_dict.update({name: program.state_dict[name] for name in made.state_dict})
    made.constants.update({name: program.constants[name] for name in made.constants})
    return made
