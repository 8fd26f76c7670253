"""The toy world: drawn footage whose every answer can be computed.

Scenes of drawn actors before photographs and textures (`scenes`, `backdrops`, `outlines`), their pictures (`drawing`),
how much of everyone is hidden (`sights`), what can truly be said of them, and of one of them alone (`predicates`, `moments`,
`language`, `statements`), sets of them (`sets`), and all of it as videos and photos on disk with the truth beside it (`films`,
`footage`). Nothing is read or drawn at import.
"""
