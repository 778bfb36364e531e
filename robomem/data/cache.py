"""`robomem data cache`: what a frozen encoder makes of every frame, made before training."""

from pathlib import Path

import click

from robomem.datasets.config import DataConfig
from robomem.errors import RobomemError


@click.command("cache")
@click.argument("dataset", type=click.Path(path_type=Path))
@click.argument("encoder", default="vit")
@click.option("--mapping", default="auto", show_default=True, help="Schema mapping of DATASET: a name or a YAML file.")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), show_default="beside DATASET", help="Folder of the features."
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
def main(dataset: Path, encoder: str, mapping: str, output: Path | None, device: str) -> None:
    """Encode every frame of the folder DATASET once, for `robomem train data.cache_features=true`.

    ENCODER is an option of the group encoder that has a frozen backbone, with the settings of the training:
    `vit:backbone.model=FOLDER,backbone.grid=4`. One that was stopped goes on when it is given again.
    """
    from rich.console import Console

    from robomem.datasets.open import open_source
    from robomem.devices import find_device
    from robomem.factory import instantiate
    from robomem.probes.model import module_config
    from robomem.training.features import encode_frames

    config = module_config("encoder", encoder)
    if "backbone" not in config:
        raise RobomemError(f"the encoder {encoder} has no frozen backbone whose features could be kept; take vit")
    source = open_source(dataset, mapping=mapping)
    root = output or DataConfig(root=str(dataset)).features_folder
    encode_frames(source, instantiate(config["backbone"]).to(find_device(device)), root)
    there = "" if output is None else f" data.features_root={output}"
    told = f"{root} holds the features of {len(source)} episodes; train with data.cache_features=true{there}"
    Console().print(told, highlight=False, soft_wrap=True, markup=False)
