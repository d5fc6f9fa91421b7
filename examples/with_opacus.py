# SPDX-License-Identifier: Apache-2.0
"""Opacus with exact noise: DP-SGD where only the import of PrivacyEngine is new."""

import warnings

import torch
from torch import nn

import dpfast
from dpfast.adapters.opacus import PrivacyEngine

warnings.filterwarnings("ignore", category=UserWarning)  # Opacus's, of its sampling and of how a hook fires
torch.manual_seed(2026)
x = torch.randn(4096, 10)
y = (x.sum(dim=1) > 0).long()

model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
engine = PrivacyEngine()
model, optimizer, loader = engine.make_private(
    module=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
    data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=256),
    noise_multiplier=1.0,
    max_grad_norm=1.0,
)
for _ in range(3):
    for batch, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch), labels).backward()
        optimizer.step()

right = (model(x).argmax(dim=1) == y).float().mean()
print(f"{right:.0%} of the training set right, epsilon {engine.get_epsilon(delta=1e-5):.2f} at delta 1e-5")
noise = dpfast.Gaussian(optimizer.noise_multiplier * optimizer.max_grad_norm)
print(f"95 %: each gradient of a step, summed over its batch, within ±{noise.interval(0.95):.3f}")
