"""agrlearn info"""

import inspect
from pathlib import Path


def info(run: Path | None = None, /) -> None:
    """Tell what there is to choose from; with RUN, what that run is and how far it came.

    Parameters
    ----------
    run
        The directory of a run, finished or not.
    """
    if run is None:
        _catalogues()
    else:
        from agrlearn.runs.run import Run

        print(Run.open(run))


def _catalogues() -> None:
    from importlib.metadata import version

    from agrlearn.data.datasets import DATASETS
    from agrlearn.networks.catalogue import NETWORKS, network_defaults
    from agrlearn.networks.joins import JOINS
    from agrlearn.networks.outside import CONVERSION_OPTIONS
    from agrlearn.prediction.protocols import PROTOCOLS

    print(f"agrlearn {version('agrlearn')}, torch {version('torch')}\n")
    print("Data sets (or your own: an .npz file, a table, a folder of images; see agrlearn train --help):")
    for name, opener in DATASETS.items():
        print(f"  {name:15} {_first_line(opener)}")
    print("\nNetworks, with their options (--net.NAME VALUE):")
    for name, builder in NETWORKS.items():
        print(f"  {name:15} {_first_line(builder)}")
        options = [f"{key.replace('_', '-')} ({value})" for key, value in network_defaults(name).items()]
        print(f"  {'':15} {', '.join(options)}")
    options = [
        f"{key.replace('_', '-')} ({'found' if value == '' else value})" for key, value in CONVERSION_OPTIONS.items()
    ]
    print(f"  {'timm:NAME':15} A model of timm, or FILE.py:FUNCTION, made to read groups by aggregate().")
    print(f"  {'':15} {', '.join(options)}")
    print("\nJoins, how a group becomes one input:")
    for name, join in JOINS.items():
        print(f"  {name:15} {_first_line(join.function).split(':')[0]}")
    print("\nPrediction protocols:")
    for name, protocol in PROTOCOLS.items():
        print(f"  {name:15} {_first_line(protocol)}")


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").splitlines()[0]
