"""Counting what a network computes."""

import threading
import time

import torch
import torch._dynamo
from torch import nn

from agrlearn.networks.cost import count_multiply_adds


def test_counting_in_two_threads_leaves_the_users_compiled_models_compiled():
    class Slow(nn.Module):
        def forward(self, x):
            time.sleep(0.2)
            return x

    before = torch._dynamo.eval_frame._stance.stance
    first, second = (threading.Thread(target=count_multiply_adds, args=(Slow(), torch.zeros(1))) for _ in range(2))
    first.start()
    time.sleep(0.1)
    second.start()
    first.join()
    second.join()
    assert torch._dynamo.eval_frame._stance.stance == before == "default"
