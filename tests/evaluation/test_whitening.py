from __future__ import annotations

import torch

from sfumato.evaluation.whitening import axes_of, cut, grid_of, joined

TUBELET = (2, 4, 4)


def test_axes_leave_out_what_does_not_vary_and_bring_the_rest_to_one_size() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(500, 3, generator=generator) * torch.tensor([5.0, 0.1, 1e-4]) + 7
    along = (values - values.mean(0)) @ axes_of(values, 1e-4)
    torch.testing.assert_close(along.T @ along / 500, torch.eye(2), atol=1e-3, rtol=0)
    assert axes_of(torch.ones(4, 3), 1e-4).isfinite().all()


def test_tubelets_are_cut_in_the_order_of_time_rows_and_columns_with_black_at_the_ends() -> None:
    video = torch.zeros(1, 3, 3, 4, 6)
    video[0, 2, :, 3, 4] = 1  # step 1, row 0, column 1 of tubelets of 2×4×4: the fourth
    assert cut(video, TUBELET).shape == (1, 4, 96)
    assert cut(video, TUBELET).sum(2).tolist() == [[0, 0, 0, 3]]


def test_what_was_cut_is_joined_again_also_where_it_was_cut_short() -> None:
    for frames, height, width in ((4, 8, 12), (3, 7, 5)):
        video = torch.rand(2, frames, 3, height, width, generator=torch.Generator().manual_seed(0))
        tokens = cut(video, TUBELET)
        steps, rows, columns = grid_of((frames, height, width), TUBELET)
        assert tokens.shape[1] == steps * rows * columns
        assert joined(tokens, (frames, height, width), TUBELET).equal(video)
