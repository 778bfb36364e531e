"""Holds a schema mapping against the fields that an RLDS dataset has."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from math import prod

from robomem.datasets.mapping import SchemaMapping, VectorMapping
from robomem.datasets.rlds_index import FieldInfo, RldsIndex, missing_field
from robomem.errors import RobomemError, SpecMismatch
from robomem.spec import CameraSpec


def check_fields(index: RldsIndex, mapping: SchemaMapping) -> None:
    """Raise unless every field of a mapping is there with a shape and a type that fit.

    Raises:
        SpecMismatch: another shape or type; both sides are named.
        RobomemError: a field is missing, or the dataset has another name.
    """
    if mapping.robot_type and not any(fnmatchcase(index.name, name) for name in mapping.robot_type.split("|")):
        raise SpecMismatch(
            f"{index.folder} is the dataset {index.name}, the mapping {mapping.name} is for {mapping.robot_type}; "
            "choose another mapping"
        )
    for camera in mapping.cameras.values():
        info = _field(index, camera)
        if info.dtype != "uint8" or len(info.shape) != 3 or info.shape[2] != 3:
            raise _differs(index, mapping, camera, "RGB frames: uint8 (height, width, 3)")
    _check_vector(index, mapping, mapping.proprio)
    _check_vector(index, mapping, mapping.action)
    if _field(index, mapping.instruction) != FieldInfo([], "text"):
        raise _differs(index, mapping, mapping.instruction, "one text a step")
    for scalar in (mapping.timestamps, mapping.reward, mapping.success):
        if isinstance(scalar, str) and _size(_field(index, scalar)) != 1:
            raise _differs(index, mapping, scalar, "one number a step")


def camera_specs(
    index: RldsIndex, mapping: SchemaMapping, frame_shape: Callable[[str], tuple[int, ...]]
) -> tuple[CameraSpec, ...]:
    """The cameras; `frame_shape` tells that of a field's frames where the dataset does not."""
    specs = []
    for name, field in mapping.cameras.items():
        known = tuple(size for size in index.steps[field].shape if size is not None)
        height, width, _ = known if len(known) == 3 else frame_shape(field)
        specs.append(CameraSpec(name=name, height=height, width=width))
    return tuple(specs)


def _check_vector(index: RldsIndex, mapping: SchemaMapping, vector: VectorMapping) -> None:
    sizes = [_size(_field(index, key)) for key in vector.keys]
    for key, size in zip(vector.keys, sizes, strict=True):
        if size is None:
            raise _differs(index, mapping, key, "a vector of numbers")
    total = sum(size or 0 for size in sizes)
    if total != vector.spec.size:
        found = ", ".join(f"{key} {size}" for key, size in zip(vector.keys, sizes, strict=True))
        raise SpecMismatch(
            f"{index.folder} has {total} numbers ({found}), the mapping {mapping.name} wants {vector.spec.size} "
            f"({', '.join(vector.spec.names)}); correct the mapping"
        )


def _field(index: RldsIndex, path: str) -> FieldInfo:
    if path not in index.steps:
        raise missing_field(index.folder, path, index.steps)
    return index.steps[path]


def _size(info: FieldInfo) -> int | None:
    """How many numbers a step has of a field; None if it is no vector of fixed size, nor a number."""
    known = [size for size in info.shape if size is not None]
    if info.dtype == "text" or len(info.shape) > 1 or len(known) < len(info.shape):
        return None
    return prod(known)


def _differs(index: RldsIndex, mapping: SchemaMapping, path: str, wanted: str) -> RobomemError:
    info = index.steps[path]
    found = f"{info.dtype} of shape {tuple(info.shape)}"
    return SpecMismatch(
        f"{index.folder} has {path} as {found}, the mapping {mapping.name} wants {wanted}; correct the mapping"
    )
