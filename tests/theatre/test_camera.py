from __future__ import annotations

import pytest
import torch

from sfumato.theatre.camera import Camera, compress, develop, pan


def camera(elevation: float = 0.0, zoom: float = 1.0, shift: float = 0.0) -> Camera:
    return Camera(92, *(torch.tensor([v]) for v in (zoom, 0.0, elevation, shift)))


def test_projection_worked_by_hand() -> None:
    # 92 pixels for 2.3 metres: 40 pixels per metre on the middle plane; the floor lies at 95% of the height.
    x, y, depth, scale = camera().project(torch.tensor([[0.5, 1.0, 0.0]]))
    assert (x.item(), y.item(), depth.item(), scale.item()) == pytest.approx((46 + 20, 87.4 - 40, 0.0, 40.0))
    # 1.5 metres nearer, 3 instead of 4.5 from the camera: half as large again.
    x, y, depth, scale = camera().project(torch.tensor([[0.5, 1.0, 1.5]]))
    assert (x.item(), y.item(), depth.item(), scale.item()) == pytest.approx((46 + 30, 87.4 - 60, 1.5, 60.0))


def test_zoom_enlarges_pan_shifts_and_a_raised_camera_sees_near_things_lower() -> None:
    point = torch.tensor([[0.5, 0.0, 1.0]])
    assert camera(zoom=1.1).project(point)[3] > camera().project(point)[3]
    assert (camera(shift=3.0).project(point)[0] - camera().project(point)[0]).item() == pytest.approx(3.0)
    assert camera(elevation=0.2).project(point)[1] > camera().project(point)[1]


def test_pan_cuts_the_window_that_moved_by_whole_pixels() -> None:
    wide = torch.rand(2, 12, 12, 3, generator=torch.Generator().manual_seed(0))
    frames = pan(wide, torch.tensor([[0.0, 2.0], [-1.0, 1.0]]), 8)
    assert frames.shape == (4, 8, 8, 3)
    assert frames[0].equal(wide[0, 2:10, 2:10])
    assert frames[1].equal(wide[0, 2:10, 0:8])  # what was at 2 is now at 4: the picture moved right
    assert frames[2].equal(wide[1, 2:10, 3:11])


def test_developing_scales_adds_noise_and_stays_a_picture() -> None:
    rgb = torch.full((2, 8, 8, 3), 0.5)
    gain = torch.tensor([[1.0, 0.5, 2.0], [1.0, 1.0, 1.0]])
    corner = torch.tensor([[0, 0], [5, 9]])
    pixels = develop(rgb, gain, torch.tensor([0.0, 0.1]), corner, torch.tensor([0.01, 0.01]))
    assert (pixels.dtype, pixels.shape) == (torch.uint8, (2, 3, 8, 8))
    assert pixels[0, :, 4, 4].tolist() == [128, 64, 255]
    noise = pixels[1].float() / 255 - 0.5
    assert 0.05 < noise.std() < 0.15 and noise.mean().abs() < 0.03


def test_compression_keeps_each_block_mean_and_rounds_the_detail() -> None:
    planes = torch.tensor([[0.50, 0.58], [0.42, 0.50]]).repeat(1, 3, 2, 2)
    coarse = compress(planes, torch.tensor([0.5]))
    assert coarse.allclose(torch.full_like(planes, 0.5))
    assert compress(planes, torch.tensor([0.08])).allclose(planes, atol=1e-6)
