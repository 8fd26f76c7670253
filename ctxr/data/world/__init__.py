"""The toy world: drawn footage whose every answer can be computed.

Scenes of drawn actors before photographs and textures (`scenes`, `backdrops`, `outlines`), their pictures (`drawing`),
how much of everyone is hidden (`sights`), what can truly be said of them (`predicates`, `moments`, `language`,
`statements`), what tells one from the others (`describing`), sets of them (`sets`), and all of it as videos and photos
on disk with the truth beside it (`films`, `albums`, `footage`). Nothing is read or drawn at import.
"""

from ctxr.data.world.describing import Description, Shared, contextual_description, statements_true_of_several
from ctxr.data.world.drawing import render
from ctxr.data.world.footage import World, WorldConfig, read_world, write_world
from ctxr.data.world.scenes import Actor, Backdrop, Overlay, Scene, sample_scene
from ctxr.data.world.sets import SceneSet, sample_sets
from ctxr.data.world.statements import Statement, captions, true_statements
from ctxr.data.world.tags import TAGS
from ctxr.data.world.truth import CutTruth, FrameTruth, PhotoTruth, Seen, ShotTruth, VideoTruth

__all__ = [
    "TAGS",
    "Actor",
    "Backdrop",
    "CutTruth",
    "Description",
    "FrameTruth",
    "Overlay",
    "PhotoTruth",
    "Scene",
    "SceneSet",
    "Seen",
    "Shared",
    "ShotTruth",
    "Statement",
    "VideoTruth",
    "World",
    "WorldConfig",
    "captions",
    "contextual_description",
    "read_world",
    "render",
    "sample_scene",
    "sample_sets",
    "statements_true_of_several",
    "true_statements",
    "write_world",
]
