"""TensorView: a view of an engine's tensor through DLPack, without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    from .engine import Engine

KINDS = {
    "weight": _native.HWS_TENSOR_WEIGHT,
    "gradient": _native.HWS_TENSOR_GRADIENT,
    "moment1": _native.HWS_TENSOR_MOMENT1,
    "moment2": _native.HWS_TENSOR_MOMENT2,
    "average": _native.HWS_TENSOR_AVERAGE,
}


def kind_number(kind: str) -> int:
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}; not {kind!r}")
    return KINDS[kind]


class TensorView:
    """A tensor in the engine's memory, for numpy.from_dlpack(view) or torch.from_dlpack(view).

    The resulting array is read-only and keeps the memory alive, even after the engine is closed. Its contents change
    during training. NumPy has no bfloat16: copy such a tensor with Engine.tensor. A view needs NumPy 2.1 or another
    library with DLPack 1.0, because older versions of DLPack cannot mark a tensor as read-only.
    """

    def __init__(self, engine: Engine, name: str, kind: str):
        self._engine, self._name, self._kind = engine, name, kind_number(kind)
        self._capsule: Any = _native.hws_tensor_view(engine._open, self._kind, name)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if max_version is None or max_version[0] < 1:
            raise BufferError("a read-only tensor needs DLPack 1.0, as NumPy 2.1 has it; Engine.tensor gives a copy")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the tensor is in the memory of the CPU, and cannot be viewed on device {dl_device}")
        if copy:
            raise BufferError("a view is not a copy; Engine.tensor gives a copy")
        capsule, self._capsule = self._capsule, None
        return capsule or _native.hws_tensor_view(self._engine._open, self._kind, self._name)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU

    def __repr__(self) -> str:
        return f"TensorView({self._name!r})"


__all__ = ["TensorView"]
