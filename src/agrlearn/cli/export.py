"""agrlearn export"""

from pathlib import Path


def export(run: Path, file: Path, /, *, groups: bool = False, network: str | None = None) -> None:
    """Write RUN's network to FILE as an ordinary one: an ONNX model, or the weights for PyTorch.

    The ONNX model is checked against PyTorch with onnxruntime. Its input is a batch of any number of objects, and its
    output their label distributions by Replicated prediction. A .safetensors file holds the weights of
    agrlearn.single(network), for PyTorch without this library. Both name the classes. What becomes of the rows of a
    table, of sentences or of image files is written beside FILE, as NAME.preparation.json.

    Parameters
    ----------
    run
        The directory of a run. Of one that is not finished, the best epoch so far is used.
    file
        The file to write, such as model.onnx or model.safetensors.
    groups
        Export the raw interface instead: groups of fold objects in, a distribution for every slot out.
    network
        For a run whose network comes from a Python file: that file and function, which are run.
    """
    from agrlearn.deploy import export as export_network
    from agrlearn.runs.run import Run

    opened = Run.open(run, model=network)
    print(export_network(opened, file, groups=groups))
