"""Video files in and out: decode, sample clips, encode. Knows files and frames, nothing about learning.

PyAV is imported when a file is first opened, never before: training on drawn or decoded clips needs no decoder. torch
comes with the first tensor: who only writes frames, or looks for files, does not wait for it.
"""

from sfumato.video.decode import VideoInfo, count_frames, find_videos, probe, read_clip, read_frames, scaled_to
from sfumato.video.encode import VideoWriter
from sfumato.video.sampling import Box, clip_indices, crop_boxes, random_crop_box

__all__ = [
    "Box",
    "VideoInfo",
    "VideoWriter",
    "clip_indices",
    "count_frames",
    "crop_boxes",
    "find_videos",
    "probe",
    "random_crop_box",
    "read_clip",
    "read_frames",
    "scaled_to",
]
