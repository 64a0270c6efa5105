"""What a checkpoint saves and restores."""

import torch
from lightning_fabric.plugins import MixedPrecision

from agrlearn.training.state import EpochTotals, TrainingState


def test_a_checkpoint_keeps_the_scale_of_the_loss_in_half_precision(make_mlp):
    def state():
        network, scaler = make_mlp(2), torch.amp.GradScaler("cpu", init_scale=8.0)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        precision = MixedPrecision("16-mixed", "cpu", scaler=scaler)
        return TrainingState(network, optimizer, None, EpochTotals.zero(torch.device("cpu")), precision)

    stopped, resumed, old = state(), state(), state()
    stopped.precision.scaler.scale(torch.ones(()))  # its scale exists from the first use on
    stopped.precision.scaler.update(new_scale=4.0)
    saved = stopped.state_dict()
    resumed.load_state_dict(saved, epochs=1, steps=1)
    assert resumed.precision.scaler.get_scale() == 4.0
    del saved["precision"]  # as earlier versions wrote it
    old.load_state_dict(saved, epochs=1, steps=1)
    assert old.precision.scaler.get_scale() == 8.0
