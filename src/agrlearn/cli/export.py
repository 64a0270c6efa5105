"""agrlearn export"""

from pathlib import Path


def export(run: Path, file: Path, /, *, groups: bool = False, network: str | None = None) -> None:
    """Write RUN's network to FILE as an ONNX model, and check it against PyTorch with onnxruntime.

    Its input is a batch of any number of objects, as they are in the data, and its output their label distributions by
    Replicated prediction.

    Parameters
    ----------
    run
        The directory of a finished run.
    file
        The file to write, such as model.onnx.
    groups
        Export the raw interface instead: groups of fold objects in, a distribution for every slot out.
    network
        For a run whose network comes from a Python file: that file and function, which are run.
    """
    from agrlearn.cli.data import training_objects
    from agrlearn.cli.runs import open_run
    from agrlearn.grouping import first_tensor
    from agrlearn.prediction.export import export_onnx

    built, class_names = open_run(run, network)
    in_python = "agrlearn.prediction.export.export_onnx(network, objects, file) exports its network"
    objects = first_tensor(training_objects(run, otherwise=in_python))[:8]
    difference = export_onnx(built, objects, file, groups=groups)
    print(f"{file}: {len(class_names)} classes, within {difference:.0e} of PyTorch")
