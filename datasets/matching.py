"""Which mapping gives a dataset its meaning: the only one that fits, or the one that is asked for."""

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from robomem.datasets.mapping import SchemaMapping, VectorMapping, load_mapping, mapping_names
from robomem.datasets.schema import LEROBOT, DatasetSchema
from robomem.errors import RobomemError

AUTO = "auto"
ANY = "*"
TASK = "task"
"""LeRobot's own instruction, which is no field."""


def choose_mapping(schema: DatasetSchema, name: str = AUTO) -> SchemaMapping:
    """The mapping of a dataset, with its cameras named and bound to no robot any more.

    Args:
        schema: Of the dataset.
        name: Of the mapping, or the path of its file. `auto` takes the only one that fits; a mapping that is asked for
            may be of another robot.

    Raises:
        RobomemError: it does not fit, or of all mappings none does, or several do; they are named.
    """
    if name == AUTO:
        fitting = [other for other in mapping_names() if not misfits(load_mapping(other), schema)]
        if len(fitting) != 1:
            look = f"see `robomem data inspect {schema.root}`"
            if fitting:
                raise RobomemError(
                    f"{schema.root} fits several mappings, {' and '.join(fitting)}; {look} and choose one of them with "
                    "data.mapping=NAME"
                )
            raise RobomemError(
                f"{schema.root} fits no mapping of {', '.join(mapping_names())}; {look}, which proposes one "
                "for data.mapping=FILE"
            )
        name = fitting[0]
    return bind_mapping(load_mapping(name), schema)


def bind_mapping(mapping: SchemaMapping, schema: DatasetSchema) -> SchemaMapping:
    """A mapping with the dataset's cameras in place of `*`, and without a robot: choosing it was the user's word.

    Raises:
        RobomemError: it does not fit.
    """
    mapping = replace(mapping, robot_type=None)
    if reasons := misfits(mapping, schema):
        raise RobomemError(
            f"{schema.root} does not fit the mapping {mapping.name}: {'; '.join(reasons)}; correct it or choose "
            f"another, see `robomem data inspect {schema.root}`"
        )
    return replace(mapping, cameras=_named_cameras(mapping, schema))


def misfits(mapping: SchemaMapping, schema: DatasetSchema) -> list[str]:
    """Why a mapping does not fit a dataset; empty if it does."""
    if mapping.format != schema.format:
        return [f"it is for {mapping.format}"]
    reasons = []
    if mapping.robot_type is not None:
        patterns = mapping.robot_type.split("|")
        if not any(fnmatchcase(schema.robot_type, pattern) for pattern in patterns):
            reasons.append(f"it is for the robot {mapping.robot_type}, not {schema.robot_type or 'one without a name'}")
    cameras = _named_cameras(mapping, schema)
    if not cameras and mapping.cameras:
        reasons.append("there is no camera")
    reasons += [reason for field in cameras.values() if (reason := _misfit(schema, field, "is_camera", "a camera"))]
    reasons += _vector_misfits(mapping.proprio, schema) + _vector_misfits(mapping.action, schema)
    if not (schema.format == LEROBOT and mapping.instruction == TASK):
        found = schema.fields.get(mapping.instruction)
        if found is None or found.dtype != "string":
            reasons.append(f"there is no text {mapping.instruction}")
    for field in (mapping.timestamps, mapping.reward, mapping.success):
        if isinstance(field, str) and (reason := _misfit(schema, field, "is_vector", "a number")):
            reasons.append(reason)
    return reasons


def _named_cameras(mapping: SchemaMapping, schema: DatasetSchema) -> Mapping[str, str]:
    """Field of each camera, with `*` replaced by what the dataset has."""
    pattern = mapping.cameras.get(ANY)
    if pattern is None:
        return mapping.cameras
    found = [name for name, field in schema.fields.items() if field.is_camera and fnmatchcase(name, pattern)]
    start = pattern.index(ANY) if ANY in pattern else 0
    named = {name[start:]: name for name in found}
    return {camera: field for camera, field in mapping.cameras.items() if camera != ANY} | named


def _vector_misfits(vector: VectorMapping, schema: DatasetSchema) -> list[str]:
    reasons = [reason for key in vector.keys if (reason := _misfit(schema, key, "is_vector", "a vector of numbers"))]
    if not reasons:
        size = sum(schema.fields[key].size for key in vector.keys)
        if size != vector.spec.size:
            reasons = [f"{' and '.join(vector.keys)} has {size} numbers, not {vector.spec.size}"]
    return reasons


def _misfit(schema: DatasetSchema, name: str, kind: str, wanted: str) -> str | None:
    field = schema.fields.get(name)
    if field is None:
        return f"there is no field {name}"
    return None if getattr(field, kind) else f"{name} is {field.dtype} of shape {list(field.shape)}, not {wanted}"
